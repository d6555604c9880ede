"""What pages of measured numbers are written with: tables, and rows that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from statistics import mean, stdev
from typing import Any, TypeVar

Row = dict[str, Any]
Item = TypeVar("Item")
MADE_WITH = ("device", "commit")


def table_head(titles: Iterable[Any]) -> list[str]:
    """The titles of a table, and the line below them."""
    columns = list(titles)
    return [table_line(columns), "|" + "---|" * len(columns)]


def table_line(cells: Iterable[Any]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """A mean, and the standard deviation if there are several."""
    if not values:
        return ""
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def measured_on(name: str, origins: Iterable[Row]) -> list[str]:
    """Which hardware and commits the numbers of a file under results/ come from."""
    known = list(origins)
    devices, commits = (" and ".join(sorted({str(one.get(key))[:12] for one in known})) for key in MADE_WITH)
    return ["", f"Measured on {devices} at {commits} ([all numbers](../results/{name}.json))."]


def grouped(rows: Iterable[Item], key: Callable[[Item], Any]) -> list[tuple[Any, list[Item]]]:
    """Items of one key together, in the order in which keys are met."""
    found: dict[Any, list[Item]] = {}
    for value, group in groupby(rows, key):
        found.setdefault(value, []).extend(group)
    return list(found.items())
