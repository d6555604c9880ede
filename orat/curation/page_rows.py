"""The samples most likely wrong as rows of a page: those of a table with their values, others by index or path."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from torch import Tensor

from orat.curation.issues import LabelIssues
from orat.data.source import Dataset

MOST_COLUMNS = 20  # of values on the page


def suspicious(found: LabelIssues, top: int) -> dict[str, Any]:
    """The titles and rows of the samples most likely wrong, at most `top`."""
    place = "line" if found.lines is not None else "index" if found.paths is None else "path"
    table, places = found.samples, found.order[:top].tolist()
    values = values_of(table, places) if isinstance(table, Dataset) and table.features else [{} for _ in places]
    titles = list(values[0])[:MOST_COLUMNS] if values else []
    rows = [
        {
            "rank": row["rank"],
            "place": row[place],
            "given": row["given_label"],
            "other": found.names[int(found.other[sample])],
            "p_wrong": 1 - row["label_quality"],
            "flagged": row["is_label_issue"],
            "values": [value[title] for title in titles],
        }
        for sample, row, value in zip(places, islice(found, top), values, strict=True)
    ]
    return {"place": place, "titles": titles, "rows": rows}


def values_of(table: Dataset, places: Sequence[int]) -> list[dict[str, str]]:
    """The values of rows of a table by column; a column of text has its text."""
    return [row_of(table.features or (), features) for features in table.images[list(places)]]


def row_of(names: Sequence[str], features: Tensor) -> dict[str, str]:
    """The values of a row; features `column=text` of 0 and 1 become their column."""
    row: dict[str, str] = {}
    for name, value in zip(names, features.tolist(), strict=True):
        column, equals, text = name.partition("=")
        if not equals:
            row[name] = f"{value:.6g}"
        elif value:
            row[column] = text
        else:
            row.setdefault(column, "")
    return row
