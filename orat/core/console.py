"""What a person sees while waiting: one line an epoch, and a bar with the time left on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Item = TypeVar("Item")


class Bar:
    """Work that is done, out of what is expected; both may change."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = progress
        self.task = progress.add_task("attacks", total=None) if progress else None

    def advance(self, amount: float) -> None:
        """So much more is done."""
        if self.progress and self.task is not None:
            self.progress.advance(self.task, amount)

    def set(self, label: str, done: float, total: float) -> None:
        """What is being done, and how far it is."""
        if self.progress and self.task is not None:
            self.progress.update(self.task, description=label, completed=done, total=total)


class Display:
    """Lines and bars on standard error; bars only on a terminal, nothing at all when not shown."""

    def __init__(self, shown: bool = True) -> None:
        self.shown = shown
        self.console = Console(file=sys.stderr, highlight=False, soft_wrap=True)

    def line(self, text: str) -> None:
        """One line that stays."""
        if self.shown:
            self.console.print(text, markup=False)

    def track(self, items: Iterable[Item], label: str, total: int, start: int = 0) -> Iterator[Item]:
        """The items, with a bar that counts them and goes away."""
        if not (self.shown and self.console.is_terminal):
            yield from items
            return
        columns = (
            TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task(label, total=total, completed=start)
            for item in items:
                yield item
                progress.advance(task)

    @contextmanager
    def bar(self) -> Iterator[Bar]:
        """A bar for work that is not a list of items; it goes away."""
        if not (self.shown and self.console.is_terminal):
            yield Bar()
            return
        columns = (
            TextColumn("{task.description}"), BarColumn(bar_width=30), TaskProgressColumn(),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=self.console, transient=True) as progress:
            yield Bar(progress)


SILENT = Display(shown=False)
