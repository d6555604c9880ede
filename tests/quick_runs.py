"""Runs of a second or less for the tests of training: how to interrupt them, and how to compare them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from orat.core.console import SILENT, Display
from orat.methods import AT, GAIRAT, MAIL, MART, ORAT, RAA, ST, TRADES, WMMR, AoRR, Method
from orat.training import observers
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.train import Session, train

QUICK: dict[str, Any] = {
    "model": "mlp-16", "epochs": 4, "lr": 0.05, "milestones": (3,), "warmup": 1.0, "batch_size": 32, "eps": 0.1,
    "augment": "none", "validation": 0.1, "attack_steps": 3, "attack_warmup": 0.0,
}  # fmt: skip
# Settings in which labels can be judged: 16 epochs of cross-fitting, then the network judges too.
SLOW: dict[str, Any] = {"epochs": 4, "milestones": (), "lr": 0.1}
NOISE: dict[str, Any] = {"noise": "symmetric", "noise_rate": 0.2, **SLOW}
JUDGING = ORAT(scout_epochs=16)

# Every method in its forms; all of them leave their plain form after the first epoch.
ONE_OF_EACH: dict[str, Method] = {
    "st": ST(),
    "at": AT(),
    "trades": TRADES(),
    "mart": MART(),
    "gairat": GAIRAT(burn_in=1),
    "gairat discrete": GAIRAT(weight="discrete", burn_in=1),
    "mail": MAIL(burn_in=1),
    "mail trades": MAIL(form="trades", scale="batch", burn_in=1),
    "wmmr": WMMR(),
    "wmmr detached": WMMR(detach_weights=True, weighted_attack=False),
    "raa": RAA(burn_in=1),
    "raa persistent": RAA(burn_in=1, persistent=True),
    "aorr": AoRR(m=0.2, k=0.95),
    "orat": ORAT(m=0.2, k=0.95),
    "orat by scalars": ORAT(m=0.2, k=0.95, solver="minmax"),
}
EVERY = ONE_OF_EACH | {
    "orat by measured scalars": ORAT(m=0.2, k=0.95, solver="minmax-measured"),
    "orat automatic": ORAT(scout_epochs=2),
}


def quick(data: str, method: Method, **changes: Any) -> Run:
    """A run of four epochs on a few images, with these changes."""
    return Run(data=data, method=method, **{**QUICK, **changes})


def save_after_every_step(patch: pytest.MonkeyPatch) -> None:
    """Makes every step and every end of an epoch due for a checkpoint."""
    patch.setattr(observers, "SAVE_EVERY", -1.0)
    patch.setattr(observers, "SAVE_AT_MOST_EVERY", -1.0)


def stop_after(saves: int, patch: pytest.MonkeyPatch) -> None:
    """Interrupts training right after this number of checkpoints, one per step."""
    left, save = iter(range(saves - 1)), Session.save

    def save_then_stop(*arguments: Any) -> None:
        save(*arguments)
        if next(left, None) is None:
            raise KeyboardInterrupt

    save_after_every_step(patch)
    patch.setattr(Session, "save", save_then_stop)


def kill_after(count: int, owner: type, method: str) -> None:
    """Kills this process right after so many calls of a method; every step saves."""
    original = getattr(owner, method)
    left = iter(range(count - 1))

    def call_then_kill(*arguments: Any) -> None:
        original(*arguments)
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    save_after_every_step(pytest.MonkeyPatch())
    setattr(owner, method, call_then_kill)


def train_until_stopped(
    run: Run, out: Path, saves: int, monkeypatch: pytest.MonkeyPatch, engine: str = "auto", **more: Any
) -> None:
    """Trains until right after this number of checkpoints, one per step."""
    with monkeypatch.context() as patch:
        stop_after(saves, patch)
        with pytest.raises(KeyboardInterrupt):
            train(run, out, display=SILENT, engine=engine, **more)


def checkpoint(folder: Path) -> dict[str, Any]:
    """The content of the checkpoint in a run folder."""
    return torch.load(folder / "resume.pt", weights_only=True)


def position(folder: Path) -> tuple[str, int, int]:
    """Where a checkpoint lies: stage, running epoch and finished steps of it."""
    saved = checkpoint(folder)
    return saved["stage"], saved["learner"]["epoch"], saved["learner"]["step"]


def without_seconds(folder: Path) -> tuple[Any, ...]:
    """Both histories and the result of a run, without the times."""
    run = RunFolder(folder)
    records = [run.history("cross_fit.jsonl"), run.history()]
    for record in (*records[0], *records[1]):
        del record["seconds"]
    result = run.result()
    assert result is not None
    del result["seconds"]
    return *records, result


def tensors_of(folder: Path) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """The tensors of each safetensors file of a run."""
    for name in ("model", "state", "chosen", "predictions"):
        if RunFolder(folder).has_tensors(name):
            yield name, RunFolder(folder).load_tensors(name)


def assert_same(one: Path, two: Path) -> None:
    """Two runs are equal to the bit: weights, state, predictions, histories and results."""
    files, others = dict(tensors_of(one)), dict(tensors_of(two))
    assert files.keys() == others.keys() >= {"model", "state"}
    for file, tensors in files.items():
        assert tensors.keys() == others[file].keys()
        for name, value in tensors.items():
            assert torch.equal(value, others[file][name]), f"{name} of {file}"
    assert without_seconds(one) == without_seconds(two)


class Heard(Display):
    """Keeps the lines that a user would see."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        """Keeps the line."""
        self.lines.append(text)


def hears_ctrl_c() -> None:
    """Lets a child process hear SIGINT; a process started from a background job would ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
