"""The paper's numbers beside ours as a page of the docs, from all reports of `orat reproduce` that there are.

orat reproduce table1 --only data=mnist --protocol ours,authors --known results/reproduce-table1.json --report --json > new.json
mv new.json results/reproduce-table1.json
python benchmarks/reproduced_page.py > docs/reproduced.md
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path
from statistics import mean

import reproduced_cifar
import reproduced_layouts
import reproduced_lost
from pages import Row, grouped, measured_on, table_head, table_line
from reproduced_curves import curves
from reproduced_effects import effects
from reproduced_gains import PLACE, beside_at, beside_others

from orat.cli.tables import TITLES
from orat_paper.reproduce.artifacts import AUTOMATIC

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
HEADLINES, NOISES = ("AT", "ORAT", AUTOMATIC), ("none", "symmetric", "asymmetric")  # as the README has them
EFFECT = "effect-of-"  # names of what is drawn against k or m
TOLD_APART = 0.99  # of toy points
CUTS = (
    "What is left out is not m, and may come to nothing where k is a little below n ([errata](errata.md), 13 and 33)."
)
NEAR = 0.4  # points of accuracy within which AT and ORAT are expected
HEAD = """<!-- Written by benchmarks/reproduced_page.py; change that, or the JSON, not this. -->
# The paper, reproduced

