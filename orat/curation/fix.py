"""Label issues -> a training set without wrong labels: a file of labels, or a copy of the image folder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orat.core.console import SILENT, Display
from orat.core.errors import InputError, unknown
from orat.core.files import csv_bytes, replace_file
from orat.core.types import Labels
from orat.curation.find import LabelIssues, find_label_issues
from orat.data import catalog as datasets
from orat.data.image_files import files
from orat.data.label_files import LEFT_OUT
from orat.data.source import Dataset
from orat.training.load import finished_run
from orat.training.run import Run
from orat.training.setup import labeled, read
from orat.training.text import as_flags, texts_of

HOWS = ("labels", "folder")
FIXES = ("drop", "relabel")


def fix_labels(
    run_folder: str | Path,
    out: str | Path,
    how: str = "labels",
    fix: str = "drop",
    threshold: float | None = None,
    data_dir: str | Path | None = None,
    display: Display = SILENT,
    **judging: Any,
) -> dict[str, Any]:
    """Writes a run's training set to `out` with the flagged samples dropped or relabeled; returns the changes by class.

    `how` is a file of labels for `Run(labels=...)`, or a copy of the image folder. Flagged are the label issues of the
    run, or with `threshold` the labels with a higher probability to be wrong. `judging` holds further arguments of
    `orat.find_label_issues`. The originals stay as they are.
    """
    check_request(how, fix, threshold)
    run, out = finished_run(Path(run_folder)), Path(out)
    check_place(out, image_root(run) if how == "folder" else None)
    data_dir = None if data_dir is None else Path(data_dir)
    found = find_label_issues(run_folder, data_dir, display=display, **judging)
    train = read(run, data_dir).train
    before = given_labels(run, train)
    after = fixed_labels(before, found, fix, threshold)
    rows = changes(before, after, train.classes)
    check_classes(rows)
    new_run = written(run, train, after, out, how)
    return {
        "folder": str(out),
        "dropped": sum(row["dropped"] for row in rows),
        "relabeled": sum(row["moved_in"] for row in rows),
        "of": len(train),
        "not_judged": found.total - len(found),
        "judged_by": found.judged_by,
        "classes": rows,
        "train": words_of(new_run),
    }


def check_request(how: str, fix: str, threshold: float | None) -> None:
    """Refuses unknown forms and fixes, and thresholds that are no probability."""
    for kind, value, known in (("form", how, HOWS), ("fix", fix, FIXES)):
        if value not in known:
            raise unknown(kind, value, known)
    if threshold is not None and not 0 <= threshold < 1:
        raise InputError(f"threshold = {threshold:g}: give a probability from 0 to below 1, such as 0.5")


def check_place(out: Path, root: Path | None) -> None:
    """Refuses an output folder that has files in it or lies within the originals."""
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise InputError(f"{out} exists already: give --out a new or empty folder")
    if root is not None and out.resolve().is_relative_to(root.resolve()):
        raise InputError(f"{out} lies in {root}, which must stay as it is: give --out a folder elsewhere")


def image_root(run: Run) -> Path:
    """The folder or tar of images that a run was trained on."""
    root = Path(run.data).expanduser()
    if run.data in datasets.NAMES or not (root.is_dir() or root.name.endswith(datasets.TAR_ENDINGS)):
        raise InputError(f"the data of the run, {run.data}, is no folder or tar of images: leave out --how folder")
    return root


def given_labels(run: Run, train: Dataset) -> Labels:
    """The run's labels of the training set as read; LEFT_OUT for samples without a label in its label file."""
    given, kept = labeled(run, train)
    return torch.full((len(train),), LEFT_OUT).index_copy(0, kept, given.labels)


def fixed_labels(before: Labels, found: LabelIssues, fix: str, threshold: float | None) -> Labels:
    """The labels with flagged samples left out, or with their most likely other class."""
    flags = found.flags if threshold is None else found.verdict.flagged(threshold)
    new = torch.full_like(found.other, LEFT_OUT) if fix == "drop" else found.other
    return before.index_copy(0, found.id[flags], new[flags])


