"""Reports of `orat reproduce` that were written elsewhere: which runs they have."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from orat.core.errors import InputError


def read_reports(files: Iterable[Path]) -> dict[str, tuple[dict[str, Any], ...]]:
    """Folder of a run, which is the same for the same run anywhere -> what each report that has it says of it."""
    found: dict[str, tuple[dict[str, Any], ...]] = {}
    for file in files:
        for run in runs_of(file):
            found[run["folder"]] = (*found.get(run["folder"], ()), run)
    return found


def runs_of(file: Path) -> list[dict[str, Any]]:
    """The runs of one report."""
    try:
        runs: list[dict[str, Any]] = json.loads(file.read_text())["runs"]
        if all({"folder", "accuracy"} <= run.keys() for run in runs):
            return runs
    except OSError as error:
        raise InputError(f"--known {file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):  # no JSON, or JSON of something else
        pass
    raise InputError(f"--known {file} is no report: give a file that orat reproduce wrote, such as DIR/table1.json")
