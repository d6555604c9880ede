"""Training of classifiers that stay right when training labels are wrong and inputs are attacked.

Everything here is imported at its first use, so that `import orat` and `orat --help` do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orat.attacks import APGD, FAB, PGD, Attack, AutoAttack, CarliniWagner, Square, Threat, suite
    from orat.core.errors import InputError, TrainingError
    from orat.curation.find import suspects
    from orat.curation.fix import clean
    from orat.data.catalog import load as load_data
    from orat.data.source import Dataset
    from orat.evaluation import Plan, correct, evaluate, examine
    from orat.methods import AT, GAIRAT, MAIL, MART, ORAT, RAA, ST, TRADES, WMMR, AoRR
    from orat.methods.ranked_range import MinMaxLoss, RankedRangeLoss, ranked_range
    from orat.sweeps.parallel import train_many
    from orat.sweeps.search import search
    from orat.training.load import load_model
    from orat.training.run import Run
    from orat.training.train import train

__version__ = "0.1.0"

PLACES = {
    "APGD": "orat.attacks",
    "AT": "orat.methods",
    "AoRR": "orat.methods",
    "Attack": "orat.attacks",
    "AutoAttack": "orat.attacks",
    "CarliniWagner": "orat.attacks",
    "Dataset": "orat.data.source",
    "FAB": "orat.attacks",
    "GAIRAT": "orat.methods",
    "InputError": "orat.core.errors",
    "MAIL": "orat.methods",
    "MART": "orat.methods",
    "MinMaxLoss": "orat.methods.ranked_range",
    "ORAT": "orat.methods",
    "PGD": "orat.attacks",
    "Plan": "orat.evaluation",
    "RAA": "orat.methods",
    "RankedRangeLoss": "orat.methods.ranked_range",
    "Run": "orat.training.run",
    "ST": "orat.methods",
    "Square": "orat.attacks",
    "TRADES": "orat.methods",
    "Threat": "orat.attacks",
    "TrainingError": "orat.core.errors",
    "WMMR": "orat.methods",
    "clean": "orat.curation.fix",
    "correct": "orat.evaluation",
    "evaluate": "orat.evaluation",
    "examine": "orat.evaluation",
    "load_data": "orat.data.catalog:load",
    "load_model": "orat.training.load",
    "ranked_range": "orat.methods.ranked_range",
    "search": "orat.sweeps.search",
    "suite": "orat.attacks",
    "suspects": "orat.curation.find",
    "train": "orat.training.train",
    "train_many": "orat.sweeps.parallel",
}

__all__ = [
    "APGD", "AT", "FAB", "GAIRAT", "MAIL", "MART", "ORAT", "PGD", "RAA", "ST", "TRADES", "WMMR", "AoRR", "Attack",
    "AutoAttack", "CarliniWagner", "Dataset", "InputError", "MinMaxLoss", "Plan", "RankedRangeLoss", "Run", "Square",
    "Threat", "TrainingError", "clean", "correct", "evaluate", "examine", "load_data", "load_model", "ranked_range",
    "search", "suite", "suspects", "train", "train_many",
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
