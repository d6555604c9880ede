"""Runs that take a blink, for the tests of training."""

from __future__ import annotations

import signal
from typing import Any

from orat.methods import Method
from orat.run import Run

QUICK: dict[str, Any] = {
    "model": "mlp-16", "epochs": 4, "lr": 0.05, "milestones": (3,), "warmup": 1.0, "batch_size": 32, "eps": 0.1,
    "augment": "none", "validation": 0.1, "attack_steps": 3,
}  # fmt: skip


def quick(data: str, method: Method, **changes: Any) -> Run:
    """A run of four epochs on a few images, with these changes."""
    return Run(data=data, method=method, **{**QUICK, **changes})


def hears_ctrl_c() -> None:
    """For a process that is to be interrupted: one started from a background job would ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
