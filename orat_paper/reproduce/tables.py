"""Tables for a terminal: the list of all tables and figures, and the report of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orat.cli.tables import TITLES, plain_table
from orat.core.console import plain
from orat_paper.reproduce.artifacts import Artifact
from orat_paper.reproduce.cells import KEYS
from orat_paper.reproduce.comparison import HERE, SPREAD, Row

WIDE = 500  # wider than any table
MEANING = {
    "ours": "right images, CIFAR augmented, exact eps; the last epoch and the epoch chosen on validation",
    "authors": "eps 0.0078 and 0.031, their scalars, scrambled CIFAR where their numbers show it; each column's best "
    "epoch on the test set",
    "authors-right": "as authors, but right images where theirs are scrambled",
}
HOLE = "-"


def print_list(listed: Sequence[Mapping[str, Any]], notes: Iterable[str]) -> None:
    """One line a table or figure; below, the basis of the times and the missing data."""
    titles = {"name": "name", "what": "what", "cells": "cells", "runs": "runs", "done": "done", "time": "time",
              "data": "data"}  # fmt: skip
    print_whole(plain_table("tables and figures of the paper", titles, listed))
    for note in notes:
        console().print(note)


def print_report(artifact: Artifact, rows: Sequence[Row], errors: Mapping[str, str]) -> None:
    """The rows as a table, with the meaning of marks and protocols and the errors of cells without a result."""
    print_whole(report_table(artifact, rows))
    notes = [f"{name}: {MEANING[name]}" for name in dict.fromkeys(row["protocol"] for row in rows)]
    if artifact.note:
        notes.append(f"{artifact.name}: {artifact.note}")
    notes += [f"{HOLE}: no run, or no number in the paper", SPREAD]
    for line in (*notes, *(f"no result: {name}: {reason}" for name, reason in errors.items())):
        console().print(line)


def report_table(artifact: Artifact, rows: Sequence[Row]) -> Table:
    """One line for every cell, protocol and epoch, with ours, the paper's and the difference in percent."""
    keys = [name for name in KEYS if any(row[name] is not None for row in rows)]
    table = Table(title=artifact.title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in (*keys, "protocol", "epoch"):
        table.add_column(name, no_wrap=True)
    table.add_column("seeds", justify="right")
    for column in artifact.columns:
        for title in (TITLES.get(column, column), "paper", "diff"):
            table.add_column(title, justify="right", no_wrap=True)
    for _, group in groupby(rows, lambda row: [row[name] for name in (*KEYS, "protocol", "epoch")]):
        members = list(group)
        first = members[0]
        places = [HOLE if first[name] is None else str(first[name]) for name in (*keys, "protocol", "epoch")]
        table.add_row(*places, str(first["seeds"]), *(text for row in members for text in figures(row)))
    return table


def figures(row: Row) -> tuple[str, str, str | Text]:
    """Ours with its deviation, the paper's, and the difference, which is marked and green within the paper's spread."""
    ours = HOLE if row["ours"] is None else f"{row['ours']:.2f}"
    ours += "" if row["sd"] is None else f" ±{row['sd']:.2f}"
    theirs = HOLE if row["theirs"] is None else f"{row['theirs']:.2f}"
    difference = HOLE if row["difference"] is None else f"{row['difference']:+.2f}"
    if not row["within"]:
        return ours, theirs, difference
    return ours, theirs, Text(f"{difference}{'*' if row['sd_from'] == HERE else '~'}", style="green")


def print_whole(table: Table) -> None:
    """Prints a table in its full width, also on a narrow terminal."""
    screen = console()
    width = screen.measure(table, options=screen.options.update(max_width=WIDE)).maximum
    plain(soft_wrap=True, width=max(width, screen.width)).print(table)


def console() -> Console:
    """Standard output."""
    return plain(soft_wrap=True)
