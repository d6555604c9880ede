"""Parts of the pages of measured numbers: tables, and rows in groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from statistics import mean, stdev
from typing import Any, TypeVar

Row = dict[str, Any]
Item = TypeVar("Item")
MADE_WITH = ("device", "commit")
NAMES = {
    "ORAT automatic": "ORAT (automatic)",
    "ORAT measured": "ORAT, measured start",
}  # of methods in reports -> on pages


def table_head(titles: Iterable[Any]) -> list[str]:
    """The titles of a table and the line below."""
    columns = list(titles)
    return [table_line(columns), "|" + "---|" * len(columns)]


def table_line(cells: Iterable[Any]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The mean, with the standard deviation of several values."""
    if not values:
        return ""
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def noise_words(noise: str, percent: float) -> str:
    """A noise and its rate in words."""
    return f"{noise} {percent:.0f} %" if percent else "none"


def measured_on(name: str, origins: Iterable[Row]) -> list[str]:
    """The hardware and the commits of a file under results/."""
    known = list(origins)
    devices, commits = (" and ".join(sorted({str(one.get(key))[:12] for one in known})) for key in MADE_WITH)
    return ["", f"Measured on {devices} at {commits} ([all numbers](../results/{name}.json))."]


def grouped(rows: Iterable[Item], key: Callable[[Item], Any]) -> list[tuple[Any, list[Item]]]:
    """Items in groups of one key, in the order of the first item of each."""
    found: dict[Any, list[Item]] = {}
    for value, group in groupby(rows, key):
        found.setdefault(value, []).extend(group)
    return list(found.items())
