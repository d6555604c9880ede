"""Files of labels: .npy, .csv or .txt."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from orat.core.errors import InputError, line_of
from orat.core.types import Labels

LEFT_OUT = -1  # in place of a label: the sample is removed from the training set
TITLES = (("index", "label"), ("path", "label"), ("label",))  # optional first lines of a .csv file
SHOWN = 10  # class names in an error
LINE = ("line", "label")  # the first line of a .csv file with lines of a table

# The place of a row in its file, such as "line 3", and its cells: a label, an index and a label, or a path and a label.
Row = tuple[str, tuple[str, ...]]


def from_file(
    path: str | Path, n: int, class_names: tuple[str, ...], image_paths: tuple[str, ...] | None = None
) -> Labels:
    """The n labels of a .npy, .csv or .txt file, given as class indices or class names, in the order of the samples.

    The rows of a .csv file have a label, an index and a label, or the path of an image and a label. A row with an empty
    label gives LEFT_OUT.
    """
    return labels_in(Path(path), rows_of(Path(path)), n, class_names, image_paths)


def rows_of(path: Path) -> list[Row]:
    """The rows of a .npy, .csv or .txt file."""
    if path.suffix not in READERS:
        raise InputError(f"{path} ends in {path.suffix!r}: give the labels as {', '.join(READERS)}")
    if not path.is_file():
        raise InputError(f"there is no file {path}: give the labels as {', '.join(READERS)}")
    try:
        return READERS[path.suffix](path)
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path} is not a {path.suffix} file of labels: {line_of(error)}") from error


def labels_in(
    path: Path, rows: list[Row], n: int, class_names: tuple[str, ...], image_paths: tuple[str, ...] | None
) -> Labels:
    """The n labels in the rows of a file, in the order of the samples."""
    samples, labels = samples_of(path, rows, n, image_paths), classes_of(path, rows, class_names)
    if len(rows) != n:
        raise InputError(f"{path} has {len(rows)} labels for {n} samples: give one a sample")
    return torch.tensor(labels)[torch.tensor(samples).argsort()]


def read_npy(path: Path) -> list[Row]:
    """The rows of an array."""
    with path.open("rb") as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise ValueError(f"it holds {array.dtype} of shape {array.shape}, not one integer or name a sample")
    return [(f"entry {i}", (str(value),)) for i, value in enumerate(array)]


def read_csv(path: Path) -> list[Row]:
    """The rows of a .csv file without a line of titles."""
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        reader = csv.reader(file)
        rows = [(f"line {reader.line_num}", tuple(cell.strip() for cell in row)) for row in reader if any(row)]
    if rows and rows[0][1] == LINE:
        return [(place, (f"line {cells[0]}", *cells[1:])) for place, cells in rows[1:]]
    return rows[1:] if rows and rows[0][1] in TITLES else rows


def read_txt(path: Path) -> list[Row]:
    """The lines of a text file that are not empty."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    return [(f"line {i}", (line.strip(),)) for i, line in enumerate(lines, 1) if line.strip()]


READERS: dict[str, Callable[[Path], list[Row]]] = {".npy": read_npy, ".csv": read_csv, ".txt": read_txt}


def samples_of(path: Path, rows: list[Row], n: int, image_paths: tuple[str, ...] | None) -> list[int]:
    """The sample of each row: by its index or image path, or by the order of the rows."""
    by_path = bool(image_paths) and bool(rows) and not re.fullmatch("-?[0-9]+", rows[0][1][0])
    keys = {key: i for i, key in enumerate(image_paths or ())} if by_path else {str(i): i for i in range(n)}
    kind, known = ("image", "of the training set") if by_path else ("index", f"in 0..{n - 1}")
    samples: list[int] = []
    for position, (place, cells) in enumerate(rows):
        if len(cells) > 2 or len(cells) != len(rows[0][1]):
            raise InputError(
                f"{path}, {place}: {len(cells)} columns: give every line `label`, `index,label`, `path,label` or "
                "`line,label`"
            )
        if len(cells) == 1:
            samples.append(position)
            continue
        if cells[0] not in keys:
            raise InputError(f"{path}, {place}: {kind} {cells[0]!r} is not {known} or came before: give each once")
        samples.append(keys.pop(cells[0]))
    return samples


def classes_of(path: Path, rows: list[Row], class_names: tuple[str, ...]) -> list[int]:
    """The class of each row; a number that is also a class name is a name in a text, and an index in a .npy file."""
    by_name = {name: i for i, name in enumerate(class_names)}
    by_index = {str(i): i for i in range(len(class_names))}
    written = [(place, cells[-1]) for place, cells in rows if cells[1:] != ("",)]
    numbers = all(re.fullmatch("-?[0-9]+", label) for _, label in written)
    named = by_name.keys() >= {label for _, label in written} and path.suffix != ".npy"
    known = by_index if numbers and not named else by_name
    for place, label in written:
        if label not in known:
            names = ", ".join(class_names[:SHOWN]) + (", ..." if len(class_names) > SHOWN else "")
            known_as = f"{names}, or 0..{len(class_names) - 1}"
            raise InputError(f"{path}, {place}: label {label!r} is no class: give one of {known_as}")
    return [LEFT_OUT if cells[1:] == ("",) else known[cells[-1]] for _, cells in rows]
