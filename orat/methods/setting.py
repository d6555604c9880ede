"""What a method may know of the training that it is to start in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orat.lazy import Module


@dataclass(frozen=True)
class Scouts:
    """Networks that may learn before the run's own does."""

    make: Callable[[int], Module]  # the first, the second
    cost: float  # of an epoch in which two of them learn one half each and are asked about the other, of a run's own
    quick: bool  # whether they are of the kind that learns at a high rate, and goes on for long


@dataclass(frozen=True)
class Setting:
    """What a method may want to know before the first step."""

    n: int  # samples that are trained on
    total: int  # samples there were before some were held out for validation
    classes: int
    steps: int  # in an epoch
    epochs: int
    milestones: tuple[int, ...] = ()  # epochs from which on the learning rate is lower
    attack_steps: int = 10
    attack_start: str = "uniform"
    batch_size: int = 128
    scouts: Callable[[str | None], Scouts] | None = None  # by the name of a network
