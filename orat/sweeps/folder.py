"""The folder of a search: what is searched, a run folder for every choice, and the table that they make."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from orat.core.errors import InputError
from orat.core.files import replace_file
from orat.sweeps.space import Axis, Choice
from orat.training.run_folder import RunFolder


def check_folder(out: Path, record: dict[str, Any]) -> None:
    """Refuses a folder that belongs to another search or to something else."""
    if out.is_file():
        raise InputError(f"{out} is a file: give --out a new folder")
    file = out / "search.json"
    if not file.is_file():
        if out.is_dir() and any(not inside.name.startswith(".") for inside in out.iterdir()):
            raise InputError(f"{out} has files in it, but none of a search: give --out a new or empty folder")
        return
    try:
        there = json.loads(file.read_text())
    except json.JSONDecodeError as error:
        raise InputError(f"{file} is damaged ({error}): it was not written by this version of orat") from None
    if (found := difference(there, record)) is not None:
        raise InputError(f"{out} belongs to another search ({found}): give --out a new folder")


def difference(there: dict[str, Any], here: dict[str, Any]) -> str | None:
    """The first thing in which two records differ, in words; more trials of Optuna only go on."""
    for name in {**here, **there}:
        old, new = there.get(name), here.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            if (found := difference(old, new)) is not None:
                return found
        elif old != new and not (name == "trials" and old and new and old < new):
            return f"{name}: {old} there, {new} here"
    return None


@contextmanager
def claimed(out: Path, record: dict[str, Any]) -> Iterator[None]:
    """The folder as this search's, and for this process alone."""
    out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / ".lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise InputError(f"{out} is in use by another process that searches there: wait for it") from None
    with lock:
        check_folder(out, record)
        replace_file(out / "search.json", json.dumps(record, indent=2).encode() + b"\n")
        yield


def broken_before(out: Path) -> dict[str, str]:
    """Why runs of all combinations have no result: what broke once is not trained again."""
    file = out / "broken.json"
    return json.loads(file.read_text()) if file.is_file() else {}


def keep_broken(out: Path, reasons: dict[str, str]) -> None:
    """Writes down why runs have no result."""
    broken = {name: reason for name, reason in reasons.items() if (out / name / "run.json").is_file()}
    if broken:
        replace_file(out / "broken.json", json.dumps(broken, indent=2).encode() + b"\n")


def name_of(choice: Choice) -> str:
    """The folder of a choice."""
    return "-".join(f"{field}-{text}".replace("/", "_") for field, text in choice.items())


def words(choice: Choice) -> str:
    """A choice for people."""
    return ", ".join(f"{field} = {text}" for field, text in choice.items())


def row_of(axes: list[Axis], choice: Choice, out: Path, error: str | None, show_test: bool = False) -> dict[str, Any]:
    """What came of a choice: accuracy on validation at the epoch that the run chose, or why there is none."""
    folder = RunFolder(out / name_of(choice))
    setting = {axis.field: axis.read(choice[axis.field]) for axis in axes}
    row: dict[str, Any] = {
        "setting": setting,
        "validation": {},
        "epoch": None,
        "error": error,
        "folder": str(folder.path),
    }
    result = None if error else folder.result()
    if result is not None:
        row["epoch"] = result["chosen"]["epoch"]
        row["validation"] = next(line["validation"] for line in folder.history() if line["epoch"] == row["epoch"])
    if show_test:
        tested = result["chosen"] if result else {}
        row["test"] = {name: share for name, share in tested.items() if name != "epoch"}
    return row


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The rows as a table for files."""
    table = {field: [row["setting"][field] for row in rows] for field in rows[0]["setting"]}
    for part in ("validation", "test"):
        for name in dict.fromkeys(name for row in rows for name in row.get(part, {})):
            table[f"{part}_{name}"] = [row[part].get(name) for row in rows]
    return table | {name: [row[name] for row in rows] for name in ("epoch", "folder", "error")}
