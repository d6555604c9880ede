"""Observers of a training: what each sees, says and writes, and that its state survives a stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from quick_runs import Heard, checkpoint, quick, train_until_stopped
from safetensors.torch import save_file

from orat.core.console import SILENT, Bar
from orat.core.errors import TrainingError
from orat.methods import AT, ORAT, RAA
from orat.models.catalog import build
from orat.training import observers as observing
from orat.training.events import EpochDone, StepDone
from orat.training.observers import (
    Checkpoints,
    Forecast,
    History,
    Lines,
    Observer,
    Steps,
    by_name,
    lost_words,
    words_of,
)
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare
from orat.training.train import train

STEPS = 9  # in an epoch of 270 samples


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that the test moves."""
    found = SimpleNamespace(now=0.0)
    monkeypatch.setattr(observing.time, "monotonic", lambda: found.now)
    return found


def done(epoch: int, **more: Any) -> EpochDone:
    """The end of an epoch."""
    return EpochDone(epoch, {"epoch": epoch, "loss": 1.0, "validation": {}, "state": {}, **more})


# Observers of a user.


class Counter(Observer):
    """Keeps every event, and how many there were."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, int]] = []
        self.began: list[int] = []

    def begin(self, epoch: int) -> None:
        """Keeps the first epoch."""
        self.began.append(epoch)

    def __call__(self, event: Any) -> None:
        """Keeps the event."""
        self.events.append((type(event).__name__, event.epoch, getattr(event, "step", 0)))

    def state_dict(self) -> dict[str, Any]:
        """The events."""
        return {"events": [list(event) for event in self.events]}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """The events."""
        self.events = [(name, epoch, step) for name, epoch, step in saved["events"]]


class Stop(Observer):
    """Interrupts before a step is saved."""

    def __init__(self, epoch: int, step: int) -> None:
        self.place = epoch, step

    def __call__(self, event: Any) -> None:
        """Interrupts at its place."""
        if isinstance(event, StepDone) and (event.epoch, event.step) == self.place:
            raise KeyboardInterrupt


def expected_events(epochs: int) -> list[tuple[str, int, int]]:
    """The steps and the end of each epoch."""
    return [
        event
        for epoch in range(1, epochs + 1)
        for event in [*(("StepDone", epoch, step) for step in range(1, STEPS + 1)), ("EpochDone", epoch, 0)]
    ]


@pytest.mark.parametrize("method", [AT(), ORAT(scout_epochs=2)], ids=["at", "orat automatic"])
def test_an_observer_of_the_user_sees_every_event_of_the_training(method: Any, tiny: str, tmp_path: Path) -> None:
    counter, seen = Counter(), []

    def observers(session: Any, learner: Any) -> list[Observer]:
        seen.append((session.run, session.folder.path, learner.model))
        return [counter]

    run = quick(tiny, method)
    train(run, tmp_path, display=SILENT, observers=observers)
    assert counter.events == expected_events(4)
    assert counter.began == [1]
    assert seen[0][:2] == (run, tmp_path)
    assert isinstance(seen[0][2], torch.nn.Module)


def test_observers_of_the_user_may_add_to_the_record_of_an_epoch(tiny: str, tmp_path: Path) -> None:
    class Adds(Observer):
        def epoch_done(self, event: EpochDone) -> None:
            event.record["twice"] = 2 * event.epoch

    train(quick(tiny, AT()), tmp_path, display=SILENT, observers=lambda session, learner: [Adds()])
    assert [record["twice"] for record in RunFolder(tmp_path).history()] == [2, 4, 6, 8]


def test_the_states_of_all_observers_survive_a_stop_even_of_two_of_one_class(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(Counter):
        """Sees nothing of the first epoch."""

        def __call__(self, event: Any) -> None:
            if event.epoch > 1:
                super().__call__(event)

    Late.__name__ = "Counter"
    run, found = quick(tiny, AT()), [Counter(), Late()]
    train_until_stopped(
        run, tmp_path, STEPS + 5, monkeypatch, observers=lambda session, learner: [Counter(), Late(), Stop(9, 9)]
    )
    assert len(checkpoint(tmp_path)["observers"]["Counter 2"]["events"]) == 5
    train(run, tmp_path, display=SILENT, observers=lambda session, learner: found)
    assert found[0].events == expected_events(4)
    assert found[1].events == expected_events(4)[STEPS + 1 :]
    assert found[0].began == [2]


def test_an_observer_may_be_added_or_left_out_when_a_run_is_resumed(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, counter = quick(tiny, AT()), Counter()
    train_until_stopped(run, tmp_path, 4, monkeypatch)
    train_until_stopped(run, tmp_path, 4, monkeypatch, observers=lambda session, learner: [counter])
    assert counter.events == expected_events(1)[4:8]
    assert train(run, tmp_path, display=SILENT)["last"]["epoch"] == 4


def test_the_names_of_observers_are_those_of_their_classes_with_a_number_from_the_second_on() -> None:
    one, two, three, bar = Counter(), Counter(), Counter(), Stop(1, 1)
    assert by_name([one, bar, two, three]) == {"Counter": one, "Stop": bar, "Counter 2": two, "Counter 3": three}


# Validation.


def test_validation_is_held_out_and_chooses_the_epoch(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, AT())
    parts = prepare(run)
    assert parts.validation is not None
    assert (len(parts.train), len(parts.validation), parts.total) == (270, 30, 300)
    result = train(run, tmp_path, display=SILENT)
    history = RunFolder(tmp_path).history()
    scores = [record["validation"]["pgd10"] for record in history]
    assert [set(record["validation"]) for record in history] == [{"natural", "pgd10"}] * 4
    assert scores[result["chosen"]["epoch"] - 1] == max(scores)


def scripted(*scores: float) -> Callable[..., dict[str, float]]:
    """Accuracies of successive epochs."""
    left = iter(scores)

    def evaluate(*_: Any, **__: Any) -> dict[str, float]:
        return {"natural": 0.5, "pgd10": next(left)}

    return evaluate


def test_the_best_epoch_and_its_weights_survive_a_stop(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second epoch is the best, and the last of two equal ones; the run stops in the third."""
    run = quick(tiny, AT())
    monkeypatch.setattr(observing, "evaluate", scripted(0.9, 0.9, 0.5, 0.4))
    whole = train(run, tmp_path / "whole", display=SILENT)
    assert whole["chosen"]["epoch"] == 2
    monkeypatch.setattr(observing, "evaluate", scripted(0.9, 0.9, 0.5, 0.4))
    train_until_stopped(run, tmp_path / "broken", 2 * STEPS + 3, monkeypatch)
    broken = train(run, tmp_path / "broken", display=SILENT)
    assert (broken["chosen"], broken["last"]) == (whole["chosen"], whole["last"])
    one, two, last = (
        RunFolder(tmp_path / folder).load_tensors(name)
        for folder, name in (("whole", "chosen"), ("broken", "chosen"), ("broken", "model"))
    )
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], last[name]) for name in one)


