"""Our accuracies beside the paper's, and whether a difference lies within the spread of the paper's runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from statistics import mean, stdev
from typing import Any

from orat.core.device import commit, versions
from orat.training.run_folder import RunFolder
from orat_paper.reproduce.artifacts import Artifact, rows
from orat_paper.reproduce.cells import Cell
from orat_paper.reproduce.outcomes import curve, epochs, in_folder, origin_of, outcome, parts_of, reported, whole
from orat_paper.reproduce.settings import Trial, portable

DEVIATIONS = 2  # standard deviations of the paper's ten runs; smaller differences count as chance
HERE, BORROWED = "here", "borrowed"
SPREAD = (
    f"*: within {DEVIATIONS} standard deviations of the paper's ten runs of this cell; ~: of the paper's ten runs with "
    "the same method and data set, 40 % symmetric noise and the small radius; CIFAR-10, AutoAttack and AT w/o have no "
    "known spread and no mark"
)

Row = dict[str, Any]


def compare(artifact: Artifact, trials: Sequence[Trial]) -> list[Row]:
    """One row for every cell, protocol, epoch and column; None is a hole."""
    groups: dict[tuple[Cell, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.cell, trial.protocol), []).append(trial)
    found: list[Row] = []
    for (cell, protocol), members in groups.items():
        outcomes = [outcome(trial, artifact.columns) for trial in members]
        for part in parts_of(members[0]):
            for column in artifact.columns:
                values = [100 * one[part][column] for one in outcomes if column in one.get(part, {})]
                start = {**cell.key(), "protocol": protocol, "epoch": part, "column": column}
                found.append(start | comparison(values, cell, column))
    return found


def comparison(values: Sequence[float], cell: Cell, column: str) -> Row:
    """Our values of one column beside the paper's."""
    theirs, (deviation, source) = cell.theirs.get(column), spread(cell, column)
    ours = mean(values) if values else None
    difference = None if ours is None or theirs is None else ours - theirs
    known = difference is not None and deviation is not None
    within = abs(difference or 0) <= DEVIATIONS * (deviation or 0) + 1e-9 if known else None
    return {
        "seeds": len(values), "ours": ours, "sd": stdev(values) if len(values) > 1 else None, "theirs": theirs,
        "difference": difference, "their_sd": deviation, "sd_from": source, "within": within,
    }  # fmt: skip


def spread(cell: Cell, column: str) -> tuple[float | None, str | None]:
    """The standard deviation of the paper's ten runs, and whether these are runs of this cell."""
    known = deviations()
    place = cell.data, cell.eps, cell.noise, str(cell.rate)
    found, where = known.get((cell.data, cell.method, column), (None, None))
    if found is None or cell.model is not None:
        return None, None
    return found, HERE if place == where else BORROWED


@cache
def deviations() -> dict[tuple[str, str, str], tuple[float, tuple[str, ...]]]:
    """Data set, method and column -> the deviation of ten runs, and their place."""
    return {
        (row["data"], row["method"], name.removesuffix("_sd")): (
            float(row[name]), (row["data"], row["eps"], row["noise"], row["rate"]),
        )
        for row in rows("table_stability") for name in row if name.endswith("_sd")
    }  # fmt: skip


def content(artifact: Artifact, trials: Sequence[Trial], joins: Sequence[Row]) -> Row:
    """The report for a file: the rows, and every run with its seed, hardware and commit."""
    done = [trial for trial in trials if outcome(trial, artifact.columns)]
    return {
        "what": artifact.title, "name": artifact.name, "note": artifact.note, "spread": SPREAD,
        "written_by": versions() | {"commit": commit()}, "rows": list(joins),
        "runs": [described(artifact, trial) for trial in done],
    }  # fmt: skip


def described(artifact: Artifact, trial: Trial) -> Row:
    """A run in a report: fields, accuracies and origin."""
    if not whole(in_folder(trial), artifact.columns):
        return copied(artifact, trial)
    result = RunFolder(trial.folder).result() or {}
    same = ("fingerprint", "seconds", "outliers", "corrections", "left_out", "examples", "made_with")
    more = {"curve": curve(trial)} if artifact.curves else {}
    return {
        **trial.cell.key(), "protocol": trial.protocol, "seed": trial.seed, "folder": trial.folder.name,
        "run": portable(trial.run), "accuracy": outcome(trial, artifact.columns),
        "epochs": epochs(trial, result), **{name: result.get(name) for name in same},
        "origin": origin_of(trial), **more,
    }  # fmt: skip


def copied(artifact: Artifact, trial: Trial) -> Row:
    """One run from another report, with the columns of this table or figure."""
    known = {**reported(trial, artifact.columns), "accuracy": outcome(trial, artifact.columns)}
    return known if artifact.curves else {name: value for name, value in known.items() if name != "curve"}
