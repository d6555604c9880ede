"""Two axes of a training step: how it is executed, and the form of the network that it uses."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from orat.attacks.base import FoldedSight, Sight
from orat.core.console import Display
from orat.core.device import able
from orat.core.errors import InputError, unknown
from orat.core.types import Scalar
from orat.data.loader import Loader, ResidentLoader, Ticket
from orat.models.folded import Folded, OneSize, as_it_is, quickened

KINDS = ("auto", "plain", "folded", "recorded", "compiled")
ON_GPU = ("recorded", "compiled")
FORMS = ("plain", "folded", "compiled")  # of a network
WORTH_COMPILING = 4000  # steps: in fewer, compiling takes longer than it saves

TrainStep = Callable[..., Scalar]  # a ticket's parts -> the loss


class Engine(Protocol):
    """Executes a training step on a ticket; steps with the same key run the same operations."""

    def __call__(self, step: TrainStep, ticket: Ticket, key: Hashable) -> None: ...


class Eager:
    """Executes each step as it comes."""

    def __call__(self, step: TrainStep, ticket: Ticket, key: Hashable) -> None:
        step(*ticket)


@dataclass(frozen=True)
class Execution:
    """The kind of execution of a training: the form of the network, and whether steps are recorded."""

    kind: str
    draws: bool = False  # whether the network draws from global generators in a step, which no record may hold
    folds: bool = True  # whether the network has a folded form

    @property
    def form(self) -> str:
        """The form of the network, one of FORMS."""
        if not self.folds:
            return "plain"
        return "folded" if self.kind == "recorded" or (self.draws and self.kind in ON_GPU) else self.kind

    @property
    def recorded(self) -> bool:
        """Whether steps are recorded as CUDA graphs."""
        return self.kind in ON_GPU and not self.draws

    @property
    def name(self) -> str:
        """The kind of execution as it takes place."""
        return self.kind if self.recorded else self.form


def execution(kind: str, device: torch.device, steps: int, at_most: bool = False) -> Execution:
    """The execution of this name; `auto` is the quickest on the device for this number of steps.

    With `at_most`, networks are compiled only where the number of steps is worth it.
    """
    if kind not in KINDS:
        raise unknown("engine", kind, KINDS)
    if kind in ON_GPU and device.type == "cpu":
        raise InputError(f"engine {kind} is for GPUs: leave --engine out, or give plain or folded")
    if kind == "auto":
        kind = "folded" if device.type == "cpu" else "compiled" if steps >= WORTH_COMPILING else "recorded"
    if at_most and kind == "compiled" and steps < WORTH_COMPILING:
        kind = "recorded"
    return Execution(kind)


def possible(wanted: Execution, batches: Loader, display: Display, own_attack: bool = False) -> Execution:
    """The execution, without recording where the data do not fit on the device or the run has an attack of its own."""
    if not wanted.recorded or (isinstance(batches, ResidentLoader) and not own_attack):
        return wanted
    reason = "the data do not fit on the device, each batch comes from the host"
    if own_attack:
        reason = "a record would repeat the random numbers of the attack that the run names"
    display.line(f"steps are not recorded: {reason}")
    return Execution("folded")


@dataclass(frozen=True)
class View:
    """One network as a step uses it; without a sight, attacks search on the network itself."""

    model: nn.Module
    sight: Sight | None = None


class Views:
    """The forms of a network: a form for full batches, compiled on request, and a form for all other steps."""

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


def takes_halves(precision: str, device: torch.device) -> bool:
    """Whether attacks run in bfloat16: on a CPU only on request and with hardware support."""
    if precision == "auto":
        return device.type == "cuda"
    return precision == "mixed" and able(device, torch.bfloat16)
