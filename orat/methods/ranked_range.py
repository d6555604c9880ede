"""The ranked range: the mean of the losses ranked m+1 to k, by sorting, by memory of all losses, and as min-max."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from orat.core.errors import InputError
from orat.core.options import burn_in_option, option
from orat.core.types import Indices, PerSample, Scalar
from orat.methods.base import Method, Setting, State

DRIFT = 1.0  # how far lambda may leave the range of the losses, where it belongs, before it is said


def check_ranks(n: int, k: int, m: int) -> None:
    """Refuses ranks that leave nothing to learn from."""
    if not 0 <= m < n:
        raise InputError(f"m = {m} of n = {n}: m largest losses are dropped, so it must lie in 0..{n - 1}")
    if not m < k <= n:
        raise InputError(f"k = {k}, m = {m}, n = {n}: losses ranked m+1 to k are kept, so m < k <= n must hold")


def count(amount: int | float, n: int, total: int | None = None) -> int:
    """A rank from a fraction (float) or a count (int) of `total` samples, scaled to the n that are trained on."""
    if isinstance(amount, float):
        if not 0 <= amount <= 1:
            raise InputError(f"{amount} is no fraction of the samples: give one in 0..1, or a whole number as a count")
        return round(amount * n)
    total = total or n
    if not 0 <= amount <= total:
        raise InputError(f"a rank of {amount} among {total} training samples: it must lie in 0..{total}")
    return round(amount * n / total)


def ranked_range(losses: PerSample, k: int, m: int) -> Scalar:
    """The mean of the losses ranked m+1 to k, largest first: the objective itself (paper, Eq. 3)."""
    check_ranks(len(losses), k, m)
    return losses.sort(descending=True).values[m:k].mean()


def minmax(losses: PerSample, lower: Tensor, width: Tensor, n: int, k: int, m: int) -> Scalar:
    """Theorem 1's objective, averaged over the losses: minimal in lower (lambda), maximal in width (lambda-hat).

    Its optimum is (k - m) / n times the ranked range, at lambda = l_[k] and lambda-hat = l_[m] - l_[k].
    """
    clipped = (width - (losses - lower).relu()).relu()
    return (k - m) / n * lower + (n - m) / n * width - clipped.mean()


class RankedRangeLoss(State):
    """Folds per-sample losses by their rank among the last losses of all n samples; the exact ranks, no scalars.

    Until every sample has been seen once (and for `burn_in` epochs more), ranks mean nothing: it is the plain mean.
    Then m comes in over `ramp` epochs in equal steps, and at once where that is 0.
    """

    last_losses: Tensor

    def __init__(self, n: int, k: int, m: int, burn_in: int = 0, ramp: int = 0) -> None:
        super().__init__()
        check_ranks(n, k, m)
        for name, epochs in (("burn_in", burn_in), ("ramp", ramp)):
            if epochs < 0:
                raise InputError(f"{name} = {epochs} epochs: give 0 or more")
        self.n, self.k, self.m, self.burn_in, self.ramp = n, k, m, burn_in, ramp
        self.epochs = 0
        self.register_buffer("last_losses", torch.full((n,), float("nan")))

    def forward(self, losses: PerSample, index: Indices | None = None) -> Scalar:
        """The ranked range estimated on a batch; `index` says which samples these are."""
        remembered = self.remember(losses, index)
        if self.epochs < self.burn_in:
            return losses.mean()
        m = self.dropped(self.epochs)
        low, high = self.cut_values(m)
        kept = (remembered >= low) & (remembered <= high)
        all_seen = ~self.last_losses.isnan().any()
        weights = torch.where(all_seen, torch.where(kept, self.n / (self.k - m), 0.0), 1.0)
        return (weights.to(losses.dtype) * losses).mean()

    def remember(self, losses: PerSample, index: Indices | None) -> PerSample:
        """Keeps the newest loss of these samples, and gives it back as it was kept."""
        if index is None:
            if len(losses) != self.n:
                raise InputError(f"{len(losses)} losses of n = {self.n} without index: say which samples they are")
            index = torch.arange(self.n, device=losses.device)
        newest = losses.detach().to(self.last_losses.dtype)
        self.last_losses[index] = newest
        return newest

    def phase(self) -> Hashable:
        """The plain mean, or how many losses are dropped: what a step depends on besides tensors."""
        return self.epochs < self.burn_in, self.dropped(self.epochs)

    def dropped(self, epochs: int) -> int:
        """How many of the largest losses are dropped in the epoch after so many."""
        return round(self.m * min(1.0, max(0, epochs - self.burn_in + 1) / (self.ramp + 1)))

    def cut_values(self, m: int) -> tuple[Tensor, Tensor]:
        """The smallest and the largest loss that are kept: l_[k] and l_[m+1] of the whole data set."""
        ranked = self.last_losses.sort(descending=True).values
        return ranked[self.k - 1], ranked[m]

    def cut(self) -> Tensor:
        """Which samples are dropped as outliers, by their last losses."""
        if self.epochs <= self.burn_in:
            return torch.zeros_like(self.last_losses, dtype=torch.bool)
        return self.last_losses > self.cut_values(self.dropped(self.epochs - 1))[1]

    def describe(self) -> str:
        """The ranks in force, and from when on."""
        whole = f", all of m in epoch {self.burn_in + self.ramp + 1}" if self.ramp else ""
        return f"k = {self.k}, m = {self.m} of n = {self.n}, first cut in epoch {self.burn_in + 1}{whole}"

    def end_epoch(self) -> dict[str, float]:
        """Counts the epoch and tells where the cuts lie."""
        self.epochs += 1
        low, high = self.cut_values(self.dropped(self.epochs - 1))
        return {"lower_cut": low.item(), "upper_cut": high.item(), "cut": int(self.cut().sum())}

    def get_extra_state(self) -> dict[str, int]:
        """The epoch count, so that a checkpoint holds it."""
        return {"epochs": self.epochs}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Takes the epoch count back."""
        self.epochs = state["epochs"]


