"""Curves against epochs on the page of the paper's numbers: where losses are least, and accuracies largest."""

from __future__ import annotations

from collections.abc import Iterable

from pages import Row, grouped, table_head, table_line

from orat.cli.tables import TITLES

PAIR = ("AT", "ORAT")  # that the paper compares


def curves(runs: list[Row]) -> list[str]:
    """In words where only losses were followed, as a table where accuracies were."""
    columns = [name for name in TITLES if name in runs[0]["curve"][0]]
    return ["", *(highest(runs, columns) if columns else [lowest(runs)])]


def place_of(run: Row) -> str:
    """Where a run stands in the paper."""
    return f"{run['data']}, eps {run['eps']}, {run['noise']} {run['rate']} %"


def lowest(runs: Iterable[Row]) -> str:
    """In which epoch the training loss is least, and where it ends."""
    said = []
    for run in runs:
        least, last = min(run["curve"], key=lambda point: point["loss"]), run["curve"][-1]
        where = f"{run['method']} on {place_of(run)}"
        said.append(f"{where}: {least['loss']:.3f} in epoch {least['epoch']}, {last['loss']:.3f} in the last")
    return "The training loss is least as follows. " + "; ".join(said) + "."


def highest(runs: list[Row], columns: list[str]) -> list[str]:
    """The best epoch of each column and the last one, and in how many epochs ORAT is ahead."""
    lines = table_head(
        ["best accuracy (its epoch), and the last", "protocol", "method", *(TITLES[name] for name in columns)]
    )
    for (place, protocol), group in grouped(runs, lambda run: (place_of(run), run["protocol"])):
        for run in group:
            lines.append(
                table_line([place, protocol, run["method"], *(best_and_last(run["curve"], name) for name in columns)])
            )
        pairs = [tuple(run["curve"] for run in group if run["method"] == method) for method in PAIR]
        if all(len(pair) == 1 for pair in pairs):
            counts = [epochs_ahead(*(pair[0] for pair in pairs), name) for name in columns]
            lines.append(table_line([place, protocol, "epochs with ORAT ahead", *counts]))
    return lines


def best_and_last(curve: list[Row], name: str) -> str:
    """The largest value, in which epoch it was, and the last one, in %."""
    best = max(curve, key=lambda point: point[name])
    return f"{100 * best[name]:.2f} ({best['epoch']}), {100 * curve[-1][name]:.2f}"


def epochs_ahead(behind: list[Row], ahead: list[Row], name: str) -> str:
    """In how many of the epochs one curve is above the other."""
    return f"{sum(one[name] > other[name] for other, one in zip(behind, ahead, strict=True))} of {len(ahead)}"
