"""Training sets without outliers: what a finished run leaves out, and how rightly samples were cut."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orat.core.errors import InputError
from orat.core.losses import cross_entropy
from orat.data.source import Dataset
from orat.evaluation.accuracy import logits_of
from orat.methods import ranked_range as ranking
from orat.methods.automatic import cut_in
from orat.methods.ranked_range import Ranked
from orat.training.load import finished_run, load_model
from orat.training.run import Run
from orat.training.run_folder import RunFolder, difference

DECIDE_LABELS = ("data", "image_size", "labels", "noise", "noise_rate", "noise_seed")  # fields of a run


@dataclass(frozen=True)
class Filter:
    """A finished run, which finds the m largest of its natural losses on its data, or had cut what it judged wrong."""

    folder: Path
    m: int | float | None

    def outliers(self, train: Dataset, device: str) -> Tensor:
        """Which samples of the whole training set, before anything is held out, have the m largest losses."""
        self.check_knows(train)
        none = torch.zeros(len(train), dtype=torch.bool)
        if self.m is None:
            state = RunFolder(self.folder).load_tensors("state")
            return none.index_fill(0, state["index"][cut_in(state)], True)
        losses = cross_entropy(logits_of(load_model(self.folder, device=device), train).cpu(), train.labels)
        hardest = losses.argsort(descending=True, stable=True)[: ranking.count(self.m, len(train))]
        return none.index_fill(0, hardest, True)

    def check_knows(self, train: Dataset) -> None:
        """Refuses images or labels that are not those the run was trained on, which a name alone does not say."""
        folder = RunFolder(self.folder)
        result, index = folder.result(), folder.load_tensors("state")["index"]
        inside = int(index.max()) < len(train)
        if result is None or not inside or train.take(index).fingerprint() != result["fingerprint"]:
            raise InputError(f"{self.folder} was trained on other images or labels than are there now: train it again")


def filter_of(run: Run) -> Filter | None:
    """The finished run that this run names, if any; refuses one whose cut means nothing here."""
    if run.without_outliers_of is None:
        return None
    folder = Path(run.without_outliers_of)
    source = finished_run(folder)
    if not isinstance(source.method, Ranked):
        raise InputError(f"{folder} is a run of {source.method_name}, which has no m: give one of aorr or orat")
    if source.without_outliers_of is not None:
        raise InputError(
            f"{folder} was itself trained without the outliers of {source.without_outliers_of}: "
            "give a run on the whole training set"
        )
    if differs := difference(source, run, DECIDE_LABELS):
        raise InputError(f"{folder} has other data or labels ({differs}): give a run on the same, or the flags it had")
    return Filter(folder, source.method.m)


def left_out_words(left_out: dict[str, Any]) -> str:
    """How many samples another run left out, and how many of those were wrong where it is known."""
    wrong = f", {left_out['flipped_and_cut']:,} of them with a wrong label" if "flipped" in left_out else ""
    return f"{left_out['cut']:,} left out by {left_out['run']}{wrong}"