def test_without_validation_no_epoch_is_chosen(tiny: str, tmp_path: Path) -> None:
    result = train(quick(tiny, AT(), validation=0.0, epochs=1), tmp_path, display=SILENT)
    assert result["chosen"] is None
    assert RunFolder(tmp_path).history()[0]["validation"] == {}


# The guard against a collapse.


@pytest.fixture
def collapsed(tiny: str, tmp_path: Path) -> Run:
    """A run whose network predicts class 1 for every image and never learns."""
    tensors = build("mlp-16", (1, 12, 12), 3, 0).state_dict()
    tensors["1.3.weight"].zero_()
    tensors["1.3.bias"].copy_(torch.tensor([0.0, 2.0, 0.0]))
    save_file(tensors, tmp_path / "constant.safetensors")
    frozen: dict[str, Any] = {"lr": 0.0, "epochs": 60, "warmup": 0.0, "batch_size": 2, "milestones": ()}
    return quick(tiny, AT(), init_from=str(tmp_path / "constant.safetensors"), **frozen)


def test_a_network_with_one_class_for_everything_is_stopped_after_three_epochs(collapsed: Run, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="collapsed: .* since 3 epochs; lower --lr"):
        train(collapsed, tmp_path / "a", display=SILENT)
    assert len(RunFolder(tmp_path / "a").history()) == 3


def test_the_count_of_collapsed_epochs_survives_a_stop(
    collapsed: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "SAVE_AT_MOST_EVERY", -1.0)
    with pytest.raises(KeyboardInterrupt):
        train(collapsed, tmp_path / "a", display=SILENT, observers=lambda session, learner: [Stop(3, 5)])
    assert checkpoint(tmp_path / "a")["observers"]["Guard"] == {"constant": 2}
    with pytest.raises(TrainingError, match="collapsed"):
        train(collapsed, tmp_path / "a", display=SILENT)
    assert [record["epoch"] for record in RunFolder(tmp_path / "a").history()] == [1, 2, 3]


