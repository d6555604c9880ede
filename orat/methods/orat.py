"""Outlier robust adversarial training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from orat.core.errors import InputError
from orat.core.options import option
from orat.core.types import Scalar
from orat.methods.automatic import ExpectedLoss
from orat.methods.base import Scouts, Setting, State, Step
from orat.methods.ranked_range import Ranked


@dataclass(frozen=True)
class ORAT(Ranked):
    """ORAT (Hu et al., 2023): the ranked range of the losses of the attacked inputs; without m, labels are judged."""

    finds_m: ClassVar[bool] = True
    scout_model: str | None = option(
        None, "without m: the scout networks", unset="quick_cnn, or the run's if that is cheaper"
    )
    scout_epochs: int | None = option(
        None,
        "without m: their epochs at most",
        least=1,
        unset="36 or 14, at most 12 % of the arithmetic",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("k", "solver", "burn_in", "ramp") if self.m is None else ():
            if getattr(self, name) != getattr(type(self), name):
                raise InputError(f"{name} = {getattr(self, name)} without m: give m, such as 0.3, or leave {name} out")

    def scouts(self) -> Scouts | None:
        """The scout networks of ORAT (automatic)."""
        return Scouts(self.scout_model, self.scout_epochs) if self.m is None else None

    def start(self, setting: Setting) -> State:
        """The ranks of all losses, or a verdict on all labels."""
        if self.m is not None:
            return super().start(setting)
        assert setting.predictions is not None
        assert setting.labels is not None
        return ExpectedLoss(setting.predictions, setting.labels)

    def loss(self, step: Step) -> Scalar:
        """The ranked range of the losses after the attack, or their mean by the chances of a verdict."""
        state, batch = step.state, step.batch
        logits = step.model(step.adversary(batch.x, state.attacked(batch)))
        state.observe(batch, logits)
        return state(state.losses(logits, batch), batch.id)
