"""Results -> aligned tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orat.core.numbers import in_pixels, radius, radius_label
from orat.curation.find import LabelIssues
from orat.curation.tables import headlines

TITLES = {
    "natural": "Natural", "fgsm": "FGSM", "pgd10": "PGD-10", "pgd20": "PGD-20", "cw": "CW",
    "autoattack": "AutoAttack", "autoattack-reference": "AutoAttack (reference)", "worst-case": "worst case",
}  # fmt: skip


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


def print_report(title: str, report: Mapping[str, Any]) -> None:
    """The report of an examination: by attack, by class, and what to doubt."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(attack_table(title, report))
    console.print(class_table(report))
    worst = report["worst_class"]
    if worst and len({row["robust"] for row in report["classes"]}) > 1:
        console.print(f"worst class: {worst['class']}, {worst['robust']:.2%} right in the worst case", markup=False)
    if report["agreement"] is not None:
        console.print(f"AutoAttack and the reference agree on {report['agreement']:.2%} of the images")
    for warning in report["warnings"]:
        console.print(f"warning: {warning}", markup=False, soft_wrap=not console.is_terminal)


def attack_table(title: str, report: Mapping[str, Any]) -> Table:
    """One row an attack: norm, radius, accuracy and its interval; the parts of AutoAttack below it."""
    table = Table(
        title=f"{escape(title)}: accuracy in % on {report['examples']:,} images", title_justify="left", box=box.SIMPLE
    )
    for column in ("attack", "norm", "eps"):
        table.add_column(column)
    table.add_column("right", justify="right")
    table.add_column("95 % interval", justify="right")
    for name, value in report["accuracy"].items():
        low, high = report["intervals"][name]
        attacked = ("", "") if name == "natural" else (report["norm"], radius(report["eps"]))
        table.add_row(TITLES.get(name, name), *attacked, f"{100 * value:.2f}", f"{100 * low:.2f} - {100 * high:.2f}")
        for part, left in report["after_part"].items():
            if part.startswith(f"{name}:"):
                table.add_row(f"  after {part.partition(':')[2]}", *attacked, f"{100 * left:.2f}")
    return table


def class_table(report: Mapping[str, Any]) -> Table:
    """One row a class: natural and worst-case accuracy."""
    table = Table(box=box.SIMPLE)
    table.add_column("class")
    for column in ("images", "natural", "worst case"):
        table.add_column(column, justify="right")
    for row in report["classes"]:
        values = ("-" if row[name] is None else f"{100 * row[name]:.2f}" for name in ("natural", "robust"))
        table.add_row(escape(row["class"]), f"{row['examples']:,}", *values)
    return table


def print_curve(curve: Mapping[str, Any]) -> None:
    """A curve as a table."""
    against = curve["against"]
    fixed = "" if against == "eps" else f", eps {radius(curve['eps'])}"
    table = Table(
        title=f"accuracy in % against {against} ({curve['norm']}{fixed})", title_justify="left", box=box.SIMPLE
    )
    pixels = in_pixels(curve["eps"], curve["norm"])
    for column in (against, "right", "95 % interval"):
        table.add_column(column, justify="right")
    for point in curve["points"]:
        place = radius_label(point["eps"], pixels) if against == "eps" else str(point[against])
        interval = f"{100 * point['low']:.2f} - {100 * point['high']:.2f}"
        table.add_row(place, f"{100 * point['accuracy']:.2f}", interval)
    Console(highlight=False, soft_wrap=True).print(table)


def print_suspects(title: str, found: LabelIssues, top: int) -> None:
    """What is thought of the labels of a run: by class, and of the most suspicious samples."""
    console = Console(highlight=False, soft_wrap=True)
    names = {"class": "class", "given": "given", "estimated_wrong": "seem wrong", "estimated_share": "share",
             "confused_with": "most often", "issues": "issues"}  # fmt: skip
    rows = [row | {"estimated_share": f"{row['estimated_share']:.1%}"} for row in found.classes()]
    console.print(plain_table(f"{title}: labels that look wrong", names, rows))
    shown = {"rank": "rank", "index": "index", "given_label": "given", "predicted_label": "seems", "wrong": "wrong",
             "mean_loss": "mean loss", "path": "path"}  # fmt: skip
    if found.train.paths is None:
        del shown["path"]
    rows = [
        row | {"wrong": f"{1 - row['label_quality']:.1%}", "mean_loss": f"{row['mean_loss']:.2f}"}
        for row in islice(found, top)
    ]
    console.print(plain_table(f"the {len(rows)} most suspicious", shown, rows))
    for line in (*headlines(found), *found.notes()):
        console.print(line, markup=False)


def print_changes(result: Mapping[str, Any]) -> None:
    """What cleaning changed, by class."""
    moved = ("moved_out", "moved_in") if result["relabeled"] else ("dropped",)
    titles = {name: name.replace("_", " ") for name in ("class", "before", *moved, "after")}
    title = f"{result['dropped']:,} of {result['of']:,} samples dropped, {result['relabeled']:,} relabeled"
    Console(highlight=False, soft_wrap=True).print(plain_table(title, titles, result["classes"]))


def plain_table(title: str, titles: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Table:
    """These columns of rows: texts to the left, numbers to the right."""
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE)
    for name, heading in titles.items():
        table.add_column(
            heading, justify="right" if any(isinstance(row[name], int | float) for row in rows) else "left"
        )
    for row in rows:
        table.add_row(*(escape(f"{row[name]:,}" if isinstance(row[name], int) else str(row[name])) for name in titles))
    return table


def shares(part: Mapping[str, float]) -> dict[str, float]:
    """The accuracies of one part of a result, without its epoch."""
    return {name: value for name, value in part.items() if name != "epoch"}


def correction_line(found: Mapping[str, Any]) -> str:
    """How many labels the last epoch was trained with that were not the given ones, and how many of those rightly."""
    changed = f"{found['changed']} of {found['of']} labels were changed in the last epoch"
    if "rightly" not in found or not found["changed"]:
        return f"{changed}."
    return (
        f"{changed}, {found['rightly']} of them rightly ({found['precision']:.1%}); "
        f"{found['rightly']} of {found['flipped']} wrong labels were corrected, {found['harmed']} right ones changed."
    )


def outlier_line(found: Mapping[str, Any]) -> str:
    """What was cut as outliers, and how rightly where the wrong labels are known."""
    if not found.get("flipped") or not found["cut"]:
        return f"{found['cut']} of {found['of']} training samples were cut as outliers."
    return (
        f"{found['flipped_and_cut']} of the {found['flipped']} wrong labels were cut ({found['recall']:.1%}); "
        f"of the {found['cut']} samples cut, {found['precision']:.1%} had a wrong label."
    )
