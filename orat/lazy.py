"""What methods call and name, imported at its first use: `orat --help` must not wait two seconds for torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, functional

    from orat import losses, ranking, relabeling, scouts, state, watching
    from orat.attacks import TrainingAttack
    from orat.state import BurnIn, State
    from orat.types import Batch, Logits, PerSample, Scalar
else:
    MODULES = {
        "functional": "torch.nn.functional", "losses": "orat.losses", "ranking": "orat.ranking",
        "relabeling": "orat.relabeling", "scouts": "orat.scouts", "state": "orat.state", "watching": "orat.watching",
    }  # fmt: skip
    # Types stand in annotations, which are never evaluated.
    TYPES = ("Batch", "BurnIn", "Logits", "Module", "PerSample", "Scalar", "State", "Tensor")

    class OnFirstUse:
        """Stands for a module until one of its names is wanted."""

        def __init__(self, name: str) -> None:
            self.name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(self.name), attribute)

    globals().update({name: OnFirstUse(place) for name, place in MODULES.items()})
    globals().update(dict.fromkeys((*TYPES, "TrainingAttack"), Any))

__all__ = [
    "Batch", "BurnIn", "Logits", "Module", "PerSample", "Scalar", "State", "Tensor", "TrainingAttack", "functional",
    "losses", "ranking", "relabeling", "scouts", "state", "watching",
]  # fmt: skip
