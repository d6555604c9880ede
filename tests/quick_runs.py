"""Runs that take a blink, for the tests of training."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from orat.core.console import SILENT
from orat.methods import Method
from orat.methods.orat import ORAT
from orat.training import train as execute
from orat.training.run import Run

QUICK: dict[str, Any] = {
    "model": "mlp-16", "epochs": 4, "lr": 0.05, "milestones": (3,), "warmup": 1.0, "batch_size": 32, "eps": 0.1,
    "augment": "none", "validation": 0.1, "attack_steps": 3,
}  # fmt: skip
# Longer ones, in which labels can be judged: by scouts of 16 epochs, and after the last of these by the network too.
SLOW: dict[str, Any] = {"epochs": 4, "milestones": (), "lr": 0.1}
NOISE: dict[str, Any] = {"noise": "symmetric", "noise_rate": 0.2, **SLOW}
JUDGING = ORAT(scout_epochs=16)


def quick(data: str, method: Method, **changes: Any) -> Run:
    """A run of four epochs on a few images, with these changes."""
    return Run(data=data, method=method, **{**QUICK, **changes})


def train_until_stopped(run: Run, out: Path, saves: int, monkeypatch: pytest.MonkeyPatch, engine: str = "auto") -> None:
    """A run that is interrupted right after so many checkpoints, of which there is one a step."""
    left = iter(range(saves - 1))
    save = execute.Job.save

    def save_then_stop(job: execute.Job) -> None:
        save(job)
        if next(left, None) is None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(execute, "SAVE_EVERY", 0.0)
        patch.setattr(execute.Job, "save", save_then_stop)
        with pytest.raises(KeyboardInterrupt):
            execute.train(run, out, display=SILENT, engine=engine)


def hears_ctrl_c() -> None:
    """For a process that is to be interrupted: one started from a background job would ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
