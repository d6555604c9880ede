"""Output: JSON for programs, aligned tables and lines for people."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from orat.core.console import plain
from orat.core.domain import unit_of
from orat.core.options import in_pixels, radius
from orat.core.plots import radius_label

TITLES = {
    "natural": "Natural", "fgsm": "FGSM", "pgd10": "PGD-10", "pgd20": "PGD-20", "cw": "CW",
    "autoattack": "AutoAttack", "autoattack-reference": "AutoAttack (reference)", "worst-case": "worst case",
}  # fmt: skip

NUMBER = re.compile(r"-|[\d,.]+ ?%?")


def say(text: str) -> None:
    """Prints a line on standard output."""
    sys.stdout.write(text + "\n")


def print_json(content: Any) -> None:
    """Prints JSON on standard output."""
    say(json.dumps(content))


def print_table(table: Table) -> None:
    """Prints a table on standard output, without breaking its rows."""
    plain(soft_wrap=True).print(table)


def percent(share: float) -> str:
    """A share in percent with two digits."""
    return f"{100 * share:.2f}"


def interval(low: float, high: float) -> str:
    """An interval of shares in percent."""
    return f"{percent(low)} - {percent(high)}"


def print_accuracy(title: str, rows: Mapping[str, Mapping[str, float]], result: Mapping[str, Any]) -> None:
    """Prints accuracy in percent: a row for each model, a column for each attack; radius and norm of a result below."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("")
    for name in columns:
        table.add_column(TITLES.get(name, name), justify="right")
    for label, row in rows.items():
        table.add_row(label, *(percent(row[name]) if name in row else "-" for name in columns))
    print_table(table)
    eps = f"{radius(result['eps'])} {result.get('unit', '')}".strip()
    say(f"accuracy in % on {result['examples']:,} test samples; attacks: {result['norm']}, eps {eps}")


def print_report(title: str, report: Mapping[str, Any]) -> None:
    """The report of an evaluation: accuracy by attack and by class, and warnings."""
    print_table(attack_table(title, report))
    print_table(class_table(report))
    worst = report["worst_class"]
    if worst and len({row["robust"] for row in report["classes"]}) > 1:
        say(f"worst class: {worst['class']}, worst-case accuracy {worst['robust']:.2%}")
    if report["agreement"] is not None:
        say(f"AutoAttack and the reference agree on {report['agreement']:.2%} of the samples")
    console = plain()
    for warning in report["warnings"]:
        console.print(f"warning: {warning}", soft_wrap=not console.is_terminal)


def attack_table(title: str, report: Mapping[str, Any]) -> Table:
    """A row for each attack: norm, radius, accuracy with interval, and the accuracy after each part of AutoAttack."""
    table = Table(
        title=f"{title}: accuracy in % on {report['examples']:,} samples", title_justify="left", box=box.SIMPLE
    )
    for column in ("attack", "norm", f"eps{in_unit(report)}"):
        table.add_column(column)
    for column in ("accuracy", "95 % interval"):
        table.add_column(column, justify="right")
    for name, value in report["accuracy"].items():
        attacked = ("", "") if name == "natural" else (report["norm"], radius(report["eps"]))
        table.add_row(TITLES.get(name, name), *attacked, percent(value), interval(*report["intervals"][name]))
        for part, left in report["after_part"].items():
            if part.startswith(f"{name}:"):
                table.add_row(f"  after {part.partition(':')[2]}", *attacked, percent(left))
    return table


def in_unit(report: Mapping[str, Any]) -> str:
    """The unit of the radius, for a title."""
    unit = unit_of(report.get("scale"))
    return f" in{unit}" if unit else ""


def class_table(report: Mapping[str, Any]) -> Table:
    """A row for each class: natural and worst-case accuracy."""
    table = Table(box=box.SIMPLE)
    table.add_column("class")
    for column in ("samples", "natural", "worst case"):
        table.add_column(column, justify="right")
    for row in report["classes"]:
        values = ("-" if row[name] is None else percent(row[name]) for name in ("natural", "robust"))
        table.add_row(row["class"], f"{row['examples']:,}", *values)
    return table


def print_curve(curve: Mapping[str, Any]) -> None:
    """A curve as a table."""
    against = curve["against"]
    fixed = in_unit(curve) if against == "eps" else f", eps {radius(curve['eps'])}{unit_of(curve.get('scale'))}"
    table = Table(
        title=f"accuracy in % against {against} ({curve['norm']}{fixed})", title_justify="left", box=box.SIMPLE
    )
    pixels = in_pixels(curve["eps"], curve["norm"])
    for column in (against, "accuracy", "95 % interval"):
        table.add_column(column, justify="right")
    for point in curve["points"]:
        place = radius_label(point["eps"], pixels) if against == "eps" else str(point[against])
        table.add_row(place, percent(point["accuracy"]), interval(point["low"], point["high"]))
    print_table(table)


def plain_table(title: str, titles: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Table:
    """These columns of the rows: texts to the left, numbers to the right."""
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE)
    texts = [[f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in titles] for row in rows]
    for place, heading in enumerate(titles.values()):
        numbers = all(NUMBER.fullmatch(text[place]) for text in texts)
        table.add_column(heading, justify="right" if numbers else "left")
    for text in texts:
        table.add_row(*text)
    return table


def shares(part: Mapping[str, float]) -> dict[str, float]:
    """The accuracies of one epoch in a result."""
    return {name: value for name, value in part.items() if name != "epoch"}


def decision_lines(result: Mapping[str, Any]) -> list[str]:
    """The numbers of removed, flagged and relabeled samples; with the truth, precision and recall."""
    lines, flagged, relabeled = [], result["outliers"], result["corrections"]
    if flagged:
        line = f"{flagged['cut']:,} of {flagged['of']:,} "
        line += "labels were flagged" if relabeled else "training samples were removed"
        if flagged.get("flipped") and flagged["cut"]:
            line += f": precision {flagged['precision']:.1%}, recall {flagged['recall']:.1%}"
            line += f" of the {flagged['flipped']:,} wrong labels"
        lines.append(f"{line}.")
    if relabeled:
        line = f"{relabeled['changed']:,} of {relabeled['of']:,} samples were relabeled in the last epoch"
        if flagged:
            line = f"{relabeled['changed']:,} flagged samples count most as another class"
        if "rightly" in relabeled and relabeled["changed"]:
            line += f", {relabeled['rightly']:,} of them with their true label ({relabeled['precision']:.1%})"
            line += f"; {relabeled['harmed']:,} right labels were changed"
        lines.append(f"{line}.")
    return lines
