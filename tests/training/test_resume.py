"""A run that is stopped anywhere, even by a kill, and trained on ends to the bit as if never stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from quick_runs import EVERY, assert_same, checkpoint, position, quick, stop_after, train_until_stopped
from torch import Tensor

from orat.core.console import SILENT
from orat.core.errors import InputError
from orat.core.losses import cross_entropy
from orat.methods import AT, ORAT, Method, Setting
from orat.methods.base import State, Step
from orat.training import loop as training
from orat.training.load import load_model
from orat.training.loop import FORMAT
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.train import Session, train

STEPS = 9  # in an epoch of 270 samples: the checkpoints of one epoch
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def whole(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a run of each method that was never stopped."""

    @cache
    def folder(name: str) -> Path:
        out = tmp_path_factory.mktemp("whole") / "run"
        train(run_of(tiny, EVERY[name]), out, display=SILENT)
        return out

    return folder


def run_of(data: str, method: Method) -> Run:
    """A run on noisy labels, with random changes of the images."""
    return quick(data, method, noise="symmetric", noise_rate=0.2, augment="flip", lr=0.2)


# In the middle of an epoch.


@pytest.mark.parametrize("name", EVERY)
def test_a_run_stopped_in_the_middle_of_an_epoch_ends_as_if_never_stopped(
    name: str, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Callable[[str], Path]
) -> None:
    run = run_of(tiny, EVERY[name])
    ahead = 2 * STEPS if name == "orat automatic" else 0  # checkpoints of cross-fitting
    train_until_stopped(run, tmp_path, ahead + STEPS + 5, monkeypatch)
    assert position(tmp_path) == ("training", 2, 5)
    train(run, tmp_path, display=SILENT)
    assert_same(whole(name), tmp_path)


@pytest.mark.parametrize(
    ("saves", "expected"),
    [
        (1, ("cross-fitting", 1, 1)),
        (STEPS, ("cross-fitting", 2, 0)),
        (STEPS + 5, ("cross-fitting", 2, 5)),
        (2 * STEPS, ("cross-fitting", 3, 0)),
        (2 * STEPS + 1, ("training", 1, 1)),
        (3 * STEPS, ("training", 2, 0)),
        (6 * STEPS, ("training", 5, 0)),
    ],
)
def test_cross_fitting_and_training_stopped_anywhere_end_as_if_never_stopped(
    saves: int,
    expected: tuple[str, int, int],
    tiny: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole: Callable[[str], Path],
) -> None:
    run = run_of(tiny, EVERY["orat automatic"])
    train_until_stopped(run, tmp_path, saves, monkeypatch)
    assert position(tmp_path) == expected
    assert RunFolder(tmp_path).has_tensors("predictions") == (expected[0] == "training")
    train(run, tmp_path, display=SILENT)
    assert_same(whole("orat automatic"), tmp_path)


def test_a_run_stopped_after_every_third_step_ends_as_if_never_stopped(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Callable[[str], Path]
) -> None:
    run, sittings = run_of(tiny, EVERY["orat automatic"]), 0
    with monkeypatch.context() as patch:
        while sittings < 17:
            stop_after(3, patch)
            with pytest.raises(KeyboardInterrupt):
                train(run, tmp_path, display=SILENT)
            patch.undo()
            sittings += 1
    assert position(tmp_path) == ("training", 4, 6)
    train(run, tmp_path, display=SILENT)
    assert_same(whole("orat automatic"), tmp_path)


def test_streamed_data_give_the_run_of_resident_data_and_either_resumes_the_other(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Callable[[str], Path]
) -> None:
    run = run_of(tiny, EVERY["orat automatic"])
    with monkeypatch.context() as patch:
        patch.setattr("orat.data.loader.fits", lambda *_: False)
        train(run, tmp_path / "streamed", display=SILENT)
        train_until_stopped(run, tmp_path / "mixed", STEPS + 4, monkeypatch)
    train_until_stopped(run, tmp_path / "mixed", 2 * STEPS, monkeypatch)
    monkeypatch.setattr("orat.data.loader.fits", lambda *_: False)
    train(run, tmp_path / "mixed", display=SILENT)
    for name in ("streamed", "mixed"):
        assert_same(whole("orat automatic"), tmp_path / name)


