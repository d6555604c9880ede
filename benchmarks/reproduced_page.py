"""The paper's numbers beside ours as a page of the docs, from all reports of `orat reproduce` that there are.

orat reproduce table1 --report --json > results/reproduce-table1.json
python benchmarks/reproduced_page.py > docs/reproduced.md
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, groupby
from pathlib import Path
from statistics import mean
from typing import Any, TypeVar

import reproduced_cifar

Row = dict[str, Any]
Item = TypeVar("Item")
ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
TITLES = {"natural": "Natural", "fgsm": "FGSM", "pgd20": "PGD-20", "cw": "CW", "autoattack": "AutoAttack"}
NEAR = 0.4  # points of accuracy within which AT and ORAT are expected
PLACE = ("data", "eps", "noise", "rate")
HEAD = """<!-- Written by benchmarks/reproduced_page.py; change that, or the JSON, not this. -->
# The paper, reproduced

Every number here, but for the last section, was measured with `orat reproduce`, which runs the cells of the paper's tables and figures, and stands beside the paper's: accuracy
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
                *origin(file.stem, content),
            ]
    lines += reproduced_cifar.section(RESULTS)
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
        said += [text for text in (holes(content["rows"]), lowest(content["runs"])) if text]
        return [line for text in said for line in ("", text)]  # the numbers of its cells stand in other tables
    said += [text for text in (holes(content["rows"]), nearness(rows), orders(rows)) if text]
    if chosen := orders(row for row in run if row["epoch"] == "chosen"):
        said.append(
            f"That is of last epochs, beside the paper's best ones. At the epoch that validation chose: {chosen}"
        )
    texts = [line for text in said for line in ("", text)]
    return [*texts, *by_method(run), *beside_at(rows, content["runs"]), *tables(rows)]


def holes(rows: Iterable[Row]) -> str:
    """How many of the cells were run, where some were not."""
    cells = grouped(rows, lambda row: tuple(row[name] for name in (*PLACE, "method", "model", "k", "m", "protocol")))
    done = sum(any(row["ours"] is not None for row in group) for _, group in cells)
    data = " and ".join(dict.fromkeys(cell[0] for cell, _ in cells))
    return f"Of the {len(cells)} cells on {data}, {done} were run so far." if done < len(cells) else ""


def lowest(runs: Iterable[Row]) -> str:
    """In which epoch the training loss is least, and where it ends."""
    said = []
    for run in runs:
        least, last = min(run["curve"], key=lambda point: point["loss"]), run["curve"][-1]
        where = f"{run['method']} on {run['data']}, eps {run['eps']}, {run['noise']} {run['rate']} %"
        said.append(f"{where}: {least['loss']:.3f} in epoch {least['epoch']}, {last['loss']:.3f} in the last")
    return "The training loss is least as follows. " + "; ".join(said) + "."


def nearness(rows: Iterable[Row]) -> str:
    """How near AT and ORAT come to the paper, by protocol."""
    parts = []
    for protocol, group in grouped(rows, lambda row: row["protocol"]):
        off = [row["difference"] for row in group if row["method"] in ("AT", "ORAT") and row["difference"] is not None]
        if off:
            near = sum(abs(value) <= NEAR for value in off)
            parts.append(
                f"{protocol}: {near} of the {len(off)} numbers of AT and ORAT lie within {NEAR} points of the paper's, "
                f"{mean(off):+.2f} in the mean, from {min(off):+.2f} to {max(off):+.2f}"
            )
    return "; ".join(parts) + "." if parts else ""


def orders(rows: Iterable[Row]) -> str:
    """Where another method is best than in the paper, and how many pairs of methods change their order."""
    others, pairs, changed = [], 0, 0
    for place, group in grouped(rows, lambda row: (*(row[name] for name in PLACE), row["protocol"], row["column"])):
        both = [row for row in group if row["theirs"] is not None]
        for one, other in combinations(both, 2):
            pairs += 1
            changed += (one["ours"] - other["ours"]) * (one["theirs"] - other["theirs"]) < 0
        if len(both) > 2 and (best := top(both, "ours")) != (theirs := top(both, "theirs")):
            others.append((place, best, theirs))
    if not pairs:
        return ""
    text = f"Of {pairs} pairs of methods in one column, {changed} are in the other order than in the paper."
    return text + best_words(others)


