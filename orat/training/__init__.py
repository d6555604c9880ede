"""Runs to run folders: one loop for every method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orat.core.registry import imported

if TYPE_CHECKING:
    from orat.training.events import EpochDone, StepDone
    from orat.training.load import finished_run, load_model
    from orat.training.loop import fit
    from orat.training.observers import Observer
    from orat.training.run import Run
    from orat.training.run_folder import RunFolder, default_folder

PLACES = {
    "EpochDone": "orat.training.events:EpochDone", "Observer": "orat.training.observers:Observer",
    "Run": "orat.training.run:Run", "RunFolder": "orat.training.run_folder:RunFolder",
    "StepDone": "orat.training.events:StepDone", "default_folder": "orat.training.run_folder:default_folder",
    "finished_run": "orat.training.load:finished_run", "fit": "orat.training.loop:fit",
    "load_model": "orat.training.load:load_model",
}  # fmt: skip

__all__ = [
    "EpochDone", "Observer", "Run", "RunFolder", "StepDone", "default_folder", "finished_run", "fit", "load_model",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports a public name from its module."""
    return imported(__name__, PLACES, name)
