"""How much of Table 1 is measured, and how often ORAT is ahead of AT on right images, on docs/reproduced.md."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import median

from markdown import NAMES, Row, table_head, table_line
from reproduced_gains import PLACE

from orat_paper.reproduce.artifacts import AUTOMATIC, MEASURED, artifact
from orat_paper.reproduce.panels import DATA

FORMS = {"ORAT": "ORAT as published", AUTOMATIC: NAMES[AUTOMATIC], MEASURED: NAMES[MEASURED]}
CIFAR = ("cifar10", "cifar100")
TITLES = ["right images, last epoch", "form", "cells", "numbers", "ahead of AT in", "least", "median", "largest"]


def section(contents: Sequence[Row]) -> list[str]:
    """The number of measured cells, a sentence for each form of ORAT on CIFAR, and a table; empty without a number."""
    tables = (content for content in contents if content["name"] == "table1")
    rows = [row for content in tables for row in content["rows"] if is_number(row)]
    if not rows:
        return []
    lines = [table_line(line) for data in DATA for form in FORMS if (line := figures(rows, data, form))]
    return [
        "", "## Table 1 as a whole", "", measured(rows), *sentences(rows),
        *(["", *table_head(TITLES), *lines] if lines else []),
    ]  # fmt: skip


def is_number(row: Row) -> bool:
    """Whether a row is a measured number of the last epoch with our settings."""
    return row["ours"] is not None and (row["protocol"], row["epoch"]) == ("ours", "last")


def measured(rows: Sequence[Row]) -> str:
    """The number of measured cells of the paper."""
    cells = artifact("table1").cells
    all_of = {
        data: {key(vars(cell)) for cell in cells if cell.data == data} for data in dict.fromkeys(c.data for c in cells)
    }
    done = {key(row) for row in rows}
    parts = ", ".join(f"{len(own & done)} of {len(own)} on {DATA[data]}" for data, own in all_of.items())
    return f"With our settings, {sum(len(own & done) for own in all_of.values())} of {len(cells)} cells are measured: {parts}."


def key(row: Row) -> tuple[object, ...]:
    """The place and the method of a row or cell."""
    return (*(row[name] for name in PLACE), row["method"])


def sentences(rows: Sequence[Row]) -> list[str]:
    """How often ORAT, as published and automatic, is ahead of AT on CIFAR."""
    found = []
    for form in ("ORAT", AUTOMATIC):
        gains = gains_of(rows, CIFAR, form)
        if gains:
            names = " and ".join(DATA[data] for data in CIFAR if gains_of(rows, [data], form))
            span = f"{min(gains):+.2f} to {max(gains):+.2f} points"
            found.append(
                f"On right images of {names}, {FORMS[form]} is ahead of AT in {ahead(gains)} of {len(gains)} numbers ({span})."
            )
    return found


def figures(rows: Sequence[Row], data: str, form: str) -> list[object]:
    """The counts and the spread of the differences on one data set."""
    gains = gains_of(rows, [data], form)
    cells = len({key(row) for row in rows if (row["data"], row["method"]) == (data, form)})
    spread = (f"{pick(gains):+.2f}" for pick in (min, median, max)) if gains else ()
    return [DATA[data], FORMS[form], cells, len(gains), ahead(gains), *spread] if gains else []


def gains_of(rows: Sequence[Row], data: Collection[str], form: str) -> list[float]:
    """The differences of a form of ORAT to AT in every column of every place with both."""
    numbers = {(*key(row), row["column"]): row["ours"] for row in rows if row["data"] in data}
    pairs = (
        (numbers.get((*place, form, column)), value)
        for (*place, name, column), value in numbers.items()
        if name == "AT"
    )
    return [round(own - other, 2) for own, other in pairs if own is not None]


def ahead(gains: Sequence[float]) -> int:
    """The number of positive differences."""
    return sum(gain > 0 for gain in gains)
