"""Reports of `orat paper reproduce` from other machines: their runs, by cell, protocol and seed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from orat.core.errors import InputError
from orat_paper.reproduce.cells import KEYS, Cell

EVERY_EPOCH = "every-epoch"  # in the folder name of a run with tests after every epoch
SAME_IMAGES = {"c10.npz": "cifar10"}  # name in an older report -> name now; the fingerprints are equal
NEEDED = {*KEYS, "protocol", "seed", "folder", "accuracy"}

Report = Mapping[str, Any]  # one run in a report


class Identity(NamedTuple):
    """The fields that identify a training on any machine and in any version of orat."""

    cell: Cell
    protocol: str
    seed: int
    every_epoch: bool
    data: str  # name of the data set, or name of its file
    epochs: int


def read_reports(files: Iterable[Path]) -> dict[Identity, tuple[Report, ...]]:
    """Every training in these files, with its entry in each."""
    found: dict[Identity, tuple[Report, ...]] = {}
    for file in files:
        for run in runs_of(file):
            identity = identity_of(run)
            found[identity] = (*found.get(identity, ()), run)
    return found


def identity_of(run: Report) -> Identity:
    """The identity of a run in a report."""
    cell, data = Cell(**{name: run[name] for name in KEYS}), run["run"]["data"]
    every_epoch = f"-{EVERY_EPOCH}-" in run["folder"]
    return Identity(cell, run["protocol"], run["seed"], every_epoch, SAME_IMAGES.get(data, data), run["run"]["epochs"])


def runs_of(file: Path) -> list[dict[str, Any]]:
    """The runs of one report."""
    try:
        runs: list[dict[str, Any]] = json.loads(file.read_text())["runs"]
        if all(run.keys() >= NEEDED and run["run"].keys() >= {"data", "epochs"} for run in runs):
            return runs
    except OSError as error:
        raise InputError(f"--known {file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):  # no JSON, or JSON of another kind
        pass
    raise InputError(f"--known {file} is no report: give a file of orat paper reproduce, such as DIR/table1.json")
