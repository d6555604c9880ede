"""Several runs at once end as they would have alone, because they share nothing."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quick_runs import quick
from test_training import assert_same
from torch import Tensor, nn

import orat
from orat.cli.main import main
from orat.core.console import SILENT
from orat.methods import Method
from orat.sweeps.parallel import Sitting, train_many
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.train import Job

CPU = torch.device("cpu")
METHODS: dict[str, Method] = {
    "at": orat.methods.AT(),
    "orat": orat.methods.ORAT(m=0.2),
    "by scalars": orat.methods.ORAT(m=0.2, solver="minmax"),
    "gairat": orat.methods.GAIRAT(burn_in=1),
    "raa": orat.methods.RAA(burn_in=1),
}


def runs_on(data: str) -> dict[str, Run]:
    """Runs that differ in method, seed and length; the network has dropout."""
    return {
        name: quick(data, method, model="lenet", seed=number, epochs=2 + number % 2)
        for number, (name, method) in enumerate(METHODS.items())
    }


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An .npz of 16x16 images, large enough for LeNet."""
    generator = np.random.default_rng(0)
    labels = np.arange(130) % 3
    file = tmp_path_factory.mktemp("many") / "images.npz"
    pictures = generator.integers(0, 256, (130, 16, 16), dtype=np.uint8)
    np.savez(file, x_train=pictures, y_train=labels, x_test=pictures[:30], y_test=labels[:30])
    return str(file)


def test_runs_that_take_turns_step_by_step_end_as_alone_to_the_bit(images: str, tmp_path: Path) -> None:
    runs = runs_on(images)
    for name, run in runs.items():
        orat.train(run, tmp_path / "alone" / name, device="cpu", display=SILENT)
    sittings = [Sitting(tmp_path / "together" / name, run, None, CPU, SILENT, "auto") for name, run in runs.items()]
    turns = 0
    while sittings:
        sittings = [sitting for sitting in sittings if sitting.step()]
        turns += 1
    assert turns > 2 * 4  # in turns, epochs long
    for name in runs:
        assert_same(tmp_path / "alone" / name, tmp_path / "together" / name)


def tensors(thing: Any, seen: set[int] | None = None) -> Iterator[Tensor]:
    """Every tensor that can be reached from an object."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, Tensor):
        yield thing
        if thing.grad is not None:
            yield thing.grad
        return
    parts: list[Any] = []
    if isinstance(thing, dict):
        parts = list(thing.values())
    elif isinstance(thing, list | tuple | set):
        parts = list(thing)
    elif type(thing).__module__.startswith(("orat", "torch")) and hasattr(thing, "__dict__"):
        parts = list(vars(thing).values())
    if isinstance(thing, nn.Module):
        parts += [*thing.parameters(), *thing.buffers()]
    for part in parts:
        yield from tensors(part, seen)


def test_no_tensor_is_shared_between_runs(tiny: str, tmp_path: Path) -> None:
    sittings = [
        Sitting(
            tmp_path / str(seed),
            quick(tiny, orat.methods.ORAT(m=0.2, solver="minmax"), seed=seed),
            None,
            CPU,
            SILENT,
            "auto",
        )
        for seed in (0, 1)
    ]
    for sitting in sittings:
        sitting.step()
    memory = []
    for sitting in sittings:
        assert isinstance(sitting.job, Job)
        reached = [tensor for tensor in tensors(sitting.job) if tensor.numel()]
        assert len(reached) > 20
        memory.append({tensor.untyped_storage().data_ptr() for tensor in reached})
    assert not memory[0] & memory[1]
    jobs = [sitting.job for sitting in sittings]
    assert jobs[0].learner.generator is not jobs[1].learner.generator


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    """As many images of MNIST's size as have matrix products that are summed in parts, in a workspace."""
    generator = np.random.default_rng(0)
    file = tmp_path_factory.mktemp("many") / "pictures.npz"
    images, labels = generator.integers(0, 256, (2000, 28, 28), dtype=np.uint8), np.arange(2000) % 10
    np.savez(file, x_train=images, y_train=labels, x_test=images[:100], y_test=labels[:100])
    return str(file)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", ["recorded", "compiled"])
