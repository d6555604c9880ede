"""Files that are written whole or not at all, and tables as .csv or .parquet."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from orat.core.errors import InputError

TABLES = (".csv", ".parquet")


def write_table(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Writes columns of equal length as a .csv or .parquet file, whole or not at all."""
    check_table(path)
    replace_file(path, csv_bytes(columns) if path.suffix == ".csv" else parquet_bytes(columns))


def check_table(path: Path) -> None:
    """Refuses a path that `write_table` cannot write."""
    if path.suffix not in TABLES:
        raise InputError(f"{path.name}: a table is written as {' or '.join(TABLES)}, not as {path.suffix or 'nothing'}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}: make it, or give another place for the table")
    if path.suffix == ".parquet":
        require("pyarrow", "parquet", "a .parquet table")


def require(module: str, extra: str, purpose: str) -> None:
    """Refuses to continue without an optional package."""
    try:
        import_module(module)
    except ImportError:
        raise InputError(f"{purpose} needs {module.partition('.')[0]}: pip install 'orat[{extra}]'") from None


def csv_bytes(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """The columns as comma-separated text; None is an empty field, and names of files keep bytes that are not UTF-8."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode(errors="surrogateescape")


def parquet_bytes(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """The columns as a Parquet file; None is a null."""
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    buffer = io.BytesIO()
    parquet.write_table(arrow.table({name: list(column) for name, column in columns.items()}), buffer)
    return buffer.getvalue()


def read_bytes(file: Path) -> bytes:
    """The bytes of an input file."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error


def replace_file(path: Path, content: bytes) -> None:
    """Replaces a file by these bytes, whole or not at all."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A temporary file, renamed at the end, so that the old or the new file is there, whole, at every moment."""
    beside = path.with_name(f".{path.name}.new")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)  # a failed write does not set the name
        raise
    finally:
        with suppress(OSError):
            beside.unlink()
