"""benchmarks/step.py against a fake clock, the textbook step against numpy; no test asserts a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from step import main, page, show
from step_speed import Comparison, Ours, learner_of, report, step_flops, textbook_step
from textbook import Textbook, textbook_network
from timing import Machine, in_turn
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from orat.core.console import SILENT
from orat.core.device import commit
from orat.data.source import Dataset
from orat.methods import ORAT
from orat.models.layers import dropouts
from orat.training.run import Run

CPU = torch.device("cpu")
QUICK = ["--steps", "1", "--rounds", "1", "--batch-size", "8", "--attack-steps", "1", "--device", "cpu"]
KEYS = {
    "model", "device", "engine", "precision", "attack_type", "batch_size", "attack_steps", "samples", "rounds", "steps",
    "textbook_ms", "ours_ms", "ratio", "floor_ms", "share", "memory_mib", "textbook_memory_mib", "textbook_rounds_ms",
    "ours_rounds_ms", "flops", "rate",
}  # fmt: skip


class FakeClock:
    """A clock that only workers move."""

    def __init__(self) -> None:
        self.now = 100.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.now

    def worker(self, name: str, seconds: list[float]) -> Callable[[], None]:
        """A step with given seconds, one value a call."""
        left = iter(seconds)

        def step() -> None:
            self.calls.append(name)
            self.now += next(left)

        return step


# Binary fractions, so that sums are exact. The first value of each is its warm-up.
TEXTBOOK = [64.0, 1.0, 1.5, 0.5, 0.5, 2.0, 4.0]
OURS = [32.0, 0.25, 0.25, 0.5, 0.25, 0.125, 0.125]
PRODUCT = [16.0, 0.5, 0.25, 0.125, 0.125, 1.0, 1.0]
SECONDS = {"textbook": TEXTBOOK, "ours": OURS, "product": PRODUCT}


def faked(clock: FakeClock) -> dict[str, Any]:
    makers = {name: partial(clock.worker, name[0], seconds) for name, seconds in SECONDS.items()}
    return in_turn(makers, range(3), 2, 1, Machine(CPU, clock))


def test_the_report_agrees_exactly_with_a_plain_timing_of_the_same_loop() -> None:
    times = faked(FakeClock())
    rounds = {name: [500 * (a + b) for a, b in zip(s[1::2], s[2::2], strict=True)] for name, s in SECONDS.items()}
    assert {name: timing.rounds for name, timing in times.items()} == rounds
    assert (rounds["textbook"], rounds["ours"]) == ([1250.0, 500.0, 3000.0], [250.0, 375.0, 125.0])
    figures = report(**times, flops=10**9, side=1000)
    assert (figures["textbook_ms"], figures["ours_ms"], figures["ratio"]) == (1250.0, 250.0, 5.0)
    assert figures["rate"] == 2 * 1000**3 / 0.125 / 1e12  # of the best round
    assert (figures["floor_ms"], figures["share"]) == (62.5, 0.25)
    assert (figures["textbook_rounds_ms"], figures["ours_rounds_ms"]) == (rounds["textbook"], rounds["ours"])


def test_rounds_alternate_and_warm_ups_come_first_and_are_not_counted() -> None:
    clock = FakeClock()
    times = faked(clock)
    assert "".join(clock.calls) == "top" + "ttoopp" * 3
    counted = 2 * sum(sum(timing.rounds) for timing in times.values()) / 1000
    assert counted == clock.now - 100 - 64 - 32 - 16


def few_images(n: int = 10, shape: tuple[int, ...] = (1, 4, 4), classes: int = 3) -> Dataset:
    generator = torch.Generator().manual_seed(5)
    images = torch.randint(256, (n, *shape), generator=generator, dtype=torch.uint8)
    labels = torch.randint(classes, (n,), generator=generator)
    return Dataset(images, labels, tuple(map(str, range(classes))))


def run_of(model: str = "mlp-16", **changes: Any) -> Run:
    given = {"eps": 0.1, "attack_steps": 1, "batch_size": 5, "lr": 0.5, "augment": "none", "validation": 0.0}
    return Run(data="mnist", method=ORAT(m=2, burn_in=0, ramp=0), model=model, **{**given, **changes})


def linear() -> nn.Module:
    """A linear network with known gradients."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def test_a_textbook_step_is_what_the_formulas_say() -> None:
    """The step in numpy and double precision."""
    data, index, model = few_images(), torch.tensor([1, 4, 5, 8, 9, 2]), linear()
    run = run_of(eps=0.25, attack_steps=3, seed=7)
    x = data.images[index].double().numpy().reshape(6, 16) / 255
    wanted = np.eye(3)[data.labels[index].numpy()]
    weight, bias = (p.detach().double().numpy() for p in model.parameters())

    def slopes_and_losses(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits = images @ weight.T + bias
        shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        return shares - wanted, -np.log((shares * wanted).sum(1))

    adv = np.clip(x + np.random.default_rng(7).uniform(-0.25, 0.25, (6, 1, 4, 4)).reshape(6, 16), 0, 1)
    for _ in range(3):
        adv = np.clip(np.clip(adv + 0.0625 * np.sign(slopes_and_losses(adv)[0] @ weight), x - 0.25, x + 0.25), 0, 1)
    slopes, losses = slopes_and_losses(adv)
    ranked = np.sort(losses)
    lower, upper = ranked[:2].mean(), ranked[-2:].mean()  # the least and the largest are cut
    slopes = slopes * ((losses > lower) & (losses < upper))[:, None] / 6
    gradients = slopes.T @ adv, slopes.sum(0)
    learned = [
        old - run.lr * (slope + run.weight_decay * old) for old, slope in zip((weight, bias), gradients, strict=True)
    ]

    textbook = Textbook(model, data, run, k=9, m=2)
    textbook.lower, textbook.width = lower, upper - lower
    textbook.step(index)
    for parameter, expected in zip(model.parameters(), learned, strict=True):
        np.testing.assert_allclose(parameter.detach().numpy(), expected, atol=1e-5)
    assert textbook.lower == pytest.approx(lower - run.lr * ((9 - 2) / 10 - 4 / 6))
    assert textbook.width == pytest.approx(upper - lower + run.lr * ((10 - 2) / 10 - 5 / 6))


def test_the_textbook_s_scalars_start_at_the_ranks_of_the_first_losses() -> None:
    textbook = Textbook(linear(), few_images(), run_of(lr=0.0), k=10, m=2)
    losses = torch.tensor([1.0, 5.0, 2.0, 4.0, 3.0])
    assert textbook.kept(losses).tolist() == [0, 0, 1, 1, 1]  # at the cuts is out: below them in rank, or an outlier
    assert (textbook.lower, textbook.width) == (1.0, 4.0)


def test_the_textbook_s_attack_computes_gradients_of_the_parameters_in_evaluation_mode() -> None:
    data, run, model = few_images(), run_of(attack_steps=2), linear()
    modes: list[bool] = []
    model.register_forward_hook(lambda module, *_: modes.append(module.training))
    textbook = Textbook(model, data, run, k=10, m=2)
    assert all(parameter.grad is None for parameter in model.parameters())
    adv = textbook.attack(data.images.float() / 255, data.labels)
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())
    assert not adv.requires_grad
    textbook.learn(adv, data.labels)
    assert modes == [False, False, True]


