"""The ranked range, the mean of the losses ranked m+1 to k: by sorting, by a memory of all losses, and as min-max."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import ceil
from numbers import Integral
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from orat.core.errors import InputError
from orat.core.losses import cross_entropy
from orat.core.options import option
from orat.core.types import Batch, Indices, Labels, Logits, PerSample, Scalar
from orat.methods.base import Decision, Method, SampleTable, Setting, State, burn_in_option

DRIFT = 1.0  # distance of lambda from the range of the losses at which the user is warned
BURN_IN_STEPS = 300  # before them, a network ranks by chance, and samples cut by chance may never come back


def check_ranks(n: int, k: int, m: int) -> None:
    """Refuses ranks that keep no loss."""
    if not 0 <= m < n:
        raise InputError(f"m = {m} of n = {n}: m largest losses are dropped, so it must lie in 0..{n - 1}")
    if not m < k <= n:
        raise InputError(f"k = {k}, m = {m}, n = {n}: losses ranked m+1 to k are kept, so m < k <= n must hold")


def ranks(n: int, k: int | float, m: int | float) -> tuple[int, int]:
    """k and m as counts of n losses, each given as a fraction (float) or a count (int)."""
    counts = [int(amount) if isinstance(amount, Integral) else count(amount, n) for amount in (k, m)]
    check_ranks(n, *counts)
    return counts[0], counts[1]


def count(amount: int | float, n: int, total: int | None = None) -> int:
    """A rank from a fraction (float) or a count (int) of `total` samples, scaled to n training samples."""
    if not isinstance(amount, Integral):
        if not 0 <= amount <= 1:
            raise InputError(f"{amount} is no fraction of the samples: give one in 0..1, or a whole number as a count")
        return round(amount * n)
    total = total or n
    if not 0 <= amount <= total:
        raise InputError(f"a rank of {amount} among {total} training samples: it must lie in 0..{total}")
    return round(amount * n / total)


def ranked_range(losses: PerSample, k: int | float, m: int | float) -> Scalar:
    """The mean of the losses ranked m+1 to k, largest first: the objective (paper, Eq. 3); floats are fractions."""
    k, m = ranks(len(losses), k, m)
    return losses.sort(descending=True).values[m:k].mean()


def minmax(losses: PerSample, lower: Tensor, width: Tensor, n: int, k: int, m: int) -> Scalar:
    """The objective of Theorem 1, averaged over the losses: minimal in lower (lambda), maximal in width (lambda-hat).

    The optimum is (k - m) / n times the ranked range, at lambda = l_[k] and lambda-hat = l_[m] - l_[k].
    """
    clipped = (width - (losses - lower).relu()).relu()
    return (k - m) / n * lower + (n - m) / n * width - clipped.mean()


class Fold(State):
    """A state that turns the losses of a batch into one number."""

    def attacked(self, batch: Batch) -> Labels:
        """The given labels, whose loss the attack increases."""
        return batch.y

    def losses(self, logits: Logits, batch: Batch) -> PerSample:
        """The losses of the attacked samples: the cross-entropy of the given labels."""
        return cross_entropy(logits, batch.y)

    def observe(self, batch: Batch, logits: Logits) -> None:
        """Takes note of the logits of the attacked batch."""

    def phase(self) -> Hashable:
        """What the fold depends on besides tensors."""
        return None


class RankedRangeLoss(Fold):
    """The ranked range by exact ranks among the last losses of all n samples, without scalars.

    A float k or m is a fraction of the samples, an int a count. The loss is the plain mean until every sample has a
    loss and `burn_in` epochs are over. Then m rises over `ramp` epochs in equal steps, or at once where `ramp` is 0.
    """

    def __init__(self, n: int, k: int | float, m: int | float, burn_in: int = 0, ramp: int = 0) -> None:
        super().__init__()
        for name, epochs in (("burn_in", burn_in), ("ramp", ramp)):
            if epochs < 0:
                raise InputError(f"{name} = {epochs} epochs: give 0 or more")
        self.k, self.m = ranks(n, k, m)
        self.n, self.burn_in, self.ramp = n, burn_in, ramp
        self.epochs = 0
        self.memory = SampleTable(n, loss=torch.tensor(torch.nan))

    @property
    def last_losses(self) -> PerSample:
        """The last loss of every sample, NaN before the first."""
        return self.memory["loss"]

    def forward(self, losses: PerSample, ids: Indices | None = None) -> Scalar:
        """The ranked range estimated on a batch of these sample ids."""
        newest = self.store(losses, ids)
        if self.epochs < self.burn_in:
            return losses.mean()
        m = self.dropped(self.epochs)
        low, high = self.cut_values(m)
        kept = (newest >= low) & (newest <= high)
        complete = ~self.last_losses.isnan().any()
        weights = torch.where(complete, torch.where(kept, self.n / (self.k - m), 0.0), 1.0)
        return (weights.to(losses.dtype) * losses).mean()

    def store(self, losses: PerSample, ids: Indices | None) -> PerSample:
        """Writes the newest losses into the memory and returns them in its precision."""
        if ids is None:
            if len(losses) != self.n:
                raise InputError(f"{len(losses)} losses of n = {self.n} without ids: give the ids of the samples")
            ids = torch.arange(self.n, device=losses.device)
        newest = losses.detach().to(self.last_losses.dtype)
        self.memory.put(ids, loss=newest)
        return newest

    def phase(self) -> Hashable:
        """The plain mean or not, and the number of dropped losses."""
        return self.epochs < self.burn_in, self.dropped(self.epochs)

    def dropped(self, epochs: int) -> int:
        """The number of dropped losses in the epoch after this many."""
        return round(self.m * min(1.0, max(0, epochs - self.burn_in + 1) / (self.ramp + 1)))

    def cut_values(self, m: int) -> tuple[Tensor, Tensor]:
        """The smallest and the largest kept loss, l_[k] and l_[m+1] of the whole data set."""
        ranked = self.last_losses.sort(descending=True).values
        return ranked[self.k - 1], ranked[m]

    def removed(self) -> Tensor:
        """The samples dropped as outliers by their last losses, (n,) bool."""
        if self.epochs <= self.burn_in:
            return torch.zeros_like(self.last_losses, dtype=torch.bool)
        return self.beyond()

    def beyond(self) -> Tensor:
        """The samples above the upper cut."""
        return self.last_losses > self.cut_values(self.dropped(self.epochs - 1))[1]

    def decision(self) -> Decision:
        """Removes the largest losses."""
        return Decision(keep=~self.removed())

    def describe(self) -> str:
        """The ranks and the first epoch with a cut."""
        whole = f", all of m in epoch {self.burn_in + self.ramp + 1}" if self.ramp else ""
        return f"k = {self.k}, m = {self.m} of n = {self.n}, first cut in epoch {self.burn_in + 1}{whole}"

    def end_epoch(self) -> dict[str, float]:
        """Counts the epoch and returns the cuts."""
        self.epochs += 1
        low, high = self.cut_values(self.dropped(self.epochs - 1))
        return {"lower_cut": low.item(), "upper_cut": high.item(), "cut": int(self.removed().sum())}

    def get_extra_state(self) -> dict[str, int]:
        """The epoch count, for the checkpoint."""
        return {"epochs": self.epochs}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Restores the epoch count."""
        self.epochs = state["epochs"]


