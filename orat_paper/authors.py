"""Algorithm 1 as in the authors' code: another start of lambda-hat, and a constant rate of both scalars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from orat.methods import ORAT, AoRR
from orat.methods.base import Setting, State
from orat.methods.ranked_range import MinMaxLoss


class AuthorsMinMaxLoss(MinMaxLoss):
    """The min-max with lambda-hat started at l_[m] instead of l_[m] - l_[k], at a rate that never drops."""

    @torch.no_grad()
    def start_scalars(self) -> None:
        """Sets lambda to l_[k] and lambda-hat to l_[m] of the last losses."""
        ranked = self.last_losses.sort(descending=True).values
        self.lower.copy_(ranked[self.k - 1])
        self.width.copy_(ranked[max(self.dropped(self.epochs), 1) - 1])

    def param_groups(self, lr: float) -> list[dict[str, Any]]:
        """The groups of both scalars, outside of the learning-rate schedule."""
        return [group | {"decays": False} for group in super().param_groups(lr)]


def as_authors(state: State) -> AuthorsMinMaxLoss:
    """The authors' state in place of ours."""
    assert isinstance(state, MinMaxLoss), "the authors' scalars need solver minmax"
    return AuthorsMinMaxLoss(state.n, state.k, state.m, state.burn_in, state.ramp)


@dataclass(frozen=True)
class AuthorsORAT(ORAT):
    """ORAT with the authors' scalars; takes `solver="minmax"`."""

    def start(self, setting: Setting) -> State:
        """The authors' min-max."""
        return as_authors(super().start(setting))


@dataclass(frozen=True)
class AuthorsAoRR(AoRR):
    """AoRR with the authors' scalars; takes `solver="minmax"`."""

    def start(self, setting: Setting) -> State:
        """The authors' min-max."""
        return as_authors(super().start(setting))
