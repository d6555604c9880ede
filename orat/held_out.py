"""What networks say of training samples that they did not learn: each of k judges the part that the others learn."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from orat.data.batches import steps_per_epoch
from orat.devices import choose_device, on_device
from orat.errors import InputError
from orat.evaluation import logits_of
from orat.methods import ORAT, ST
from orat.prepare import Parts, another
from orat.progress import SILENT, Display
from orat.run import Run
from orat.state import State
from orat.training import Learner, end_epoch, train_epoch

MOST_EPOCHS = 10  # where nothing is said: enough to know the classes by, and too few to learn wrong labels by heart


def check_folds(folds: int, epochs: int | None, n: int | None = None) -> None:
    """Refuses numbers of parts and epochs that judge nothing."""
    if folds < 2 or (n is not None and folds > n):
        raise InputError(f"folds = {folds}: give 2 or more, and no more than there are samples")
    if epochs is not None and epochs < 1:
        raise InputError(f"epochs = {epochs}: give 1 or more")


def held_out_answers(
    run: Run, parts: Parts, folds: int = 2, epochs: int | None = None, device: str = "auto", display: Display = SILENT
) -> Tensor:
    """Logarithms of probabilities (n, classes), averaged over epochs of standard training of the run's network."""
    n = len(parts.train)
    check_folds(folds, epochs, n)
    epochs = min(MOST_EPOCHS, run.epochs) if epochs is None else epochs
    plain = replace(run, method=ST(), epochs=epochs, warmup=min(run.warmup, epochs / 2))
    part = torch.randperm(n, generator=torch.Generator().manual_seed(run.seed)) % folds
    answers = torch.zeros(n, len(parts.train.classes))
    for fold in range(folds):
        asked = (part == fold).nonzero().squeeze(1)
        answers[asked] = answers_of(plain, parts, fold, asked, choose_device(device), display)
        display.line(f"part {fold + 1}/{folds}: {n - len(asked):,} samples learned, {len(asked):,} others judged")
    return answers


def answers_of(
    run: Run, parts: Parts, fold: int, asked: Tensor, device: torch.device, display: Display = SILENT
) -> Tensor:
    """What a network of its own, trained on all other samples, says of the asked ones, averaged over its epochs."""
    learned = torch.ones(len(parts.train), dtype=torch.bool).index_fill(0, asked, False).nonzero().squeeze(1)
    data, others = on_device(parts.train.take(learned), device), parts.train.take(asked)
    learner = Learner(run, another(run, parts, fold).to(device), State())
    average = torch.zeros(len(asked), len(others.classes))
    for epoch in range(1, run.epochs + 1):
        label = f"part {fold + 1}, epoch {epoch}/{run.epochs}"
        for _ in display.track(train_epoch(learner, data), label, steps_per_epoch(len(data), run.batch_size)):
            pass
        end_epoch(learner)
        newest = logits_of(learner.model, others).float().log_softmax(1).cpu()
        average = newest if epoch == 1 else torch.lerp(average, newest, 1 - ORAT.memory)
    return average
