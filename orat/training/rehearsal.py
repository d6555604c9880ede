"""The rehearsal: one step of a user's method or attack, on copies, before anything is written."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from orat.core.errors import InputError
from orat.core.random import seeded
from orat.core.registry import as_input_error
from orat.core.types import Batch
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.methods.base import State
from orat.training.learner import RunLearner
from orat.training.record import name_of
from orat.training.run import Run

SAMPLES = 16


def rehearse(run: Run, train: Dataset, model: nn.Module, state: State | None) -> None:
    """Refuses code of the user that fails in its first step; without a state, only the attack is called."""
    if run.attack is None and not run.has_own_method:
        return
    who = [f"method {run.method_name}"] * run.has_own_method + [f"attack {name_of(run.attack)}"] * bool(run.attack)
    device = next(model.parameters()).device
    with as_input_error(f"the first step with {' and '.join(who)}", "correct the code"), seeded(run.seed, device):
        learner = RunLearner(run, deepcopy(model), deepcopy(state or State()), domain=train.domain)
        learner.rehearses = True
        learner.modules.train()
        batch = first_batch(train, device)
        if state is not None:
            check_loss(run, learner.loss(batch), len(batch.y))
        elif run.attack is not None:
            learner.adversary(learner.form.at(usual=False))(batch.x, batch.y)


def first_batch(train: Dataset, device: torch.device) -> Batch:
    """The first samples."""
    ids = torch.arange(min(SAMPLES, len(train)))
    x = as_input(train.__getitems__(ids.tolist()).to(device))
    return Batch(x, train.labels[ids].to(device), ids.to(device))


def check_loss(run: Run, loss: object, n: int) -> None:
    """Refuses a loss that is no single, finite number with a gradient."""
    if not isinstance(loss, Tensor):
        found, remedy = type(loss).__name__, "return one number to minimize"
    elif loss.shape != ():
        found, remedy = f"{tuple(loss.shape)} for {n} samples", "return one number, such as its mean()"
    elif not loss.requires_grad:
        found, remedy = "a number without a gradient", "compute it from step.model(...)"
    elif not loss.isfinite():
        found, remedy = f"{loss.item():g} for {n} samples", "look for divisions by 0 and logarithms of 0"
    else:
        loss.backward()
        return
    raise InputError(f"the loss of {run.method_name} gives {found}: {remedy}")
