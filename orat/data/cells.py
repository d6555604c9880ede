"""Files of tables -> texts by column: .csv, .tsv and .parquet files with a header."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from orat.core.errors import InputError, line_of
from orat.core.files import require

SEPARATORS = ",;\t"
NAMED = 5  # cells in a line; further cells are counted
MISSING = ("", "nan", "na", "n/a", "null", "?")  # in small letters


@dataclass(frozen=True)
class Cells:
    """The texts of a table by column, and the place of each row, such as "line 2"."""

    file: Path | str  # or what error messages call a data frame
    columns: Mapping[str, Sequence[str]]
    places: Sequence[str]

    @property
    def lines(self) -> tuple[int, ...]:
        """The number of each row: of its line in a text file, else from 0 on."""
        return tuple(int(place.rpartition(" ")[2]) for place in self.places)

    def error(self, column: str, row: int, words: str) -> InputError:
        """The error for one cell."""
        return InputError(f"{self.file}, column {column!r}, {self.places[row]}: {words}")

    def refuse_missing(self) -> None:
        """Refuses cells without a value, all at once."""
        rows = range(len(self.places))
        empty = [(row, name) for row in rows for name, cells in self.columns.items() if cells[row].lower() in MISSING]
        if empty:
            some = "; ".join(f"column {name!r}, {self.places[row]}" for row, name in empty[:NAMED])
            more = f" and {len(empty) - NAMED:,} more" if len(empty) > NAMED else ""
            count = "the value is missing" if len(empty) == 1 else f"{len(empty):,} values are missing"
            raise InputError(f"{self.file}, {some}{more}: {count}; fill in, or remove the rows or the columns")


def cells_of(file: Path) -> Cells:
    """The cells of a table."""
    return parquet_cells(file) if file.suffix == ".parquet" else csv_cells(file)


def csv_cells(file: Path) -> Cells:
    """The cells of a text file, separated by commas, semicolons or tabs."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            separator = separator_of(stream.readline())
            stream.seek(0)
            reader = csv.reader(stream, delimiter=separator, strict=True)
            lines = [(f"line {reader.line_num}", row) for row in reader if any(cell.strip() for cell in row)]
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {file} as a table ({line_of(error)}): save it as CSV in UTF-8") from error
    if len(lines) < 2:
        raise InputError(f"{file} has no rows below its header: give a table with a header and one sample a row")
    (_, header), *rows = lines
    names = checked(file, [name.strip() for name in header])
    for place, row in rows:
        if len(row) != len(names):
            raise InputError(f"{file}, {place}: {len(row)} cells for {len(names)} columns: mend the line")
    columns = ([cell.strip() for cell in column] for column in zip(*(row for _, row in rows), strict=True))
    return Cells(file, dict(zip(names, columns, strict=True)), [place for place, _ in rows])


def parquet_cells(file: Path) -> Cells:
    """The cells of a .parquet file."""
    require("pyarrow", "parquet", "a .parquet table")
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    try:
        table = parquet.read_table(file)
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"cannot read {file} as a table ({line_of(error)}): write it again") from error
    names = checked(file, table.column_names)
    if not table.num_rows:
        raise InputError(f"{file} has no rows: give a table with one sample a row")
    columns = (["" if value is None else str(value) for value in column.to_pylist()] for column in table.columns)
    return Cells(file, dict(zip(names, columns, strict=True)), [f"row {row}" for row in range(table.num_rows)])


def frame_cells(frame: Any, name: str) -> Cells:
    """The cells of a data frame; rows count from 0, as its index usually does."""
    names = checked(name, [str(title) for title in frame.columns], has_header=True)
    columns = [[text_in(value) for value in frame[title].to_list()] for title in frame.columns]
    if not len(frame):
        raise InputError(f"{name} has no rows: give a table with one sample a row")
    return Cells(name, dict(zip(names, columns, strict=True)), [f"row {row}" for row in range(len(frame))])


def text_in(value: Any) -> str:
    """The text of a value in a data frame; empty for the signs of a missing value."""
    text = "" if value is None else str(value).strip()
    return "" if not isinstance(value, str) and text in ("<NA>", "NaT") else text


def separator_of(header: str) -> str:
    """The separator that gives the most columns."""
    return max(SEPARATORS, key=lambda one: len(next(csv.reader([header], delimiter=one), [])))


def checked(file: Path | str, names: list[str], has_header: bool = False) -> list[str]:
    """The names of the columns, each given once; only the first column may have none, as pandas writes its index."""
    if len(names) < 2:
        raise InputError(f"{file} has one column, {names[0]!r}: separate columns by comma, semicolon or tab")
    if not has_header and all(number_in(name) is not None for name in names):
        raise InputError(f"{file} has no header, only numbers: write the names of the columns into its first line")
    for place, name in enumerate(names):
        if not name and place:
            raise InputError(f"{file}: column {place + 1} has no name: write its name into the header")
        if name in names[:place]:
            raise InputError(f"{file} has two columns {name!r}: rename one of them")
    return names


def number_in(text: str) -> float | None:
    """The number that a text writes; None for any other text."""
    try:
        return float(text)
    except ValueError:
        return None