Every number here, but for sections that say otherwise, was measured with `orat reproduce`, which runs the cells of the paper's tables and figures, and stands beside the paper's: accuracy
in %, and in brackets the difference to what is printed there. **ours**: right images, exact radii, the last epoch, whatever the test set says of others.
**authors**: as their code does it, each column's best epoch on the test set, each by itself ([errata](errata.md), 20 to 26). Cells that
were not run are left out. Green figures of the terminal, cells at the epoch that validation chose, seeds, hardware and commits are in the files under `results/`."""


def main() -> None:
    """Prints the page."""
    lines = [HEAD]
    for file in sorted(RESULTS.glob("reproduce-*.json"), key=place_of):
        content = json.loads(file.read_text())
        run = [row for row in content["rows"] if row["ours"] is not None]
        if run:
            lines += [
                "",
                f"## {content['what'][0].upper()}{content['what'][1:]}",
                *body(content, run),
                *measured_on(file.stem, [run["origin"] for run in content["runs"]]),
            ]
    for part in (reproduced_lost, reproduced_cifar, reproduced_layouts):
        lines += part.section(RESULTS)
    print("\n".join(lines))


def place_of(file: Path) -> tuple[int, str]:
    """Tables in the order of the paper, then what else there is."""
    order = ("table1", "stability", "autoattack", "loss-curves", "accuracy-curves", "effect-of-m", "effect-of-k", "toy")
    name = file.stem.removeprefix("reproduce-")
    found = next((number for number, start in enumerate(order) if name.startswith(start)), len(order))
    return found, name


def body(content: Row, run: list[Row]) -> list[str]:
    """What was read into the paper, the figure if there is one, what the numbers say, and the numbers."""
    name, rows = content["name"], [row for row in run if row["epoch"] != "chosen"]
    said = [f"{content['note'][0].upper()}{content['note'][1:]}."] if content["note"] else []
    pictures = sorted((ROOT / "docs" / "figures").glob(f"reproduce-{name}*.png"))
    said += [f"![{content['what']}](figures/{picture.name})" for picture in pictures]
    if any("curve" in one for one in content["runs"]):
        said += by_protocol(content["rows"], holes)
        texts = [line for text in said for line in ("", text)]
        return [*texts, *curves(content["runs"])]  # the numbers of its cells stand in other tables
    if name.startswith(EFFECT):
        said += [CUTS, *by_protocol(content["rows"], holes)]
        texts = [line for text in said for line in ("", text)]
        return [*texts, *effects(content["runs"], name.removeprefix(EFFECT))]
    chosen = [row for row in content["rows"] if row["epoch"] == "chosen"]
    reported = [row for row in content["rows"] if row["epoch"] != "chosen"]
    said += [*by_protocol(content["rows"], holes), *by_protocol(rows, nearness), *by_protocol(reported, orders)]
    if text := orders(chosen):
        said.append(f"**ours** at the epoch that validation chose, not the last: {text}")
    said += [text for text in (successes(content),) if text]
    texts = [line for text in said for line in ("", text)]
    gains = beside_others(rows)
    return [*texts, *by_method(run), *gains, *beside_at(rows, content["runs"]), *tables(rows)]


def by_protocol(rows: Iterable[Row], say: Callable[[list[Row]], str]) -> list[str]:
    """What there is to say of each protocol by itself."""
    groups = grouped(rows, lambda row: row["protocol"])
    return [f"**{protocol}**: {text}" for protocol, group in groups if (text := say(group))]


def holes(rows: list[Row]) -> str:
    """How many of the cells were run, where some were not."""
    cells = grouped(rows, lambda row: tuple(row[name] for name in (*PLACE, "method", "model", "k", "m")))
    done = [cell for cell, group in cells if any(row["ours"] is not None for row in group)]
    if not done or len(done) == len(cells):
        return ""
    data, methods = (" and ".join(dict.fromkeys(cell[place] for cell in done)) for place in (0, len(PLACE)))
    return f"Of the {len(cells)} cells on {data}, {len(done)} were run so far: {methods}."


def successes(content: Row) -> str:
    """In how many seeds a toy set is told apart, which means hide: a network may take all points for one class."""
    if content["name"] != "toy":
        return ""
    cells = grouped(content["runs"], lambda run: (run["data"], run["method"]))
    said = [
        f"{method} on {data} in {sum(run['accuracy']['last']['pgd20'] >= TOLD_APART for run in runs)} of {len(runs)}"
        for (data, method), runs in cells
    ]
    return f"Seeds in which at least {TOLD_APART:.0%} of the test points are right under PGD-20: {', '.join(said)}."


def nearness(rows: list[Row]) -> str:
    """How near AT and ORAT come to the paper."""
    parts = []
    for method in ("AT", "ORAT"):
        off = [row["difference"] for row in rows if row["method"] == method and row["difference"] is not None]
        if off:
            near = sum(round(abs(value), 2) <= NEAR for value in off)
            parts.append(
                f"{near} of the {len(off)} numbers of {method} lie within {NEAR} points of the paper's, "
                f"{mean(off):+.2f} in the mean, from {min(off):+.2f} to {max(off):+.2f}"
            )
    return "; ".join(parts) + "." if parts else ""


def orders(rows: list[Row]) -> str:
    """Where another method is best than in the paper, and how many pairs of methods change their order.

    Which one is best can be said only where all methods of the paper were run.
    """
    firsts, apart = [], []
    for _, group in grouped(rows, lambda row: tuple(row[name] for name in (*PLACE, "column"))):
        theirs = [row for row in group if row["theirs"] is not None]
        both = [row for row in theirs if row["ours"] is not None]
        apart += [tuple(one[who] - other[who] for who in ("ours", "theirs")) for one, other in combinations(both, 2)]
        if len(both) == len(theirs) > 2:
            firsts.append((top(both, "ours"), top(both, "theirs")))
    changed = [min(abs(ours), abs(theirs)) for ours, theirs in apart if ours * theirs < 0]
    if not apart:
        return ""
    text = f"Of {len(apart)} pairs of methods in one column, {len(changed)} are in the other order than in the paper"
    clear = sum(least > NEAR for least in changed)
    return f"{text}, {clear} of them by more than {NEAR} points in both." + best_words(firsts)


def best_words(firsts: list[tuple[str, str]]) -> str:
    """In how many columns which method takes the first place of which."""
    others = sorted((ours, theirs) for ours, theirs in firsts if ours != theirs)
    said = [
        f"{ours} instead of {theirs} in {len(group)}" for (ours, theirs), group in grouped(others, lambda pair: pair)
    ]
    return f" Another is best in {len(others)} of {len(firsts)} columns: {', '.join(said)}." if others else ""


def top(rows: list[Row], who: str) -> str:
    """The method that is ahead."""
    return str(max(rows, key=lambda row: row[who])["method"])


def by_method(rows: list[Row]) -> list[str]:
    """How far each method lies from the paper in the mean over all cells, in both epochs that we report."""
    compared = [row for row in rows if row["difference"] is not None and row["protocol"] == "ours"]
    if len({row["epoch"] for row in compared}) < 2 or len({tuple(row[name] for name in PLACE) for row in compared}) < 2:
        return []
    columns = [name for name in TITLES if any(row["column"] == name for row in compared)]
    titles = ["ours less the paper's, in the mean", "epoch", "cells", *(TITLES[name] for name in columns)]
    lines = ["", *table_head(titles)]
    for (method, epoch), group in grouped(compared, lambda row: (row["method"], row["epoch"])):
        off = {name: [row["difference"] for row in group if row["column"] == name] for name in columns}
        means = [f"{mean(values):+.2f}" if values else "-" for values in off.values()]
        lines.append(table_line([method, epoch, max(map(len, off.values())), *means]))
    return lines


def tables(rows: list[Row]) -> list[str]:
    """One table for each data set, radius and protocol."""
    lines = []
    for (data, eps, protocol), group in grouped(rows, lambda row: (row["data"], row["eps"], row["protocol"])):
        columns = [name for name in TITLES if any(row["column"] == name for row in group)]
        keys = [name for name in ("model", "k", "m") if any(row[name] is not None for row in group)]
        titles = ["noise", "method", *keys, "seeds", *(TITLES[name] for name in columns)]
        lines += ["", f"{data}, eps {eps}, **{protocol}**:", "", *table_head(titles)]
        for cell, members in grouped(
            group, lambda row: tuple(row[name] for name in (*PLACE, "method", "model", "k", "m"))
        ):
            by_column = {row["column"]: row for row in members}
            noise = f"{cell[2]} {cell[3]} %" if cell[3] else "none"
            said = ["-" if by_key is None else by_key for by_key in (members[0][name] for name in keys)]
            figures = [figure(by_column[name]) if name in by_column else "-" for name in columns]
            lines.append(table_line([noise, cell[4], *said, members[0]["seeds"], *figures]))
    return lines


def headlines() -> list[str]:
    """The table of the README: AT and ORAT on MNIST where most labels are wrong, ours and the paper's."""
    table1, stability = (
        json.loads((RESULTS / f"reproduce-{name}.json").read_text())["rows"] for name in ("table1", "stability")
    )
    rows = table1 + [row for row in stability if row["method"] == AUTOMATIC]
    wanted = {"data": "mnist", "protocol": "ours", "epoch": "last"}.items()
    shown = [row for row in rows if wanted <= row.items() and row["rate"] in (0, 40) and row["method"] in HEADLINES]
    shown.sort(key=lambda row: (row["eps"], NOISES.index(row["noise"]), HEADLINES.index(row["method"])))
    lines = table_head(["MNIST, LeNet", "method", *(TITLES[row["column"]] for row in shown[:4])])
    for (eps, noise, rate, method), group in grouped(
        shown, lambda row: tuple(row[name] for name in ("eps", "noise", "rate", "method"))
    ):
        place = f"eps {eps}, " + (f"{noise} {rate} %" if rate else "no noise")
        lines.append(table_line([place, method, *map(figure, group)]))
    return lines


def figure(row: Row) -> str:
    """Ours, its deviation if there are several seeds, and the difference to the paper's if it prints one."""
    spread = "" if row["sd"] is None else f" ± {row['sd']:.2f}"
    return f"{row['ours']:.2f}{spread}" + ("" if row["difference"] is None else f" ({row['difference']:+.2f})")


if __name__ == "__main__":
    main()
