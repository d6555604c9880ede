"""Accuracy against the radius or the steps of PGD; a curve that rises tells of a failing attack, not of a model."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from orat.attacks.pgd import PGD, check_radius
from orat.core.console import SILENT, Display
from orat.core.errors import InputError, unknown
from orat.core.files import csv_bytes, replace_file, require
from orat.data.source import Dataset
from orat.evaluation.accuracy import evaluate
from orat.evaluation.breakdown import interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
from orat.core.options import in_pixels, radius_label

ATTACKS = {"eps": "pgd20-madry", "steps": "pgd"}  # what the curve runs against -> the attack it takes
STEP_SIZE = "min(eps, 2.5 eps / steps)"  # Madry et al. (2018), but one step is FGSM; see `attack_at`
EPS_SHARES = (0, 1 / 4, 1 / 2, 3 / 4, 1, 3 / 2, 2, 3, 4)  # radii as multiples of eps
STEPS = (1, 2, 5, 10, 20, 50, 100, 200)
CHANCE = 2  # standard errors by which an accuracy may rise
BLUE, GRAY = "#1f5fa8", "#444444"
GREEN, ORANGE, RED = "#2e7d32", "#e8710a", "#b3261e"


def curve(
    model: nn.Module,
    dataset: Dataset,
    against: str,
    eps: float,
    norm: str = "linf",
    values: Iterable[float] | None = None,
    seed: int = 0,
    display: Display = SILENT,
) -> dict[str, Any]:
    """Accuracy at each radius or number of steps, with its interval, and a warning wherever it rises."""
    if against not in ATTACKS:
        raise unknown("curve", against, ATTACKS)
    check_radius(eps, norm)
    if eps == 0:
        raise InputError("eps = 0: a curve needs a radius of more than 0")
    places = default_places(against, eps, norm) if values is None else given_places(against, values)
    # Eight digits tell apart what single precision does; without a radius there is no attack.
    names = {value: f"{against} {value:.8g}" if value else "natural" for value in places}
    attacks = {name: attack_at(against, value, eps, norm) for value, name in names.items() if value}
    accuracy = evaluate(model, dataset, attacks, seed, display)
    points = [point(against, value, accuracy[name], len(dataset)) for value, name in names.items()]
    return {
        "against": against, "eps": eps, "norm": norm, "examples": len(dataset), "attack": ATTACKS[against],
        "step_size": STEP_SIZE, "points": points, "warnings": rises(points, against, eps, norm, len(dataset)),
    }  # fmt: skip


def default_places(against: str, eps: float, norm: str) -> list[float]:
    """Where to measure if nobody says: a pixel cannot move by more than 1."""
    if against == "steps":
        return list(STEPS)
    radii = [share * eps for share in EPS_SHARES]
    return sorted({min(radius, 1.0) for radius in radii} if norm == "linf" else set(radii))


def given_places(against: str, values: Iterable[float]) -> list[float]:
    """Where to measure, in order and once each."""
    places = sorted(set(values))
    if not places:
        raise InputError(f"a curve against {against} needs one value or more")
    if against == "eps":
        return [float(eps) for eps in places]
    for steps in places:
        if steps < 1 or steps != int(steps):
            raise InputError(f"steps = {steps}: a curve against steps takes whole numbers of 1 or more")
    return [int(steps) for steps in places]


def attack_at(against: str, value: float, eps: float, norm: str) -> PGD:
    """PGD in steps that add up to 2.5 times the radius, none larger than the radius."""
    radius, steps = (value, 20) if against == "eps" else (eps, int(value))
    return PGD(radius, steps, min(radius, 2.5 * radius / steps), norm)


def point(against: str, value: float, accuracy: float, examples: int) -> dict[str, float]:
    """One point of a curve with its 95 % interval."""
    low, high = interval(round(accuracy * examples), examples)
    return {against: value, "accuracy": accuracy, "low": low, "high": high}


def rises(points: Sequence[Mapping[str, float]], against: str, eps: float, norm: str, examples: int) -> list[str]:
    """A sentence for each rise beyond chance over the lowest point before it.

    Chance is that of two independent draws of samples; on the same samples it is less, so no false alarm comes of it.
    """
    found = []
    lowest = points[0]
    for here in points[1:]:
        before, after = lowest["accuracy"], here["accuracy"]
        error = sqrt((before * (1 - before) + after * (1 - after)) / examples)
        risen = after - before > CHANCE * error
        if risen:
            at, to = (spelled(against, place[against], eps, norm) for place in (lowest, here))
            found.append(
                f"accuracy rises from {before:.1%} at {at} to {after:.1%} at {to}: "
                f"gradients are masked or the attack is stuck"
            )
        if risen or after < before:
            lowest = here
    return found


def spelled(against: str, value: float, eps: float, norm: str) -> str:
    """A place on the curve in words."""
    if against == "eps":
        return f"eps {radius_label(value, in_pixels(eps, norm))}"
    return "1 step" if value == 1 else f"{value:g} steps"


def check_curves(wanted: Sequence[str], eps: float) -> None:
    """Refuses to begin what could not be ended: an unknown curve, or one that could not be drawn."""
    for against in wanted:
        if against not in ATTACKS:
            raise unknown("curve", against, ATTACKS)
    if wanted:
        check_plotting()
    if wanted and eps == 0:
        raise InputError("eps = 0: a curve needs a radius of more than 0")


def check_plotting() -> None:
    """Refuses to begin a curve that could not be drawn."""
    require("matplotlib.backends.backend_agg", "plots", "a curve")


def write_curves(
    wanted: Sequence[str], model: nn.Module, dataset: Dataset, eps: float, norm: str, seed: int, folder: Path,
    display: Display = SILENT,
) -> list[dict[str, Any]]:  # fmt: skip
    """Measures and writes the curves that are wanted."""
    records = []
    for against in wanted:
        records.append(curve(model, dataset, against, eps, norm, None, seed, display))
        write_curve(records[-1], folder)
    return records


def write_curve(record: Mapping[str, Any], folder: Path) -> list[Path]:
    """Writes a curve as .json, .csv and .png and says where."""
    check_plotting()
    columns = {name: [place[name] for place in record["points"]] for name in record["points"][0]}
    contents = {
        f"curve-{record['against']}.json": json.dumps(record, indent=2).encode() + b"\n",
        f"curve-{record['against']}.csv": csv_bytes(columns),
        f"curve-{record['against']}.png": drawn(record),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        replace_file(folder / name, content)
    return [folder / name for name in contents]


def drawn(record: Mapping[str, Any]) -> bytes:
    """The curve as a PNG, past pyplot and its global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.4), dpi=150, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    draw_accuracy(axes, record)
    if record["against"] == "eps":
        draw_radii(axes, record)
    else:
        draw_steps(axes, record)
    axes.legend(frameon=False, fontsize=10)
    buffer = io.BytesIO()
    canvas.print_png(buffer)
    return buffer.getvalue()


