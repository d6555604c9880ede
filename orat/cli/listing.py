"""What `orat data` shows: every data set by name, whether it is there and whole, and how to get it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from orat.core.errors import unknown
from orat.data.catalog import NAMES, PUBLIC, data_folder, found, load
from orat.data.download import Progress as Report
from orat.data.download import fetch


def listing(data_dir: Path | None) -> list[dict[str, Any]]:
    """One row a data set; the public ones are read and checked, the bundled ones are always there."""
    public = [
        {
            "name": one.name, "status": one.status, "train": one.train, "test": one.test,
            "shape": list(one.shape), "classes": one.classes, "where": str(one.folder or ""), "message": one.message,
        }
        for one in found(data_dir)
    ]  # fmt: skip
    return public + [row(name, "bundled", None) for name in NAMES[len(PUBLIC) :]]


def row(name: str, where: str, image_size: tuple[int, int] | None) -> dict[str, Any]:
    """One data set that is there: reading it is the check."""
    splits = load(name, image_size=image_size)
    train, test = splits.train, splits.test
    return {
        "name": name, "status": "found", "train": len(train), "test": len(test) if test else 0,
        "shape": list(train.shape), "classes": len(train.classes), "where": where, "message": "whole",
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> Table:
    """The rows, aligned."""
    grid = Table(box=box.SIMPLE_HEAD, caption_justify="left")
    grid.caption = "\n".join(one["message"] for one in rows if one["status"] != "found") or None
    for title, justify in (("data", "left"), ("status", "left"), ("train", "right"), ("test", "right"),
                           ("shape", "left"), ("classes", "right"), ("where", "left")):  # fmt: skip
        grid.add_column(title, justify=justify, no_wrap=title == "data", overflow="fold")  # type: ignore[arg-type]
    for one in rows:
        there = one["status"] == "found"
        counts = [f"{one[name]:,}" if there else "-" for name in ("train", "test")]
        shape = "x".join(map(str, one["shape"])) or "-"
        grid.add_row(one["name"], one["status"], *counts, shape, str(one["classes"] or "-"), one["where"])
    return grid


def download(name: str, data_dir: Path | None) -> Path:
    """Downloads a public data set with a bar, and returns its folder."""
    if name not in PUBLIC:
        raise unknown("public data set", name, PUBLIC)
    with bar() as report:
        return fetch(name, data_folder(data_dir), report)


@contextmanager
def bar() -> Iterator[Report]:
    """A bar a file; what is yielded is called with the file, the bytes so far and the bytes in all."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=Console(stderr=True))
    tasks: dict[str, TaskID] = {}

    def report(file: str, done: int, total: int | None) -> None:
        progress.start()  # not before: a bar without a file would leave an empty line
        if file not in tasks:
            tasks[file] = progress.add_task(file, total=total)
        progress.update(tasks[file], completed=done)

    try:
        yield report
    finally:
        if tasks:
            progress.stop()
