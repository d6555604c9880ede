"""Several runs at once end as each would alone, because they share nothing."""

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
from quick_runs import Heard, assert_same, quick
from torch import Tensor, nn

from orat.cli.main import main
from orat.core.console import SILENT
from orat.methods import AT, GAIRAT, MART, ORAT, RAA, Method
from orat.sweeps.parallel import Turn, finished, train_many
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.train import MakeObservers, train, training

METHODS: dict[str, Method] = {
    "at": AT(),
    "orat": ORAT(m=0.2),
    "by scalars": ORAT(m=0.2, solver="minmax"),
    "gairat": GAIRAT(burn_in=1),
    "raa": RAA(burn_in=1),
    "automatic": ORAT(scout_epochs=2),
}


def turn_of(folder: Path, run: Run, observers: MakeObservers | None = None) -> Turn:
    """A run that takes turns with others on the CPU."""
    return Turn(folder, training(run, folder, None, "cpu", SILENT, "auto", observers))


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
        train(run, tmp_path / "alone" / name, device="cpu", display=SILENT)
    turns = [turn_of(tmp_path / "together" / name, run) for name, run in runs.items()]
    rounds = 0
    while turns:
        turns = [turn for turn in turns if turn.step()]
        rounds += 1
    assert rounds > 2 * 4  # for epochs, not one run after the other
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