class MinMaxLoss(RankedRangeLoss):
    """The ranked range by the paper's Algorithm 1: SGD moves two scalars as quantile trackers.

    It is the plain mean for `burn_in` epochs, at least one. Then the scalars start at l_[k] and l_[m] - l_[k].
    """

    def __init__(self, n: int, k: int | float, m: int | float, burn_in: int = 1, ramp: int = 0) -> None:
        super().__init__(n, k, m, max(burn_in, 1), ramp)
        self.lower = nn.Parameter(torch.tensor(0.0))  # lambda
        self.width = nn.Parameter(torch.tensor(0.0))  # lambda-hat

    def forward(self, losses: PerSample, ids: Indices | None = None) -> Scalar:
        """A batch's share of Theorem 1's objective; the scalars need `param_groups` in the optimizer."""
        self.store(losses, ids)
        whole = self.k == self.n and self.m == 0
        if whole or self.epochs < self.burn_in:
            return losses.mean()
        return minmax(losses, self.lower, self.width, self.n, self.k, self.dropped(self.epochs))

    def param_groups(self, lr: float) -> list[dict[str, Any]]:
        """Descent on lambda and ascent on lambda-hat, without momentum or weight decay."""
        plain = {"lr": lr, "momentum": 0.0, "weight_decay": 0.0, "decays": True}
        return [{"params": [self.lower], **plain}, {"params": [self.width], "maximize": True, **plain}]

    def beyond(self) -> Tensor:
        """The samples at or above lambda + lambda-hat."""
        return self.last_losses >= (self.lower + self.width).detach()

    def end_epoch(self) -> dict[str, float]:
        """Starts the scalars when the burn-in ends, and returns them."""
        record = super().end_epoch()
        if self.epochs == self.burn_in:
            self.start_scalars()
        return record | {"lambda": self.lower.item(), "lambda_hat": self.width.item()}

    @torch.no_grad()
    def start_scalars(self) -> None:
        """Sets lambda and lambda-hat from the last losses."""
        ranked = self.last_losses.sort(descending=True).values
        low, high = ranked[self.k - 1], ranked[max(self.dropped(self.epochs), 1) - 1]
        self.lower.copy_(low)
        self.width.copy_(high - low)

    def warning(self) -> str | None:
        """Warns of scalars outside of the range of the losses."""
        least, most = self.last_losses.min().item(), self.last_losses.max().item()
        lower, width = self.lower.item(), self.width.item()
        if least - DRIFT <= lower <= most + DRIFT:
            return None
        moves = "hardly moves" if self.k == self.n else "rises, as k is less than n, however the losses are"
        return (
            f"the min-max scalars drift: lambda = {lower:.2f} and lambda-hat = {width:.2f}, while all losses lie in "
            f"{least:.2f}..{most:.2f}; so the upper cut, their sum {lower + width:.2f}, {moves}, and "
            f"{int(self.removed().sum())} samples are removed, where m = {self.m} (solver rank removes m)"
        )


