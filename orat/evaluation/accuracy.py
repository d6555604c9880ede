"""Accuracy under each attack, sample by sample; the same for the same seed, whatever the batch size."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from orat.attacks.autoattack import AutoAttack
from orat.attacks.balls import BALLS
from orat.attacks.carlini_wagner import CarliniWagner
from orat.attacks.fab import FAB
from orat.attacks.pgd import Attack, frozen
from orat.attacks.restarts import GPU_VALUES
from orat.core.console import SILENT, Bar, Display
from orat.core.device import products
from orat.core.errors import InputError
from orat.core.random import Draws
from orat.core.types import Images, Indices, Labels, Logits
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.evaluation.journal import BROKEN, OPEN, STANDS, Journal
from orat.evaluation.progress import Metered, work
from orat.evaluation.searchers import quick, sees_margins

BATCH = 250  # samples at a time on a CPU
NEED_DIGITS = (FAB, CarliniWagner)  # they walk along the border itself

Searchers = Callable[[Attack], nn.Module | None]  # attack -> a quicker form of the model to search with, if any


def evaluate(
    model: nn.Module,
    dataset: Dataset,
    attacks: Mapping[str, Attack],
    seed: int = 0,
    display: Display = SILENT,
    searchers: Searchers | None = None,
) -> dict[str, float]:
    """The share of samples that stay right, naturally and under each attack; `searchers` as in `correct`."""
    right = correct(model, dataset, attacks, seed, display, searchers=searchers)
    return {name: right[name].double().mean().item() for name in ("natural", *attacks)}


def correct(
    model: nn.Module,
    data: Dataset,
    attacks: Mapping[str, Attack],
    seed: int = 0,
    display: Display = SILENT,
    precision: str = "float32",
    batch_size: int | None = None,
    journal: Journal | None = None,
    searchers: Searchers | None = None,
) -> dict[str, Tensor]:
    """Which samples stay right, naturally and under each attack; a sample wrong by itself stays wrong under attack.

    The parts of AutoAttack are there too, as autoattack:apgd-ce and so on, each run on what the former left standing.
    `searchers` give quicker forms of the model to search with, by default its half-precision ones where there are such;
    the model itself has the last word.
    """
    natural = predict(model, data) == data.labels
    halves = partial(quick, model, precision=precision, device=device_of(model))
    examination = Examination(
        model, data, seed, batch_size or default_batch(model, data), journal or Journal(), searchers or halves, display
    )
    right = {"natural": natural}
    with display.bar() as bar:
        examination.bar = bar
        examination.expect(attacks, int(natural.sum()))
        for name, attack in attacks.items():
            standing = natural
            for stage, one in stages(name, attack).items():
                right[stage] = standing = examination.withstood(stage, one, standing)
            right[name] = standing
            display.line(f"{name}: {right[name].double().mean():.2%} right")
    return right


def stages(name: str, attack: Attack) -> dict[str, Attack]:
    """What an attack consists of, in turn: its parts, or itself."""
    if isinstance(attack, AutoAttack):
        return {f"{name}:{part}": one for part, one in attack.parts.items()}
    return {name: attack}


def predict(model: nn.Module, data: Dataset) -> Tensor:
    """The class the model gives to each sample."""
    return logits_of(model, data).argmax(1).to(data.labels.device)


def logits_of(model: nn.Module, data: Dataset) -> Logits:
    """The model's answer to each sample as it is, in evaluation mode, on the model's device."""
    device = device_of(model)
    with frozen(model), torch.no_grad(), products(exact=True):
        answer = torch.cat([fitting(model, as_input(images.to(device))) for images in data.images.split(BATCH)])
    if answer.shape != (len(data), len(data.classes)):
        raise InputError(f"the model gives {tuple(answer.shape[1:])} numbers a sample for {len(data.classes)} classes")
    if not answer.isfinite().all():
        raise InputError("the model gives NaN or infinite logits: its training broke, or its inputs are not in [0, 1]")
    return answer


def fitting(model: nn.Module, x: Images) -> Tensor:
    """The model's answer, in halves where the device has no room for all."""
    try:
        logits: Tensor = model(x)
        return logits
    except torch.OutOfMemoryError:
        if len(x) == 1:
            raise InputError("the device has no room for a single sample: use --device cpu") from None
    torch.cuda.empty_cache()
    return torch.cat([fitting(model, half) for half in x.tensor_split(2)])


