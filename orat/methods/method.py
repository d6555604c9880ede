"""What every training method is: a frozen value that turns a batch into one number, and the state that it starts."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from orat.lazy import Batch, Module, Scalar, State, TrainingAttack
from orat.lazy import state as states
from orat.methods.setting import Setting
from orat.options import check_choices, check_numbers

MNIST = ("mnist", "sample")  # data sets that a method's values for MNIST hold for


@dataclass(frozen=True)
class Method:
    """A training objective; its fields are its hyper-parameters, its flags and its JSON record."""

    attack_start: ClassVar[str] = "uniform"  # where its authors start the attack
    on_mnist: ClassVar[dict[str, Any]] = {}  # what fields left None are there
    elsewhere: ClassVar[dict[str, Any]] = {}  # and on all other data

    def __post_init__(self) -> None:
        check_choices(self)
        check_numbers(self)

    def filled(self, data: str) -> Self:
        """The method with its defaults for this data set where nothing was said."""
        defaults = self.on_mnist if data in MNIST else self.elsewhere
        return replace(self, **{name: value for name, value in defaults.items() if getattr(self, name) is None})

    def start(self, setting: Setting) -> State:
        """The state that a training in this setting begins with."""
        return states.State()

    def phase(self, state: Any, epoch: int) -> Hashable:
        """What of the epoch the loss depends on: steps of one phase compute the same; to be safe, each epoch is one."""
        return epoch

    def loss(self, model: Module, batch: Batch, attack: TrainingAttack, state: Any, epoch: int) -> Scalar:
        """The number to minimize on this batch, with the state that `start` gave; epochs count from 1."""
        raise NotImplementedError