def draw_accuracy(axes: Axes, record: Mapping[str, Any]) -> None:
    """The accuracy in percent with its interval as a band."""
    points = record["points"]
    places = [place[record["against"]] for place in points]
    accuracy, low, high = ([100 * place[name] for place in points] for name in ("accuracy", "low", "high"))
    title = "PGD-20" if record["against"] == "eps" else "PGD"
    axes.fill_between(places, low, high, color=BLUE, alpha=0.18, linewidth=0, label="95 % interval")
    # Not clipped, because points at 0 and 100 % sit on the frame.
    axes.plot(places, accuracy, "o-", color=BLUE, markersize=5, clip_on=False, zorder=3, label=f"under {title}")
    axes.set_ylim(0, 100)
    axes.set_ylabel(f"accuracy in % on {record['examples']:,} images", fontsize=12)
    axes.grid(color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def draw_radii(axes: Axes, record: Mapping[str, Any]) -> None:
    """The axis of radii, and the one of the run."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    eps, norm = record["eps"], record["norm"]
    pixels = in_pixels(eps, norm)
    scale = 255 if pixels else 1
    end = scale * max(eps, axes.dataLim.x1)
    ticks = MaxNLocator(8, steps=[1, 2, 4, 5, 8, 10]).tick_values(0, end)
    axes.axvline(eps, color=GRAY, linestyle="--", linewidth=1.2, label=f"eps = {radius_label(eps, pixels)}")
    axes.set_xticks([tick / scale for tick in ticks if tick <= end * 1.001])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: radius_label(value, pixels)))
    axes.set_xlim(left=0)
    axes.set_xlabel(f"eps ({norm})", fontsize=12)


def draw_steps(axes: Axes, record: Mapping[str, Any]) -> None:
    """The axis of steps: each of its points costs a multiple of the one before."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    eps, norm = record["eps"], record["norm"]
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([place["steps"] for place in record["points"]], nbins=10))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(f"steps of PGD ({norm}, eps {radius_label(eps, in_pixels(eps, norm))})", fontsize=12)
