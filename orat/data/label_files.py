"""Files of labels: .npy, .csv or .txt."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from orat.core.errors import InputError
from orat.core.types import Labels

LEFT_OUT = -1  # in place of a label: the sample is not to be trained on

# Where a row stands in its file, as "line 3", and its cells: a label, or an index and a label.
Row = tuple[str, tuple[str, ...]]


def from_file(path: str | Path, n: int, class_names: tuple[str, ...]) -> Labels:
    """The n labels of a .npy, .csv or .txt file, as class indices or class names; LEFT_OUT after an index alone."""
    path = Path(path)
    if path.suffix not in READERS:
        raise InputError(f"{path} ends in {path.suffix!r}: give the labels as {', '.join(READERS)}")
    if not path.is_file():
        raise InputError(f"there is no file {path}: give the labels as {', '.join(READERS)}")
    try:
        rows = READERS[path.suffix](path)
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path} is not a {path.suffix} file of labels: {' '.join(str(error).split())}") from error
    samples, labels = _samples(path, rows, n), _classes(path, rows, class_names)
    if len(rows) != n:
        raise InputError(f"{path} has {len(rows)} labels for {n} samples: give one a sample")
    return torch.tensor(labels)[torch.tensor(samples).argsort()]


def _npy(path: Path) -> list[Row]:
    with path.open("rb") as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise ValueError(f"it holds {array.dtype} of shape {array.shape}, not one integer or name a sample")
    return [(f"entry {i}", (str(value),)) for i, value in enumerate(array)]


def _csv(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        rows = [(f"line {reader.line_num}", tuple(cell.strip() for cell in row)) for row in reader if any(row)]
    titled = bool(rows) and rows[0][1] in (("index", "label"), ("label",))
    return rows[1:] if titled else rows


def _txt(path: Path) -> list[Row]:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    return [(f"line {i}", (line.strip(),)) for i, line in enumerate(lines, 1) if line.strip()]


READERS: dict[str, Callable[[Path], list[Row]]] = {".npy": _npy, ".csv": _csv, ".txt": _txt}


def _samples(path: Path, rows: list[Row], n: int) -> list[int]:
    """Which sample each row labels: the one that it names, or else the next."""
    indices = {str(i): i for i in range(n)}
    samples: list[int] = []
    for position, (place, cells) in enumerate(rows):
        if len(cells) > 2 or len(cells) != len(rows[0][1]):
            raise InputError(f"{path}, {place}: {len(cells)} columns: give every line `label`, or `index,label`")
        if len(cells) == 1:
            samples.append(position)
            continue
        if cells[0] not in indices:
            raise InputError(f"{path}, {place}: index {cells[0]!r} is not in 0..{n - 1} or came before: give each once")
        samples.append(indices.pop(cells[0]))
    return samples


def _classes(path: Path, rows: list[Row], class_names: tuple[str, ...]) -> list[int]:
    """The class of each row; a text that is both a name and an index counts as a name, a number in a .npy does not."""
    by_name = {name: i for i, name in enumerate(class_names)}
    by_index = {str(i): i for i in range(len(class_names))}
    written = [(place, cells[-1]) for place, cells in rows if cells[1:] != ("",)]
    numbers = all(re.fullmatch("-?[0-9]+", label) for _, label in written)
    named = by_name.keys() >= {label for _, label in written} and path.suffix != ".npy"
    known = by_index if numbers and not named else by_name
    for place, label in written:
        if label not in known:
            raise InputError(f"{path}, {place}: label {label!r} is no class: give a name or 0..{len(class_names) - 1}")
    return [LEFT_OUT if cells[1:] == ("",) else known[cells[-1]] for _, cells in rows]