def best_words(others: list[tuple[tuple[Any, ...], str, str]]) -> str:
    """In how many columns which method takes the first place of which."""
    counts: dict[tuple[str, str], int] = {}
    for _, best, theirs in others:
        counts[best, theirs] = counts.get((best, theirs), 0) + 1
    said = [f"{best} instead of {theirs} in {count}" for (best, theirs), count in sorted(counts.items())]
    return f" Among those run, another is best in {len(others)} columns: {', '.join(said)}." if others else ""


def top(rows: list[Row], who: str) -> str:
    """The method that is ahead."""
    return str(max(rows, key=lambda row: row[who])["method"])


def by_method(rows: list[Row]) -> list[str]:
    """How far each method lies from the paper in the mean over all cells, in both epochs that we report."""
    compared = [row for row in rows if row["difference"] is not None and row["protocol"] == "ours"]
    if len({row["epoch"] for row in compared}) < 2:
        return []
    columns = [name for name in TITLES if any(row["column"] == name for row in compared)]
    titles = ["ours less the paper's, in the mean", "epoch", "cells", *(TITLES[name] for name in columns)]
    lines = ["", table_line(titles), "|" + "---|" * len(titles)]
    for (method, epoch), group in grouped(compared, lambda row: (row["method"], row["epoch"])):
        off = {name: [row["difference"] for row in group if row["column"] == name] for name in columns}
        means = [f"{mean(values):+.2f}" if values else "-" for values in off.values()]
        lines.append(table_line([method, epoch, max(map(len, off.values())), *means]))
    return lines


@dataclass(frozen=True)
class Pair:
    """AT and ORAT with the same labels: what ORAT cut in each run, and ORAT less AT by column, ours and theirs."""

    place: tuple[Any, ...]
    m: int
    outliers: list[Row]
    gains: list[tuple[float, float]]


def beside_at(rows: list[Row], runs: list[Row]) -> list[str]:
    """What ORAT cut in the last epoch, and by how much it is ahead of AT with the same labels, beside the paper's."""
    columns = [name for name in TITLES if any(row["column"] == name for row in rows)]
    pairs = list(pairs_of(rows, runs, columns))
    if not pairs:
        return []
    titles = ["ORAT less AT: ours (the paper's)", "noise", "m", "wrong labels", "cut", "wrong of these"]
    titles += [TITLES[name] for name in columns]
    lines = ["", gains_words(pairs), "", table_line(titles), "|" + "---|" * len(titles)]
    for pair in pairs:
        data, eps, noise, rate, protocol = pair.place
        said = f"{noise} {rate} %" if rate else "none"
        figures = [f"{ours:+.2f} ({theirs:+.2f})" for ours, theirs in pair.gains]
        lines.append(table_line([f"{data}, eps {eps}, {protocol}", said, pair.m, *counts_of(pair.outliers), *figures]))
    return lines


def pairs_of(rows: list[Row], runs: list[Row], columns: list[str]) -> Iterator[Pair]:
    """Every place where both AT and ORAT were run and are printed in the paper."""
    for place, group in grouped(rows, lambda row: tuple(row[name] for name in (*PLACE, "protocol"))):
        known = {(row["method"], row["column"]): row for row in group if row["difference"] is not None}
        own = [run for run in runs if place_and_method(run) == (*place, "ORAT") and run.get("outliers")]
        if own and all((method, name) in known for method in ("AT", "ORAT") for name in columns):
            gains = [(ahead(known, name, "ours"), ahead(known, name, "theirs")) for name in columns]
            yield Pair(place, own[0]["m"], [run["outliers"] for run in own], gains)


