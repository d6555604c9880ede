"""Outlier robust adversarial training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch.nn import Module

from orat.attacks.adversary import Adversary
from orat.core import losses
from orat.core.errors import InputError
from orat.core.options import option
from orat.core.types import Batch, Scalar
from orat.methods import automatic as watching
from orat.methods import ranked_range as ranking
from orat.methods.base import Setting, State
from orat.methods.ranked_range import Ranked, enough_epochs
from orat.training.scouting import scouting_for


@dataclass(frozen=True)
class ORAT(Ranked):
    """ORAT (Hu et al., 2023): the ranked range of the losses of the attacked images; without m, labels are judged."""

    finds_m: ClassVar[bool] = True
    score: Literal["auto", "last", "adversarial", "natural", "scout", "both"] = option(
        "auto", "what ranks: the last loss, or averaged answers; auto is last where m is given, else both"
    )
    measure: Literal["chance", "loss", "margin"] = option("chance", "of averaged answers, what ranks and is cut by")
    memory: float = option(0.7, "weight of former epochs in the average of answers", least=0, most=0.99)
    confidence: float = option(0.9, "chance to learn a cut sample as the class seen; 1: never", least=0.5, most=1)
    scout_model: str | None = option(None, "network of the scouts", unset="quick_cnn, or the run's if it is cheaper")
    scout_epochs: int | None = option(None, "epochs that scouts learn", least=1, unset="36 or 14, in 7 % of the work")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.looks != "last" and (self.k != 1.0 or self.solver != "rank"):
            raise InputError(f"k = {self.k}, solver = {self.solver}: score {self.looks} keeps small losses, by rank")
        if self.looks == "last" and self.m is None:
            raise InputError("m is not given, which score last needs: say --m 0.3, or leave --score out")

    @property
    def looks(self) -> str:
        """The score where nothing is said."""
        return ("both" if self.m is None else "last") if self.score == "auto" else self.score

    def start(self, setting: Setting) -> State:
        """Ranks of last losses, or a watch on all labels."""
        if self.looks == "last":
            return super().start(setting)
        scouting = scouting_for(setting, self.looks, self.scout_model, self.scout_epochs)
        blind = 1 if scouting else enough_epochs(setting)
        m = None if self.m is None else ranking.count(self.m, setting.n, setting.total)
        sure = self.confidence if scouting and m is None else 1.0
        rule = watching.Rule(self.measure, self.memory, blind if self.burn_in is None else self.burn_in, m, sure)
        return watching.Watch(setting.n, setting.classes, self.looks, rule, scouting)

    def loss(self, model: Module, batch: Batch, attack: Adversary, state: State, epoch: int) -> Scalar:
        """The ranked range after the attack; before the first epoch, what scouts learn."""
        if epoch < 1:
            return state.scout(batch)
        learned = state.relabeled(batch)
        logits = model(attack(learned.x, learned.y))
        state.watch(model, batch, attack, logits)
        return state(losses.cross_entropy(logits, learned.y), batch.index)