def test_the_textbook_s_network_is_ours_without_our_additions() -> None:
    data, run = few_images(shape=(1, 28, 28), classes=10), run_of("lenet")
    plain = textbook_network("lenet", data.shape, 10, run.seed)
    ours = learner_of(run, data).model
    assert not dropouts(plain)
    assert sum(isinstance(module, nn.Dropout) for module in plain.modules()) == 1
    assert all(p.is_contiguous() for p in plain.parameters())
    assert not all(p.is_contiguous() for p in ours.parameters())
    x = data.images.float() / 255
    torch.testing.assert_close(plain.eval()(x), ours.eval()(x))


def test_our_step_cuts_ranks_and_both_train_on_the_same_batches() -> None:
    data, run = few_images(40), run_of(batch_size=10)
    batches = torch.randperm(40, generator=torch.Generator().manual_seed(0)).split(10)
    ours = Ours(run, data, "auto", SILENT)
    step = ours.start(batches)
    assert ours.execution.kind == "folded"
    memory = ours.learner.state.last_losses
    assert not memory.isnan().any()
    assert (memory.view(4, 10) == memory[:10]).all()
    assert len(memory.unique()) == 10
    before = memory.clone()
    step()
    assert set((memory != before).nonzero().flatten().tolist()) == set(batches[1].tolist())
    theirs = textbook_step(run, data, batches)
    theirs()


@pytest.mark.parametrize("attack_steps", [1, 3])
def test_operations_of_an_mlp_are_those_counted_by_hand(attack_steps: int) -> None:
    """A linear layer costs 2 n inputs outputs: forward, for the input's gradient, and for the weights' gradient."""
    n, inputs, hidden, classes = 5, 16, 16, 3
    first, second = 2 * n * inputs * hidden, 2 * n * hidden * classes
    attack = attack_steps * 2 * (first + second)  # forward, and back to the image
    update = 2 * (first + second) + second  # forward, weights' gradients, and back to the hidden layer, no further
    assert step_flops(run_of(attack_steps=attack_steps), few_images(), torch.arange(n)) == attack + update


def test_operations_of_a_lenet_are_those_counted_by_hand() -> None:
    n, steps = 2, 2
    first = 2 * n * 24 * 24 * 64 * 25
    later = 2 * n * (8 * 8 * 64 * 25 * 64 + 4 * 4 * 64 * 1024 + 1024 * 10)
    flops = step_flops(run_of("lenet", attack_steps=steps), few_images(4, (1, 28, 28), 10), torch.arange(n))
    assert flops == steps * 2 * (first + later) + 2 * (first + later) + later


