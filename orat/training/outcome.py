"""What a training leaves besides weights and accuracies: removed and relabeled samples, tensors, and its origin."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from orat.core.device import hardware, versions
from orat.data.source import Dataset
from orat.methods.base import Decision, State
from orat.noise.truth import found_corrections, found_removed
from orat.training.engine import Execution
from orat.training.learner import RunLearner
from orat.training.run import Run
from orat.training.setup import Parts


def radius_of(run: Run, train: Dataset) -> dict[str, Any]:
    """The radius and the norm of the attacks, and the unit of the radius for features."""
    unit = {"unit": train.domain.unit.strip()} if train.domain.unit else {}
    return {"eps": run.eps, "norm": run.norm, **unit}


def quality(decision: Decision, train: Dataset) -> dict[str, Any]:
    """How many samples were removed and relabeled, and how rightly where the true labels are known."""
    keep, labels = decision.keep, decision.labels
    return {
        "outliers": None if keep is None else found_removed(decision.flagged(train.labels), train.wrong),
        "corrections": None if labels is None else found_corrections(labels, train.labels, train.truth),
    }


def state_tensors(state: State, parts: Parts) -> dict[str, Tensor]:
    """The method's tensors, its decision for every training sample, and the samples' positions in the data set."""
    decision, given = state.decision(), parts.train.labels
    tensors = state.tensors() | {"id": parts.ids}
    if decision is not None:
        keep = torch.ones(len(given), dtype=torch.bool) if decision.keep is None else decision.keep
        tensors |= {"keep": keep, "labels": given if decision.labels is None else decision.labels}
    return tensors


def made_with(execution: Execution, learner: RunLearner) -> dict[str, str]:
    """The versions and the hardware behind a result, and how steps were executed."""
    return versions() | {
        "device": f"{learner.device.type} {hardware(learner.device)['device']}",
        "engine": execution.name if execution.form == learner.form.form else "recorded",
        "attacks_in": str(learner.form.attack_type).removeprefix("torch."),
    }
