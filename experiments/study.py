"""A table of runs as JSON: every run is a row as soon as it is finished, and what is a row already is not run again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orat.core.console import SILENT
from orat.core.device import choose_device, commit, hardware, versions
from orat.core.errors import InputError
from orat.methods.automatic import Watch
from orat.sweeps.parallel import Sitting, finished
from orat.training.run import Run
from orat.training.train import Job

NEVER = 10**6  # epochs before an oracle would judge by itself

Row = dict[str, Any]


def add_flags(parser: argparse.ArgumentParser, runs: str) -> None:
    """What every such table takes."""
    parser.add_argument("--seeds", default="0", help="with commas between")
    parser.add_argument("--fields", default="{}", help="other fields of the runs, as JSON")
    parser.add_argument("--runs", type=Path, default=Path(runs))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--commit", default=commit(), help="where git does not know it")


def fields_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Other fields of the runs, lists as the tuples that a run has."""
    fields = json.loads(arguments.fields)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def filled(
    arguments: argparse.Namespace,
    setting: dict[str, Any],
    missing: Callable[[list[Row]], Iterator[tuple[Row, Sitting]]],
    row_of: Callable[[Row, Sitting], Row],
    unprinted: str = "",
) -> list[Row]:
    """All rows, after the missing ones were run; one column may be too long to print."""
    rows, where = known_rows(arguments.out, setting), choose_device(arguments.device)
    cells: dict[Sitting, Row] = {}

    def sittings() -> Iterator[Sitting]:
        for cell, sitting in missing(rows):
            cells[sitting] = cell
            yield sitting

    for sitting in finished(sittings(), arguments.at_once if where.type == "cuda" else 1):
        if sitting.error is not None:
            raise InputError(f"{sitting.folder}: {sitting.error}")
        cell = cells.pop(sitting)
        origin = {"commit": arguments.commit, "at_once": arguments.at_once, **hardware(where)}
        rows.append(cell | row_of(cell, sitting) | origin)
        arguments.out.write_text(text_of({"setting": setting, **versions()}, rows))
        print(json.dumps({name: value for name, value in rows[-1].items() if name != unprinted}), flush=True)
    return rows


def text_of(head: dict[str, Any], rows: list[Row]) -> str:
    """JSON with one line a row."""
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return json.dumps(head, indent=1).removesuffix("\n}") + f',\n "rows": [\n{lines}\n ]\n}}\n'


def known_rows(out: Path, setting: dict[str, Any]) -> list[Row]:
    """The rows that are there already, of the same setting."""
    if not out.is_file():
        return []
    content = json.loads(out.read_text())
    if content["setting"] != setting:
        raise InputError(f"{out} is of {content['setting']}, not of {setting}: give --out another file")
    rows: list[Row] = content["rows"]
    return rows


def is_known(cell: Row, rows: list[Row]) -> bool:
    """Whether there is a row of a cell."""
    return any(cell.items() <= row.items() for row in rows)


def sitting_of(
    arguments: argparse.Namespace, folder: Path, run: Run, data_dir: Path | None, kind: type[Sitting] = Sitting
) -> Sitting:
    """A run, ready to go on."""
    return kind(folder, run, data_dir, choose_device(arguments.device), SILENT, arguments.engine)


def tell_truth(sitting: Sitting, wrong: Callable[[Job], Tensor | None]) -> None:
    """Gives the watch of a run that is an oracle the samples to cut."""
    if not isinstance(sitting.job, Job):
        return
    state, cut = sitting.job.learner.state, wrong(sitting.job)
    assert isinstance(state, Watch)
    kept = torch.ones(state.n) if cut is None else (~cut).float()
    with sitting.own_stream():
        state.weights.copy_(kept * (state.n / kept.sum()))