def test_operations_agree_with_torch_s_own_counter() -> None:
    data, run = few_images(4, (3, 32, 32), 10), run_of("resnet18", attack_steps=0)
    learner = learner_of(run, data)
    with FlopCounterMode(display=False) as counter:
        learner.model(data.images[:2].float() / 255).sum().backward()
    assert step_flops(run, data, torch.arange(2)) == counter.get_total_flops()


class Types(TorchDispatchMode):
    """Records the types of the operands of matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.dtype] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in flop_registry:
            self.seen.append(args[-1].dtype)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", ["plain", "folded"])
@pytest.mark.parametrize("precision", ["mixed", "tf32", "float32"])
@pytest.mark.parametrize("able", [False, True])
def test_the_attack_s_type_is_that_of_the_engine(
    kind: str, precision: str, able: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": able}, raising=False)
    data, run = few_images(), run_of(precision=precision)
    ours = Ours(run, data, kind, SILENT)
    with Types() as types:
        ours.start([torch.arange(5)])
    assert ours.attack_type == types.seen[0]  # the attack comes first


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a small run of the command."""
    file = tmp_path_factory.mktemp("bench") / "new" / "bench.json"
    assert main(["--model", "lenet", *QUICK, "--out", str(file)]) == 0
    return file


def test_the_command_prints_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "lenet", *QUICK, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1
    assert captured.err == "lenet: steps of the textbook and of engine folded by turns\n"
    content = json.loads(captured.out)
    assert {"rows", "hardware", "versions", "commit"} <= set(content)
    (row,) = content["rows"]
    assert set(row) == KEYS
    assert (row["model"], row["device"], row["engine"], row["batch_size"]) == ("lenet", "cpu", "folded", 8)
    for name in ("textbook_ms", "ours_ms", "ratio", "floor_ms", "share", "memory_mib", "flops", "rate"):
        assert isfinite(row[name]), name
        assert row[name] > 0, name
    assert (len(row["textbook_rounds_ms"]), len(row["ours_rounds_ms"])) == (1, 1)


def test_the_file_is_printed_as_a_page(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["--page", str(measured)]) == 0
    printed = capsys.readouterr().out
    content = json.loads(measured.read_text())
    assert printed == page({str(measured): content}) + "\n"
    assert f"| {content['rows'][0]['ratio']:.2f} |" in printed
    assert content["commit"] in printed


def test_the_table_fits_eighty_columns(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(measured.read_text())
    large = {"model": "small_cnn", "textbook_ms": 12345.6, "ours_ms": 1234.5, "memory_mib": 12345.6, "ratio": 10.0}
    show(content | {"rows": [row | large for row in content["rows"]]})
    table = capsys.readouterr().out.splitlines()[:4]
    assert all(len(line) <= 80 for line in table)
    assert table[3].split()[4:7] == ["12,346", "1,234", "10.00"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "lenett"], "did you mean 'lenet'"),
        (["--model", ","], "--model names no network"),
        (["--steps", "0"], "steps = 0: give 1 or more"),
        (["--rounds", "0"], "rounds = 0"),
        (["--rounds", "two"], "argument --rounds: invalid int value: 'two'"),
        (["--batch-size", "-1"], "batch_size = -1"),
        (["--batch-size", "60001"], "mnist has 60000 samples"),
        (["--attack-steps", "0"], "attack_steps = 0"),
        (["--precision", "half"], "unknown precision 'half'"),
        (["--engine", "turbo"], "unknown engine 'turbo'"),
        (["--engine", "recorded", "--device", "cpu"], "engine recorded is for GPUs"),
        (["--device", "gpu9"], "gpu9"),
        (["--out", "."], "is a folder"),
        (["--page", "nowhere.json"], "nowhere.json"),
        (["--stepz", "1"], "unrecognized arguments: --stepz"),
        (["--page", __file__], "is no file of benchmarks/step.py --out"),
    ],
)
def test_nonsense_is_answered_in_one_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert (captured.err.count("\n"), captured.out) == (1, "")
    assert list(tmp_path.iterdir()) == []


def test_a_comparison_takes_its_runs_past_the_burn_in() -> None:
    method = Comparison(("lenet",), CPU).run("lenet").method
    assert isinstance(method, ORAT)
    assert (method.m, method.burn_in, method.ramp) == (12_000, 0, 0)


def test_no_commit_is_known_where_there_is_no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert commit() == "unknown"


def test_the_page_of_speed_shows_what_was_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    files = sorted(str(file) for file in Path("results").glob("bench-*.json"))
    assert files
    assert main(["--page", *files]) == 0
    assert capsys.readouterr().out in (root / "docs" / "speed.md").read_text()
