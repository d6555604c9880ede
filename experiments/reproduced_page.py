"""Prints docs/reproduced.md: ours beside the paper's, from all reports of `orat paper reproduce`.

orat paper reproduce table1 --only data=mnist --protocol ours,authors --known results/reproduce-table1.json --report --json > new.json
mv new.json results/reproduce-table1.json
python experiments/reproduced_page.py > docs/reproduced.md
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from statistics import mean

import reproduced_ahead
import reproduced_cifar
import reproduced_layouts
import reproduced_lost
from markdown import NAMES, Row, grouped, measured_on, noise_words, table_head, table_line
from reproduced_ahead import CIFAR
from reproduced_curves import curves
from reproduced_effects import effects
from reproduced_gains import PLACE, beside_at, beside_others

from orat.cli.tables import TITLES
from orat_paper.reproduce.artifacts import AUTOMATIC, MEASURED, artifact
from orat_paper.reproduce.panels import DATA

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
EFFECT = "effect-of-"  # names of the figures against k or m
SOLVED = 0.99  # of toy points under PGD-20
CUTS = "The number of removed samples is not m, and may be 0 for k a little below n ([errata](errata.md), 13 and 33)."
NEAR = 0.4  # points of accuracy within which AT and ORAT are expected
COMPARED = ("AT", "ORAT")
FORMS = (AUTOMATIC, MEASURED)  # not in the paper
SCRAMBLED = """Lossless images, augmented, with the paper's schedule. By all that can be seen, the paper's symmetric rows show scrambled
images ([errata](errata.md), 20 and 21), so there the differences to the paper are not due to training."""
HEAD = """<!-- Written by experiments/reproduced_page.py; change that, or the JSON, not this. -->
# The paper, reproduced

`orat paper reproduce` measured these numbers; some sections name another script. Numbers are accuracies in %, with the
difference to the paper's number in brackets. Cells without a run are left out. Reports under `results/` also hold the
epoch chosen on validation, seeds, hardware and commits.

| protocol | images and radii | epoch |
|---|---|---|
| **ours** | right images, exact radii | the last |
| **authors** | as in their code ([errata](errata.md), 20 to 26) | each column's best on the test set |
| **authors-right** | as **authors**, but no image is scrambled | each column's best on the test set |"""


def main() -> None:
    """Prints the page."""
    contents = {file: json.loads(file.read_text()) for file in sorted(RESULTS.glob("reproduce-*.json"), key=place_of)}
    lines = [HEAD, *reproduced_ahead.section(list(contents.values()))]
    for file, content in contents.items():
        run = [row for row in content["rows"] if row["ours"] is not None]
        if run:
            lines += ["", f"## {heading(content)}", *body(file.stem, content, run)]
            lines += measured_on(file.stem, [run["origin"] for run in content["runs"]])
    for part in (reproduced_lost, reproduced_cifar, reproduced_layouts):
        lines += part.section(RESULTS)
    print("\n".join(lines))


def place_of(file: Path) -> tuple[int, str]:
    """Tables in the order of the paper, then the others."""
    order = ("table1", "stability", "autoattack", "loss-curves", "accuracy-curves", "effect-of-m", "effect-of-k", "toy")
    name = file.stem.removeprefix("reproduce-")
    found = next((number for number, start in enumerate(order) if name.startswith(start)), len(order))
    return found, name


