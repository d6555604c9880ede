"""The three pictures of docs/automatic.md, drawn from results of experiments/automatic.py.

    python experiments/automatic_figures.py --runs results/automatic-cifar10.json --rates results/automatic-rates.json

Losses of right and wrong labels with the flags, the estimated noise rate over epochs, and accuracy against the noise
rate.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orat.evaluation.curves import BLUE, GRAY, ORANGE, RED
from orat.noise.judge import RELIABLE

Row = dict[str, Any]
NAMES = {
    "at": ("AT", GRAY), "published": ("ORAT as published, m = the noise rate", ORANGE),
    "automatic": ("ORAT (automatic)", BLUE), "oracle": ("oracle: exactly the wrong labels removed", "black"),
}  # fmt: skip
PREDICTIONS = {
    "own_answers": "Predictions of the network, attacked images",
    "answers": "Cross-fitted predictions of scout networks",
}
GROUPS = {"right": (BLUE, 1.0), "right, cut": (BLUE, 0.35), "wrong": (RED, 1.0), "wrong, cut": (RED, 0.35)}
WORDS = {
    "right": "right label", "right, cut": "right label, flagged", "wrong": "wrong label",
    "wrong, cut": "wrong label, flagged",
}  # fmt: skip


def main() -> None:
    """Draws all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="for the losses and the estimates")
    parser.add_argument("--kind", default="symmetric:0.4", help="noise and rate of the drawn losses")
    parser.add_argument("--rates", type=Path, required=True, help="for the accuracy")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = rows_of(arguments.runs)
    automatic = [row for row in rows if row["arm"] == "automatic" and row["seed"] == 0]
    noise, _, rate = arguments.kind.partition(":")
    shown = next(row for row in automatic if (row["noise"], row["rate"]) == (noise, float(rate)))
    rates = accuracy(rows_of(arguments.rates))
    pictures = {"losses": losses(shown), "estimates": estimates(automatic), "accuracy": rates}
    for name, picture in pictures.items():
        file = arguments.out / f"automatic-{name}.png"
        picture.savefig(file)
        print(file)


def rows_of(file: Path) -> list[Row]:
    """The rows of a file."""
    rows: list[Row] = json.loads(file.read_text())["rows"]
    return rows


def losses(row: Row) -> Figure:
    """Histograms of the losses of right and wrong labels, for the network and for scout networks, with the flags."""
    figure = Figure(figsize=(10, 3.8), dpi=150, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for panel, (predictions, title) in zip(panels, PREDICTIONS.items(), strict=True):
        histogram = row["histograms"][predictions]
        width = row["histograms"]["highest"] / len(histogram["right"])
        places = [width * (place + 0.5) for place in range(len(histogram["right"]))]
        floor = [0.0] * len(places)
        for group, (color, alpha) in GROUPS.items():
            panel.bar(places, histogram[group], width, floor, color=color, alpha=alpha, label=WORDS[group], linewidth=0)
            floor = [below + count for below, count in zip(floor, histogram[group], strict=True)]
        panel.set_title(title, fontsize=11)
        panel.set_xlabel("loss of the given label, averaged over epochs")
        panel.set_xlim(0, row["histograms"]["highest"])
        limit = 1.05 * sorted(floor)[-2]
        panel.set_ylim(0, limit)
        for place, count in zip(places, floor, strict=True):
            if count > limit:
                panel.annotate(f"{count:,.0f}", (place + width, 0.96 * limit), fontsize=9)
        bare(panel)
    panels[0].set_ylabel("samples")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def estimates(rows: list[Row]) -> Figure:
    """The estimated noise rate after every epoch with reliable predictions, and the true rate."""
    figure = Figure(figsize=(8, 3.8), dpi=150, layout="constrained")
    panel = figure.subplots()
    for row, color in zip(rows, (BLUE, RED, ORANGE, GRAY), strict=False):
        known = [place for place, share in enumerate(row["known"]) if share >= RELIABLE]
        epochs = [row["epochs"][place] for place in known]
        wrong, error = ([100 * row[name][place] for place in known] for name in ("wrong", "error"))
        name = "no noise" if row["noise"] == "none" else f"{row['noise']} {row['rate']:.0%}"
        panel.plot(epochs, wrong, color=color, label=name)
        low, high = ([value + sign * two for value, two in zip(wrong, error, strict=True)] for sign in (-2, 2))
        panel.fill_between(epochs, low, high, color=color, alpha=0.2, linewidth=0)
        panel.axhline(100 * row.get("flipped", 0.0), color=color, linestyle=":", linewidth=1)
    panel.axvline(0.5, color="black", linewidth=0.8)
    panel.set_xlabel("epoch; up to 0: scout networks, from 1: the network")
    panel.set_ylabel("noise rate in %")
    panel.set_ylim(bottom=0)
    panel.legend(frameon=False, title="estimate ± 2 standard errors; dotted: truth")
    bare(panel)
    return figure


def accuracy(rows: list[Row]) -> Figure:
    """Accuracy against the noise rate: the mean over seeds, and bars from the least to the largest."""
    figure = Figure(figsize=(10, 3.8), dpi=150, layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, (column, title) in zip(panels, (("natural", "natural"), ("pgd20", "under PGD-20")), strict=True):
        for arm, (name, color) in NAMES.items():
            rates = sorted({row["rate"] for row in rows if row["arm"] == arm})
            values = [[row[column] for row in rows if (row["arm"], row["rate"]) == (arm, rate)] for rate in rates]
            means = [mean(own) for own in values]
            spread = [[middle - min(own) for middle, own in zip(means, values, strict=True)]]
            spread += [[max(own) - middle for middle, own in zip(means, values, strict=True)]]
            panel.errorbar(
                [100 * rate for rate in rates], means, spread, color=color, label=name, marker="o", markersize=4,
                capsize=3, linestyle="--" if arm == "oracle" else "-",
            )  # fmt: skip
        panel.set_title(title, fontsize=11)
        panel.set_xlabel("noise rate in %")
        bare(panel)
    panels[0].set_ylabel("accuracy in % after the last epoch")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    return figure


def bare(panel: Axes) -> None:
    """Removes the upper and right side of the frame."""
    panel.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
