"""A study as a JSON table, one row a run: a row is written as soon as the run ends, and a present row is not repeated."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from orat.core.console import SILENT
from orat.core.device import choose_device, commit, hardware, versions
from orat.core.errors import InputError
from orat.sweeps.parallel import Turn, finished
from orat.training.run import Run
from orat.training.train import MakeObservers, training

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A row to fill: the columns that identify the row, and the run with its folder."""

    columns: Row
    folder: Path
    run: Run


def add_flags(parser: argparse.ArgumentParser, runs: str) -> None:
    """The flags of every study."""
    parser.add_argument("--seeds", default="0", help="with commas between")
    parser.add_argument("--fields", default="{}", help="other fields of the runs, as JSON")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--runs", type=Path, default=Path(runs))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--commit", default=commit(), help="the commit, for a machine without git")


def fields_of(arguments: argparse.Namespace) -> Row:
    """Other fields of the runs, with tuples in place of lists."""
    fields = json.loads(arguments.fields)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def fill(
    arguments: argparse.Namespace,
    setting: Row,
    cells: Callable[[list[Row]], Iterable[Cell]],
    row_of: Callable[[Cell, Row], Row],
    observers: MakeObservers | None = None,
    hidden: str = "",
    failures: bool = False,
) -> list[Row]:
    """Runs the missing cells and returns all rows; the hidden column is written but not printed.

    A failed run ends the study, unless `failures` are rows too, with the column `error`.
    """
    rows, where = known_rows(arguments.out, setting), choose_device(arguments.device)
    waiting = {cell.folder: cell for cell in cells(rows)}
    origin = {"commit": arguments.commit, "at_once": arguments.at_once, **hardware(where)}
    turns = (
        Turn(folder, training(
            cell.run, folder, arguments.data_dir, str(where), SILENT, arguments.engine, observers
        ))
        for folder, cell in waiting.items()
    )  # fmt: skip
    for turn in finished(turns, arguments.at_once if where.type == "cuda" else 1):
        if "error" in turn.result and not failures:
            raise InputError(f"{turn.folder}: {turn.result['error']}")
        cell = waiting[Path(turn.folder)]
        rows.append(cell.columns | row_of(cell, turn.result) | origin)
        arguments.out.write_text(text_of({"setting": setting, **versions()}, rows))
        print(json.dumps({name: value for name, value in rows[-1].items() if name != hidden}), flush=True)
    return rows


def text_of(head: Row, rows: list[Row]) -> str:
    """JSON with one line a row."""
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return json.dumps(head, indent=1).removesuffix("\n}") + f',\n "rows": [\n{lines}\n ]\n}}\n'


def known_rows(out: Path, setting: Row) -> list[Row]:
    """The present rows; refuses rows of another setting."""
    if not out.is_file():
        return []
    content = json.loads(out.read_text())
    if content["setting"] != setting:
        raise InputError(f"{out} is of {content['setting']}, not of {setting}: give --out another file")
    rows: list[Row] = content["rows"]
    return rows


def is_known(columns: Row, rows: list[Row]) -> bool:
    """Whether a row with these columns is present."""
    return any(columns.items() <= row.items() for row in rows)


def mask_file(folder: Path, removed: Tensor | None, n: int) -> str:
    """A file beside a run folder with the samples for its oracle to remove."""
    file = folder.parent / f"{folder.name}-removed.npy"
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, np.zeros(n, dtype=bool) if removed is None else removed.numpy())
    return str(file)
