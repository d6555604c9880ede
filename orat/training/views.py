"""The forms of a network in a training step: as the method calls it, and as attacks search on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks.adversary import Sight
from orat.attacks.base import gradient_at
from orat.attacks.pgd import moved
from orat.core.device import able
from orat.core.losses import cross_entropy
from orat.evaluation.searchers import OneSize
from orat.models.folded import Folded, as_it_is, quickened

FORMS = ("plain", "folded", "compiled")


@dataclass(frozen=True)
class View:
    """One network as a step uses it; without a sight, attacks search on the network itself."""

    model: nn.Module
    sight: Sight | None = None


class Views:
    """The forms of one network: one for usual steps, which may be compiled, and one for all others."""

    def __init__(self, model: nn.Module, form: str, precision: str, attacked: bool = True) -> None:
        device = next(model.parameters()).device
        self.model, self.form, self.attacked = model, form, attacked
        half = form != "plain" and takes_halves(precision, device)
        self.attack_type = torch.bfloat16 if half else torch.float32
        self.wrapped = Mixed(model) if half and device.type == "cuda" else model
        self.found: OneSize | None = None  # the last compiled searcher
        self.build()

    def build(self) -> None:
        """Makes the views of the present form."""
        self.other = self.view(as_it_is)
        self.usual = self.view(quickened) if self.form == "compiled" else self.other

    def view(self, quick: Callable[..., Any]) -> View:
        """One view, compiled by `quick`."""
        folded = self.form != "plain" and self.attacked
        sight = FoldedSight(self.model, self.attack_type, quick) if folded else None
        return View(quick(self.wrapped), sight)

    def at(self, usual: bool) -> View:
        """The view for a step, with its sight to be refreshed."""
        view = self.usual if usual else self.other
        if view.sight is not None:
            view.sight.stale = True
        return view

    def stop_compiling(self) -> None:
        """Goes on without compiled forms."""
        self.form = "folded"
        self.build()

    def searcher(self, size: int) -> nn.Module | None:
        """The network as it is now in a quicker form to search on, in batches of one size; None without folding."""
        if self.form == "plain":
            return None
        if self.form == "folded":
            return Folded(self.model, self.attack_type)
        if self.found is None or self.found.size != size:
            self.found = OneSize(Folded(self.model, self.attack_type, pools=True), size)
        self.found.folded.refresh()
        return self.found


class Mixed(nn.Module):
    """A network with matrix products and convolutions in bfloat16, and all else in float32."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            logits: Tensor = self.network(x)
        return logits.float()


class FoldedSight:
    """A folded network for the attacks of a step, refreshed at the first look of each step."""

    def __init__(self, model: nn.Module, dtype: torch.dtype, quick: Callable[..., Any]) -> None:
        folded = Folded(model, dtype, pools=quick is not as_it_is)
        self.stale = True
        self.refresh = folded.refresh
        self.folded = quick(folded.forward)
        self.uphill = partial(uphill, folded) if quick is as_it_is else quick(partial(uphill_in_one, folded))
        self.move = quick(moved)

    def update(self) -> None:
        """Copies the network's weights if they have changed."""
        if self.stale:
            self.refresh()
            self.stale = False

    def logits(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        self.update()
        return self.folded(x)

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """The gradient of the cross-entropy of each sample."""
        self.update()
        return self.uphill(x, y)


def takes_halves(precision: str, device: torch.device) -> bool:
    """Whether attacks run in bfloat16: on a CPU only on request and with hardware support."""
    if precision == "auto":
        return device.type == "cuda"
    return precision == "mixed" and able(device, torch.bfloat16)


def uphill(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the cross-entropy of each sample."""
    return gradient_at(lambda images: cross_entropy(network(images), y), x)


def uphill_in_one(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The same gradient as one function to compile, so that forward and backward pass may share kernels."""
    return torch.func.grad(lambda images: cross_entropy(network(images), y).sum())(x)
