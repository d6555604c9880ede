"""Train classifiers that withstand wrong labels and attacked inputs.

Public names are imported at their first use, so that `import orat` and `orat --help` do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orat.attacks import PGD, Attack, AutoAttack, Threat
    from orat.core.errors import InputError, TrainingError
    from orat.core.types import Batch
    from orat.curation.find import find_label_issues
    from orat.curation.fix import fix_labels
    from orat.data.catalog import load as load_data
    from orat.data.source import Source
    from orat.evaluation import evaluate
    from orat.methods.base import Method, State, Step
    from orat.methods.ranked_range import MinMaxLoss, RankedRangeLoss, ranked_range
    from orat.noise.judge import Verdict, judge
    from orat.sweeps.search import search
    from orat.training.load import load_model
    from orat.training.predict import predict
    from orat.training.run import Run
    from orat.training.train import train

__version__ = "0.1.0"

PLACES = {
    "Attack": "orat.attacks", "AutoAttack": "orat.attacks", "Batch": "orat.core.types",
    "InputError": "orat.core.errors", "Method": "orat.methods.base", "MinMaxLoss": "orat.methods.ranked_range",
    "PGD": "orat.attacks", "RankedRangeLoss": "orat.methods.ranked_range", "Run": "orat.training.run",
    "Source": "orat.data.source", "State": "orat.methods.base", "Step": "orat.methods.base", "Threat": "orat.attacks",
    "TrainingError": "orat.core.errors", "Verdict": "orat.noise.judge", "evaluate": "orat.evaluation",
    "find_label_issues": "orat.curation.find", "fix_labels": "orat.curation.fix", "judge": "orat.noise.judge",
    "load_data": "orat.data.catalog:load", "load_model": "orat.training.load", "predict": "orat.training.predict",
    "ranked_range": "orat.methods.ranked_range", "search": "orat.sweeps.search", "train": "orat.training.train",
}  # fmt: skip
ROOMS = ("attacks", "curation", "data", "evaluation", "methods", "noise", "sweeps", "training")
REMOVED = {  # names of earlier versions, and their new places
    **{name: f"orat.attacks.{name}" for name in ("APGD", "FAB", "CarliniWagner", "Square", "suite")},
    **{
        name: f"orat.methods.{name}"
        for name in ("AT", "GAIRAT", "MAIL", "MART", "ORAT", "RAA", "ST", "TRADES", "WMMR", "AoRR")
    },
    "Dataset": "orat.data.Dataset",
    "Plan": "orat.evaluation.Plan",
    "clean": "orat.fix_labels",
    "correct": "orat.evaluation.correct",
    "examine": "orat.evaluation.examine",
    "suspects": "orat.find_label_issues",
    "train_many": "orat.sweeps.train_many",
}

__all__ = [
    "PGD", "Attack", "AutoAttack", "Batch", "InputError", "Method", "MinMaxLoss", "RankedRangeLoss", "Run", "Source",
    "State", "Step", "Threat", "TrainingError", "Verdict", "evaluate", "find_label_issues", "fix_labels", "judge",
    "load_data", "load_model", "predict", "ranked_range", "search", "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports a public name from its module; a removed name is answered with its new place."""
    if name in ROOMS:
        return import_module(f"orat.{name}")
    if name in REMOVED:
        raise AttributeError(f"orat.{name} was removed: use {REMOVED[name]}")
    if name not in PLACES:
        raise AttributeError(f"module 'orat' has no attribute {name!r}")
    module, _, attribute = PLACES[name].partition(":")
    return getattr(import_module(module), attribute or name)


def __dir__() -> list[str]:
    """The public names, for completion."""
    return [*__all__, *ROOMS]
