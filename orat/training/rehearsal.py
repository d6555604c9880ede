"""The rehearsal: steps of a user's method or attack and the end of an epoch, on copies, before anything is written."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from orat.core.errors import InputError
from orat.core.random import seeded
from orat.core.registry import as_input_error, name_of
from orat.core.types import Batch
from orat.core.unsaved import attributes, unsaved
from orat.data.loader import as_input, steps_per_epoch
from orat.data.source import Dataset
from orat.methods.base import Decision, State
from orat.models.weights import fit
from orat.training.learner import RunLearner, warm
from orat.training.run import Run

SAMPLES = 16
MEMORY = "self.register_buffer(name, tensor), or a SampleTable for a row per sample"


def rehearse(run: Run, train: Dataset, model: nn.Module, state: State | None) -> None:
    """Refuses code of the user that fails in a step or in the end of an epoch; without a state, only the attack."""
    who = [f"method {run.method_name}"] * run.has_own_method + [f"attack {name_of(run.attack)}"] * bool(run.attack)
    device, what = next(model.parameters()).device, " and ".join(who)
    with seeded(run.seed, device):
        learner = RunLearner(run, deepcopy(model), deepcopy(state or State()).to(device), domain=train.domain)
        learner.rehearses = True
        learner.modules.train()
        batch = first_batch(train, device)
        for number, learner.radius in enumerate(radii(run, len(train))):
            with as_input_error(f"the {('first', 'second')[number]} step with {what}", "correct the code"):
                take_step(learner, batch, state is not None)
        if state is not None and run.has_own_method:
            with as_input_error(f"the end of an epoch with {what}", "correct the code"):
                check_end(run, learner.state, state, len(train))


def radii(run: Run, n: int) -> list[float]:
    """The full radius and that of the first step, which may be small, as shares; once each for an attack alone."""
    both = [1.0, warm(1 / steps_per_epoch(n, run.batch_size), run.attack_warmup)]
    return both if run.has_own_method else sorted(set(both), reverse=True)


def take_step(learner: RunLearner, batch: Batch, has_state: bool) -> None:
    """One step of the method, or its attack alone."""
    if has_state:
        check_loss(learner.run, learner.loss(batch), len(batch.y))
        check_detached(learner.run, learner.state)
    elif learner.attack is not None:
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


def check_detached(run: Run, state: State) -> None:
    """Refuses a state that keeps a tensor with its graph, which grows from step to step."""
    for name, value in (attributes(state) | dict(state.named_buffers())).items():
        if isinstance(value, Tensor) and value.grad_fn is not None:
            raise InputError(
                f"the state of {run.method_name} keeps {name} with the graph of its step: store {name}.detach()"
            )


def check_end(run: Run, state: State, first: State, n: int) -> None:
    """Refuses an end of an epoch without numbers, a decision of another form, and memory that no checkpoint has."""
    numbers: object = state.end_epoch()
    if not isinstance(numbers, dict | None):
        raise InputError(f"end_epoch of {run.method_name} gives {type(numbers).__name__}: return a dict of numbers")
    for name, value in (numbers or {}).items():
        if not isinstance(value, int | float):
            raise InputError(
                f"end_epoch of {run.method_name} gives {type(value).__name__} as {name!r}: return numbers, such as "
                "value.item()"
            )
    check_decision(run, state.decision(), n)
    state.warning()
    check_saved(run, state, first)


def check_decision(run: Run, decision: object, n: int) -> None:
    """Refuses all but None and a decision with an entry per training sample."""
    if decision is None:
        return
    if not isinstance(decision, Decision):
        kind = type(decision).__name__
        raise InputError(f"decision of {run.method_name} gives {kind}: return orat.methods.Decision(keep=mask)")
    for name, value, whole in (("keep", decision.keep, "bool"), ("labels", decision.labels, "int64")):
        form = f"({n},) of {whole}, an entry per training sample"
        if value is not None and (tuple(value.shape) != (n,) or value.dtype != getattr(torch, whole)):
            found = f"{tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
            raise InputError(f"decision of {run.method_name} gives {found} as {name}: give {form}")


def check_saved(run: Run, state: State, first: State) -> None:
    """Refuses a state that is not the same again when its checkpoint is loaded into a new state."""
    again = deepcopy(first)
    fit(again, dict(state.state_dict()), f"the state of {run.method_name} does not load again: make buffers in start")
    before, after = unsaved(again), unsaved(state)
    if lost := [name for name in after if before.get(name) != after[name]]:
        raise InputError(
            f"the state of {run.method_name} changes {lost[0]} in training, which no checkpoint has: use {MEMORY}"
        )
