"""ORAT beside the other methods on docs/reproduced.md: the differences, and the removed labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from markdown import Row, grouped, noise_words, table_head, table_line

from orat.cli.tables import TITLES

PLACE = ("data", "eps", "noise", "rate")
WHO = ("ours", "theirs")
WHY = "ORAT does not remove m samples: [errata](errata.md), 13."


def beside_others(rows: list[Row]) -> list[str]:
    """The number of columns with ORAT ahead of every other method, and the differences, ours and the paper's."""
    lines, compared = [], [row for row in rows if row["difference"] is not None]
    for (protocol, noise), group in grouped(compared, lambda row: (row["protocol"], row["noise"])):
        numbers = {(*(row[name] for name in (*PLACE, "column")), row["method"]): row for row in group}
        for method in dict.fromkeys(row["method"] for row in group):
            both = [(numbers[*place, "ORAT"], row) for (*place, name), row in numbers.items()
                    if name == method != "ORAT" and (*place, "ORAT") in numbers]  # fmt: skip
            if len(both) > 1:
                figures = [gain_words([round(own[who] - row[who], 2) for own, row in both]) for who in WHO]
                lines.append(table_line([method, noise, protocol, len(both), *figures]))
    titles = ["ORAT minus", "noise", "protocol", "numbers", "ours: ahead in, least, median, largest", "the paper's"]
    return ["", *table_head(titles), *lines] if lines else []


def gain_words(gains: list[float]) -> str:
    """The number of positive gains; the least, the median and the largest gain."""
    least, middle, largest = (f"{pick(gains):+.2f}" for pick in (min, median, max))
    return f"{sum(gain > 0 for gain in gains)}: {least} {middle} {largest}"


@dataclass(frozen=True)
class Pair:
    """AT and ORAT on the same labels: the removed samples of every run, and ORAT minus AT, ours and the paper's."""

    place: tuple[Any, ...]
    m: int
    outliers: list[Row]
    gains: list[tuple[float, float]]


def beside_at(rows: list[Row], runs: list[Row]) -> list[str]:
    """The removed samples of ORAT after the last epoch, and its difference to AT on the same labels."""
    columns = [name for name in TITLES if any(row["column"] == name for row in rows)]
    pairs = list(pairs_of(rows, runs, columns))
    if not pairs:
        return []
    titles = ["ORAT - AT: ours (the paper's)", "noise", "m", "wrong labels", "removed", "with a wrong label"]
    lines = ["", *ranges(pairs), "", WHY, "", *table_head([*titles, *(TITLES[name] for name in columns)])]
    for pair in pairs:
        data, eps, noise, rate, protocol = pair.place
        start = [f"{data}, eps {eps}, {protocol}", noise_words(noise, rate), pair.m]
        figures = [f"{ours:+.2f} ({theirs:+.2f})" for ours, theirs in pair.gains]
        lines.append(table_line([*start, *counts_of(pair.outliers), *figures]))
    return lines


def pairs_of(rows: list[Row], runs: list[Row], columns: list[str]) -> Iterator[Pair]:
    """Every place with AT and ORAT, ours and the paper's."""
    for place, group in grouped(rows, lambda row: tuple(row[name] for name in (*PLACE, "protocol"))):
        known = {(row["method"], row["column"]): row for row in group if row["difference"] is not None}
        own = [run for run in runs if place_and_method(run) == (*place, "ORAT") and run.get("outliers")]
        if own and all((method, name) in known for method in ("AT", "ORAT") for name in columns):
            gains = [(ahead(known, name, "ours"), ahead(known, name, "theirs")) for name in columns]
            yield Pair(place, own[0]["m"], [run["outliers"] for run in own], gains)


def ranges(pairs: list[Pair]) -> list[str]:
    """The ranges of removed wrong labels and of the differences, one line a noise and protocol."""
    lines = table_head(["noise", "protocol", "wrong labels removed, in %", "ORAT - AT, in points", "the paper's"])
    for (noise, protocol), group in grouped(pairs, lambda pair: (pair.place[2], pair.place[4])):
        found = [one for pair in group for one in pair.outliers if one.get("flipped")]
        removed = span([f"{100 * one['flipped_and_cut'] / one['flipped']:.1f}" for one in found]) if found else "-"
        sides = zip(*(gain for pair in group for gain in pair.gains), strict=True)
        lines.append(
            table_line([noise, protocol, removed, *(span([f"{gain:+.2f}" for gain in side]) for side in sides)])
        )
    return lines


def span(figures: list[str]) -> str:
    """From the least to the largest number, as printed."""
    least, most = min(figures, key=float), max(figures, key=float)
    return least if least == most else f"{least} to {most}"


def place_and_method(run: Row) -> tuple[Any, ...]:
    """The place of a run in the tables."""
    return tuple(run.get(name) for name in (*PLACE, "protocol", "method"))


def ahead(rows: dict[tuple[str, str], Row], column: str, who: str) -> float:
    """ORAT minus AT in one column."""
    return float(rows["ORAT", column][who] - rows["AT", column][who])


def counts_of(outliers: list[Row]) -> list[str]:
    """The means over seeds of wrong labels, removed samples, and removed samples with a wrong label."""
    return [f"{mean(found.get(name, 0) for found in outliers):.0f}" for name in ("flipped", "cut", "flipped_and_cut")]
