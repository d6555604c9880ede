"""Accuracy under attack, sample by sample; the same seed gives the same verdicts, whatever the batch size."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks.base import Attack, frozen
from orat.attacks.own import as_attack, check_inside, watched
from orat.attacks.restarts import GPU_VALUES
from orat.attacks.suite import suite
from orat.attacks.threat import Threat, ThreatLike
from orat.core.console import SILENT, Bar, Display
from orat.core.device import device_of, products
from orat.core.errors import InputError
from orat.core.random import Draws, seeded
from orat.core.types import Images, Indices, Labels, Logits
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.evaluation.progress import BROKEN, OPEN, ROBUST, Journal, metered
from orat.evaluation.searchers import quick, sees_margins
from orat.evaluation.subject import Averaged, prepared

BATCH = 250  # samples at a time on a CPU
PROBABILITY = 1e-4  # rows of a float32 softmax sum to 1 more closely, and rows of logits hardly ever do

Attacks = Iterable[str] | Mapping[str, Any]  # names of the suite, or attacks by any name: values, classes, functions
Searchers = Callable[[Attack], nn.Module | None]  # a faster form of the network for the search of an attack, if any


def evaluate(
    model: nn.Module,
    data: Any,
    attacks: Attacks,
    threat: ThreatLike,
    seed: int = 0,
    display: Display = SILENT,
    searchers: Searchers | None = None,
    is_ready: bool = False,
) -> dict[str, float]:
    """The accuracy on clean inputs, as "natural", and under each attack.

    Data are a data set of orat or of torch, or inputs in [0, 1] and labels as a pair of arrays or tensors. `is_ready`
    says that the network is a built-in one on the `Dataset` for which it was made, so that nothing is tried first.
    """
    attacks = named(attacks)
    form, data = (model, data) if is_ready else prepared(model, data, attacks, seed, display)
    if isinstance(form, Averaged) and form is not model and display is SILENT:
        warnings.warn(form.note, stacklevel=2)
    right = examined(form, data, attacks, Threat.of(threat), seed, display, searchers=searchers)
    return {name: right[name].double().mean().item() for name in ("natural", *attacks)}


def correct(
    model: nn.Module, data: Any, attacks: Attacks, threat: ThreatLike, seed: int = 0, display: Display = SILENT,
    precision: str = "float32", batch_size: int | None = None, journal: Journal | None = None,
    searchers: Searchers | None = None,
) -> dict[str, Tensor]:  # fmt: skip
    """Which samples are classified correctly, on clean inputs and under each attack, as masks (n,).

    Misclassified samples count as broken under every attack. The parts of AutoAttack have masks of their own, such as
    autoattack:apgd-ce; each part attacks the samples that withstood the parts before.
    """
    threat, attacks = Threat.of(threat), named(attacks)
    for attack in attacks.values():
        attack.check_threat(threat)
    model, data = prepared(model, data, attacks, seed, display)
    return examined(model, data, attacks, threat, seed, display, precision, batch_size, journal, searchers)


def examined(
    model: nn.Module,
    data: Dataset,
    attacks: Mapping[str, Attack],
    threat: Threat,
    seed: int,
    display: Display,
    precision: str = "float32",
    batch_size: int | None = None,
    journal: Journal | None = None,
    searchers: Searchers | None = None,
) -> dict[str, Tensor]:
    """The masks of a network that is a function of its input.

    Attacks search on the forms of the network that `searchers` gives, by default in half precision where `precision`
    allows; the network itself verifies every result in float32.
    """
    for attack in attacks.values():
        attack.check_threat(threat)
    natural = check_logits(logits_of(model, data)).argmax(1).to(data.labels.device) == data.labels
    if searchers is None and precision != "float32":
        searchers = partial(quick, model, precision=precision, device=device_of(model))
    batch_size = batch_size or default_batch(model, data)
    examination = Examination(model, data, threat, seed, batch_size, journal, searchers, display)
    right = {"natural": natural}
    with display.bar() as bar:
        examination.bar = bar
        examination.expect(attacks, int(natural.sum()))
        for name, attack in attacks.items():
            standing = natural
            for stage, part in stages(name, attack).items():
                right[stage] = standing = examination.withstood(stage, part, standing)
            right[name] = standing
            display.line(f"{name}: accuracy {right[name].double().mean():.2%}")
    return right


def named(attacks: Attacks) -> dict[str, Attack]:
    """The attacks by name."""
    if not isinstance(attacks, Mapping):
        return suite([attacks] if isinstance(attacks, str) else attacks)
    is_known = {name: isinstance(one, Attack) and one.is_ours for name, one in attacks.items()}
    return {name: one if is_known[name] else as_attack(one, name) for name, one in attacks.items()}


def stages(name: str, attack: Attack) -> dict[str, Attack]:
    """The parts of an ensemble by name, or the attack itself."""
    return {f"{name}:{part}": one for part, one in attack.parts.items()} or {name: attack}


def predict(model: nn.Module, data: Dataset) -> Tensor:
    """The predicted class of each sample."""
    return logits_of(model, data).argmax(1).to(data.labels.device)


def logits_of(model: nn.Module, data: Dataset) -> Logits:
    """The logits of each sample, in evaluation mode, on the device of the network."""
    device = device_of(model)
    with frozen(model), torch.no_grad(), products(exact=True):
        logits = torch.cat([fitting(model, as_input(images.to(device))) for images in data.images.split(BATCH)])
    if logits.shape != (len(data), len(data.classes)):
        raise InputError(
            f"the network gives {tuple(logits.shape[1:])} numbers per sample for {len(data.classes)} classes: "
            "give a network with one logit per class"
        )
    if not logits.isfinite().all():
        raise InputError("the network gives NaN or infinite logits: look at its training, and scale inputs to [0, 1]")
    return logits


def fitting(model: nn.Module, x: Images) -> Tensor:
    """The logits of a batch, in halves where the device has too little memory."""
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
    """The attacks on a network and a data set, in batches."""

    model: nn.Module
    data: Dataset
    threat: Threat
    seed: int
    batch_size: int
    journal: Journal | None
    searchers: Searchers | None
    display: Display
    bar: Bar = field(default_factory=Bar)
    done: float = 0.0  # work, in forward passes
    total: float = 0.0
    standing: int = 0  # correctly classified clean samples

    def work(self, attack: Attack) -> int:
        """The forward passes for a sample that withstands the attack."""
        return attack.work(self.threat, len(self.data.classes))

    def expect(self, attacks: Mapping[str, Attack], standing: int) -> None:
        """Sums the work ahead, for the case that all samples withstand."""
        self.standing = standing
        for name, attack in attacks.items():
            self.total += standing * sum(self.work(part) for part in stages(name, attack).values())

    def withstood(self, name: str, attack: Attack, before: Tensor) -> Tensor:
        """The robust samples among `before`, the robust samples of all attacks so far.

        A search on a faster form of the network goes first. The samples that it leaves open, of all batches together,
        are attacked on the network itself.
        """
        before_all = before.cpu()
        verdict = torch.where(before_all, OPEN, BROKEN) if self.journal is None else self.journal.open(name, before_all)
        effort = self.work(attack)
        standing = int(before.sum())
        self.done += effort * (standing - int((verdict == OPEN).sum()))
        self.total -= effort * (self.standing - standing)  # broken by a former part of AutoAttack
        searcher = self.searcher(name, attack, (verdict == OPEN).nonzero().squeeze(1))
        for network in (self.model,) if searcher is None else (searcher, self.model):
            waiting = (verdict == OPEN).nonzero().squeeze(1)
            for index in waiting.split(self.batch_size) if len(waiting) else ():
                upper = (verdict != BROKEN).double().mean()
                self.bar.set(f"{name}: accuracy at most {upper:.1%}", self.done, self.total)
                verdict[index] = self.verdicts(network, attack, name, index).cpu()
                self.done += effort * int((verdict[index] != OPEN).sum())
                if self.journal is not None:
                    self.journal.save()
        return (verdict == ROBUST).to(before.device)

    def searcher(self, name: str, attack: Attack, waiting: Indices) -> nn.Module | None:
        """The faster form of the network for the search, unless there is none or it fails on a first batch."""
        searcher = None if self.searchers is None else self.searchers(attack)
        if searcher is None or not len(waiting):
            return None
        try:
            with frozen(self.model), torch.no_grad():
                searcher(as_input(self.data.images[waiting[: self.batch_size]].to(device_of(self.model))))
        except torch.OutOfMemoryError:
            return searcher  # smaller batches follow
        except RuntimeError as error:
            reason = str(error).strip().partition("\n")[0]
            self.display.line(f"{name}: searches on the network itself, since a faster form fails ({reason})")
            return None
        return searcher

    def verdicts(self, network: nn.Module, attack: Attack, name: str, index: Indices) -> Tensor:
        """The verdicts of an attack that searches on this network, in halves where memory is short."""
        try:
            return self.attacked(network, attack, name, index)
        except torch.OutOfMemoryError:
            if len(index) == 1:
                raise InputError("the device has no room to attack a single sample: use --device cpu") from None
        torch.cuda.empty_cache()
        return torch.cat([self.verdicts(network, attack, name, half) for half in index.tensor_split(2)])

    def attacked(self, network: nn.Module, attack: Attack, name: str, index: Indices) -> Tensor:
        """The verdicts by the network itself; open where a faster form has wrong margins or alone is broken."""
        device = device_of(self.model)
        x, y = as_input(self.data.images[index].to(device)), self.data.labels[index].to(device)
        if network is self.model:
            with products(exact=True) if attack.exact else nullcontext():
                adv = self.searched(network, attack, name, index, x, y)
            return torch.where(self.verify(adv, y), ROBUST, BROKEN)
        found = torch.full_like(y, OPEN)
        with frozen(self.model):
            sees = sees_margins(network, self.model, x, y)
        if sees.any():
            x, y = x[sees], y[sees]
            adv = self.searched(network, attack, name, index[sees.cpu()], x, y)
            stands = self.verify(adv, y)
            left = torch.where(classified(network, adv, y), ROBUST, OPEN)
            found[sees] = torch.where(stands, left, BROKEN)
        return found

    def searched(self, network: nn.Module, attack: Attack, name: str, index: Indices, x: Images, y: Labels) -> Images:
        """The result of an attack, which lies within the threat."""
        draws = self.draws(name, index)
        with nullcontext() if self.bar.progress is None else metered(network, self.bar):
            if not attack.is_ours:
                return watched(attack, name, network, x, y, self.threat, draws)
            with seeded(int(draws.keys[0]), x.device):
                adv = attack(network, x, y, self.threat, draws)
        if not self.threat.allows(adv, x).all():
            check_inside(adv, x, self.threat, name)
        return adv

    def draws(self, name: str, index: Indices) -> Draws:
        """The random numbers of these samples; a part of AutoAttack draws the same numbers as alone."""
        own = zlib.crc32(name.rpartition(":")[2].encode())
        return Draws.of(self.seed, index.to(device_of(self.model))).fork(own)

    def verify(self, adv: Images, y: Labels) -> Tensor:
        """Which attacked inputs the network classifies correctly, in exact float32."""
        with products(exact=True):
            return classified(self.model, adv, y)


def classified(model: nn.Module, x: Images, y: Labels) -> Tensor:
    """Which inputs a network classifies correctly."""
    with frozen(model), torch.no_grad():
        return model(x).argmax(1) == y


def default_batch(model: nn.Module, data: Dataset) -> int:
    """The samples at a time: on a GPU as many as fill it."""
    if device_of(model).type == "cpu":
        return BATCH
    return max(GPU_VALUES // data.images[0].numel(), 16)


def check_logits(logits: Logits) -> Logits:
    """The logits; refuses probabilities."""
    if len(logits) and bool((logits >= 0).all()) and bool(((logits.sum(1) - 1).abs() <= PROBABILITY).all()):
        raise InputError("the network gives probabilities, and softmax gradients vanish: remove the last softmax")
    return logits
