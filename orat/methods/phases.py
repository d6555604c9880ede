"""When a method's loss changes: never, or when it turns from plain training to its own."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from orat.errors import InputError
from orat.lazy import BurnIn, State
from orat.lazy import state as states
from orat.methods.method import Method
from orat.methods.setting import Setting
from orat.options import burn_in_option

WITHOUT_DROPS = 0.4  # share of the epochs before the turn where the rate never drops, as the first drop on MNIST


class Steady(Method):
    """A method whose loss is the same in every epoch."""

    def phase(self, state: Any, epoch: int) -> Hashable:
        """There is only one."""
        return None


@dataclass(frozen=True)
class Late(Method):
    """A method that is its plain form for the first epochs."""

    burn_in: int | None = burn_in_option("those before the first drop of the learning rate")

    def start(self, setting: Setting) -> State:
        """The epochs of the plain form."""
        return states.BurnIn(self.plain_epochs(setting))

    def phase(self, state: BurnIn, epoch: int) -> Hashable:
        """Before the turn, and after it."""
        return epoch <= state.burn_in

    def plain_epochs(self, setting: Setting) -> int:
        """How many epochs there are before the turn."""
        return before_drops(setting) if self.burn_in is None else self.burn_in


def before_drops(setting: Setting) -> int:
    """The epochs before the first drop of the learning rate, or about where that is usual."""
    drops = [epoch for epoch in setting.milestones if epoch <= setting.epochs]
    return min(drops, default=round(WITHOUT_DROPS * setting.epochs) + 1) - 1


def check_counts(setting: Setting, method: str) -> None:
    """Refuses an attack without steps for a method that counts the steps a sample withstands."""
    if setting.attack_steps < 1:
        raise InputError(f"attack_steps = 0: {method} counts the steps that a sample withstands, give 1 or more")
