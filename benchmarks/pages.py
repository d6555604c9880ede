"""What pages of measured numbers are written with: tables, and rows that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, TypeVar

Row = dict[str, Any]
Item = TypeVar("Item")


def table_head(titles: Iterable[Any]) -> list[str]:
    """The titles of a table, and the line below them."""
    columns = list(titles)
    return [table_line(columns), "|" + "---|" * len(columns)]


def table_line(cells: Iterable[Any]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def grouped(rows: Iterable[Item], key: Callable[[Item], Any]) -> list[tuple[Any, list[Item]]]:
    """Items of one key together, in the order in which keys are met."""
    found: dict[Any, list[Item]] = {}
    for value, group in groupby(rows, key):
        found.setdefault(value, []).extend(group)
    return list(found.items())
