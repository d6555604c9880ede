"""Files of predictions: .npy, .npz, .csv or .parquet, one row a sample and one column a class."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from orat.core.errors import InputError, line_of
from orat.core.files import require

NAMES_KEY = "class_names"  # of an .npz file
INDEX = ("", "index")  # titles of a column of indices; pandas writes none
PATH = "path"
ADVICE = "give one row a sample and one column a class"


@dataclass(frozen=True, eq=False)
class GivenPredictions:
    """GivenPredictions as read."""

    name: str  # for messages
    values: Tensor  # (n, classes) float64
    classes: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None


def read(source: Any) -> GivenPredictions:
    """Finite predictions (n, classes) in a file, an array, a tensor, or a data frame with one column a class."""
    if isinstance(source, str | Path):
        return checked(from_file(Path(source)))
    if hasattr(source, "columns"):
        return checked(from_columns("predictions", {str(name): source[name].tolist() for name in source.columns}))
    values = source.detach().cpu().double().numpy() if isinstance(source, Tensor) else source
    return checked(GivenPredictions("predictions", numbers_of("predictions", values)))


def from_file(path: Path) -> GivenPredictions:
    """The predictions in a file of any of these kinds."""
    if path.suffix not in READERS:
        raise InputError(f"{path} ends in {path.suffix!r}: give the predictions as {', '.join(READERS)}")
    if not path.is_file():
        raise InputError(f"there is no file {path}: give the predictions as {', '.join(READERS)}")
    return READERS[path.suffix](path)


def read_array(path: Path) -> GivenPredictions:
    """The array of a .npy file, or the only array of an .npz file beside its class names."""
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            arrays = {"": content} if isinstance(content, np.ndarray) else dict(content)
    except (OSError, ValueError, EOFError, ImportError) as error:
        raise InputError(f"cannot read {path} ({line_of(error)}): save the predictions again with np.save") from error
    classes = arrays.pop(NAMES_KEY, None)
    if len(arrays) != 1:
        raise InputError(f"{path} holds {', '.join(arrays) or 'no array'}: keep one array, beside {NAMES_KEY}")
    (values,) = arrays.values()
    names = None if classes is None else tuple(str(name) for name in classes.ravel().tolist())
    return GivenPredictions(str(path), numbers_of(str(path), values), names)


def read_csv(path: Path) -> GivenPredictions:
    """The columns of a .csv file, whose first line names the classes."""
    columns = csv_columns(path)
    if all(is_number(name) and not name.isdigit() for name in columns):
        raise InputError(f"{path} has no header, only numbers: write the class names into the first line")
    return from_columns(str(path), columns)


def csv_columns(path: Path) -> dict[str, Sequence[str]]:
    """The texts of a .csv file by column; the first line names the columns."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"cannot read {path} as a table ({line_of(error)}): save it as CSV in UTF-8") from error
    if len(lines) < 2:
        raise InputError(f"{path} has no rows below its header: {ADVICE}")
    (_, names), *rows = lines
    for number, row in rows:
        if len(row) != len(names):
            raise InputError(f"{path}, line {number}: {len(row)} cells for {len(names)} columns: mend the line")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path} has two columns {twice[0]!r}: give each column a name of its own, in the first line")
    return dict(zip(names, zip(*(row for _, row in rows), strict=True), strict=True))


def read_parquet(path: Path) -> GivenPredictions:
    """The columns of a .parquet file."""
    require("pyarrow", "parquet", "a .parquet table")
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    try:
        return from_columns(str(path), parquet.read_table(path).to_pydict())
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"cannot read {path} as a table ({line_of(error)}): write it again") from error


READERS: dict[str, Callable[[Path], GivenPredictions]] = {
    ".npy": read_array, ".npz": read_array, ".csv": read_csv, ".parquet": read_parquet,
}  # fmt: skip


def from_columns(name: str, columns: Mapping[str, Sequence[Any]]) -> GivenPredictions:
    """GivenPredictions with one column a class; columns `path` and `index` are those of the samples."""
    classes = tuple(title for title in columns if title not in (PATH, *INDEX))
    values = np.array([column_of(name, title, columns[title]) for title in classes]).T
    index = next((columns[title] for title in INDEX if title in columns), None)
    order = range(len(values)) if index is None else order_of(name, index)
    paths = columns.get(PATH)
    return GivenPredictions(
        name,
        torch.from_numpy(values.reshape(-1, len(classes))[list(order)]),
        classes,
        None if paths is None else tuple(str(paths[row]) for row in order),
    )


def column_of(name: str, title: str, cells: Sequence[Any]) -> npt.NDArray[np.float64]:
    """The numbers of a column."""
    try:
        return np.array(cells, dtype=np.float64)
    except (TypeError, ValueError):
        row = next(row for row, cell in enumerate(cells) if not is_number(cell))
        raise InputError(f"{name}, column {title!r}, sample {row}: {cells[row]!r} is no number: {ADVICE}") from None


def order_of(name: str, index: Sequence[Any]) -> list[int]:
    """The row of each sample, by a column of indices."""
    rows = {str(value): row for row, value in enumerate(index)}
    if rows.keys() != {str(sample) for sample in range(len(index))}:
        raise InputError(f"{name}: the column of indices has to hold 0 to {len(index) - 1}, each once: mend or drop it")
    return [rows[str(sample)] for sample in range(len(index))]


def is_number(cell: Any) -> bool:
    """Whether a cell of a table holds a number."""
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def numbers_of(name: str, values: Any) -> Tensor:
    """The values as float64."""
    try:
        return torch.from_numpy(np.array(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {line_of(error)}: {ADVICE}, of numbers") from None


def checked(given: GivenPredictions) -> GivenPredictions:
    """Refuses shapes other than (n, classes), NaN and infinity; minus infinity is the logarithm of 0."""
    name, values = given.name, given.values
    if values.dim() != 2 or not len(values):
        raise InputError(f"{name} has the shape {tuple(values.shape)}: {ADVICE}")
    if values.shape[1] < 2:
        raise InputError(f"{name} has one class: give a column for each class, such as 1 - p and p")
    if given.classes is not None and len(given.classes) != values.shape[1]:
        raise InputError(f"{name} names {len(given.classes)} classes for {values.shape[1]} columns: name each column")
    bad = (values.isnan() | values.isposinf()).any(1).nonzero().flatten().tolist()
    if bad:
        raise InputError(
            f"{name} has NaN or infinity in rows: {len(bad):,}, first of sample {bad[0]}: leave these samples out, or "
            "predict them again"
        )
    return given
