"""Curves against epochs on docs/reproduced.md: the least losses and the largest accuracies."""

from __future__ import annotations

from collections.abc import Iterable

from markdown import NAMES, Row, grouped, noise_words, table_head, table_line

from orat.cli.tables import TITLES

PAIR = ("AT", "ORAT")


def curves(runs: list[Row]) -> list[str]:
    """The table of losses, or of accuracies where the runs were tested after every epoch."""
    columns = [name for name in TITLES if name in runs[0]["curve"][0]]
    return ["", *(highest(runs, columns) if columns else lowest(runs))]


def place_of(run: Row) -> str:
    """The place of a run in the paper."""
    return f"{run['data']}, eps {run['eps']}, {noise_words(run['noise'], run['rate'])}"


def lowest(runs: Iterable[Row]) -> list[str]:
    """The least training loss with its epoch, and the last loss."""
    lines = table_head(["training loss", "method", "least", "epoch", "last"])
    for run in runs:
        least, last = min(run["curve"], key=lambda point: point["loss"]), run["curve"][-1]
        method, losses = NAMES.get(run["method"], run["method"]), (f"{point['loss']:.3f}" for point in (least, last))
        least_loss, last_loss = losses
        lines.append(table_line([place_of(run), method, least_loss, least["epoch"], last_loss]))
    return lines


def highest(runs: list[Row], columns: list[str]) -> list[str]:
    """The best and the last accuracy of every column, and the number of epochs with ORAT ahead."""
    titles = ["best accuracy (its epoch), and the last", "protocol", "method", *(TITLES[name] for name in columns)]
    lines = table_head(titles)
    for (place, protocol), group in grouped(runs, lambda run: (place_of(run), run["protocol"])):
        for run in group:
            figures = (best_and_last(run["curve"], name) for name in columns)
            lines.append(table_line([place, protocol, NAMES.get(run["method"], run["method"]), *figures]))
        pairs = [tuple(run["curve"] for run in group if run["method"] == method) for method in PAIR]
        if all(len(pair) == 1 for pair in pairs):
            counts = [epochs_ahead(*(pair[0] for pair in pairs), name) for name in columns]
            lines.append(table_line([place, protocol, "epochs with ORAT ahead", *counts]))
    return lines


def best_and_last(curve: list[Row], name: str) -> str:
    """The largest accuracy with its epoch, and the last accuracy, in %."""
    best = max(curve, key=lambda point: point[name])
    return f"{100 * best[name]:.2f} ({best['epoch']}), {100 * curve[-1][name]:.2f}"


def epochs_ahead(behind: list[Row], ahead: list[Row], name: str) -> str:
    """The number of epochs with the second curve above the first."""
    return f"{sum(one[name] > other[name] for other, one in zip(behind, ahead, strict=True))} of {len(ahead)}"
