"""Training of classifiers that stay right when training labels are wrong and inputs are attacked.

Everything here is imported at its first use, so that `import orat` and `orat --help` do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orat.attacks import APGD, FAB, PGD, AutoAttack, CarliniWagner, Square, suite
    from orat.cleaning import clean
    from orat.data import load as load_data
    from orat.data.dataset import Dataset
    from orat.errors import InputError, TrainingError
    from orat.evaluation import correct, evaluate
    from orat.examination import Plan, examine
    from orat.execute import train
    from orat.finished import load_model
    from orat.many import train_many
    from orat.methods import AT, GAIRAT, MAIL, MART, ORAT, RAA, ST, TRADES, WMMR, AoRR
    from orat.ranking import MinMaxLoss, RankedRangeLoss, ranked_range
    from orat.run import Run
    from orat.searching import search
    from orat.suspecting import suspects

__version__ = "0.1.0"

PLACES = {
    "APGD": "orat.attacks",
    "AT": "orat.methods",
    "AoRR": "orat.methods",
    "AutoAttack": "orat.attacks",
    "CarliniWagner": "orat.attacks",
    "Dataset": "orat.data.dataset",
    "FAB": "orat.attacks",
    "GAIRAT": "orat.methods",
    "InputError": "orat.errors",
    "MAIL": "orat.methods",
    "MART": "orat.methods",
    "MinMaxLoss": "orat.ranking",
    "ORAT": "orat.methods",
    "PGD": "orat.attacks",
    "Plan": "orat.examination",
    "RAA": "orat.methods",
    "RankedRangeLoss": "orat.ranking",
    "Run": "orat.run",
    "ST": "orat.methods",
    "Square": "orat.attacks",
    "TRADES": "orat.methods",
    "TrainingError": "orat.errors",
    "WMMR": "orat.methods",
    "clean": "orat.cleaning",
    "correct": "orat.evaluation",
    "evaluate": "orat.evaluation",
    "examine": "orat.examination",
    "load_data": "orat.data:load",
    "load_model": "orat.finished",
    "ranked_range": "orat.ranking",
    "search": "orat.searching",
    "suite": "orat.attacks",
    "suspects": "orat.suspecting",
    "train": "orat.execute",
    "train_many": "orat.many",
}

__all__ = [
    "APGD", "AT", "FAB", "GAIRAT", "MAIL", "MART", "ORAT", "PGD", "RAA", "ST", "TRADES", "WMMR", "AoRR", "AutoAttack",
    "CarliniWagner", "Dataset", "InputError", "MinMaxLoss", "Plan", "RankedRangeLoss", "Run", "Square",
    "TrainingError", "clean", "correct", "evaluate", "examine", "load_data", "load_model", "ranked_range", "search",
    "suite", "suspects", "train", "train_many",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Finds a public name in its module."""
    if name not in PLACES:
        raise AttributeError(f"module 'orat' has no attribute {name!r}")
    module, _, attribute = PLACES[name].partition(":")
    return getattr(import_module(module), attribute or name)


def __dir__() -> list[str]:
    """The public names, for completion."""
    return __all__
