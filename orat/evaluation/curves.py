"""Accuracy against the radius or the steps of PGD; a rising curve means a failing attack, not a robust network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from orat.attacks.pgd import PGD
from orat.attacks.threat import Threat, ThreatLike
from orat.core.console import SILENT, Display
from orat.core.errors import InputError, unknown
from orat.core.files import csv_bytes, replace_file, require
from orat.core.options import in_pixels
from orat.core.plots import radius_label, write_figure
from orat.data.source import Dataset
from orat.evaluation.accuracy import evaluate
from orat.evaluation.report import interval
from orat.evaluation.subject import prepared

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ATTACKS = {"eps": "pgd20-madry", "steps": "pgd"}  # axis of the curve -> name of the attack in its record
STEP_SIZE = "min(eps, 2.5 eps / steps)"  # Madry et al. (2018), but one step is FGSM; see `attack_of`
EPS_SHARES = (0, 1 / 4, 1 / 2, 3 / 4, 1, 3 / 2, 2, 3, 4)  # radii as multiples of eps
STEPS = (1, 2, 5, 10, 20, 50, 100, 200)
CHANCE = 2  # standard errors of a rise that may be chance
BLUE, GRAY = "#1f5fa8", "#444444"
GREEN, ORANGE, RED = "#2e7d32", "#e8710a", "#b3261e"


def curve(
    model: nn.Module,
    data: Any,
    against: str,
    threat: ThreatLike,
    values: Iterable[float | int] | None = None,
    seed: int = 0,
    display: Display = SILENT,
) -> dict[str, Any]:
    """Accuracy at each radius or number of steps, with its interval, and a warning wherever it rises."""
    threat = Threat.of(threat)
    check_curve(against, threat)
    places = default_places(against, threat) if values is None else given_places(against, values)
    threats = {value: replace(threat, eps=value) if against == "eps" else threat for value in places}
    model, data = prepared(model, data, {}, seed)
    points = []
    for value, bound in threats.items():
        attacks = {f"{against} {value:.8g}": attack_of(against, value)} if value else {}
        accuracy = evaluate(model, data, attacks, bound, seed, display)
        points.append(point(against, value, [*accuracy.values()][-1], len(data)))
    return {
        "against": against, **threat.record(), "examples": len(data), "attack": ATTACKS[against],
        "step_size": STEP_SIZE, "points": points, "warnings": rises(points, against, threat, len(data)),
    }  # fmt: skip


def default_places(against: str, threat: Threat) -> list[float | int]:
    """The usual radii or numbers of steps; in linf, a pixel cannot move by more than 1."""
    if against == "steps":
        return list(STEPS)
    radii = [share * threat.eps for share in EPS_SHARES]
    return sorted({min(radius, 1.0) for radius in radii} if threat.norm == "linf" and threat.plain else set(radii))


def given_places(against: str, values: Iterable[float | int]) -> list[float | int]:
    """The given radii or numbers of steps, in order and once each."""
    places = sorted(set(values))
    if not places:
        raise InputError(f"a curve against {against} needs one value or more")
    if against == "eps":
        return [float(eps) for eps in places]
    for steps in places:
        if steps < 1 or steps != int(steps):
            raise InputError(f"steps = {steps}: a curve against steps takes whole numbers of 1 or more")
    return [int(steps) for steps in places]


def attack_of(against: str, value: float | int) -> PGD:
    """PGD with steps of 2.5 radii in all, at most a radius each."""
    steps = 20 if against == "eps" else int(value)
    return PGD(steps, step=min(1.0, 2.5 / steps), inward=False)


def point(against: str, value: float | int, accuracy: float, examples: int) -> dict[str, float | int]:
    """A point of a curve, with a 95 % interval."""
    low, high = interval(round(accuracy * examples), examples)
    return {against: value, "accuracy": accuracy, "low": low, "high": high}


def rises(points: Sequence[Mapping[str, float | int]], against: str, threat: Threat, examples: int) -> list[str]:
    """A warning for each rise beyond chance over the lowest point before.

    Chance is that of independent samples; on the same samples chance is smaller, so that false alarms are rare.
    """
    found = []
    lowest = points[0]
    for here in points[1:]:
        before, after = lowest["accuracy"], here["accuracy"]
        error = sqrt((before * (1 - before) + after * (1 - after)) / examples)
        risen = after - before > CHANCE * error
        if risen:
            at, to = (spelled(against, place[against], threat) for place in (lowest, here))
            found.append(
                f"accuracy rises from {before:.1%} at {at} to {after:.1%} at {to}: gradients are masked or the attack "
                f"is stuck, so add attacks without gradients (square)"
            )
        if risen or after < before:
            lowest = here
    return found


def spelled(against: str, value: float | int, threat: Threat) -> str:
    """A radius or a number of steps in words."""
    if against == "eps":
        return f"eps {radius_label(value, in_pixels(threat.eps, threat.norm))}"
    return "1 step" if value == 1 else f"{value:g} steps"


def check_curve(against: str, threat: Threat) -> None:
    """Refuses an unknown curve and a radius of 0."""
    if against not in ATTACKS:
        raise unknown("curve", against, ATTACKS)
    if threat.eps == 0:
        raise InputError("eps = 0: a curve needs a radius of more than 0")


def check_curves(wanted: Sequence[str], threat: Threat) -> None:
    """Refuses curves that cannot be measured or drawn, before the evaluation begins."""
    for against in wanted:
        check_curve(against, threat)
        check_plotting()


def check_plotting() -> None:
    """Refuses a missing plotting package."""
    require("matplotlib.backends.backend_agg", "plots", "a curve")


def write_curves(
    wanted: Sequence[str], model: nn.Module, data: Dataset, threat: Threat, seed: int, folder: Path,
    display: Display = SILENT,
) -> list[dict[str, Any]]:  # fmt: skip
    """Measures curves and writes their files."""
    records = []
    for against in wanted:
        records.append(curve(model, data, against, threat, None, seed, display))
        write_curve(records[-1], folder)
    return records


def write_curve(record: Mapping[str, Any], folder: Path) -> list[Path]:
    """Writes a curve as .json, .csv and .png, and returns the files."""
    check_plotting()
    name = f"curve-{record['against']}"
    columns = {name: [place[name] for place in record["points"]] for name in record["points"][0]}
    contents = {
        folder / f"{name}.json": json.dumps(record, indent=2).encode() + b"\n",
        folder / f"{name}.csv": csv_bytes(columns),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        replace_file(file, content)
    write_figure(partial(figure_of, record), folder / f"{name}.png")
    return [*contents, folder / f"{name}.png"]


def figure_of(record: Mapping[str, Any]) -> Figure:
    """The figure of a curve."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    draw_accuracy(axes, record)
    if record["against"] == "eps":
        draw_radii(axes, record)
    else:
        draw_steps(axes, record)
    axes.legend(frameon=False, fontsize=10)
    return figure


def draw_accuracy(axes: Axes, record: Mapping[str, Any]) -> None:
    """The accuracy in percent, with its interval as a band."""
    points = record["points"]
    places = [place[record["against"]] for place in points]
    accuracy, low, high = ([100 * place[name] for place in points] for name in ("accuracy", "low", "high"))
    title = "PGD-20" if record["against"] == "eps" else "PGD"
    axes.fill_between(places, low, high, color=BLUE, alpha=0.18, linewidth=0, label="95 % interval")
    # Not clipped: points at 0 and 100 % lie on the frame.
    axes.plot(places, accuracy, "o-", color=BLUE, markersize=5, clip_on=False, zorder=3, label=f"under {title}")
    axes.set_ylim(0, 100)
    axes.set_ylabel(f"accuracy in % on {record['examples']:,} samples", fontsize=12)
    axes.grid(color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def draw_radii(axes: Axes, record: Mapping[str, Any]) -> None:
    """The axis of radii, with a line at the radius of the threat."""
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
    """The axis of steps, in logarithms."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    eps, norm = record["eps"], record["norm"]
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([place["steps"] for place in record["points"]], nbins=10))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(f"steps of PGD ({norm}, eps {radius_label(eps, in_pixels(eps, norm))})", fontsize=12)
