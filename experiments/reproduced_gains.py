"""ORAT beside the other methods on the page of the paper's numbers: by how much it is ahead, and what it cut for that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from pages import Row, grouped, table_head, table_line

from orat.cli.tables import TITLES

PLACE = ("data", "eps", "noise", "rate")
WHO = ("ours", "theirs")


def beside_others(rows: list[Row]) -> list[str]:
    """In how many numbers ORAT is ahead of which method, and by how much, ours and the paper's."""
    lines, compared = [], [row for row in rows if row["difference"] is not None]
    for (protocol, noise), group in grouped(compared, lambda row: (row["protocol"], row["noise"])):
        numbers = {(*(row[name] for name in (*PLACE, "column")), row["method"]): row for row in group}
        for method in dict.fromkeys(row["method"] for row in group):
            both = [(numbers[*place, "ORAT"], row) for (*place, name), row in numbers.items()
                    if name == method != "ORAT" and (*place, "ORAT") in numbers]  # fmt: skip
            if len(both) > 1:
                told = [gain_words([round(own[who] - row[who], 2) for own, row in both]) for who in WHO]
                lines.append(table_line([method, noise, protocol, len(both), *told]))
    titles = ["ORAT less", "noise", "protocol", "numbers", "ours: ahead in, least, median, largest", "the paper's"]
    return ["", *table_head(titles), *lines] if lines else []


def gain_words(gains: list[float]) -> str:
    """In how many it is ahead; the least, the middle and the largest."""
    least, middle, largest = (f"{pick(gains):+.2f}" for pick in (min, median, max))
    return f"{sum(gain > 0 for gain in gains)}: {least} {middle} {largest}"


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
    lines = ["", pairs_words(pairs), "", *table_head([*titles, *(TITLES[name] for name in columns)])]
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


def pairs_words(pairs: list[Pair]) -> str:
    """For each kind of noise, how much of the wrong labels ORAT cut, and how far it is ahead of AT."""
    said = []
    for (noise, protocol), group in grouped(pairs, lambda pair: (pair.place[2], pair.place[4])):
        cuts = [found for pair in group for found in pair.outliers if found.get("flipped")]
        shares = [f"{100 * found['flipped_and_cut'] / found['flipped']:.1f}" for found in cuts]
        cut = f"cut {span(shares)} % of them and " if shares else ""
        sides = zip(*(gain for pair in group for gain in pair.gains), strict=True)
        ours, theirs = (span([f"{gain:+.2f}" for gain in side]) for side in sides)
        kind = "no wrong labels" if noise == "none" else f"{noise} wrong labels"
        said.append(f"with {kind} ORAT {cut}is ahead of AT by {ours} points, in the paper by {theirs} ({protocol})")
    text = "; ".join(said)
    return text[0].upper() + text[1:] + " ([why m is not what is cut](errata.md), 13)."


def span(figures: list[str]) -> str:
    """From the least to the most, as they are printed."""
    least, most = min(figures, key=float), max(figures, key=float)
    return least if least == most else f"{least} to {most}"


def place_and_method(run: Row) -> tuple[Any, ...]:
    """Where a run stands in the tables."""
    return tuple(run.get(name) for name in (*PLACE, "protocol", "method"))


def ahead(rows: dict[tuple[str, str], Row], column: str, who: str) -> float:
    """ORAT less AT in one column."""
    return float(rows["ORAT", column][who] - rows["AT", column][who])


def counts_of(outliers: list[Row]) -> list[str]:
    """Wrong labels, how many labels were cut, and how many of these were wrong, in the mean over seeds."""
    return [f"{mean(found.get(name, 0) for found in outliers):.0f}" for name in ("flipped", "cut", "flipped_and_cut")]