def capitalized(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def heading(content: Row) -> str:
    """The title of a report, with its data set where the table has several."""
    present = dict.fromkeys(row["data"] for row in content["rows"])
    several = len({cell.data for cell in artifact(content["name"]).cells}) > len(present) == 1
    return capitalized(content["what"]) + (f": {DATA.get(*present, *present)} only" if several else "")


def body(stem: str, content: Row, run: list[Row]) -> list[str]:
    """The notes, the figures and the tables of a report."""
    name, note = content["name"], artifact(content["name"]).note
    texts = [f"{capitalized(note)}."] if note else []
    texts += [SCRAMBLED] if name == "table1" and any(row["data"] in CIFAR for row in run) else []
    pictures = sorted((ROOT / "docs" / "figures").glob(f"{stem}*.png"))
    texts += [f"![{content['what']}](figures/{picture.name})" for picture in pictures]
    texts += [CUTS] if name.startswith(EFFECT) else []
    texts += [f"**{protocol}**: {text}" for protocol, text in holes(content["rows"])]
    lines = [line for text in texts for line in ("", text)]
    if any("curve" in one for one in content["runs"]):
        return [*lines, *curves(content["runs"])]  # other tables have the numbers of these cells
    if name.startswith(EFFECT):
        return [*lines, *effects(content["runs"], name.removeprefix(EFFECT))]
    last = [row for row in run if row["epoch"] != "chosen"]
    lines += [*nearness(last), *orders(content["rows"]), *(successes(content["runs"]) if name == "toy" else [])]
    return [*lines, *by_method(run), *beside_others(last), *beside_at(last, content["runs"]), *tables(last)]


def holes(rows: list[Row]) -> list[tuple[str, str]]:
    """Every protocol with missing cells, and the number of its measured cells."""
    found = []
    for protocol, group in grouped(rows, lambda row: row["protocol"]):
        theirs = [row for row in group if row["method"] not in FORMS]
        cells = grouped(theirs, lambda row: tuple(row[name] for name in (*PLACE, "method", "model", "k", "m")))
        done = [cell for cell, members in cells if any(row["ours"] is not None for row in members)]
        if done and len(done) < len(cells):
            data, methods = (" and ".join(dict.fromkeys(cell[place] for cell in done)) for place in (0, len(PLACE)))
            found.append((protocol, f"{len(done)} of the {len(cells)} cells on {data} are measured: {methods}."))
    return found


def nearness(rows: list[Row]) -> list[str]:
    """The differences of AT and ORAT to the paper, one line a protocol and method."""
    titles = ["ours minus the paper's", "protocol", "numbers", f"within {NEAR} points", "mean", "least", "largest"]
    lines = []
    for protocol, group in grouped(rows, lambda row: row["protocol"]):
        for method in COMPARED:
            off = [row["difference"] for row in group if row["method"] == method and row["difference"] is not None]
            if off:
                near = sum(round(abs(value), 2) <= NEAR for value in off)
                figures = (f"{value:+.2f}" for value in (mean(off), min(off), max(off)))
                lines.append(table_line([method, protocol, len(off), near, *figures]))
    return ["", *table_head(titles), *lines] if lines else []


def orders(rows: list[Row]) -> list[str]:
    """The pairs of methods in another order than in the paper, and the columns with another best method."""
    titles = ["order of the methods", "epoch", "pairs in one column", "in another order than the paper's"]
    titles += [f"of these by more than {NEAR} points in both", "columns with another best method", "which"]
    lines = []
    for (protocol, epoch), group in grouped(rows, lambda row: (row["protocol"], row["epoch"])):
        firsts, apart = compared_orders(group)
        changed = [min(abs(ours), abs(theirs)) for ours, theirs in apart if ours * theirs < 0]
        if apart:
            figures = [len(apart), len(changed), sum(least > NEAR for least in changed), *best_words(firsts)]
            lines.append(table_line([protocol, epoch, *figures]))
    return ["", *table_head(titles), *lines] if lines else []


def compared_orders(rows: Iterable[Row]) -> tuple[list[tuple[str, str]], list[tuple[float, float]]]:
    """The best methods of complete columns, and the differences of all pairs of methods, ours and the paper's."""
    firsts, apart = [], []
    for _, group in grouped(rows, lambda row: tuple(row[name] for name in (*PLACE, "column"))):
        theirs = [row for row in group if row["theirs"] is not None]
        both = [row for row in theirs if row["ours"] is not None]
        apart += [
            (one["ours"] - other["ours"], one["theirs"] - other["theirs"]) for one, other in combinations(both, 2)
        ]
        if len(both) == len(theirs) > 2:
            firsts.append((top(both, "ours"), top(both, "theirs")))
    return firsts, apart


def best_words(firsts: list[tuple[str, str]]) -> tuple[str, str]:
    """The number of columns with another best method, and the methods."""
    others = sorted((ours, theirs) for ours, theirs in firsts if ours != theirs)
    pairs = grouped(others, lambda pair: pair)
    words = [f"{ours} instead of {theirs} in {len(group)}" for (ours, theirs), group in pairs]
    return f"{len(others)} of {len(firsts)}" if firsts else "-", ", ".join(words) or "-"


def top(rows: list[Row], who: str) -> str:
    """The method with the largest number."""
    return str(max(rows, key=lambda row: row[who])["method"])


def successes(runs: list[Row]) -> list[str]:
    """The seeds that solve every toy set, which means over seeds hide."""
    methods = list(dict.fromkeys(run["method"] for run in runs))
    lines = ["", *table_head([f"seeds with {SOLVED:.0%} of the test points right under PGD-20", *methods])]
    for data, group in grouped(runs, lambda run: run["data"]):
        shares = {
            name: [run["accuracy"]["last"]["pgd20"] for run in group if run["method"] == name] for name in methods
        }
        solved = (f"{sum(share >= SOLVED for share in own)} of {len(own)}" for own in shares.values())
        lines.append(table_line([data, *solved]))
    return lines


def by_method(rows: list[Row]) -> list[str]:
    """The mean difference of every method to the paper over all cells, in both reported epochs."""
    compared = [row for row in rows if row["difference"] is not None and row["protocol"] == "ours"]
    if len({row["epoch"] for row in compared}) < 2 or len({tuple(row[name] for name in PLACE) for row in compared}) < 2:
        return []
    columns = [name for name in TITLES if any(row["column"] == name for row in compared)]
    titles = ["ours minus the paper's, in the mean", "epoch", "cells", *(TITLES[name] for name in columns)]
    lines = ["", *table_head(titles)]
    for (method, epoch), group in grouped(compared, lambda row: (row["method"], row["epoch"])):
        off = {name: [row["difference"] for row in group if row["column"] == name] for name in columns}
        means = [f"{mean(values):+.2f}" if values else "-" for values in off.values()]
        lines.append(table_line([method, epoch, max(map(len, off.values())), *means]))
    return lines


def tables(rows: list[Row]) -> list[str]:
    """One table for every data set, radius and protocol."""
    lines = []
    for (data, eps, protocol), group in grouped(rows, lambda row: (row["data"], row["eps"], row["protocol"])):
        columns = [name for name in TITLES if any(row["column"] == name for row in group)]
        keys = [name for name in ("model", "k", "m") if any(row[name] is not None for row in group)]
        titles = ["noise", "method", *keys, "seeds", *(TITLES[name] for name in columns)]
        group = [row for _, members in grouped(group, lambda row: (row["noise"], row["rate"])) for row in members]
        lines += ["", f"{data}, eps {eps}, **{protocol}**:", "", *table_head(titles)]
        cells = grouped(group, lambda row: tuple(row[name] for name in (*PLACE, "method", "model", "k", "m")))
        for cell, members in cells:
            by_column = {row["column"]: row for row in members}
            start = [noise_words(cell[2], cell[3]), NAMES.get(cell[4], cell[4])]
            start += ["-" if value is None else value for value in (members[0][name] for name in keys)]
            figures = [figure(by_column[name]) if name in by_column else "-" for name in columns]
            lines.append(table_line([*start, members[0]["seeds"], *figures]))
    return lines


def figure(row: Row) -> str:
    """Ours, the deviation of several seeds, and the difference to the paper's number."""
    deviation = "" if row["sd"] is None else f" ± {row['sd']:.2f}"
    return f"{row['ours']:.2f}{deviation}" + ("" if row["difference"] is None else f" ({row['difference']:+.2f})")


if __name__ == "__main__":
    main()