def changes(before: Labels, after: Labels, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    """One row a class: samples before, dropped, moved to and from other classes, and after."""
    rows = []
    for label, name in enumerate(classes):
        was, now = before == label, after == label
        dropped = int((was & (after == LEFT_OUT)).sum())
        row = {"class": name, "before": int(was.sum()), "dropped": dropped}
        row |= {"moved_out": int((was & ~now).sum()) - dropped, "moved_in": int((now & ~was).sum())}
        rows.append(row | {"after": int(now.sum())})
    return rows


def check_classes(rows: list[dict[str, Any]]) -> None:
    """Refuses to leave a class without samples."""
    lost = [row["class"] for row in rows if row["before"] and not row["after"]]
    if lost:
        raise InputError(f"no sample of {', '.join(lost)} would be left: give a higher --threshold, such as 0.9")


def written(run: Run, train: Dataset, labels: Labels, out: Path, how: str) -> Run:
    """Writes the training set with new labels; returns the same run on the new training set."""
    if how == "labels":
        write_labels(out, labels, train.classes)
        return replace(run, labels=str(out / "labels.csv"), noise="none", noise_rate=0.0)
    copy_images(image_root(run), train, labels, out)
    return replace(run, data=str(out), labels=None, noise="none", noise_rate=0.0)


def write_labels(out: Path, labels: Labels, classes: tuple[str, ...]) -> None:
    """Writes labels.csv with all samples, dropped samples without a label, and kept.txt with the other samples."""
    out.mkdir(parents=True, exist_ok=True)
    names = ["" if label == LEFT_OUT else classes[label] for label in labels.tolist()]
    kept = (labels != LEFT_OUT).nonzero().flatten().tolist()
    replace_file(out / "kept.txt", "".join(f"{place}\n" for place in kept).encode())
    replace_file(out / "labels.csv", csv_bytes({"index": range(len(labels)), "label": names}))


def copy_images(root: Path, train: Dataset, labels: Labels, out: Path) -> None:
    """Copies the training images into folders by their new labels, and the test part unchanged; in one step."""
    places = destinations(train, labels)
    beside = out.resolve().with_name(f".{out.resolve().name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    for file in files(root):
        place = places.get(file.path) if file.part == "train" else file.path
        if not file.name or place is None:
            continue
        (beside / place).parent.mkdir(parents=True, exist_ok=True)
        (beside / place).write_bytes(file.raw)
    beside.replace(out)


def destinations(train: Dataset, labels: Tensor) -> dict[str, str]:
    """The new path of each kept image; the old class becomes part of a name that is taken in the new class."""
    assert train.paths is not None
    if len(set(train.paths)) < len(train.paths):
        raise InputError("the archive has several images of one path: pack it again, or leave out --how")
    places: dict[str, str] = {}
    taken = set(train.paths)  # with the names of dropped and moved images, so that no name changes its image
    for path, label in zip(train.paths, labels.tolist(), strict=True):
        if label == LEFT_OUT:
            continue
        part, folder, name = path.split("/", 2)
        place, number = f"{part}/{train.classes[label]}/{name}", 0
        while place != path and place in taken:
            number += 1
            place = f"{part}/{train.classes[label]}/{folder}-{number}-{name}"
        taken.add(place)
        places[path] = place
    return places


def words_of(run: Run) -> list[str]:
    """The flags of the `orat train` command that describe a run, without what it takes by itself."""
    return as_flags({"data": "sample"} | texts_of(run))


def train_command(result: Mapping[str, Any], data_dir: str | None = None) -> list[str]:
    """The command that trains on the fixed training set."""
    return ["orat", "train", *result["train"], *(["--data-dir", data_dir] if data_dir else [])]
