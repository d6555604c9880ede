"""What `orat reproduce --list` shows: every table and figure, what is done of it, how long it takes, what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orat_paper.reproduce.artifacts import Artifact, artifacts
from orat_paper.reproduce.carrying_out import Means, missing_data, time_words
from orat_paper.reproduce.costs import BASIS, seconds
from orat_paper.reproduce.outcomes import is_done
from orat_paper.reproduce.settings import Trial, trial_of


def listing(
    protocols: Sequence[str], seeds: tuple[int, ...] | None, means: Means
) -> tuple[list[dict[str, Any]], list[str]]:
    """One row a table or figure, and what there is to say below: what times are based on, and what is missing."""
    names = dict.fromkeys(cell.data for artifact in artifacts().values() for cell in artifact.cells)
    missing = missing_data(names, means.places, means.data_dir)
    rows = [
        row_of(artifact, trials_of(artifact, protocols, seeds, means), missing, means)
        for artifact in artifacts().values()
    ]
    return rows, [BASIS, *missing.values()]


def trials_of(artifact: Artifact, protocols: Sequence[str], seeds: tuple[int, ...] | None, means: Means) -> list[Trial]:
    """All trials under those of the protocols that it has."""
    return [
        trial_of(artifact, cell, protocol, seed, means.places)
        for protocol in protocols
        if protocol in artifact.protocols
        for cell in artifact.cells
        for seed in seeds or artifact.seeds
    ]


def row_of(artifact: Artifact, trials: Sequence[Trial], missing: dict[str, str], means: Means) -> dict[str, Any]:
    """One table or figure."""
    left = [trial for trial in trials if not is_done(trial, artifact.columns)]
    left_seconds = seconds(left, means.where.type)
    needs = [
        f"{name} (missing)" if name in missing else name for name in dict.fromkeys(cell.data for cell in artifact.cells)
    ]
    if artifact.weights:
        needs.append("weights" if means.places.weights else "weights (missing)")
    return {
        "name": artifact.name, "what": artifact.title, "cells": len(artifact.cells), "runs": len(trials),
        "done": len(trials) - len(left), "seconds": round(left_seconds), "time": time_words(left_seconds),
        "data": ", ".join(needs),
    }  # fmt: skip
