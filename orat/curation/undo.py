"""The folder that `orat labels fix` wrote -> the same folder with the labels before, by its record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from orat.core.errors import InputError, counted, line_of
from orat.core.files import csv_bytes, read_bytes, replace_file
from orat.curation.fixed_files import FORMAT, KEPT, LABELS, as_json, hash_of, kept_of, rows_of
from orat.data.image_files import RECORD, contents, first, found_in

Record = dict[str, Any]
NEEDED = {"form", "undone", "source", "files", "changes"}  # of a record


def undo_fix(out: str | Path, data: str | Path | None = None) -> Record:
    """Restores the labels before in the folder that `fix_labels` wrote; returns the numbers of restored samples.

    Dropped images come from the originals, or from `data` if the originals were moved. Every file is checked by its
    hash before anything is written.
    """
    folder = Path(out)
    record = read_record(folder)
    restore = restore_labels if record["form"] == "labels" else restore_files
    restore(folder, record, None if data is None else Path(data))
    replace_file(folder / RECORD, as_json(record | {"undone": True}))
    dropped = sum(not change["after"] for change in record["changes"])
    return {"folder": str(folder), "restored": dropped, "moved_back": len(record["changes"]) - dropped}


def read_record(folder: Path) -> Record:
    """The record of a fix; refuses other folders, and a fix that is undone already."""
    file = folder / RECORD
    if not file.is_file():
        raise InputError(f"{folder} has no {RECORD}: give the folder that `orat labels fix` wrote")
    try:
        record = json.loads(read_bytes(file))
    except ValueError as error:
        raise InputError(f"{file} is damaged ({line_of(error)}): fix the labels again") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT or not record.keys() >= NEEDED:
        raise InputError(f"{file} is from an incompatible version of orat: fix the labels again")
    if record["undone"]:
        raise InputError(f"{folder} has the labels before already: there is nothing to undo")
    if record["form"] == "folder":
        check_inside(folder, record["changes"])
    return record


def check_inside(folder: Path, changes: Sequence[Record]) -> None:
    """Refuses a record, which anyone may have written, with places outside of the folder."""
    places = [one[side] for one in changes for side in ("before", "after") if one[side]]
    outside = [one for one in places if not (folder / one).resolve().is_relative_to(folder.resolve())]
    if outside:
        raise InputError(f"{folder / RECORD} names places outside of the folder ({first(outside)}): do not use it")


def restore_labels(folder: Path, record: Record, data: Path | None) -> None:
    """Writes labels.csv and kept.txt with the labels before; a file that was edited is refused."""
    if data is not None:
        raise InputError(f"--data {data} is for a copy of images: leave it out, since {folder} holds labels alone")
    file, hashes = folder / LABELS, record["files"][LABELS]
    raw = read_bytes(file)
    if hash_of(raw) not in hashes.values():
        raise InputError(f"{file} was edited after `orat labels fix`: fix the labels again, in a new folder")
    (title, _), *rows = rows_of(raw)
    before = {str(change[title]): change["before"] for change in record["changes"]}
    names = [before.get(key, name) for key, name in rows]
    replace_file(file, csv_bytes({title: [key for key, _ in rows], "label": names}))
    replace_file(folder / KEPT, kept_of(names))


def restore_files(folder: Path, record: Record, data: Path | None) -> None:
    """Moves relabeled images back, and copies dropped images from the originals."""
    moved, dropped = to_move(folder, record["changes"]), to_copy(folder, record["changes"])
    root = Path(record["source"]["root"]) if data is None else data
    depth = record["source"]["class_depth"]
    if dropped:
        check_originals(root, depth, dropped)
    for change in moved:
        (folder / change["before"]).parent.mkdir(parents=True, exist_ok=True)
        (folder / change["after"]).rename(folder / change["before"])
    for change, raw in originals(root, depth, dropped):
        (folder / change["before"]).parent.mkdir(parents=True, exist_ok=True)
        replace_file(folder / change["before"], raw)
    for change in moved:
        remove_empty((folder / change["after"]).parent)


def to_move(folder: Path, changes: Sequence[Record]) -> list[Record]:
    """The relabeled images that are not back yet; refuses images that were changed, moved or removed since the fix."""
    left = [one for one in changes if one["after"] and not is_back(folder, one)]
    lost = [one["after"] for one in left if not has_hash(folder / one["after"], one["sha256"])]
    if lost:
        raise InputError(
            f"{folder}: {counted(len(lost), 'image')} changed or moved after `orat labels fix`: {first(lost)}"
        )
    check_free(folder, left)
    return left


def to_copy(folder: Path, changes: Sequence[Record]) -> list[Record]:
    """The dropped images that are not back yet."""
    left = [one for one in changes if not one["after"] and not is_back(folder, one)]
    check_free(folder, left)
    return left


def is_back(folder: Path, change: Record) -> bool:
    """Whether an image is at its place already, by an undo that was interrupted."""
    gone = not change["after"] or not (folder / change["after"]).exists()
    return gone and has_hash(folder / change["before"], change["sha256"])


def has_hash(file: Path, wanted: str) -> bool:
    """Whether there is a file with this hash."""
    return file.is_file() and hash_of(read_bytes(file)) == wanted


def check_free(folder: Path, changes: Sequence[Record]) -> None:
    """Refuses to replace files that came after the fix."""
    taken = [one["before"] for one in changes if (folder / one["before"]).exists()]
    if taken:
        raise InputError(f"{folder}: there are new files in the places of restored images: move away {first(taken)}")


def check_originals(root: Path, depth: int, changes: Sequence[Record]) -> None:
    """Refuses originals that are missing or have other bytes."""
    if not root.exists():
        raise InputError(f"the originals are not at {root}: give their folder or tar as --data")
    whole = {one["source"] for one, raw in originals(root, depth, changes) if hash_of(raw) == one["sha256"]}
    lost = [one["source"] for one in changes if one["source"] not in whole]
    if lost:
        images = counted(len(lost), "dropped image")
        raise InputError(f"{images} missing or changed in {root}: {first(lost)}; give the originals as --data")


def originals(root: Path, depth: int, changes: Sequence[Record]) -> Iterator[tuple[Record, bytes]]:
    """The changes with the bytes of the original image."""
    wanted = {one["source"]: one for one in changes}
    if root.is_dir():
        yield from ((one, read_bytes(root / path)) for path, one in wanted.items() if (root / path).is_file())
    elif wanted:
        for file, raw in contents(root, found_in(root, depth)):
            if file.path in wanted and raw is not None:
                yield wanted[file.path], raw


def remove_empty(folder: Path) -> None:
    """Removes a folder if nothing is left in it, so that it is no class without images."""
    with suppress(OSError):
        folder.rmdir()
