"""Progress on standard error: lines, and on a terminal bars with the time left."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Item = TypeVar("Item")


def plain(**settings: Any) -> Console:
    """A console that prints texts as they are: names of users may look like markup, or like an emoji (own.py:A:)."""
    return Console(markup=False, emoji=False, highlight=False, **settings)


class Bar:
    """The progress of a task whose size may change; without a `Progress`, nothing is shown."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = progress
        self.task = progress.add_task("", total=None) if progress else None

    def advance(self, amount: float) -> None:
        """Adds to the work done."""
        if self.progress and self.task is not None:
            self.progress.advance(self.task, amount)

    def set(self, label: str, done: float, total: float | None) -> None:
        """Sets the label, the work done, and the total work if it is known."""
        if self.progress and self.task is not None:
            self.progress.update(self.task, description=label, completed=done, total=total)


class Display:
    """Lines and bars on standard error: bars on a terminal only, nothing at all if not `shown`."""

    def __init__(self, shown: bool = True) -> None:
        self.shown = shown
        self.console = plain(file=sys.stderr, soft_wrap=True)

    def line(self, text: str) -> None:
        """Prints one line."""
        if self.shown:
            self.console.print(text)

    def track(self, items: Iterable[Item], label: str, total: int, start: int = 0) -> Iterator[Item]:
        """Yields the items, and counts them in a bar until the last."""
        if not self.has_bars:
            yield from items
            return
        with self.progress(MofNCompleteColumn()) as progress:
            task = progress.add_task(label, total=total, completed=start)
            for item in items:
                yield item
                progress.advance(task)

    @contextmanager
    def bar(self) -> Iterator[Bar]:
        """A bar for work that is not a list of items; it disappears at the end."""
        if not self.has_bars:
            yield Bar()
            return
        with self.progress(TaskProgressColumn()) as progress:
            yield Bar(progress)

    @property
    def has_bars(self) -> bool:
        """Whether bars are shown."""
        return self.shown and self.console.is_terminal

    def progress(self, amount: ProgressColumn) -> Progress:
        """A bar with its label, this column for the amount, the time so far and the time left."""
        columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=30), amount)
        times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        return Progress(*columns, *times, console=self.console, transient=True)


SILENT = Display(shown=False)