@dataclass
class Examination:
    """One model on one data set, attacked in batches."""

    model: nn.Module
    data: Dataset
    seed: int
    batch_size: int
    journal: Journal
    searchers: Searchers
    display: Display
    bar: Bar = field(default_factory=Bar)
    done: float = 0.0  # work, in forward passes
    total: float = 0.0
    standing: int = 0  # without attack

    def expect(self, attacks: Mapping[str, Attack], standing: int) -> None:
        """How much work lies ahead, if nothing breaks."""
        self.standing = standing
        for name, attack in attacks.items():
            self.total += standing * sum(work(one, len(self.data.classes)) for one in stages(name, attack).values())

    def withstood(self, name: str, attack: Attack, before: Tensor) -> Tensor:
        """Which of the samples that stood before the attack does not break.

        A quick search goes first; what it leaves open, from all batches together, is attacked on the model itself.
        """
        verdict = self.journal.open(name, before.cpu())
        effort = work(attack, len(self.data.classes))
        standing = int(before.sum())
        self.done += effort * (standing - int((verdict == OPEN).sum()))
        self.total -= effort * (self.standing - standing)  # broken by a former part of AutoAttack
        searcher = self.searcher(name, attack, (verdict == OPEN).nonzero().squeeze(1))
        for network in (self.model,) if searcher is None else (searcher, self.model):
            waiting = (verdict == OPEN).nonzero().squeeze(1)
            for index in waiting.split(self.batch_size) if len(waiting) else ():
                upper = (verdict != BROKEN).double().mean()
                self.bar.set(f"{name}: at most {upper:.1%} right", self.done, self.total)
                verdict[index] = self.verdicts(network, attack, name, index).cpu()
                self.done += effort * int((verdict[index] != OPEN).sum())
                self.journal.save()
        return (verdict == STANDS).to(before.device)

    def searcher(self, name: str, attack: Attack, waiting: Indices) -> nn.Module | None:
        """What searches before the model itself, if there is such a thing and the model's own code runs so."""
        searcher = self.searchers(attack)
        if searcher is None or not len(waiting):
            return None
        try:
            with frozen(self.model), torch.no_grad():
                searcher(as_input(self.data.images[waiting[: self.batch_size]].to(device_of(self.model))))
        except torch.OutOfMemoryError:
            return searcher  # which is a matter of how many samples there are at a time
        except RuntimeError as error:
            reason = str(error).strip().partition("\n")[0]
            self.display.line(f"{name}: the model does not run in a quicker form ({reason}), and is searched as it is")
            return None
        return searcher

    def verdicts(self, network: nn.Module, attack: Attack, name: str, index: Indices) -> Tensor:
        """What an attack that searches on this network does to these samples; in halves if there is no room for all."""
        try:
            return self.attacked(network, attack, name, index)
        except torch.OutOfMemoryError:
            if len(index) == 1:
                raise InputError("the device has no room to attack a single sample: use --device cpu") from None
        torch.cuda.empty_cache()
        return torch.cat([self.verdicts(network, attack, name, half) for half in index.tensor_split(2)])

    def attacked(self, network: nn.Module, attack: Attack, name: str, index: Indices) -> Tensor:
        """Verdicts by the word of the model, which leave open what a searcher does not see, or alone calls broken."""
        device = device_of(self.model)
        x, y = as_input(self.data.images[index].to(device)), self.data.labels[index].to(device)
        if network is self.model:
            with products(exact=True) if isinstance(attack, NEED_DIGITS) else nullcontext():
                adv = attack(Metered(network, self.bar), x, y, self.streams(name, index))
            return torch.where(self.verify(attack, adv, x, y), STANDS, BROKEN)
        found = torch.full_like(y, OPEN)
        with frozen(self.model):
            sees = sees_margins(network, self.model, x, y)
        if sees.any():
            x, y = x[sees], y[sees]
            adv = attack(Metered(network, self.bar), x, y, self.streams(name, index[sees.cpu()]))
            stands = self.verify(attack, adv, x, y)
            left = torch.where(stands_at(network, adv, y), STANDS, OPEN)
            found[sees] = torch.where(stands, left, BROKEN)
        return found

    def streams(self, name: str, index: Indices) -> Draws:
        """The random numbers of these samples; a part of AutoAttack draws what it would draw alone."""
        own = zlib.crc32(name.rpartition(":")[2].encode())
        return Draws.of(self.seed, index.to(device_of(self.model))).fork(own)

    def verify(self, attack: Attack, adv: Images, x: Images, y: Labels) -> Tensor:
        """Which samples stand at the points that an attack reached, by the model itself in exact float32."""
        check_inside(attack, adv, x)
        with products(exact=True):
            return stands_at(self.model, adv, y)


def stands_at(model: nn.Module, adv: Images, y: Labels) -> Tensor:
    """Which samples a model gives their label at these points."""
    with frozen(model), torch.no_grad():
        return model(adv).argmax(1) == y


def check_inside(attack: Attack, adv: Images, x: Images) -> None:
    """An attack that leaves its ball or [0, 1] has a bug, and its number would be worth nothing."""
    eps, norm = getattr(attack, "eps", None), getattr(attack, "norm", None)
    if eps is None or norm is None:
        return
    size = float(BALLS[norm].size(adv - x).max())
    if not (size <= eps * (1 + 1e-5) + 1e-6 and float(adv.min()) >= 0 and float(adv.max()) <= 1):
        raise RuntimeError(f"{attack} went {size:g} far in {norm}, or out of [0, 1]")


def default_batch(model: nn.Module, data: Dataset) -> int:
    """Samples at a time: on a GPU as many as fill it."""
    if device_of(model).type == "cpu":
        return BATCH
    return max(GPU_VALUES // data.images[0].numel(), 16)


def device_of(model: nn.Module) -> torch.device:
    """Where the model's parameters live."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))
