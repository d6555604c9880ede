"""The rows of `orat paper reproduce --list`: every table and figure with its finished runs, time and data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orat_paper.reproduce.artifacts import Artifact, artifacts
from orat_paper.reproduce.costs import BASIS, seconds
from orat_paper.reproduce.outcomes import is_done
from orat_paper.reproduce.settings import Places, Trial, trial_of
from orat_paper.reproduce.trials import Execution, missing_data, time_words


def overview(
    protocols: Sequence[str], seeds: tuple[int, ...] | None, execution: Execution
) -> tuple[list[dict[str, Any]], list[str]]:
    """One row a table or figure, and the notes below: the basis of the times and the missing data."""
    names = dict.fromkeys(cell.data for artifact in artifacts().values() for cell in artifact.cells)
    missing = missing_data(names, execution.places, execution.data_dir)
    rows = [
        row_of(artifact, trials_of(artifact, protocols, seeds, execution.places), missing, execution)
        for artifact in artifacts().values()
    ]
    return rows, [BASIS, *missing.values()]


def trials_of(
    artifact: Artifact, protocols: Sequence[str], seeds: tuple[int, ...] | None, places: Places
) -> list[Trial]:
    """All trials of a table or figure under the wanted protocols."""
    return [
        trial_of(artifact, cell, protocol, seed, places)
        for protocol in protocols
        if protocol in artifact.protocols
        for cell in artifact.cells
        for seed in seeds or artifact.seeds
    ]


def row_of(
    artifact: Artifact, trials: Sequence[Trial], missing: dict[str, str], execution: Execution
) -> dict[str, Any]:
    """The row of one table or figure."""
    left = [trial for trial in trials if not is_done(trial, artifact.columns)]
    left_seconds = seconds(left, artifact.columns, execution.where.type)
    needs = [
        f"{name} (missing)" if name in missing else name for name in dict.fromkeys(cell.data for cell in artifact.cells)
    ]
    if artifact.weights:
        needs.append("weights" if execution.places.weights else "weights (missing)")
    return {
        "name": artifact.name, "what": artifact.title, "cells": len(artifact.cells), "runs": len(trials),
        "done": len(trials) - len(left), "seconds": round(left_seconds), "time": time_words(left_seconds),
        "data": ", ".join(needs),
    }  # fmt: skip
