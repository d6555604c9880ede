"""Data -> label issues, without a run: by patches and scout networks, or by the features of a user's network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orat.core.console import Display
from orat.core.errors import InputError
from orat.core.registry import in_words, names_code
from orat.curation.issues import LabelIssues, issues_of
from orat.curation.search import JUDGED, SETTINGS, claimed, finished, kept, settings_of
from orat.data.image_files import is_image
from orat.methods import ORAT
from orat.models.patches import takes
from orat.noise.judge import judge
from orat.training.cross_fit import cross_fit
from orat.training.features import check_named, combined, given_log_probs, loaded, patch_log_probs
from orat.training.plan import FOLDS, in_minutes
from orat.training.run import Run
from orat.training.run_folder import Folder
from orat.training.setup import Parts, prepare, read_data

RUN_FILES = ("history.jsonl", "config.json", "model.safetensors", "resume.pt")


def is_run(subject: Any) -> bool:
    """Whether a subject is the folder of a run, and not data; refuses paths that are neither or both."""
    if not isinstance(subject, str | Path):
        return False
    path = Path(subject).expanduser()
    if not path.is_dir():
        if not path.exists() and len(path.parts) > 1 and not names_code(str(subject)):
            raise InputError(f"there is no {subject}: give the folder of a run, an image folder or a file of data")
        return False
    images = any(is_image(file.name) for file in path.rglob("*"))
    if (path / "run.json").is_file():
        if images:
            raise InputError(f"{path} holds a run (run.json) and images: give --data {path} for the images")
        return True
    if not images:
        check_without_images(path)
    return False


def check_without_images(path: Path) -> None:
    """Refuses a folder without images that is made of runs or of a search."""
    if (path / SETTINGS).is_file():
        raise InputError(
            f"{path} holds the result of a search for label issues: give the data that were searched, or give it to "
            "`orat labels fix`"
        )
    if runs := sorted(file.parent for file in path.glob("*/run.json")):
        raise InputError(f"{path} holds {len(runs)} runs: give one of them, such as {runs[0]}")
    if any((path / name).is_file() for name in RUN_FILES):
        raise InputError(f"{path} is the folder of a run that lost its run.json: give its data")


@dataclass(frozen=True)
class Judging:
    """What the labels of data are judged by."""

    device: torch.device
    display: Display
    folds: int = FOLDS
    epochs: int | None = None
    features: Any = None  # a user's network from inputs to features, or its name
    weights: Path | None = None


def issues_in_data(
    data: Any, data_dir: Path | None, judging: Judging, labels: str | None = None, out: Path | None = None
) -> LabelIssues:
    """The label issues of all training samples of some data: a name, a path, objects, or a run that is not trained."""
    run = data if isinstance(data, Run) else Run(data=data, method=ORAT())
    run = replace(run, validation=0.0, labels=run.labels if labels is None else labels)
    check_named(judging.features)
    run, splits = read_data(run, data_dir, judging.device)
    for note in splits.notes:
        judging.display.line(note)
    parts = prepare(run, splits=splits)
    network = (
        None if judging.features is None else loaded(judging.features, judging.weights, parts.train, judging.device)
    )
    own: dict[str, Any] = {"folds": judging.folds, "epochs": judging.epochs}
    own |= {"features": in_words(judging.features), "weights": judging.weights and str(judging.weights)}
    settings = settings_of(run, parts.train.fingerprint(), **own)
    with claimed(out, settings) as folder:
        log_probs, judged_by = predictions(run, parts, judging, network, folder)
        if folder is not None:
            folder.save_tensors(JUDGED, {"log_probs": log_probs})
            folder.write_json(SETTINGS, settings | {"judged_by": judged_by})
    return issues_of(parts, log_probs, judge(log_probs, parts.train.labels), judged_by)


def is_search(subject: Any) -> bool:
    """Whether a subject is the folder that a search for label issues left."""
    return isinstance(subject, str | Path) and (Path(subject) / SETTINGS).is_file()


def issues_of_search(folder: Path, data_dir: Path | None, data: Any = None) -> tuple[Run, LabelIssues]:
    """The data of a finished search as a run, and their label issues; refuses data that have changed since."""
    run, fingerprint, judged_by, log_probs = finished(folder, data)
    parts = prepare(replace(run, validation=0.0), data_dir)
    if parts.train.fingerprint() != fingerprint:
        raise InputError(f"{folder} is of other images or labels than are there now: run `orat labels find` again")
    return run, issues_of(parts, log_probs, judge(log_probs, parts.train.labels), judged_by)


def predictions(
    run: Run, parts: Parts, judging: Judging, network: nn.Module | None, folder: Folder | None
) -> tuple[Tensor, str]:
    """The cross-fitted predictions (sets, n, classes), and what they come from."""
    train, device, display, kinds = parts.train, judging.device, judging.display, list[Tensor]()
    settings = train, device, "flip" in run.augment, run.seed, display
    if network is not None:
        return kept(folder, "features", partial(given_log_probs, network, *settings)), "features"
    if takes(train.shape):
        kinds.append(kept(folder, "patches", partial(patch_log_probs, *settings)))
        display.line(f"by patches: {estimate(kinds[0], train.labels)}")
    model, most = in_minutes(run, parts, judging.folds, device)
    epochs = judging.epochs or most
    if kinds and not epochs:
        display.line(f"scout networks would take too long for {len(train):,} samples on a CPU: --epochs 10 trains them")
        return kinds[0], "patches"
    kinds.append(cross_fit(run, parts, judging.folds, epochs or None, model, str(device), display, folder))
    return combined(kinds, train.labels), "held-out networks"


def estimate(log_probs: Tensor, labels: Tensor) -> str:
    """The noise rate and the number of flags, for people."""
    verdict = judge(log_probs, labels)
    low, high = verdict.interval
    return f"{verdict.noise_rate:.1%} ({low:.1%} to {high:.1%}) wrong, {int(verdict.flagged().sum()):,} flagged"
