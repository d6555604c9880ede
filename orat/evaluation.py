"""Accuracy under each attack, sample by sample; the same for the same seed, whatever the batch size."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from orat.attacks.attempts import GPU_VALUES
from orat.attacks.autoattack import AutoAttack
from orat.attacks.balls import BALLS
from orat.attacks.carlini_wagner import CarliniWagner
from orat.attacks.chance import Draws
from orat.attacks.fab import FAB
from orat.attacks.pgd import Attack, frozen
from orat.attacks.quick import quick, sees_margins
from orat.data.batches import as_input
from orat.data.dataset import Dataset
from orat.errors import InputError
from orat.journal import BROKEN, OPEN, STANDS, Journal
from orat.metering import Metered, work
from orat.products import products
from orat.progress import SILENT, Bar, Display
from orat.types import Images, Indices, Labels, Logits

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
        model, data, seed, batch_size or default_batch(model, data), journal or Journal(), searchers or halves
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
        """Which of the samples that stood before the attack does not break."""
        verdict = self.journal.open(name, before.cpu())
        effort = work(attack, len(self.data.classes))
        waiting = (verdict == OPEN).nonzero().squeeze(1)
        standing = int(before.sum())
        self.done += effort * (standing - len(waiting))
        self.total -= effort * (self.standing - standing)  # broken by a former part of AutoAttack
        for index in waiting.split(self.batch_size) if len(waiting) else ():
            upper = (verdict != BROKEN).double().mean()
            self.bar.set(f"{name}: at most {upper:.1%} right", self.done, self.total)
            verdict[index] = self.stands(attack, name, index).long().cpu()
            self.done += effort * len(index)
            self.journal.save()
        return (verdict == STANDS).to(before.device)

    def stands(self, attack: Attack, name: str, index: Indices) -> Tensor:
        """Which of these samples the attack does not break; in halves where the device has no room for all."""
        try:
            return self.attacked(attack, name, index)
        except torch.OutOfMemoryError:
            if len(index) == 1:
                raise InputError("the device has no room to attack a single sample: use --device cpu") from None
        torch.cuda.empty_cache()
        return torch.cat([self.stands(attack, name, half) for half in index.tensor_split(2)])

    def attacked(self, attack: Attack, name: str, index: Indices) -> Tensor:
        """Which of these samples the attack does not break, by the word of the model in float32.

        A quick search goes first where it sees what the model sees; what only it calls broken is attacked once more.
        """
        device = device_of(self.model)
        x, y = as_input(self.data.images[index].to(device)), self.data.labels[index].to(device)
        standing, unsure = torch.ones_like(y, dtype=torch.bool), torch.ones_like(y, dtype=torch.bool)
        searcher = self.searchers(attack)
        if searcher is not None:
            with frozen(self.model):
                sees = sees_margins(searcher, self.model, x, y)
            if sees.any():
                adv = attack(Metered(searcher, self.bar), x[sees], y[sees], self.streams(name, index[sees.cpu()]))
                standing[sees] = self.verify(attack, adv, x[sees], y[sees])
                unsure[sees] = standing[sees] & ~stands_at(searcher, adv, y[sees])
        if unsure.any():
            x, y, exact = x[unsure], y[unsure], searcher is not None or isinstance(attack, NEED_DIGITS)
            with products(exact=True) if exact else nullcontext():
                adv = attack(Metered(self.model, self.bar), x, y, self.streams(name, index[unsure.cpu()]))
            standing[unsure] = self.verify(attack, adv, x, y)
        return standing

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
