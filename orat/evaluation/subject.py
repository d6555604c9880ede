"""What is evaluated: a network as a function of its input alone, and a data set."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks.base import Attack, frozen
from orat.core.console import SILENT, Display
from orat.core.device import device_of, products
from orat.core.errors import InputError
from orat.core.losses import gradient_at
from orat.core.random import global_states, seeded
from orat.core.registry import as_input_error
from orat.core.types import Images, Logits
from orat.core.unsaved import remembered
from orat.data.loader import as_input
from orat.data.own import dataset_of
from orat.data.source import Dataset
from orat.models.adapted import Adapted

LOOKED_AT = 16  # samples on which a network is tried first
ROUNDING = 1e-4  # of the largest logit: smaller differences come from the order of sums on a GPU
DRAWS = 8  # of the noise of a random network


def prepared(
    model: nn.Module, data: Any, attacks: Mapping[str, Attack], seed: int, display: Display = SILENT
) -> tuple[nn.Module, Dataset]:
    """The network as a function of its input, and the data set; refuses a network whose gradients attacks miss."""
    if not isinstance(model, nn.Module):
        raise InputError(f"the network is a value of type {type(model).__name__}: give an nn.Module")
    found = data if isinstance(data, Dataset) else dataset_of(data)
    x = as_input(found.images[:LOOKED_AT].to(device_of(model)))
    trial = as_input_error(f"the network on inputs of shape {tuple(x.shape)}", "give inputs that it takes")
    with products(exact=True), trial:
        form = as_function(model, x, seed)
    if isinstance(form, Averaged) and form is not model:
        display.line(form.note)
    followers = [attack for attack in attacks.values() if attack.follows_gradients]
    arithmetic = products(exact=True) if any(attack.exact for attack in followers) else nullcontext()
    with frozen(form), arithmetic, suppress(torch.OutOfMemoryError):  # attacks take fewer samples at a time
        if followers:
            gradient_at(lambda images: form(images).sum(1), x)
    return form, found if found is data else of_all_classes(found, form, x)


def of_all_classes(data: Dataset, model: nn.Module, x: Images) -> Dataset:
    """The data set with as many classes as the network has logits: data may lack samples of the last classes."""
    with frozen(model), torch.no_grad():
        outputs = model(x).shape[-1]
    more = map(str, range(len(data.classes), outputs))
    return replace(data, classes=(*data.classes, *more))


class Averaged(nn.Module):
    """A random network as a function: the mean of its logits over draws of its noise, the same at every call.

    All samples meet the same noise, so that the logits of a sample do not depend on its batch.
    """

    def __init__(self, model: nn.Module, seed: int, together: bool = True) -> None:
        super().__init__()
        self.model, self.seed, self.together = model, seed, together
        self.training = model.training

    @property
    def note(self) -> str:
        """The line that tells what was attacked."""
        mean = f"the mean logits over {DRAWS} draws of its noise (seed {self.seed})"
        return f"the network is random: attacks and accuracies are those of {mean}"

    def forward(self, x: Images) -> Tensor:
        """The mean logits."""
        return torch.stack([self.drawn(x, number) for number in range(DRAWS)]).mean(0)

    def drawn(self, x: Images, number: int) -> Logits:
        """The logits with one draw of the noise: of all samples at once, or of each sample alone."""
        seed = (DRAWS * self.seed + number) % 2**63
        if not self.together:
            return torch.stack([self.alone(row, seed) for row in x])
        with seeded(seed, x.device):
            logits: Tensor = torch.func.vmap(self.logits, randomness="same")(x)
        return logits

    def alone(self, row: Tensor, seed: int) -> Tensor:
        """The logits of a sample with this seed of the noise."""
        with seeded(seed, row.device):
            return self.logits(row)

    def logits(self, row: Tensor) -> Tensor:
        """The logits of a sample, as a batch of one."""
        logits: Tensor = self.model(row[None])
        return logits.flatten()


def as_function(model: nn.Module, x: Images, seed: int) -> nn.Module:
    """The network with a tensor of logits as its output; of a random network, the mean over its noise."""
    if isinstance(model, Averaged):
        return model
    with frozen(model), torch.no_grad(), seeded(seed, x.device):
        first = model(x)
        if not isinstance(first, Tensor):
            model = Adapted(model, contiguous=False)
            first = model(x)
        before = global_states(x.device)
        if not differ(first, model(x)) and global_states(x.device) == before:
            return model
    with as_input_error("the network, which is random, on a single sample", "let eval() switch its randomness off"):
        return averaged(model, x, seed)


def averaged(model: nn.Module, x: Images, seed: int) -> nn.Module:
    """The mean of a random network; refuses noise that no seed repeats."""
    together, alone = Averaged(model, seed), Averaged(model, seed, together=False)
    with frozen(model), torch.no_grad():
        logits = alone(x[:2])
        if differ(logits, alone(x[:2])):
            if changed := remembered(model, lambda: model(x[:2])):
                raise InputError(
                    f"the network changes {changed[0]} whenever it is called, and its logits too: let eval() "
                    "switch off what it counts or remembers"
                )
            raise InputError(
                "the network is random, and its logits differ after the same seed: draw its noise from the global "
                "generator of torch, Python or NumPy, or let eval() switch it off"
            )
        try:
            return alone if differ(logits, together(x[:2])) else together
        except RuntimeError:  # a network that torch.func.vmap cannot take
            return alone


def differ(first: Tensor, second: Tensor) -> bool:
    """Whether two outputs differ by more than rounding."""
    return bool((first - second).abs().max() > ROUNDING * first.abs().max())
