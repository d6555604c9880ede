"""The tensors of runs of today's trainings under the new names; goes with the merge."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from orat.methods.automatic import cut_in
from orat.methods.ranked_range import RankedRangeLoss
from orat.noise.judge import score_of
from orat.training.load import finished_run
from orat.training.setup import Parts, setting_of


def translated(tensors: dict[str, Tensor], folder: Path, parts: Parts) -> dict[str, Tensor]:
    """The same tensors under the new names."""
    if "id" in tensors or "index" not in tensors:
        return tensors
    tensors = tensors | {"id": tensors["index"]}
    if "answers" in tensors:
        return tensors | automatic(tensors)
    if "used" in tensors:
        return tensors | {"labels": tensors["used"]}
    run = finished_run(folder)
    state = run.method.start(setting_of(run, parts))
    if isinstance(state, RankedRangeLoss):
        state.load_state_dict(tensors, strict=False)
        state.set_extra_state({"epochs": run.epochs})
        tensors |= {"keep": ~state.cut()}
    return tensors


def automatic(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The decision and the verdict of automatic ORAT."""
    cut_in(tensors)
    names = {"wrong": "p_wrong", "looks_like": "predicted", "sure": "confidence", "matrix": "noise_matrix"}
    names |= {"rate": "noise_rate", "error": "error", "known": "reliability"}
    new = {f"verdict_{name}": tensors[old] for old, name in names.items()}
    new = {name: value.double() if value.is_floating_point() else value for name, value in new.items()}
    log_probs, given = tensors["answers"].double().log_softmax(1), tensors["given"]
    new |= {"verdict_score": score_of(new["verdict_p_wrong"], log_probs, given), "log_probs": log_probs}
    new |= {"keep": tensors["weights"] != 0, "memory.times_cut": tensors["times_cut"]}
    new |= {"memory.own": tensors["own_answers"]} if "own_answers" in tensors else {}
    return new | {"labels": torch.where(tensors["restored"], tensors["looks_like"], given)}
