"""Cross-fitting: predictions of every sample by scout networks that were not trained on it."""

from __future__ import annotations

from collections.abc import Generator

import torch
from torch import Tensor

from orat.core.console import SILENT, Display
from orat.core.device import choose_device
from orat.training.engine import Eager, Engine, execution, possible
from orat.training.events import Event
from orat.training.graph import Graph
from orat.training.loop import Sitting, fit, result_of
from orat.training.observers import Lines
from orat.training.plan import FOLDS, Plan, check_folds, plan_alone
from orat.training.run import Run
from orat.training.run_folder import Folder
from orat.training.scouts import scout_learner, scout_loader
from orat.training.setup import Parts


def cross_fit(
    run: Run,
    parts: Parts,
    folds: int = FOLDS,
    epochs: int | None = None,
    model: str | None = None,
    device: str = "auto",
    display: Display = SILENT,
    folder: Folder | None = None,
) -> Tensor:
    """Cross-fitted log-probabilities (sets, n, classes) of a run's training part, by a scout network a fold.

    With a folder, training goes on from the last checkpoint in it, and finished predictions are read from it.
    """
    check_folds(folds, epochs, len(parts.train))
    where = choose_device(device)
    plan = plan_alone(run, parts, folds, epochs, model)
    if folder is None:
        return in_memory(run, parts, plan, where, display)
    return result_of(in_folder(Sitting(run, folder, parts, where, display, "auto"), plan))


def in_memory(run: Run, parts: Parts, plan: Plan, device: torch.device, display: Display) -> Tensor:
    """The predictions of scout networks that leave no files."""
    batches = scout_loader(run, parts, plan, device)
    how = possible(execution("auto", device, batches.steps * plan.epochs), batches, display)
    learner = scout_learner(run, parts, plan, how.form, device)
    lines = Lines(display, plan.epochs, f"cross-fitting, {plan.folds} networks, epoch")
    engine: Engine = Graph(learner, display) if how.recorded else Eager()
    for event in fit(learner, batches, engine):
        lines(event)
    return learner.predictions().cpu()


def in_folder(sitting: Sitting, plan: Plan) -> Generator[Event, None, Tensor]:
    """The predictions of a folder, or of scout networks that go on from its checkpoint."""
    folder = sitting.folder
    if folder.has_tensors("predictions") and not folder.can_resume():
        return folder.load_tensors("predictions")["log_probs"]
    predictions = yield from sitting.cross_fit(plan, sitting.load(), is_alone=True)
    folder.remove_resume()
    return predictions.cpu()