def gains_words(pairs: list[Pair]) -> str:
    """For each kind of noise, how much of the wrong labels ORAT cut, and how far it is ahead of AT."""
    said = []
    for (noise, protocol), group in grouped(pairs, lambda pair: (pair.place[2], pair.place[4])):
        cuts = [found for pair in group for found in pair.outliers if found.get("flipped")]
        shares = [100 * found["flipped_and_cut"] / found["flipped"] for found in cuts]
        cut = f"cut {min(shares):.1f} to {max(shares):.1f} % of them and " if shares else ""
        sides = zip(*(gain for pair in group for gain in pair.gains), strict=True)
        ours, theirs = (f"{min(side):+.2f} to {max(side):+.2f}" for side in sides)
        kind = "no wrong labels" if noise == "none" else f"{noise} wrong labels"
        said.append(f"with {kind} ORAT {cut}is ahead of AT by {ours} points, in the paper by {theirs} ({protocol})")
    text = "; ".join(said)
    return text[0].upper() + text[1:] + " ([why m is not what is cut](errata.md), 13)."


def place_and_method(run: Row) -> tuple[Any, ...]:
    """Where a run stands in the tables."""
    return tuple(run.get(name) for name in (*PLACE, "protocol", "method"))


def ahead(rows: dict[tuple[str, str], Row], column: str, who: str) -> float:
    """ORAT less AT in one column."""
    return float(rows["ORAT", column][who] - rows["AT", column][who])


def counts_of(outliers: list[Row]) -> list[str]:
    """Wrong labels, how many labels were cut, and how many of these were wrong, in the mean over seeds."""
    return [f"{mean(found.get(name, 0) for found in outliers):.0f}" for name in ("flipped", "cut", "flipped_and_cut")]


def tables(rows: list[Row]) -> list[str]:
    """One table for each data set, radius and protocol."""
    lines = []
    for (data, eps, protocol), group in grouped(rows, lambda row: (row["data"], row["eps"], row["protocol"])):
        columns = [name for name in TITLES if any(row["column"] == name for row in group)]
        keys = [name for name in ("model", "k", "m") if any(row[name] is not None for row in group)]
        titles = ["noise", "method", *keys, "seeds", *(TITLES[name] for name in columns)]
        lines += ["", f"{data}, eps {eps}, **{protocol}**:", "", table_line(titles), "|" + "---|" * len(titles)]
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
    rows = json.loads((RESULTS / "reproduce-table1.json").read_text())["rows"]
    shown = [row for row in rows if (row["data"], row["protocol"], row["epoch"]) == ("mnist", "ours", "last")]
    titles = ["MNIST, LeNet", "method", *(TITLES[row["column"]] for row in shown[:4])]
    lines = [table_line(titles), "|" + "---|" * len(titles)]
    shown.sort(key=lambda row: row["eps"])
    for (eps, noise, rate, method), group in grouped(
        shown, lambda row: tuple(row[name] for name in ("eps", "noise", "rate", "method"))
    ):
        if rate in (0, 40) and method in ("AT", "ORAT"):
            place = f"eps {eps}, " + (f"{noise} {rate} %" if rate else "no noise")
            lines.append(table_line([place, method, *map(figure, group)]))
    return lines


def figure(row: Row) -> str:
    """Ours, its deviation if there are several seeds, and the difference to the paper's if it prints one."""
    spread = "" if row["sd"] is None else f" ± {row['sd']:.2f}"
    return f"{row['ours']:.2f}{spread}" + ("" if row["difference"] is None else f" ({row['difference']:+.2f})")


def origin(name: str, content: Row) -> list[str]:
    """Where the numbers come from."""
    origins = [run["origin"] for run in content["runs"]]
    devices, commits = (
        " and ".join(sorted({str(one.get(key))[:12] for one in origins})) for key in ("device", "commit")
    )
    return ["", f"Measured on {devices} at {commits} ([all numbers](../results/{name}.json))."]


def grouped(rows: Iterable[Item], key: Callable[[Item], Any]) -> list[tuple[Any, list[Item]]]:
    """Items of one key together, in the order in which keys are met."""
    found: dict[Any, list[Item]] = {}
    for value, group in groupby(rows, key):
        found.setdefault(value, []).extend(group)
    return list(found.items())


def table_line(cells: Iterable[Any]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