@pytest.mark.parametrize("method", [ORAT(m=0.2, solver="minmax"), ORAT(scout_epochs=1)], ids=["minmax", "automatic"])
def test_no_tensor_is_shared_between_runs(method: Method, tiny: str, tmp_path: Path) -> None:
    parts: list[tuple[Any, Any]] = []

    def observers(*session_and_learner: Any) -> list[Any]:
        parts.append(session_and_learner)
        return []

    turns = [turn_of(tmp_path / str(seed), quick(tiny, method, seed=seed), observers) for seed in (0, 1)]
    while len(parts) < 2:
        assert all(turn.step() for turn in turns)
    memory = []
    for part in parts:
        reached = [tensor for tensor in tensors(part) if tensor.numel()]
        assert len(reached) > 20
        memory.append({tensor.untyped_storage().data_ptr() for tensor in reached})
    assert not memory[0] & memory[1]
    assert parts[0][1].generator is not parts[1][1].generator


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Enough images of the size of MNIST for matrix products that are summed in parts, in a workspace."""
    generator = np.random.default_rng(0)
    file = tmp_path_factory.mktemp("many") / "pictures.npz"
    images, labels = generator.integers(0, 256, (2000, 28, 28), dtype=np.uint8), np.arange(2000) % 10
    np.savez(file, x_train=images, y_train=labels, x_test=images[:100], y_test=labels[:100])
    return str(file)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", ["recorded", "compiled"])
def test_gpu_runs_at_once_end_as_alone_to_the_bit(kind: str, pictures: str, tmp_path: Path) -> None:
    """Records of two runs on one stream share a workspace and end otherwise, as seen on LeNet."""
    methods = (AT(), ORAT(m=0.2), MART(), AT())
    runs = {
        str(seed): Run(data=pictures, method=method, model="lenet", eps=0.1, epochs=4, augment="none", seed=seed)
        for seed, method in enumerate(methods)
    }
    for name, run in runs.items():
        train(run, tmp_path / "alone" / name, device="cuda", display=SILENT, engine=kind)
    together: dict[str | Path, Run] = {tmp_path / "together" / name: run for name, run in runs.items()}
    train_many(together, device="cuda", display=SILENT, engine=kind, at_once=len(runs))
    for name in runs:
        alone, other = (RunFolder(tmp_path / where / name).load_tensors("model") for where in ("alone", "together"))
        assert all(torch.equal(alone[key], other[key]) for key in alone), name


def test_results_come_in_the_order_of_the_runs_and_a_finished_run_is_not_trained_again(
    tiny: str, tmp_path: Path
) -> None:
    runs: dict[str | Path, Run] = {tmp_path / str(seed): quick(tiny, AT(), seed=seed, epochs=1) for seed in (2, 0)}
    first = train_many(runs, device="cpu", display=SILENT)
    assert list(first) == list(runs)
    assert train_many(runs, device="cpu", display=SILENT) == first


@pytest.mark.parametrize("broken", [False, True])
def test_a_run_gives_its_memory_back_when_it_ends(broken: bool, tiny: str, tmp_path: Path) -> None:
    """At once, without the garbage collector."""
    learners: list[Any] = []

    def observers(session: Any, learner: Any) -> list[Any]:
        learners.append(weakref.ref(learner))
        return []

    run = quick(tiny, AT(), epochs=1, **({"lr": 1e30, "warmup": 0.0} if broken else {}))
    turn = turn_of(tmp_path, run, observers)
    gc.disable()
    try:
        while turn.step():
            assert learners[0]() is not None
        assert learners[0]() is None
    finally:
        gc.enable()
    assert ("error" in turn.result) == broken


class Scripted(Turn):
    """A run of ten steps, five in its first epoch."""

    def __init__(self, number: int, running: set[int]) -> None:
        super().__init__(str(number), iter(()))
        self.number, self.running, self.taken = number, running, 0

    def step(self) -> bool:
        """One step."""
        self.running.add(self.number)
        self.taken += 1
        self.share = min(1.0, self.taken / 5)
        if self.taken == 10:
            self.running.remove(self.number)
        return self.taken < 10


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_a_number_of_runs_takes_turns_and_each_begins_when_the_one_before_has_had_its_share(at_once: int) -> None:
    running: set[int] = set()
    together: list[int] = []
    turns = [Scripted(number, running) for number in range(6)]

    def opened() -> Iterator[Turn]:
        for number, turn in enumerate(turns):
            assert number == 0 or turns[number - 1].share >= 1 / at_once
            together.append(len(running) + 1)
            yield turn

    assert [turn.folder for turn in finished(opened(), at_once)] == list("012345")
    assert all(turn.taken == 10 for turn in turns)
    assert max(together) == at_once


def test_a_run_that_breaks_leaves_its_error_and_the_other_runs_continue(tiny: str, tmp_path: Path) -> None:
    runs: dict[str | Path, Run] = {
        tmp_path / "broken": quick(tiny, AT(), lr=1e30, warmup=0.0),
        tmp_path / "whole": quick(tiny, AT(), epochs=1),
    }
    heard = Heard()
    results = train_many(runs, device="cpu", display=heard)
    assert "nan" in results[tmp_path / "broken"]["error"]
    assert heard.lines[-1] == "2 of 2 runs are done"
    assert results[tmp_path / "whole"]["last"]["natural"] > 0


def test_a_run_that_cannot_begin_is_named_and_the_other_runs_continue(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vary = ["--vary", "model=odd_networks:OfColor,mlp-8,odd_networks:Fixed", "--out", str(tmp_path)]
    flags = [flag for flag in SMALL if flag not in ("--model", "mlp-8")]
    assert main(["train", "--data", tiny, "--method", "at", *flags, *vary]) == 1
    printed = capsys.readouterr().out
    assert f"{tmp_path}/model-odd_networks:OfColor: odd_networks:OfColor on inputs of shape (2, 1, 12, 12)" in printed
    assert f"{tmp_path}/model-odd_networks:Fixed: the network has no parameter that learns" in printed
    assert "model-mlp-8" in printed.partition("last epoch")[2]
    assert {folder.name for folder in tmp_path.iterdir()} == {"model-mlp-8"}
    none = ["--vary", "model=odd_networks:OfColor,odd_networks:Fixed", "--out", str(tmp_path / "none")]
    assert main(["train", "--data", tiny, "--method", "at", *flags, *none]) == 2
    error = capsys.readouterr().err
    assert error.startswith("orat: model-odd_networks:OfColor: odd_networks:OfColor on inputs")
    assert error.count("\n") == 1


SMALL = ["--model", "mlp-8", "--epochs", "1", "--eps", "0.1", "--augment", "none", "--attack-steps", "1", "--quiet"]


def test_what_varies_is_multiplied_and_names_the_folders(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vary = ["--vary", "method=at,st", "--vary", "seed=0,1"]
    assert main(["train", "--data", tiny, *SMALL, *vary, "--out", str(tmp_path), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    names = [f"method-{method}-seed-{seed}" for method in ("at", "st") for seed in (0, 1)]
    assert [Path(folder).name for folder in results] == names
    alone = train(Run.from_record(json.loads((tmp_path / names[3] / "run.json").read_text())), tmp_path / "alone")
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
