"""Finished run -> its training set without the labels that look wrong: a file of labels, or a copy of the folder."""

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
from orat.curation.find import Suspects, suspects
from orat.data import catalog as datasets
from orat.data.folder import files
from orat.data.label_files import LEFT_OUT
from orat.data.source import Dataset
from orat.noise.judge import DOUBTED
from orat.training.load import finished_run
from orat.training.run import Run
from orat.training.setup import labeled
from orat.training.text import as_flags, texts_of

HOWS = ("labels", "folder")
FIXES = ("drop", "relabel")


def clean(
    run_folder: str | Path,
    out: str | Path,
    how: str = "labels",
    fix: str = "drop",
    threshold: float = DOUBTED,
    data_dir: str | Path | None = None,
    display: Display = SILENT,
    **judging: Any,
) -> dict[str, Any]:
    """Writes a training set whose suspects are dropped or relabeled to `out`, and says what changed by class.

    `how` is a file of labels for `Run(labels=...)` or a copy of the image folder; suspects are those whose chance of a
    wrong label is above the threshold; `judging` is what `orat.suspects` takes. The originals are only read.
    """
    check_wish(how, fix, threshold)
    folder, out = Path(run_folder), Path(out)
    run = finished_run(folder)
    check_whole(folder, run)
    check_place(out, image_root(run) if how == "folder" else None)
    place = None if data_dir is None else Path(data_dir)
    found = suspects(folder, place, display=display, **judging)
    train = datasets.load(run.data, place, run.image_size).train
    before = given_labels(run, train)
    after = cleaned(before, found, fix, threshold)
    rows = changes(before, after, train.classes)
    check_classes(rows, threshold)
    again = written(run, train, after, out, how)
    return {
        "folder": str(out),
        "dropped": sum(row["dropped"] for row in rows),
        "relabeled": sum(row["moved_in"] for row in rows),
        "of": len(train),
        "not_judged": found.total - len(found),
        "judged_by": found.judged_by,
        "classes": rows,
        "train": words_of(again),
    }


def written(run: Run, train: Dataset, labels: Tensor, out: Path, how: str) -> Run:
    """Writes the training set with these labels; returns the same run on it."""
    if how == "labels":
        write_labels(out, labels, train.classes)
        return replace(run, labels=str(out / "labels.csv"), noise="none", noise_rate=0.0)
    copy_images(image_root(run), train, labels, out)
    return replace(run, data=str(out), labels=None, noise="none", noise_rate=0.0)


def check_wish(how: str, fix: str, threshold: float) -> None:
    """Refuses what cannot be meant."""
    for kind, value, known in (("way to clean", how, HOWS), ("fix", fix, FIXES)):
        if value not in known:
            raise unknown(kind, value, known)
    if not 0 <= threshold < 1:
        raise InputError(f"threshold = {threshold:g}: give a chance from 0 to below 1, such as 0.5")


def check_whole(folder: Path, run: Run) -> None:
    """Refuses a run that says nothing of the samples that another one left out."""
    if run.without_outliers_of is not None:
        raise InputError(
            f"{folder} was trained without the outliers of {run.without_outliers_of}, which it did not judge: "
            "give a run on the whole training set"
        )


def check_place(out: Path, root: Path | None) -> None:
    """Refuses a place where there is something, or that lies in the originals."""
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise InputError(f"{out} is there already: give --out a new or empty folder")
    if root is not None and out.resolve().is_relative_to(root.resolve()):
        raise InputError(f"{out} lies in {root}, which is left as it is: give --out a folder elsewhere")


def image_root(run: Run) -> Path:
    """The folder or tar of images that a run was trained on."""
    root = Path(run.data).expanduser()
    if run.data in datasets.NAMES or not (root.is_dir() or root.name.endswith(datasets.TAR_ENDINGS)):
        raise InputError(f"the run's data, {run.data}, is no folder or tar of images: leave out --how folder")
    return root


def given_labels(run: Run, train: Dataset) -> Tensor:
    """The run's labels of the training set as read; LEFT_OUT for samples that its own label file leaves out."""
    given, kept = labeled(run, train)
    return torch.full((len(train),), LEFT_OUT).index_copy(0, kept, given.labels)


def cleaned(before: Tensor, found: Suspects, fix: str, threshold: float) -> Tensor:
    """The labels with the suspects dropped, or given the class that they look like."""
    suspect = found.verdict.wrong > threshold
    new = torch.full_like(found.other, LEFT_OUT) if fix == "drop" else found.other
    return before.index_copy(0, found.index[suspect], new[suspect])


def changes(before: Tensor, after: Tensor, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    """One row a class: how many there were, how many were dropped, went to others or came from them, and are left."""
    rows = []
    for label, name in enumerate(classes):
        was, now = before == label, after == label
        dropped = int((was & (after == LEFT_OUT)).sum())
        row = {"class": name, "before": int(was.sum()), "dropped": dropped}
        row |= {"moved_out": int((was & ~now).sum()) - dropped, "moved_in": int((now & ~was).sum())}
        rows.append(row | {"after": int(now.sum())})
    return rows


def check_classes(rows: list[dict[str, Any]], threshold: float) -> None:
    """Refuses to leave a class without samples."""
    lost = [row["class"] for row in rows if row["before"] and not row["after"]]
    if lost:
        raise InputError(
            f"no sample of {', '.join(lost)} would be left at threshold {threshold:g}: give a higher --threshold"
        )


def write_labels(out: Path, labels: Tensor, classes: tuple[str, ...]) -> None:
    """labels.csv for the whole training set, the label of a dropped sample left empty, and kept.txt of the others."""
    out.mkdir(parents=True, exist_ok=True)
    names = ["" if label == LEFT_OUT else classes[label] for label in labels.tolist()]
    kept = (labels != LEFT_OUT).nonzero().flatten().tolist()
    replace_file(out / "kept.txt", "".join(f"{place}\n" for place in kept).encode())
    replace_file(out / "labels.csv", csv_bytes({"index": range(len(labels)), "label": names}))


def copy_images(root: Path, train: Dataset, labels: Tensor, out: Path) -> None:
    """A copy of the images in the folders of these labels, the test part as it is; whole or not at all."""
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
    """Where each kept image goes, by where it lies; one that comes from another class tells so if its name is taken."""
    assert train.paths is not None
    if len(set(train.paths)) < len(train.paths):
        raise InputError("images of one path are in the archive more than once: pack it again, or leave out --how")
    places: dict[str, str] = {}
    taken = set(train.paths)  # a name is never given to another image, even where its own went away
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
    """The command that trains on what was written."""
    return ["orat", "train", *result["train"], *(["--data-dir", data_dir] if data_dir else [])]
