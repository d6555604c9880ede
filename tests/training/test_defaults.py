"""Defaults that fit any data: a network that takes them, a first step, no change by the forecast, resuming."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from quick_runs import Heard, assert_same, quick, train_until_stopped
from refusals import assert_refused_in_one_line

from orat.core.console import SILENT
from orat.core.types import Batch
from orat.data.source import Dataset
from orat.methods import AT, ORAT
from orat.methods.base import State
from orat.sweeps.parallel import train_many
from orat.sweeps.search import search
from orat.training import run as runs
from orat.training import train as training
from orat.training.defaults import BY_DATA, Facts, fitting
from orat.training.forecast import duration, expected
from orat.training.learner import RunLearner
from orat.training.run import Run
from orat.training.setup import build_model, prepare
from orat.training.train import train

CPU = torch.device("cpu")
SIDES = st.integers(1, 36)
SHAPES = st.tuples(st.integers(1, 5), SIDES, SIDES) | st.tuples(st.integers(1, 40))


@given(st.integers(2, 10**6), SHAPES, st.integers(2, 300), st.sampled_from(["cpu", "cuda"]))
@example(10**6, (3, 32, 32), 300, "cpu")
@example(5, (1, 1, 1), 2, "cuda")
@example(600, (1, 2, 30), 300, "cpu")
@example(4, (3, 8, 36), 2, "cuda")
@settings(max_examples=12, deadline=None)
def test_chosen_fields_are_complete_and_the_network_takes_a_step(
    samples: int, shape: tuple[int, ...], classes: int, device: str
) -> None:
    run = Run(data="photos/", method=AT(), attack_steps=1).fitted(Facts(samples, shape, classes, device))
    assert not run.unset
    assert all(1 < epoch <= run.epochs for epoch in run.milestones)
    assert run.warmup < run.epochs
    assert run.attack_warmup < run.epochs
    assert samples - round(run.validation * samples) >= 1
    n = min(samples, run.batch_size, 4)
    x, y = torch.rand(n, *shape), torch.randint(classes, (n,))
    learner = RunLearner(run, build_model(run, Dataset(x, y, tuple(map(str, range(classes))))), State())
    learner.pace(0.5)
    assert learner.advance(Batch(x, y, torch.arange(n)), 1.0).isfinite()


@pytest.mark.parametrize(
    ("facts", "chosen"),
    [
        (Facts(1000, (3, 32, 32), 5, "cpu"), {"model": "demo_cnn", "batch_size": 32, "epochs": 62}),
        (Facts(1000, (1, 28, 28), 10, "cpu"), {"augment": "crop", "validation": 0.05, "eps": 8 / 255}),
        (Facts(60, (3, 48, 64), 3, "cpu"), {"batch_size": 16, "validation": 0.2, "lr": 0.02}),
        (Facts(5000, (3, 32, 32), 5, "cpu"), {"batch_size": 64, "lr": 0.05}),
        (Facts(500, (12,), 5, "cpu"), {"batch_size": 16, "lr": 0.05}),
        (Facts(1000, (3, 24, 24), 5, "cpu"), {"augment": "crop-flip"}),
        (Facts(1000, (3, 12, 12), 5, "cpu"), {"augment": "flip"}),
        (Facts(1000, (1, 1, 1), 5, "cuda"), {"model": "mlp-64", "augment": "none"}),
        (Facts(50_000, (3, 32, 32), 10, "cuda"), {"model": "resnet18", "batch_size": 128, "epochs": 100, "lr": 0.1}),
        (Facts(10**6, (3, 32, 32), 10, "cuda"), {"epochs": 10, "milestones": (3, 6)}),
        (Facts(10**6, (3, 32, 32), 10, "cpu"), {"epochs": 5, "milestones": (4,)}),
    ],
)
def test_the_kind_number_and_size_of_the_samples_decide(facts: Facts, chosen: dict[str, Any]) -> None:
    found = fitting(facts)
    assert {name: found[name] for name in chosen} == chosen
    assert found.keys() == set(BY_DATA)


def test_a_given_number_of_epochs_scales_warm_ups_and_milestones() -> None:
    found = fitting(Facts(1000, (3, 32, 32), 5, "cpu"), epochs=10)
    assert (found["warmup"], found["attack_warmup"], found["milestones"]) == (0.5, 2.0, (7,))


def saved(folder: Path, shape: tuple[int, ...], labels: list[int], classes: int) -> str:
    """An .npz of random images, where some classes may have no image."""
    x = np.random.default_rng(0).integers(0, 256, (len(labels), *shape), dtype=np.uint8)
    names = np.array([f"class {label}" for label in range(classes)])
    np.savez(
        folder / "odd.npz", x_train=x, y_train=np.array(labels), class_names=names, x_test=x[:2], y_test=labels[:2]
    )
    return str(folder / "odd.npz")


@pytest.mark.parametrize(
    ("shape", "labels"),
    [
        ((1, 1), [0, 1] * 3),
        ((2, 30), [0, 1, 2] * 2),
        ((5, 9, 3), [0, 1] * 5),
        ((4, 9, 3), [0, 0, 1, 1]),
        ((30, 26, 3), [0, 1, 1, 2, 0]),
        ((8, 8), [label for label in range(30) for _ in range(2)]),
        ((8, 8, 3), [0] * 39 + [1]),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", [AT(), ORAT(), ORAT(m=0.2)], ids=["at", "automatic", "orat"])
def test_odd_images_are_trained_with_defaults(
    shape: tuple[int, ...], labels: list[int], method: AT | ORAT, tmp_path: Path
) -> None:
    data = saved(tmp_path, shape, labels, max(labels) + 1)
    result = train(Run(data=data, method=method, epochs=2), tmp_path / "run", device="cpu", display=SILENT)
    assert result["last"]["epoch"] == 2


def test_the_first_lines_name_what_was_chosen_the_reason_and_the_time(tmp_path: Path) -> None:
    data, heard = saved(tmp_path, (30, 26, 3), [0, 1] * 50, 2), Heard()
    train(Run(data=data, method=AT(), epochs=2, lr=0.01), tmp_path / "run", device="cpu", display=heard)
    assert heard.lines[0].startswith(f"at: demo_cnn on {data} (80 train, 20 validation, 2 test), linf eps 8/255")
    assert re.search(r" cpu, about [0-9.]+ (s|min)$", heard.lines[0])
    assert heard.lines[1] == (
        "chosen for 100 color images of 30x26 on a CPU: demo_cnn, eps 8/255 (0.0314), batch 16, crop and flip, "
        "20% for validation"
    )


@pytest.mark.parametrize("engine", ["plain", "folded"])
def test_the_forecast_changes_nothing_of_a_run(
    engine: str, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = quick(tiny, ORAT(), model="quick_cnn", epochs=1, milestones=(), attack_steps=1, batch_size=135)
    train(run, tmp_path / "with", device="cpu", display=SILENT, engine=engine)
    monkeypatch.setattr(training, "expected", lambda *_: "soon")
    train(run, tmp_path / "without", device="cpu", display=SILENT, engine=engine)
    assert_same(tmp_path / "with", tmp_path / "without")


def test_the_forecast_leaves_statistics_modes_gradients_and_random_numbers(tiny: str) -> None:
    run = quick(tiny, AT(), model="quick_cnn", attack_mode="train")
    parts = prepare(run)
    model = build_model(run, parts.train)
    model[0].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes, random = [module.training for module in model.modules()], torch.get_rng_state()
    expected(run, parts, model, training.execution("auto", CPU, 1), None)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random)
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (14, "14 s"), (66, "70 s"), (100, "1.7 min"), (360, "6 min"), (7200, "2.0 h"), (4e5, "5 days")],
)
def test_times_are_rounded(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_same_command_resumes_though_other_fields_would_be_chosen_now(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(data=tiny, method=AT(), epochs=2, attack_steps=2)
    train(run, tmp_path / "unbroken", device="cpu", display=SILENT)
    train_until_stopped(run, tmp_path / "broken", 12, monkeypatch, device="cpu")
    monkeypatch.setattr(runs, "fitting", lambda *_: {**fitting(Facts(9, (3, 9, 9), 2, "cuda")), "model": "mlp-3"})
    train(run, tmp_path / "broken", device="cpu", display=SILENT)
    assert_same(tmp_path / "unbroken", tmp_path / "broken")


@pytest.mark.parametrize("finished", [True, False])
def test_a_given_field_that_differs_is_refused(
    finished: bool, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(data=tiny, method=AT(), epochs=2, attack_steps=2)
    if finished:
        train(run, tmp_path, device="cpu", display=SILENT)
    else:
        train_until_stopped(run, tmp_path, 3, monkeypatch, device="cpu")
    other = Run(data=tiny, method=AT(), epochs=2, attack_steps=2, lr=0.05)
    assert_refused_in_one_line(lambda: train(other, tmp_path, display=SILENT), "lr: 0.02 there, 0.05 here")


@pytest.mark.parametrize("model", ["foreign:make", "in memory: Net"])
def test_a_network_that_only_a_record_names_never_runs(
    model: str, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.chdir(tmp_path)
    Path("foreign.py").write_text("import pathlib\npathlib.Path('mark').touch()\n")
    run = Run(data=tiny, method=AT(), epochs=1, attack_steps=1)
    train_until_stopped(run, tmp_path / "run", 1, monkeypatch, device="cpu")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(record | {"model": model}))
    assert_refused_in_one_line(
        lambda: train(run, tmp_path / "run", display=SILENT), f"trains the model {model}: give the same command or call"
    )
    assert not Path("mark").exists()


def test_runs_that_differ_and_a_search_fill_the_fields_that_wait_for_the_data(tiny: str, tmp_path: Path) -> None:
    run = Run(data=tiny, method=AT(), epochs=1, attack_steps=1)
    rows = search(run, {"lr": [0.01, 0.1]}, tmp_path / "search", device="cpu", display=SILENT)
    assert [row["error"] for row in rows] == [None, None]
    results = train_many({tmp_path / str(size): replace(run, batch_size=size) for size in (50, 90)}, display=SILENT)
    assert all("error" not in result for result in results.values())