def test_the_seconds_of_a_result_are_those_of_all_sittings(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = quick(tiny, AT())
    train_until_stopped(run, tmp_path, 3, monkeypatch)
    saved = checkpoint(tmp_path)
    assert 0 < saved["seconds"] < 60
    torch.save(saved | {"seconds": 1000.0}, tmp_path / "resume.pt")
    assert 1000 < train(run, tmp_path, display=SILENT)["seconds"] < 1060


# Predictions of a stopped run.


def test_predictions_in_the_folder_are_used_and_not_made_again(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Callable[[str], Path]
) -> None:
    run, expected = run_of(tiny, EVERY["orat automatic"]), whole("orat automatic")
    monkeypatch.setattr(Session, "train", stopped)
    with pytest.raises(KeyboardInterrupt):  # at the change from cross-fitting to training
        train(run, tmp_path, display=SILENT)
    assert position(tmp_path) == ("cross-fitting", 3, 0)
    assert RunFolder(tmp_path).has_tensors("predictions")
    monkeypatch.undo()
    monkeypatch.setattr(training, "scout_learner", None)
    train(run, tmp_path, display=SILENT)
    assert_same(expected, tmp_path)


def stopped(*_: Any) -> None:
    """Takes the place of a stage that is interrupted at once."""
    raise KeyboardInterrupt


def test_lost_predictions_are_made_again_and_training_goes_on(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Callable[[str], Path]
) -> None:
    run = run_of(tiny, EVERY["orat automatic"])
    train_until_stopped(run, tmp_path, 3 * STEPS + 2, monkeypatch)
    RunFolder(tmp_path).remove_tensors("predictions")
    train(run, tmp_path, display=SILENT)
    assert_same(whole("orat automatic"), tmp_path)


@pytest.mark.parametrize("stops", [False, True])
def test_predictions_without_a_checkpoint_are_not_used_even_after_a_stop(
    stops: bool, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Callable[[str], Path]
) -> None:
    run, folder = run_of(tiny, EVERY["orat automatic"]), RunFolder(tmp_path)
    folder.write_json("run.json", run.record())
    folder.save_tensors("predictions", {"log_probs": torch.full((270, 3), -1.1), "id": torch.arange(270)})
    if stops:
        train_until_stopped(run, tmp_path, 3, monkeypatch)
    train(run, tmp_path, display=SILENT)
    assert_same(whole("orat automatic"), tmp_path)


# Killed processes.

KILLED = """
import json, sys
from quick_runs import kill_after
from orat.core.console import SILENT
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.train import Session, train

places = {"step": (Session, "save"), "tensors": (RunFolder, "save_tensors")}
kill_after(int(sys.argv[4]), *places[sys.argv[3]])
train(Run.from_record(json.loads(sys.argv[1])), sys.argv[2], display=SILENT)
"""


def train_until_killed(run: Run, out: Path, name: str, count: int) -> None:
    """Trains in a process of its own, which gets a SIGKILL after the checkpoint or tensor file of this number."""
    paths = [str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", KILLED, json.dumps(run.record()), str(out), name, str(count)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == -signal.SIGKILL, process.stderr


def test_processes_killed_while_cross_fitting_at_the_change_and_while_training_end_as_if_never_killed(
    tiny: str, tmp_path: Path, whole: Callable[[str], Path]
) -> None:
    run = run_of(tiny, EVERY["orat automatic"])
    train_until_killed(run, tmp_path, "step", STEPS + 2)
    assert position(tmp_path) == ("cross-fitting", 2, 2)
    train_until_killed(run, tmp_path, "tensors", 1)  # the predictions
    assert position(tmp_path) == ("cross-fitting", 3, 0)
    train_until_killed(run, tmp_path, "step", 2 * STEPS + 3)
    assert position(tmp_path) == ("training", 3, 3)
    train_until_killed(run, tmp_path, "tensors", 1)  # the weights, before the result
    assert position(tmp_path) == ("training", 5, 0)
    assert not (tmp_path / "result.json").exists()
    train(run, tmp_path, display=SILENT)
    assert_same(whole("orat automatic"), tmp_path)


# Other versions.


@pytest.mark.parametrize("version", [None, FORMAT - 1, FORMAT + 1])
def test_a_checkpoint_of_another_format_is_refused_with_its_name_and_the_remedy(
    version: int | None, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, file = quick(tiny, AT()), tmp_path / "resume.pt"
    train_until_stopped(run, tmp_path, 3, monkeypatch)
    torch.save(checkpoint(tmp_path) | {"format": version}, file)
    words = (
        rf"resume.pt is from an incompatible version of orat \(format {version}, not {FORMAT}\): "
        "finish the run with that version, or give --out a new folder"
    )
    with pytest.raises(InputError, match=words):
        train(run, tmp_path, display=SILENT)
    assert file.exists()


def test_the_run_of_an_older_format_is_refused_with_its_name_and_the_remedy(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, AT())
    record = json.dumps(run.record() | {"format": 1})
    (tmp_path / "run.json").write_text(record)
    words = r"run.json: the run is from an incompatible version of orat \(format 1, not 2\): use that version, or train"
    with pytest.raises(InputError, match=words):
        train(run, tmp_path, display=SILENT)
    assert (tmp_path / "run.json").read_text() == record


# Methods of a user.


class Momentum(State):
    """The average of the losses of a batch over all steps."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))

    def end_epoch(self) -> dict[str, float]:
        """The average, for the record."""
        return {"mean": self.mean.item()}


@dataclass(frozen=True)
class Centered(Method):
    """A method of a user: losses far above their running mean count less."""

    weight: float = 0.5

    def start(self, setting: Setting) -> Momentum:
        """The running mean."""
        return Momentum()

    def loss(self, step: Step) -> Tensor:
        """The mean of the losses, of which those above the running mean are weighted."""
        adv = step.adversary(step.batch.x, step.batch.y)
        losses = cross_entropy(step.model(adv), step.batch.y)
        step.state.mean.lerp_(losses.detach().mean(), 0.1)
        return torch.where(losses > step.state.mean, self.weight * losses, losses).mean()


def test_a_method_of_a_user_trains_in_memory_and_resumes(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = quick(tiny, Centered(weight=0.3))
    assert run.method_name == f"{__name__}:Centered"
    train(run, tmp_path / "whole", display=SILENT)
    assert RunFolder(tmp_path / "whole").history()[-1]["state"]["mean"] > 0
    train_until_stopped(run, tmp_path / "broken", STEPS + 4, monkeypatch)
    train(run, tmp_path / "broken", display=SILENT)
    assert_same(tmp_path / "whole", tmp_path / "broken")
    assert load_model(tmp_path / "broken").training is False
    with pytest.raises(InputError, match="belongs to another run .*weight"):
        train(quick(tiny, Centered(weight=0.4)), tmp_path / "broken", display=SILENT)


def test_orat_by_scalars_keeps_its_scalars_in_the_checkpoint(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_until_stopped(quick(tiny, ORAT(m=0.1, solver="minmax")), tmp_path, 2 * STEPS, monkeypatch)
    saved = checkpoint(tmp_path)["learner"]
    assert {"state.lower", "state.width", "state.memory.loss"} <= saved["modules"].keys()
    assert saved["modules"]["state.lower"] != 0
    assert len(saved["optimizer"]["param_groups"]) == 3
