"""The folder of a search: the search as JSON, one run folder a setting, and the table of results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from orat.core.errors import InputError
from orat.core.files import replace_file
from orat.sweeps.space import Axis, Choice
from orat.training.run_folder import RunFolder


class SearchFolder:
    """The files of one search."""

    def __init__(self, path: Path) -> None:
        self.path, self.record, self.failures = path, path / "search.json", path / "broken.json"

    def run(self, choice: Choice) -> Path:
        """The run folder of a setting."""
        return self.path / name_of(choice)

    def has_begun(self, choice: Choice) -> bool:
        """Whether the run of a setting has begun."""
        return (self.run(choice) / "run.json").is_file()

    def check(self, record: Mapping[str, Any]) -> None:
        """Refuses a folder with another search or other files."""
        if self.path.is_file():
            raise InputError(f"{self.path} is a file: give --out a new folder")
        if not self.record.is_file():
            if self.path.is_dir() and any(not inside.name.startswith(".") for inside in self.path.iterdir()):
                raise InputError(f"{self.path} has files, but no search: give --out a new or empty folder")
            return
        try:
            there = json.loads(self.record.read_text())
        except json.JSONDecodeError as error:
            raise InputError(f"{self.record} is damaged ({error}): restore it, or give --out a new folder") from None
        if (found := difference(there, record)) is not None:
            raise InputError(f"{self.path} belongs to another search ({found}): give --out a new folder")

    @contextmanager
    def claimed(self, record: Mapping[str, Any]) -> Iterator[None]:
        """Locks the folder for one search in one process."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / ".lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise InputError(f"{self.path} is in use by another process: wait until its search ends") from None
        with lock:
            self.check(record)
            replace_file(self.record, json.dumps(record, indent=2).encode() + b"\n")
            yield

    def failed(self) -> dict[str, str]:
        """The reasons of runs that failed, by folder name; a failed run is not trained again."""
        return json.loads(self.failures.read_text()) if self.failures.is_file() else {}

    def keep_failed(self, reasons: Mapping[str, str]) -> None:
        """Writes the reasons of runs that began and failed."""
        failed = {name: reason for name, reason in reasons.items() if (self.path / name / "run.json").is_file()}
        if failed:
            replace_file(self.failures, json.dumps(failed, indent=2).encode() + b"\n")

    def row(self, axes: list[Axis], choice: Choice, error: str | None, show_test: bool = False) -> dict[str, Any]:
        """The validation accuracy of a setting at its chosen epoch, or the reason of its failure."""
        folder = RunFolder(self.run(choice))
        setting = {axis.field: axis.read(choice[axis.field]) for axis in axes}
        row = {"setting": setting, "validation": {}, "epoch": None, "error": error, "folder": str(folder.path)}
        result = None if error else folder.result()
        if result is not None:
            row["epoch"] = result["chosen"]["epoch"]
            row["validation"] = next(line["validation"] for line in folder.history() if line["epoch"] == row["epoch"])
        if show_test:
            tested = result["chosen"] if result else {}
            row["test"] = {name: share for name, share in tested.items() if name != "epoch"}
        return row


def difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str | None:
    """The first difference of two searches in words; a higher number of trials is none, as it continues a search."""
    for name in {**here, **there}:
        old, new = there.get(name), here.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            if (found := difference(old, new)) is not None:
                return found
        elif old != new and not (name == "trials" and old and new and old < new):
            return f"{name}: {old} there, {new} here"
    return None


def name_of(choice: Choice) -> str:
    """The folder name of a setting."""
    return "-".join(f"{field}-{text}".replace("/", "_") for field, text in choice.items())


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The rows of a search by columns."""
    table = {field: [row["setting"][field] for row in rows] for field in rows[0]["setting"]}
    for part in ("validation", "test"):
        for name in dict.fromkeys(name for row in rows for name in row.get(part, {})):
            table[f"{part}_{name}"] = [row[part].get(name) for row in rows]
    return table | {name: [row[name] for row in rows] for name in ("epoch", "folder", "error")}
