"""New labels as files: labels.csv, or a copy of an image folder, each with the record that undoes it."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from orat.core.device import commit, versions
from orat.core.files import csv_bytes, read_bytes, replace_file
from orat.core.types import Labels
from orat.data.image_files import RECORD, TRAIN, File, contents, found_in
from orat.data.label_files import LEFT_OUT
from orat.data.source import Dataset

FORMAT = 1  # of the record
LABELS, KEPT = "labels.csv", "kept.txt"


@dataclass(frozen=True)
class Origin:
    """Where new labels come from."""

    run: str  # the folder
    run_id: str
    data: str | None  # the name or path of the data set
    fingerprint: str  # of the training set as read
    root: Path | None  # the folder or tar of the originals, for a copy
    class_depth: int
    judged_by: str
    reliability: float
    fix: str  # drop or relabel
    threshold: float | None
    forced: bool


def hash_of(raw: bytes) -> str:
    """The SHA-256 of a file's bytes."""
    return sha256(raw).hexdigest()


def write_labels(out: Path, train: Dataset, before: Labels, after: Labels, origin: Origin) -> None:
    """Writes labels.csv by path, or by index without paths, and kept.txt with the places of labeled samples."""
    keys = range(len(train)) if train.paths is None else train.paths
    title = "index" if train.paths is None else "path"
    old, new = (names_of(labels, train.classes) for labels in (before, after))
    file = csv_bytes({title: keys, "label": new})
    hashes = {"before": hash_of(csv_bytes({title: keys, "label": old})), "after": hash_of(file)}
    moved = [
        {title: key, "before": was, "after": now} for key, was, now in zip(keys, old, new, strict=True) if was != now
    ]
    with whole_folder(out) as beside:
        replace_file(beside / LABELS, file)
        replace_file(beside / KEPT, kept_of(new))
        replace_file(beside / RECORD, record_of("labels", origin, moved, {LABELS: hashes}))


def names_of(labels: Labels, classes: tuple[str, ...]) -> list[str]:
    """The class names of labels, empty for samples that are left out."""
    return ["" if label == LEFT_OUT else classes[label] for label in labels.tolist()]


def kept_of(names: Sequence[str]) -> bytes:
    """The lines of kept.txt: the places of samples with a label."""
    return "".join(f"{place}\n" for place, name in enumerate(names) if name).encode()


def rows_of(raw: bytes) -> list[list[str]]:
    """The lines of a labels.csv, the titles first."""
    return list(csv.reader(io.StringIO(raw.decode(errors="surrogateescape"), newline="")))


def write_copy(out: Path, train: Dataset, before: Labels, after: Labels, origin: Origin) -> None:
    """Copies the training images into folders by their new labels, and the other parts unchanged."""
    assert origin.root is not None
    found = found_in(origin.root, origin.class_depth)
    old, new = places_of(found.part(TRAIN), train.classes, before, after)
    moved = []
    with whole_folder(out) as beside:
        for file, raw in contents(origin.root, found):
            content = read_bytes(origin.root / file.path) if raw is None else raw
            was, now = (side.get(file.path) if file.part == TRAIN else file.path for side in (old, new))
            if was != now:
                moved.append({"source": file.path, "before": was, "after": now, "sha256": hash_of(content)})
            if now is not None:
                put(beside / now, content)
        replace_file(beside / RECORD, record_of("folder", origin, moved, {}))


def put(path: Path, content: bytes) -> None:
    """Writes a file and the folders above."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def places_of(
    files: Sequence[File], classes: tuple[str, ...], before: Labels, after: Labels
) -> tuple[dict[str, str], dict[str, str]]:
    """The path of each image in a copy with the labels before, and in a copy with the new labels.

    An image with an unchanged label has the same path in both, and no path belongs to two images.
    """
    originals = {f"{TRAIN}/{file.label}/{file.name}" for file in files}
    old = destinations(files, names_of(before, classes), originals)
    pairs = zip(files, before.tolist(), after.tolist(), strict=True)
    same = {file.path: old[file.path] for file, was, now in pairs if was == now != LEFT_OUT}
    names = ["" if file.path in same else name for file, name in zip(files, names_of(after, classes), strict=True)]
    return old, same | destinations(files, names, originals | set(old.values()))


def destinations(files: Sequence[File], names: Sequence[str], known: set[str]) -> dict[str, str]:
    """The new path of each image with a class; the old class becomes part of a name that is known already."""
    places: dict[str, str] = {}
    taken = set(known)  # with the names of dropped and moved images, so that no name changes its image
    for file, name in zip(files, names, strict=True):
        if not name:
            continue
        here, place, number = f"{TRAIN}/{file.label}/{file.name}", f"{TRAIN}/{name}/{file.name}", 0
        while place != here and place in taken:
            number += 1
            place = f"{TRAIN}/{name}/{file.label.replace('/', '-')}-{number}-{file.name}"
        taken.add(place)
        places[file.path] = place
    return places


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A folder beside, which takes the place of `out` at the end, and disappears after an error."""
    beside = out.resolve().with_name(f".{out.resolve().name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        yield beside
        beside.replace(out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def record_of(form: str, origin: Origin, moved: Sequence[Mapping[str, Any]], hashes: Mapping[str, Any]) -> bytes:
    """The record of a fix: its origin, every changed label, and hashes of files."""
    source = asdict(origin) | {"root": None if origin.root is None else str(origin.root.resolve())}
    made_with = versions() | {"commit": commit()}
    record = {"format": FORMAT, "form": form, "undone": False, "source": source, "made_with": made_with}
    return as_json(record | {"files": dict(hashes), "changes": list(moved)})


def as_json(record: Mapping[str, Any]) -> bytes:
    """The bytes of a record."""
    return f"{json.dumps(record, indent=1)}\n".encode()
