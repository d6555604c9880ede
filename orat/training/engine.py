"""How a training step is executed: as Python comes to it. A CUDA graph is the other way."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

import torch

from orat.core.errors import InputError, unknown
from orat.core.types import Scalar
from orat.data.loader import Ticket

KINDS = ("auto", "plain", "folded", "recorded", "compiled")
ON_GPU = ("recorded", "compiled")
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

    @property
    def form(self) -> str:
        """The form of the network, see `views.FORMS`."""
        return "folded" if self.kind == "recorded" else self.kind

    @property
    def recorded(self) -> bool:
        """Whether steps are recorded as CUDA graphs."""
        return self.kind in ON_GPU


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