def test_gpu_runs_at_once_end_as_alone_to_the_bit(kind: str, pictures: str, tmp_path: Path) -> None:
    """Records of two runs that were made on one stream share a workspace, and end otherwise: seen on LeNet."""
    methods = (orat.methods.AT(), orat.methods.ORAT(m=0.2), orat.methods.MART(), orat.methods.AT())
    runs = {
        str(seed): Run(data=pictures, method=method, model="lenet", eps=0.1, epochs=4, augment="none", seed=seed)
        for seed, method in enumerate(methods)
    }
    for name, run in runs.items():
        orat.train(run, tmp_path / "alone" / name, device="cuda", display=SILENT, engine=kind)
    together: dict[str | Path, Run] = {tmp_path / "together" / name: run for name, run in runs.items()}
    train_many(together, device="cuda", display=SILENT, engine=kind, at_once=len(runs))
    for name in runs:
        alone, other = (RunFolder(tmp_path / where / name).load_tensors("model") for where in ("alone", "together"))
        assert all(torch.equal(alone[key], other[key]) for key in alone), name


def test_results_come_in_the_order_of_the_runs_and_a_finished_run_is_not_trained_again(
    tiny: str, tmp_path: Path
) -> None:
    runs: dict[str | Path, Run] = {
        tmp_path / str(seed): quick(tiny, orat.methods.AT(), seed=seed, epochs=1) for seed in (2, 0)
    }
    first = train_many(runs, device="cpu", display=SILENT)
    assert list(first) == list(runs)
    assert train_many(runs, device="cpu", display=SILENT) == first


@pytest.mark.parametrize("broken", [False, True])
def test_what_a_run_took_is_given_back_when_it_ends(broken: bool, tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, orat.methods.AT(), epochs=1, **({"lr": 1e30, "warmup": 0.0} if broken else {}))
    sitting = Sitting(tmp_path / "run", run, None, CPU, SILENT, "auto")
    assert isinstance(sitting.job, Job)
    learner = weakref.ref(sitting.job.learner)
    gc.disable()  # at once, and not when it is looked for
    try:
        while sitting.step():
            assert learner() is not None
        assert learner() is None
    finally:
        gc.enable()
    assert (sitting.error is not None) == broken
    assert bool(sitting.job.result) != broken


def test_a_run_that_breaks_leaves_its_error_and_the_others_go_on(tiny: str, tmp_path: Path) -> None:
    runs: dict[str | Path, Run] = {
        tmp_path / "broken": quick(tiny, orat.methods.AT(), lr=1e30, warmup=0.0),
        tmp_path / "whole": quick(tiny, orat.methods.AT(), epochs=1),
    }
    results = train_many(runs, device="cpu", display=SILENT)
    assert "nan" in results[tmp_path / "broken"]["error"]
    assert results[tmp_path / "whole"]["last"]["natural"] > 0


SMALL = ["--model", "mlp-8", "--epochs", "1", "--eps", "0.1", "--augment", "none", "--attack-steps", "1", "--quiet"]


def test_what_varies_is_multiplied_and_names_the_folders(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vary = ["--vary", "method=at,st", "--vary", "seed=0,1"]
    assert main(["train", "--data", tiny, *SMALL, *vary, "--out", str(tmp_path), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    names = [f"method-{method}-seed-{seed}" for method in ("at", "st") for seed in (0, 1)]
    assert [Path(folder).name for folder in results] == names
    alone = orat.train(Run.from_record(json.loads((tmp_path / names[3] / "run.json").read_text())), tmp_path / "alone")
    assert alone["last"] == results[str(tmp_path / names[3])]["last"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--vary", "sed=1"], "did you mean"),
        (["--vary", "out=1"], "unknown field 'out'"),
        (["--vary", "seed="], "names no values"),
        (["--vary", "seed=1", "--at-once", "0"], "give 1 or more"),
    ],
)
def test_nonsense_is_refused_in_one_line(
    arguments: list[str], words: str, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--data", tiny, "--method", "at", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