class MeasuredMinMaxLoss(MinMaxLoss):
    """The min-max with scalars from the losses of one network: the epoch after the burn-in learns nothing.

    During the burn-in, losses fall from log(classes). Scalars from losses of all its steps start too low, and the cut
    may remove whole classes.
    """

    def __init__(self, n: int, k: int, m: int, burn_in: int = 1, ramp: int = 0) -> None:
        super().__init__(n, k, m, max(burn_in, 1) + 1, ramp)

    def learns(self) -> bool:
        """All epochs but the last of the plain mean."""
        return self.epochs != self.burn_in - 1


@dataclass(frozen=True)
class Ranked(Method):
    """A method that folds its losses by their ranks m+1 to k among all training samples."""

    finds_m: ClassVar[bool] = False  # whether m may be left out

    m: int | float | None = option(None, "how many of the largest losses to drop: a count, or a fraction of all")
    k: int | float = option(1.0, "rank of the smallest loss to keep: a count of the training set, or a fraction")
    solver: Literal["rank", "minmax", "minmax-measured"] = option(
        "rank",
        "exact ranks by memory; the paper's two scalars; or these, started from losses measured after the burn-in",
    )
    burn_in: int | None = burn_in_option("1, or more where epochs are short")
    ramp: int | None = option(
        None, "epochs over which m comes in after the burn-in", least=0, unset="as many as the burn-in; 0 by scalars"
    )

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
        scalars = MinMaxLoss if self.solver == "minmax" else MeasuredMinMaxLoss
        return scalars(setting.n, k, m, burn_in, self.ramp or 0)

    def phase(self, state: Fold, epoch: int) -> Hashable:
        """The phase of the fold."""
        return state.phase()


def enough_epochs(setting: Setting) -> int:
    """One epoch, as the authors take, or more where epochs are short: before, ranks are chance."""
    return min(ceil(BURN_IN_STEPS / setting.steps), max(1, setting.epochs // 4))
