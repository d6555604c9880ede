"""The average of the ranked range of natural losses, and the fields that every ranked method shares."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal

from orat.errors import InputError
from orat.lazy import losses, ranking
from orat.methods.method import Method, Setting, check_choices, option

if TYPE_CHECKING:
    from torch import nn

    from orat.methods.method import TrainingAttack
    from orat.state import State
    from orat.types import Batch, Scalar

BURN_IN_STEPS = 300  # a network that has learned nothing ranks by chance, and what it cuts then may never come back


@dataclass(frozen=True)
class Ranked(Method):
    """A method that folds its losses by their ranks m+1 to k among all training samples."""

    m: int | float = option(None, "how many of the largest losses to drop: a count of the training set, or a fraction")
    k: int | float = option(1.0, "rank of the smallest loss to keep: a count of the training set, or a fraction")
    solver: Literal["rank", "minmax"] = option("rank", "exact ranks by memory, or the paper's two scalars")
    burn_in: int | None = option(None, "epochs of the plain mean before the first cut; 1, or more where they are short")
    scalar_start: Literal["theory", "authors"] = option("theory", "where minmax starts lambda-hat")
    scalar_rate: Literal["decayed", "constant"] = option("decayed", "whether minmax's rate follows the schedule")

    def __post_init__(self) -> None:
        check_choices(self)
        if self.m is None:
            raise InputError("m is not given: say how many of the largest losses to drop, such as --m 0.3 or --m 1800")
        if type(self.k) is type(self.m) and self.k <= self.m:
            raise InputError(f"k = {self.k}, m = {self.m}: losses ranked m+1 to k are kept, so k must be above m")

    def start(self, setting: Setting) -> State:
        """The memory of all losses, or the two scalars."""
        k, m = (ranking.count(amount, setting.n, setting.total) for amount in (self.k, self.m))
        burn_in = enough_epochs(setting) if self.burn_in is None else self.burn_in
        if self.solver == "rank":
            return ranking.RankedRangeLoss(setting.n, k, m, burn_in)
        return ranking.MinMaxLoss(setting.n, k, m, burn_in, self.scalar_start, self.scalar_rate == "decayed")


def enough_epochs(setting: Setting) -> int:
    """One epoch, as the authors take, or as many as give the steps it takes to rank by more than chance."""
    return min(ceil(BURN_IN_STEPS / setting.steps), max(1, setting.epochs // 4))


@dataclass(frozen=True)
class AoRR(Ranked):
    """AoRR (Hu et al., 2020): the ranked range of the losses of the natural images."""

    def loss(self, model: nn.Module, batch: Batch, attack: TrainingAttack, state: State, epoch: int) -> Scalar:
        """The ranked range, without an attack."""
        return state(losses.cross_entropy(model(batch.x), batch.y), batch.index)
