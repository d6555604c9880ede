"""The events of a training, as observers see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class StepDone:
    """A training step is done."""

    epoch: int
    step: int  # from 1
    steps: int  # in the epoch


@dataclass(frozen=True)
class Waiting:
    """The device is still busy with the steps of the epoch; another run may use the time."""


@dataclass(frozen=True)
class EpochDone:
    """An epoch is done; observers add to its record."""

    epoch: int
    record: dict[str, Any]
    epochs: int = 0  # of the training, as far as it is known


Event: TypeAlias = StepDone | Waiting | EpochDone
