"""Results -> aligned tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from orat.numbers import radius

TITLES = {"natural": "Natural", "fgsm": "FGSM", "pgd10": "PGD-10", "pgd20": "PGD-20", "cw": "CW"}


def print_accuracy(title: str, rows: Mapping[str, Mapping[str, float]], eps: float, norm: str, examples: int) -> None:
    """One row a model, one column an attack, accuracy in percent; radius, norm and number of images below."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("")
    for name in columns:
        table.add_column(TITLES.get(name, name), justify="right")
    for label, row in rows.items():
        table.add_row(label, *(f"{100 * row[name]:.2f}" if name in row else "-" for name in columns))
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    console.print(f"accuracy in % on {examples:,} test images; attacks: {norm}, eps {radius(eps)}")


def shares(part: Mapping[str, float]) -> dict[str, float]:
    """The accuracies of one part of a result, without its epoch."""
    return {name: value for name, value in part.items() if name != "epoch"}


def outlier_line(found: Mapping[str, Any]) -> str:
    """What was cut as outliers, and how rightly where the wrong labels are known."""
    if not found.get("flipped") or not found["cut"]:
        return f"{found['cut']} of {found['of']} training samples were cut as outliers."
    return (
        f"{found['flipped_and_cut']} of the {found['flipped']} wrong labels were cut ({found['recall']:.1%}); "
        f"of the {found['cut']} samples cut, {found['precision']:.1%} had a wrong label."
    )
