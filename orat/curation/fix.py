"""Label issues -> new labels for the training set of a run, planned first and then written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orat.core.console import SILENT, Display
from orat.core.errors import InputError, unknown
from orat.core.registry import in_words
from orat.core.types import Labels
from orat.curation.find import find_label_issues, given_again
from orat.curation.fixed_files import LABELS, Origin, write_copy, write_labels
from orat.curation.issues import LabelIssues
from orat.curation.of_data import is_run, is_search, issues_of_search
from orat.curation.search import default_folder, finished
from orat.data import catalog as datasets
from orat.data.label_files import LEFT_OUT
from orat.data.source import Dataset
from orat.methods import ORAT
from orat.training.load import finished_run
from orat.training.run import Run
from orat.training.setup import labeled, read
from orat.training.text import as_flags, texts_of

HOWS = ("labels", "folder")
FIXES = ("drop", "relabel")
OF_RUNS = ("network", "scout networks and network")  # sources that scout networks alone may better


@dataclass(frozen=True, eq=False)
class Fix:
    """New labels for the training set of a run or of data; nothing is written yet."""

    judged_in: str  # the folder of the run, or of the search
    run: Run
    train: Dataset  # as read
    found: LabelIssues
    before: Labels  # (n,) the labels of the run; LEFT_OUT for samples without a label in its label file
    after: Labels  # (n,) the new labels; LEFT_OUT for dropped samples
    out: Path
    how: str
    fix: str
    threshold: float | None
    forced: bool

    @cached_property
    def classes(self) -> list[dict[str, Any]]:
        """One row a class: samples before, dropped, moved to and from other classes, and after."""
        return changes(self.before, self.after, self.train.classes)

    @property
    def new_run(self) -> Run:
        """The same run on the new training set."""
        plain = replace(self.run, labels=None, noise="none", noise_rate=0.0)
        if self.how == "labels":
            return replace(plain, labels=str(self.out / LABELS))
        return replace(plain, data=str(self.out))

    def summary(self) -> dict[str, Any]:
        """The changes by class, and the flags of `orat train` for the new training set."""
        return {
            "folder": str(self.out),
            "dropped": sum(row["dropped"] for row in self.classes),
            "relabeled": sum(row["moved_in"] for row in self.classes),
            "of": len(self.train),
            "not_judged": self.found.total - len(self.found),
            "judged_by": self.found.judged_by,
            "unreliable": self.found.verdict.reason,
            "classes": self.classes,
            "train": words_of(self.new_run),
        }

    def write(self) -> None:
        """Writes the new training set with its record, in one step."""
        root = image_root(self.run) if self.how == "folder" else None
        origin = Origin(
            self.judged_in, self.run.id, in_words(self.run.data), self.train.fingerprint(), root, self.run.class_depth,
            self.found.judged_by, self.found.verdict.reliability, self.fix, self.threshold, self.forced,
        )  # fmt: skip
        write = write_labels if self.how == "labels" else write_copy
        write(self.out, self.train, self.before, self.after, origin)


def fix_labels(
    subject: Any,
    out: str | Path,
    how: str = "labels",
    fix: str = "drop",
    threshold: float | None = None,
    data_dir: str | Path | None = None,
    display: Display = SILENT,
    *,
    force: bool = False,
    dry_run: bool = False,
    **judging: Any,
) -> dict[str, Any]:
    """Writes a training set to `out` with the flagged samples dropped or relabeled; returns the changes by class.

    `subject` is the folder of a run, the folder that a search for label issues left, or data, which are searched first.
    `how` is a file of labels for `Run(labels=...)`, or a copy of the image folder. Flagged are the label issues of the
    run, or with `threshold` the labels with a higher probability to be wrong. `force` permits unreliable predictions;
    with `dry_run` nothing is written. `judging` holds further arguments of `orat.find_label_issues`. The originals stay
    as they are; `orat.curation.undo_fix(out)` restores the labels before.
    """
    planned = plan_fix(subject, out, how, fix, threshold, data_dir, display, force=force, **judging)
    if not dry_run:
        planned.write()
    return planned.summary()


def plan_fix(
    subject: Any,
    out: str | Path,
    how: str = "labels",
    fix: str = "drop",
    threshold: float | None = None,
    data_dir: str | Path | None = None,
    display: Display = SILENT,
    *,
    force: bool = False,
    **judging: Any,
) -> Fix:
    """The changes that `fix_labels` with the same arguments writes."""
    check_request(how, fix, threshold)
    out, data_dir = Path(out), None if data_dir is None else Path(data_dir)
    judged_in, run = of_subject(subject, judging)
    check_place(out, image_root(run) if how == "folder" else None)
    data = None
    if judged_in is None:
        judged_in, data = default_folder(run, **of_search(judging)), run.data
        find_label_issues(run, data_dir, display=display, out=judged_in, **judging)
    if is_search(judged_in):
        run, found = issues_of_search(judged_in, data_dir, data)
    else:
        found = find_label_issues(judged_in, data_dir, display=display, **judging)
    if not force:
        check_trusted(found)
    train = read(run, data_dir).train
    before = given_labels(run, train)
    after = fixed_labels(before, found, fix, threshold, force)
    planned = Fix(str(judged_in), run, train, found, before, after, out, how, fix, threshold, force)
    check_classes(planned.classes)
    return planned


def of_subject(subject: Any, judging: Mapping[str, Any]) -> tuple[Path | None, Run]:
    """The folder with the judgement of a subject, None for data that are not judged yet; and its run."""
    if is_search(subject):
        return Path(subject), finished(Path(subject))[0]
    if is_run(subject):
        run = finished_run(Path(subject))
        return Path(subject), given_again(run, "data", judging.get("data"), judging.get("trust", False))
    return None, subject if isinstance(subject, Run) else Run(data=subject, method=ORAT())


def of_search(judging: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that name the folder of a search, as in `orat labels find`."""
    given = {name: judging[name] for name in ("folds", "epochs") if name in judging}
    return given | {"features": in_words(judging.get("features"))}


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


def check_trusted(found: LabelIssues) -> None:
    """Refuses to change labels by a verdict that cannot be trusted."""
    if not found.verdict.trusted:
        held_out = "try --held-out, " if found.judged_by in OF_RUNS else ""
        raise InputError(
            f"the predictions are unreliable ({found.verdict.reason}): {held_out}train with more epochs or samples, or "
            "give --force to change labels all the same"
        )


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


def fixed_labels(before: Labels, found: LabelIssues, fix: str, threshold: float | None, force: bool = False) -> Labels:
    """The labels with flagged samples left out, or with their most likely other class."""
    flags = flags_of(found, threshold, force)
    new = torch.full_like(found.other, LEFT_OUT) if fix == "drop" else found.other
    return before.index_copy(0, found.id[flags], new[flags])


def flags_of(found: LabelIssues, threshold: float | None, force: bool) -> Tensor:
    """The labels to change; a verdict that is not trusted flags none, so that `force` takes the threshold alone."""
    if threshold is None:
        return found.flags
    if force and not found.verdict.trusted:
        return found.verdict.p_wrong > threshold
    return found.verdict.flagged(threshold)


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


def words_of(run: Run) -> list[str]:
    """The flags of the `orat train` command that describe a run, without what it takes by itself."""
    return as_flags({"data": "sample"} | texts_of(run))


def train_command(result: Mapping[str, Any], data_dir: str | None = None) -> list[str]:
    """The command that trains on the fixed training set."""
    return ["orat", "train", *result["train"], *(["--data-dir", data_dir] if data_dir else [])]