def test_a_network_may_give_one_class_during_the_warm_up(collapsed: Run, tmp_path: Path) -> None:
    record = collapsed.record() | {"warmup": 2.0, "epochs": 4}
    assert train(Run.from_record(record), tmp_path / "a", display=SILENT)["last"]["epoch"] == 4


# Records and lines.


def test_a_history_takes_the_seconds_between_records_and_drops_lost_epochs(
    tmp_path: Path, clock: SimpleNamespace
) -> None:
    history = History(RunFolder(tmp_path))
    (tmp_path / "history.jsonl").write_text('{"epoch": 1}\n{"epoch": 2}\n{"epoch": 3, "lo')
    clock.now = 7.0
    history.begin(2)
    assert history.folder.history() == [{"epoch": 1}]
    for epoch, now in ((2, 9.5), (3, 9.75)):
        clock.now = now
        history(done(epoch))
    assert [record["seconds"] for record in history.folder.history()[1:]] == [2.5, 0.25]


def test_corrections_are_counted_in_every_record(tiny: str, tmp_path: Path) -> None:
    train(quick(tiny, RAA(burn_in=1), noise="symmetric", noise_rate=0.2), tmp_path, display=SILENT)
    found = [record["corrections"] for record in RunFolder(tmp_path).history()]
    assert found[0]["changed"] == 0
    assert {"changed", "of", "rightly", "harmed", "flipped", "precision", "recall"} == found[1].keys()


def test_scalars_that_drift_are_reported_once(tiny: str, tmp_path: Path) -> None:
    """More wrong labels than m leave a gap at the wanted rank, where nothing holds the scalars."""
    drifting, heard = ORAT(m=0.05, solver="minmax"), Heard()
    run = quick(tiny, drifting, noise="symmetric", noise_rate=0.3, epochs=60, lr=0.2, milestones=(), eps=0.02)
    train(run, tmp_path, display=heard)
    found = [line for line in heard.lines if "the min-max scalars drift: lambda = " in line]
    assert len(found) == 1
    assert found[0].startswith("warning: epoch ")
    assert "(solver rank removes m)" in found[0]


def test_a_class_that_is_removed_whole_is_reported_once(tiny: str, tmp_path: Path) -> None:
    """A third of the images of two kinds is labeled as a third class, and ORAT removes all of these."""
    with np.load(tiny) as arrays:
        images, labels = (arrays[name][arrays["y_train"] < 2] for name in ("x_train", "y_train"))
    labels[np.arange(len(labels)) % 6 > 3] = 2
    np.savez(tmp_path / "strange.npz", x_train=images, y_train=labels)
    run, heard = quick(str(tmp_path / "strange.npz"), ORAT(m=0.34, burn_in=4, ramp=0), epochs=20), Heard()
    train(run, tmp_path / "a", display=heard)
    (line,) = [line for line in heard.lines if "nearly every sample of class 2 is removed as an outlier" in line]
    assert "if most of its labels are right, lengthen --burn-in or lower --m" in line


def test_lost_classes_are_named_and_only_some_of_many() -> None:
    assert lost_words([]) is None
    assert "class a, b, c, d, e and 2 more is removed" in (lost_words(list("abcdefg")) or "")


def test_a_line_has_the_mean_time_of_the_epochs_since_the_last_line(clock: SimpleNamespace) -> None:
    heard = Heard()
    lines = Lines(heard, 11)

    def after(seconds: float, epoch: int) -> str:
        clock.now += seconds
        heard.lines.clear()
        lines(done(epoch))
        return "".join(heard.lines)

    assert "61.0 s, 0:10:10 to go" in after(61.0, 1)
    assert [after(0.4, 2), after(0.3, 3)] == ["", ""]  # at most one line a second
    assert "0.4 s, 0:00:03 to go" in after(0.5, 4)
    assert "20.0 s, 0:02:00 to go" in after(20.0, 5)
    assert [after(0.05, 6), after(0.05, 7)] == ["", ""]
    assert after(0.02, 11).endswith("40 ms, 0:00:00 to go")  # the last epoch always has a line


