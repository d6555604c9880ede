"""A .csv file that lists images: a column of paths, a column of labels, and optionally a column of parts."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orat.core.domain import PLAIN, Reading
from orat.core.errors import InputError, counted, line_of, unknown
from orat.data.cells import separator_of
from orat.data.classes import in_order
from orat.data.folder import heads_of, resident
from orat.data.image_files import FOLDERS, TRAIN, File, Found, first
from orat.data.source import Splits

COLUMNS = {  # titles, in any case
    "path": ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "img"),
    "label": ("label", "labels", "class", "class_name", "category", "target", "y"),
    "part": ("split", "part", "set", "subset"),
}


@dataclass(frozen=True)
class Row:
    """One line of the file: an image, its label, and the name of its part."""

    line: int
    path: str
    label: str
    part: str


def read(file: Path, reading: Reading = PLAIN) -> Splits:
    """The listed images in memory, in the order of the file; paths start at the folder of the file."""
    found = found_in(file)
    return resident(file.parent, found, heads_of(file.parent, found), reading)


def found_in(file: Path) -> Found:
    """The listed images, in the order of the file."""
    rows = rows_of(file)
    check_rows(file, rows)
    files = tuple(File(FOLDERS[row.part], row.label, row.path, row.path) for row in rows)
    found = Found(files, in_order(one.label for one in files))
    learned = {one.label for one in found.part(TRAIN)}
    if strangers := [one for one in files if one.label not in learned]:
        raise InputError(f"{file}: class {strangers[0].label!r} has no image for training, only in {strangers[0].part}")
    return found


def rows_of(file: Path) -> list[Row]:
    """The rows of the file below its line of titles."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            separator = separator_of(stream.readline())
            stream.seek(0)
            reader = csv.reader(stream, delimiter=separator, strict=True)
            lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(
            f"{file} is no .csv file ({line_of(error)}): save it as text with commas or semicolons"
        ) from error
    titles = lines[0][1] if lines else []
    path, label = (column(file, titles, kind) for kind in ("path", "label"))
    part = place(titles, "part")
    rows = []
    for line, cells in lines[1:]:
        if len(cells) != len(titles):
            raise InputError(f"{file}, line {line}: {len(cells)} cells for {len(titles)} columns: give one a column")
        rows.append(Row(line, cells[path], cells[label], TRAIN if part is None else cells[part].lower()))
    if not rows:
        raise InputError(f"{file} lists no images: give one a line")
    return rows


def column(file: Path, titles: Sequence[str], kind: str) -> int:
    """The place of a column that the file must have."""
    found = place(titles, kind)
    if found is None:
        table = "; for a table of numbers, give --target COLUMN" if kind == "path" else ""
        names = ", ".join(titles) or "none"
        raise InputError(f"{file} has no column of {kind}s: its columns are {names}; name one {kind!r}{table}")
    return found


def place(titles: Sequence[str], kind: str) -> int | None:
    """The place of a column by title, if the file has such a column."""
    lower = [title.lower() for title in titles]
    return next((lower.index(name) for name in COLUMNS[kind] if name in lower), None)


def check_rows(file: Path, rows: Sequence[Row]) -> None:
    """Refuses rows without a path, label or known part, and images that are listed twice or missing."""
    lines: dict[str, int] = {}
    for row in rows:
        for kind, value in (("path", row.path), ("label", row.label)):
            if not value:
                raise InputError(f"{file}, line {row.line}: the {kind} is empty: give one, or remove the line")
        if row.part not in FOLDERS:
            raise unknown(f"part in {file}, line {row.line}:", row.part, FOLDERS)
        if row.path in lines:
            raise InputError(f"{file}, line {row.line}: {row.path} is listed in line {lines[row.path]} too: remove one")
        lines[row.path] = row.line
    missing = [row.path for row in rows if not (file.parent / row.path).is_file()]
    if missing:
        where = f"(paths start at {file.parent})"
        raise InputError(
            f"{counted(len(missing), 'image')} of {len(rows):,} in {file} not found {where}: {first(missing)}"
        )
