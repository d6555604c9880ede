"""Tables -> data sets: columns of numbers become features, columns of text become frozen features of 0 and 1."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from orat.core.domain import Columns
from orat.core.errors import InputError, unknown
from orat.core.types import Labels
from orat.data.cells import Cells, cells_of, frame_cells, number_in
from orat.data.features import domain_of, listed
from orat.data.image_files import is_image
from orat.data.source import Dataset, Splits

DECIMAL_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+")
LARGEST = float(np.finfo(np.float32).max)
FEW_VALUES, MOST_VALUES = 10, 100  # of text in a column, which otherwise has at most half as many values as rows
ENOUGH_ROWS = 10  # to tell that a column numbers the rows
SPLIT = "split"  # the column that says the part of a row
FRAME = "the data frame"  # in error messages
PARTS = {
    "train": "train", "training": "train", "val": "validation", "valid": "validation", "validation": "validation",
    "dev": "validation", "test": "test", "testing": "test",
}  # fmt: skip
HELD_OUT, SEED = 0.2, 0  # share of the rows of each class for the test part, and the seed of their draw

Named: TypeAlias = list[tuple[str, npt.NDArray[Any]]]  # features by name


def read(file: Path, columns: Columns) -> Splits:
    """The parts of a table in a file."""
    return splits_of(cells_of(file), columns)


def read_frame(frame: Any, columns: Columns, name: str = FRAME) -> Splits:
    """The parts of a data frame."""
    return splits_of(frame_cells(frame, name), columns)


def splits_of(cells: Cells, columns: Columns) -> Splits:
    """The parts of a table: as its column `split` says, or with a fifth of the rows of each class for the test."""
    target = columns.target
    if target is None:
        shown = listed(list(cells.columns))
        raise InputError(f"{cells.file} is a table with the columns {shown}: name the column of labels with --target")
    if target not in cells.columns:
        raise unknown(f"column of {cells.file}:", target, cells.columns)
    cells.refuse_missing()
    labels, classes = labels_of(cells, target)
    parts, said = parts_of(cells, labels, target)
    kept, left_out = feature_columns(cells, target)
    found = {name: features_of(cells, name) for name in kept}
    features = [one for own in found.values() for one in own]
    places, texts = places_of(found), [name for name, own in found.items() if own[0][0] != name]
    values = torch.from_numpy(np.stack([numbers for _, numbers in features], 1))
    domain, line = domain_of([values[ids] for ids in parts.values()], places, columns, texts)
    names, rows = tuple(name for name, _ in features), tuple(cells.places)
    whole = Dataset(values, labels, classes, paths=rows, domain=domain, features=names, lines=cells.lines)
    split = {part: whole.take(ids) for part, ids in parts.items()}
    notes = (line, *left_out, *said)
    return Splits(split["train"], split.get("test"), split.get("validation"), notes)


def labels_of(cells: Cells, target: str) -> tuple[Labels, tuple[str, ...]]:
    """The labels and the sorted class names: whole numbers by value, other values by name."""
    texts = cells.columns[target]
    numbers = [value for text in texts if (value := number_in(text)) is not None]
    whole = len(numbers) == len(texts)
    if whole:
        for row, value in enumerate(numbers):
            if value % 1 != 0:
                raise cells.error(target, row, f"{value:g} is no class: give names or whole numbers")
        texts = [str(int(value)) for value in numbers]
    classes = tuple(sorted(set(texts), key=int if whole else str))
    if len(classes) == 1:
        raise InputError(f"{cells.file}, column {target!r}: all rows have the class {classes[0]!r}: give two or more")
    if len(classes) > max(2, len(texts) // 2):
        raise InputError(
            f"{cells.file}, column {target!r} has {len(classes)} values in {len(texts)} rows, too many for classes: "
            "name the column of labels, or group its values"
        )
    index = {name: label for label, name in enumerate(classes)}
    return torch.tensor([index[text] for text in texts]), classes


def parts_of(cells: Cells, labels: Labels, target: str) -> tuple[dict[str, Tensor], list[str]]:
    """The rows of each part, training first, and a line where the test rows are drawn."""
    column = split_column(cells, target)
    if column is None:
        test = drawn(labels)
        parts = {"train": ~test, "test": test} if test.any() else {"train": ~test}
        line = f"{int(test.sum())} of {len(test)} rows are the test part, a fifth of each class; a column `split` with "
        return {part: mask.nonzero().flatten() for part, mask in parts.items()}, [f"{line}train and test would decide"]
    texts = [text.lower() for text in cells.columns[column]]
    for row, text in enumerate(texts):
        if text not in PARTS:
            raise cells.error(column, row, f"{text!r} is no part: give train, val or test, or rename the column")
    named = [PARTS[text] for text in texts]
    if "train" not in named:
        raise InputError(f"{cells.file}, column {column!r} has no training rows: name their part train")
    order = ["train", *sorted({*named} - {"train"})]
    return {part: torch.tensor([row for row, name in enumerate(named) if name == part]) for part in order}, []


def split_column(cells: Cells, target: str) -> str | None:
    """The column of the parts, if the table has such a column."""
    return next((name for name in cells.columns if name.lower() == SPLIT and name != target), None)


def drawn(labels: Labels) -> Tensor:
    """The mask of test rows: the fifth of each class with the smallest random keys; a key belongs to a row.

    So a corrected label moves at most two rows to the other part.
    """
    keys = torch.rand(len(labels), generator=torch.Generator().manual_seed(SEED))
    test = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        rows = (labels == label).nonzero().flatten()
        test[rows[keys[rows].argsort()[: round(HELD_OUT * len(rows))]]] = True
    return test


def feature_columns(cells: Cells, target: str) -> tuple[list[str], list[str]]:
    """The columns with features, and a line about columns that only number the rows."""
    others = [name for name in cells.columns if name not in (target, split_column(cells, target))]
    counts = [name for name in others if not name or numbers_rows(cells, name)]
    kept = [name for name in others if name not in counts]
    if not kept:
        raise InputError(f"{cells.file} has no features besides {target!r}: add columns of numbers")
    shown = listed([name or "the first column, without a name" for name in counts])
    return kept, [f"left out, since they only number the rows: {shown}"] if counts else []


def numbers_rows(cells: Cells, name: str) -> bool:
    """Whether a column counts the rows from 0 or 1, as an index does."""
    texts = list(cells.columns[name])
    n = len(texts)
    return n >= ENOUGH_ROWS and texts in (list(map(str, range(n))), list(map(str, range(1, n + 1))))


def features_of(cells: Cells, name: str) -> Named:
    """The features of a column: its numbers, or a feature of 0 and 1 for each text."""
    texts = cells.columns[name]
    numbers = [number_in(text) for text in texts]
    strangers = [row for row, value in enumerate(numbers) if value is None]
    if 2 * len(strangers) > len(texts):
        return one_hot(cells, name)
    if strangers:
        row = strangers[0]
        raise cells.error(name, row, f"{texts[row]!r} is no number, unlike most cells of the column: mend it")
    for row, value in enumerate(numbers):
        if value is not None and not abs(value) <= LARGEST:
            raise cells.error(name, row, f"{texts[row]} is too large for a float32: rescale the column")
    return [(name, np.array(numbers, np.float32))]


def one_hot(cells: Cells, name: str) -> Named:
    """A feature of 0 and 1 for each text of a column; refuses decimal commas, and more texts than classes of rows."""
    texts = cells.columns[name]
    for row, text in enumerate(texts):
        if DECIMAL_COMMA.fullmatch(text):
            raise cells.error(name, row, f"{text!r} has a decimal comma: write numbers with a point")
    values = sorted(set(texts))
    if len(values) > min(MOST_VALUES, max(FEW_VALUES, len(texts) // 2)):
        if all(is_image(value) for value in values):
            raise InputError(
                f"{cells.file}, column {name!r} names image files, but --target is for tables of numbers: leave "
                "--target out, and name the columns path and label"
            )
        raise InputError(
            f"{cells.file}, column {name!r} has {len(values)} different texts in {len(texts)} rows, too many for "
            "features: remove the column, or group its texts"
        )
    column = np.array(texts)
    return [(f"{name}={value}", (column == value).astype(np.float32)) for value in values]


def places_of(found: dict[str, Named]) -> dict[str, range]:
    """The places of the features of each column."""
    places, begin = {}, 0
    for name, own in found.items():
        places[name] = range(begin, begin + len(own))
        begin += len(own)
    return places
