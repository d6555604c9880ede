"""What the methods that fold their losses by rank share: the ranks, the solver and its start."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Literal

from orat.errors import InputError
from orat.lazy import State, ranking
from orat.methods.method import Method
from orat.methods.setting import Setting
from orat.options import burn_in_option, option

BURN_IN_STEPS = 300  # a network that has learned nothing ranks by chance, and what it cuts then may never come back


@dataclass(frozen=True)
class Ranked(Method):
    """A method that folds its losses by their ranks m+1 to k among all training samples."""

    finds_m: ClassVar[bool] = False  # where it is not given

    m: int | float | None = option(None, "how many of the largest losses to drop: a count, or a fraction of all")
    k: int | float = option(1.0, "rank of the smallest loss to keep: a count of the training set, or a fraction")
    solver: Literal["rank", "minmax"] = option("rank", "exact ranks by memory, or the paper's two scalars")
    burn_in: int | None = burn_in_option("1, or more where epochs are short")
    ramp: int | None = option(
        None, "epochs over which m comes in after the burn-in", least=0, unset="as many as the burn-in; 0 with minmax"
    )
    scalar_start: Literal["theory", "authors"] = option("theory", "where minmax starts lambda-hat")
    scalar_rate: Literal["decayed", "constant"] = option("decayed", "whether minmax's rate follows the schedule")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.m is None and not self.finds_m:
            raise InputError("m is not given: say how many of the largest losses to drop, such as --m 0.3 or --m 1800")
        if self.m is not None and type(self.k) is type(self.m) and self.k <= self.m:
            raise InputError(f"k = {self.k}, m = {self.m}: losses ranked m+1 to k are kept, so k must be above m")

    def start(self, setting: Setting) -> State:
        """The memory of all losses, or the two scalars."""
        assert self.m is not None
        k, m = (ranking.count(amount, setting.n, setting.total) for amount in (self.k, self.m))
        burn_in = enough_epochs(setting) if self.burn_in is None else self.burn_in
        if self.solver == "rank":
            return ranking.RankedRangeLoss(setting.n, k, m, burn_in, burn_in if self.ramp is None else self.ramp)
        decays = self.scalar_rate == "decayed"
        return ranking.MinMaxLoss(setting.n, k, m, burn_in, self.ramp or 0, self.scalar_start, decays)

    def phase(self, state: ranking.RankedRangeLoss, epoch: int) -> Hashable:
        """What the state's fold depends on."""
        return state.phase()


def enough_epochs(setting: Setting) -> int:
    """One epoch, as the authors take, or as many as give the steps it takes to rank by more than chance."""
    return min(ceil(BURN_IN_STEPS / setting.steps), max(1, setting.epochs // 4))
