"""The accuracies of a trial, from its folder or from a report, and whether it is finished."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orat.cli.tables import shares
from orat.core.files import replace_file
from orat.training.run_folder import RunFolder
from orat_paper.reproduce.every_epoch import best, best_epochs, tested
from orat_paper.reproduce.settings import Trial

AUTOATTACK = "autoattack"
LAST, CHOSEN, BEST = "last", "chosen", "best"


def parts_of(trial: Trial) -> tuple[str, ...]:
    """The reported epochs of a trial: the last and the chosen on validation, or the best on the test set."""
    if trial.protocol != "ours":
        return (BEST,)
    return (LAST, CHOSEN) if trial.run.validation else (LAST,)


def outcome(trial: Trial, columns: Sequence[str]) -> dict[str, dict[str, float]]:
    """The accuracies (as shares) of every part with all columns: from the folder, else from a report."""
    return whole(in_folder(trial), columns) or whole(reported(trial, columns).get("accuracy", {}), columns)


def whole(parts: Mapping[str, Mapping[str, float]], columns: Sequence[str]) -> dict[str, dict[str, float]]:
    """The parts with all columns, reduced to these columns."""
    return {
        part: {name: accuracy[name] for name in columns}
        for part, accuracy in parts.items()
        if set(columns) <= accuracy.keys()
    }


def in_folder(trial: Trial) -> dict[str, dict[str, float]]:
    """The accuracies of every part in the folder of a finished run, else nothing."""
    result = RunFolder(trial.folder).result()
    return {} if result is None else {part: measured(trial, result, part) for part in parts_of(trial)}


def measured(trial: Trial, result: dict[str, Any], part: str) -> dict[str, float]:
    """Accuracy under the paper's attacks, and under AutoAttack where a report is present."""
    if part == BEST:
        return best(tested(trial.folder))
    attacked = report_file(trial.folder, weights_of(result, part))
    more = {AUTOATTACK: json.loads(attacked.read_text())["accuracy"][AUTOATTACK]} if attacked.is_file() else {}
    return shares(result[part]) | more


def epochs(trial: Trial, result: Mapping[str, Any]) -> dict[str, Any]:
    """The epoch of every part; of the best, all epochs that reach it, by column."""
    by_column = best_epochs(tested(trial.folder))
    return {part: by_column if part == BEST else result[part]["epoch"] for part in parts_of(trial)}


def reported(trial: Trial, columns: Sequence[str]) -> Mapping[str, Any]:
    """The trial in the first report with these columns."""
    return next((run for run in trial.reported if whole(run["accuracy"], columns)), {})


def is_done(trial: Trial, columns: Sequence[str]) -> bool:
    """Whether these columns are measured in every part."""
    return outcome(trial, columns).keys() == set(parts_of(trial))


def unattacked(trial: Trial, result: dict[str, Any]) -> list[str]:
    """The weights without a report of AutoAttack; the last weights stand for the chosen ones of the same epoch."""
    wanted = dict.fromkeys(weights_of(result, part) for part in parts_of(trial))
    return [weights for weights in wanted if not report_file(trial.folder, weights).is_file()]


def weights_of(result: dict[str, Any], part: str) -> str:
    """The name of the weights of a part."""
    return LAST if result[part]["epoch"] == result[LAST]["epoch"] else part


def report_file(folder: Path, weights: str) -> Path:
    """The report of AutoAttack on these weights."""
    return folder / f"{AUTOATTACK}-{weights}" / "report.json"


def curve(trial: Trial) -> list[dict[str, Any]]:
    """The loss and, after a test, the accuracy of every epoch."""
    accuracy = {line["epoch"]: line for line in tested(trial.folder)}
    history = (line for line in RunFolder(trial.folder).history() if line["epoch"] > 0)
    return [
        {"epoch": line["epoch"], "loss": line["loss"], **shares(accuracy.get(line["epoch"], {}))} for line in history
    ]


def broken(trial: Trial) -> str | None:
    """The error of a training without a result."""
    file = trial.folder / "broken.json"
    return json.loads(file.read_text())["error"] if file.is_file() else None


def note_end(trial: Trial, error: str | None, origin: dict[str, Any]) -> None:
    """Records the origin of a finished trial, or the error of a broken one, which is not trained again."""
    name, content = ("origin.json", origin) if error is None else ("broken.json", {"error": error, **origin})
    replace_file(trial.folder / name, json.dumps(content, indent=2).encode() + b"\n")


def origin_of(trial: Trial) -> dict[str, Any]:
    """The commit and the hardware of a trial."""
    file = trial.folder / "origin.json"
    return json.loads(file.read_text()) if file.is_file() else {"commit": None}
