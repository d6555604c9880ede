"""What networks say of training samples that they did not learn: each of k judges the part that the others learn."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from orat.core.console import SILENT, Display
from orat.core.device import choose_device
from orat.core.errors import InputError
from orat.data.loader import on_device, steps_per_epoch
from orat.methods import ORAT
from orat.methods.automatic import Rule, Watch
from orat.training.engine import engine_for
from orat.training.learner import Learner, end_epoch, train_epoch
from orat.training.run import Run
from orat.training.scouting import unhurried
from orat.training.setup import Parts, build_model, scouts, setting_of

FOLDS, MOST_FOLDS = 5, 20  # networks that learn side by side
MOST_EPOCHS = 100  # where nothing is said: of few samples, more are no help


def check_folds(folds: int, epochs: int | None, n: int | None = None) -> None:
    """Refuses numbers of parts and epochs that judge nothing."""
    if not 2 <= folds <= MOST_FOLDS or (n is not None and folds > n):
        raise InputError(f"folds = {folds}: give 2 to {MOST_FOLDS}, and no more than there are samples")
    if epochs is not None and epochs < 1:
        raise InputError(f"epochs = {epochs}: give 1 or more")


def held_out_answers(
    run: Run,
    parts: Parts,
    folds: int = FOLDS,
    epochs: int | None = None,
    device: str = "auto",
    display: Display = SILENT,
) -> Tensor:
    """Logarithms of probabilities (n, classes), averaged over the epochs of scouts that learn all but one of the parts.

    They learn as those of automatic ORAT do, for as many epochs as help: what looks wrong meanwhile, none goes on with.
    """
    n, where = len(parts.train), choose_device(device)
    check_folds(folds, epochs, n)
    run = replace(run, method=ORAT(score="scout"))
    scouting = replace(unhurried(setting_of(run, parts), scouts(run, parts)), parts=folds)
    scouting = replace(scouting, epochs=epochs or min(scouting.epochs, MOST_EPOCHS))
    state = Watch(n, len(parts.train.classes), "scout", Rule("chance", ORAT.memory, burn_in=1), scouting)
    learner = Learner(run, build_model(run, parts.train).to(where), state.to(where))
    data, steps = on_device(parts.train, where), steps_per_epoch(n, scouting.batch_size)
    engine = engine_for(learner, data, display, steps=steps * scouting.epochs)
    while learner.epoch < 1:
        label = f"{folds} networks, epoch {learner.epoch + scouting.epochs}/{scouting.epochs}"
        for _ in display.track(train_epoch(learner, data, engine), label, steps):
            pass
        end_epoch(learner)
    display.line(f"{n:,} samples judged by {folds} networks, each of which learned {n - n // folds:,} others")
    return state.answers.cpu()