class MinMaxLoss(RankedRangeLoss):
    """The ranked range as the paper's Algorithm 1 solves it: two scalars that SGD moves as quantile trackers.

    The mean until `burn_in` epochs (at least one) are over; then both scalars start at the ranks of the losses seen:
    `start` "theory" at l_[k] and l_[m] - l_[k], "authors" at l_[k] and l_[m], as their code does.
    """

    def __init__(
        self, n: int, k: int, m: int, burn_in: int = 1, ramp: int = 0, start: str = "theory", decays: bool = True
    ) -> None:
        super().__init__(n, k, m, max(burn_in, 1), ramp)
        self.start, self.decays = start, decays
        self.lower = nn.Parameter(torch.tensor(0.0))  # lambda
        self.width = nn.Parameter(torch.tensor(0.0))  # lambda-hat

    def forward(self, losses: PerSample, index: Indices | None = None) -> Scalar:
        """The batch's share of Theorem 1's objective; the scalars need `param_groups` in the optimizer."""
        self.remember(losses, index)
        whole = self.k == self.n and self.m == 0
        if whole or self.epochs < self.burn_in:
            return losses.mean()
        return minmax(losses, self.lower, self.width, self.n, self.k, self.dropped(self.epochs))

    def param_groups(self, lr: float) -> list[dict[str, Any]]:
        """Descent on lambda and ascent on lambda-hat, without momentum or decay of weights."""
        plain = {"lr": lr, "momentum": 0.0, "weight_decay": 0.0, "decays": self.decays}
        return [{"params": [self.lower], **plain}, {"params": [self.width], "maximize": True, **plain}]

    def cut(self) -> Tensor:
        """Which samples are dropped as outliers: those at or above lambda + lambda-hat."""
        if self.epochs <= self.burn_in:
            return torch.zeros_like(self.last_losses, dtype=torch.bool)
        return self.last_losses >= (self.lower + self.width).detach()

    def end_epoch(self) -> dict[str, float]:
        """Starts the scalars when the burn-in ends, and tells where they are."""
        record = super().end_epoch()
        if self.epochs == self.burn_in:
            self.start_scalars()
        return record | {"lambda": self.lower.item(), "lambda_hat": self.width.item()}

    @torch.no_grad()
    def start_scalars(self) -> None:
        """Puts lambda and lambda-hat where the losses seen so far say."""
        ranked = self.last_losses.sort(descending=True).values
        low, high = ranked[self.k - 1], ranked[max(self.dropped(self.epochs), 1) - 1]
        self.lower.copy_(low)
        self.width.copy_(high if self.start == "authors" else high - low)

    def warning(self) -> str | None:
        """Says so when the scalars have left the range of the losses."""
        least, most = self.last_losses.min().item(), self.last_losses.max().item()
        lower, width = self.lower.item(), self.width.item()
        if least - DRIFT <= lower <= most + DRIFT:
            return None
        moves = "hardly moves" if self.k == self.n else "rises, as k is less than n, however the losses are"
        return (
            f"the min-max scalars drift: lambda = {lower:.2f} and lambda-hat = {width:.2f}, while all losses lie in "
            f"{least:.2f}..{most:.2f}; so the upper cut, their sum {lower + width:.2f}, {moves}, and "
            f"{int(self.cut().sum())} samples are cut, where m = {self.m} (solver rank cuts m)"
        )


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
        k, m = (count(amount, setting.n, setting.total) for amount in (self.k, self.m))
        burn_in = enough_epochs(setting) if self.burn_in is None else self.burn_in
        if self.solver == "rank":
            return RankedRangeLoss(setting.n, k, m, burn_in, burn_in if self.ramp is None else self.ramp)
        decays = self.scalar_rate == "decayed"
        return MinMaxLoss(setting.n, k, m, burn_in, self.ramp or 0, self.scalar_start, decays)

    def phase(self, state: RankedRangeLoss, epoch: int) -> Hashable:
        """What the state's fold depends on."""
        return state.phase()


def enough_epochs(setting: Setting) -> int:
    """One epoch, as the authors take, or as many as give the steps it takes to rank by more than chance."""
    return min(ceil(BURN_IN_STEPS / setting.steps), max(1, setting.epochs // 4))