def test_a_line_of_cross_fitting_is_named(clock: SimpleNamespace) -> None:
    heard = Heard()
    clock.now = 0.0
    lines = Lines(heard, 20, "cross-fitting")
    clock.now = 2.0
    lines(EpochDone(3, {"epoch": 3, "loss": 0.5, "state": {}}))
    assert heard.lines == ["cross-fitting  3/20  loss 0.5000  2.0 s, 0:00:34 to go"]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "loss 1.0000  validation -"),
        ({"validation": {"natural": 1.0, "pgd10": 0.5}}, "loss 1.0000  validation natural 100.00  pgd10 50.00"),
        ({"state": {"cut": 7}}, "loss 1.0000  validation -  removed 7"),
        (
            {"state": {"noise_rate": 0.312, "error": 0.011, "reliability": 0.8, "cut": 90}},
            "loss 1.0000  validation -  noise rate 31.2 ± 1.1 %  flagged 90",
        ),
        ({"state": {"noise_rate": 0.3, "error": 0.1, "reliability": 0.2, "cut": 0}}, "loss 1.0000  validation -"),
        ({"corrections": {"changed": 5}}, "loss 1.0000  validation -  relabeled 5"),
        ({"corrections": {"changed": 5, "rightly": 4}}, "loss 1.0000  validation -  relabeled 5 (4 rightly)"),
        ({"corrections": {"changed": 0, "rightly": 0}}, "loss 1.0000  validation -  relabeled 0 (0 rightly)"),
    ],
)
def test_a_line_has_the_numbers_of_the_record(more: dict[str, Any], expected: str) -> None:
    assert words_of(done(1, **more).record) == expected


def test_the_time_left_is_printed_once_after_the_first_seconds(clock: SimpleNamespace) -> None:
    heard = Heard()
    forecast = Forecast(heard, Lines(heard, 4))
    for step in range(1, 10):
        clock.now += 0.9
        forecast(StepDone(1, step, 10))
    assert heard.lines == ["epoch 1/4  0:00:32 to go at most"]


def test_a_bar_shows_the_steps_of_all_epochs_and_the_name_of_the_epoch() -> None:
    class Told(Bar):
        def set(self, label: str, done: float, total: float) -> None:
            shown.append((label, done, total))

    shown: list[tuple[str, float, float]] = []
    steps = Steps(Told(), Lines(SILENT, 4))
    for event in (StepDone(2, 5, 9), done(2)):
        steps(event)
    assert shown == [("epoch 2/4", 14, 36)]


# Checkpoints.


@pytest.mark.parametrize(("takes", "every"), [(0.01, 1), (0.1, 5), (0.5, 24)])
def test_checkpoints_that_take_long_come_less_often(takes: float, every: int, clock: SimpleNamespace) -> None:
    """Epochs of 2.1 seconds; checkpoints take 1 % of the time at most."""
    saved: list[int] = []

    def save() -> None:
        saved.append(epoch)
        clock.now += takes

    checkpoints = Checkpoints(save, lambda: None)
    for epoch in range(1, 31):
        clock.now += 2.1
        checkpoints(replace(done(epoch), epochs=30))
    assert saved == sorted({*range(1, 31, every), 30})  # the last epoch is always saved


def test_short_epochs_are_saved_once_a_second_and_the_last_one_always(clock: SimpleNamespace) -> None:
    saved: list[int] = []
    checkpoints = Checkpoints(lambda: saved.append(epoch), lambda: None)
    for epoch in range(1, 26):
        clock.now += 0.25
        checkpoints(replace(done(epoch), epochs=25))
    assert saved == [5, 10, 15, 20, 25]


def test_long_epochs_are_saved_every_five_minutes_after_a_look_at_the_loss(clock: SimpleNamespace) -> None:
    calls: list[tuple[str, int]] = []
    checkpoints = Checkpoints(lambda: calls.append(("save", step)), lambda: calls.append(("check", step)))
    for step in range(1, 11):
        clock.now += 101
        checkpoints(StepDone(1, step, 10))
    assert calls == [(name, place) for place in (3, 6, 9) for name in ("check", "save")]
    clock.now += 101
    checkpoints(StepDone(2, 10, 10))  # the end of the epoch follows at once
    assert len(calls) == 6


def test_a_broken_loss_is_not_saved(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint before it stays."""
    monkeypatch.setattr(observing, "SAVE_EVERY", -1.0)
    with pytest.raises(TrainingError, match=r"nan in epoch 1.*--lr \(now 1e\+30\)"):
        train(quick(tiny, AT(), lr=1e30, warmup=0.0), tmp_path, display=SILENT)
    saved = checkpoint(tmp_path)["learner"]["loss_sum"]
    assert saved.isfinite()
