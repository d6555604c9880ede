"""One loop for every method: schedules, identities between methods, the same seed, and what a run leaves."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from one_step import radius_and_step_size
from quick_runs import Heard, assert_same, quick
from torch import Tensor, nn

import orat
from orat.core.console import SILENT
from orat.core.errors import TrainingError
from orat.evaluation.accuracy import evaluate
from orat.methods import AT, ORAT, Method, Setting
from orat.methods.base import State, Step
from orat.training.events import EpochDone, StepDone
from orat.training.forecast import few_samples
from orat.training.learner import RunLearner
from orat.training.load import load_model
from orat.training.loop import fit
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import build_model, prepare, setting_of, spared
from orat.training.train import Session, train


def learner_of(run: Run) -> RunLearner:
    """The learner of a run before its first step."""
    parts = prepare(run)
    return RunLearner(run, build_model(run, parts.train), run.method.start(setting_of(run, parts)))


def weights(folder: Path) -> dict[str, Tensor]:
    """The weights after the last epoch of a run."""
    return RunFolder(folder).load_tensors("model")


def equal(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    """Whether weights are equal to the bit."""
    return all(torch.equal(one[name], two[name]) for name in one)


# What runs.

DOORS = {  # of a user's network, method, attack and data
    "attacks/own.py", "core/unsaved.py", "data/own.py", "evaluation/subject.py", "models/adapted.py",
    "models/external.py", "training/probe.py", "training/rehearsal.py",
}  # fmt: skip


def test_a_training_of_built_in_parts_runs_no_door_of_a_user(tiny: str, tmp_path: Path) -> None:
    ran = set()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            ran.add(frame.f_code.co_filename)

    sys.setprofile(watch)
    try:
        train(quick(tiny, ORAT(), epochs=2), tmp_path / "run", display=SILENT)
    finally:
        sys.setprofile(None)
    package = Path(orat.__file__).parent
    names = {str(Path(file).relative_to(package)) for file in ran if Path(file).is_relative_to(package)}
    assert {"methods/automatic.py", "training/scouts.py", "evaluation/accuracy.py"} < names
    assert names & DOORS == set()


# Identities.


@pytest.mark.parametrize("solver", ["rank", "minmax"])
def test_orat_that_drops_nothing_is_at_to_the_bit(solver: str, tiny: str, tmp_path: Path) -> None:
    results = [
        train(quick(tiny, method, epochs=2), tmp_path / name, display=SILENT)
        for name, method in {"at": AT(), "orat": ORAT(m=0, k=1.0, solver=solver)}.items()
    ]
    assert equal(weights(tmp_path / "at"), weights(tmp_path / "orat"))
    assert results[0]["last"] == results[1]["last"]


@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_automatic_orat_that_finds_nothing_is_at_to_the_bit(augment: str, tiny: str, tmp_path: Path) -> None:
    """After one epoch of cross-fitting, predictions are too unreliable to flag a label."""
    for name, method in (("at", AT()), ("orat", ORAT(scout_epochs=1))):
        train(quick(tiny, method, augment=augment), tmp_path / name, device="cpu", display=SILENT)
    state = RunFolder(tmp_path / "orat").load_tensors("state")
    assert state["keep"].all()
    assert equal(weights(tmp_path / "at"), weights(tmp_path / "orat"))


def test_orat_that_drops_one_loss_is_not_at(tiny: str, tmp_path: Path) -> None:
    for name, method in {"at": AT(), "orat": ORAT(m=1, ramp=0)}.items():
        train(quick(tiny, method, epochs=2), tmp_path / name, display=SILENT)
    assert not equal(weights(tmp_path / "at"), weights(tmp_path / "orat"))


def test_the_same_seed_gives_the_same_result_and_another_seed_another(tiny: str, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        torch.rand(3)  # moves the global generator
        train(quick(tiny, AT(), seed=seed), tmp_path / name, display=SILENT)
    assert_same(tmp_path / "a", tmp_path / "b")
    assert not torch.equal(weights(tmp_path / "a")["1.1.weight"], weights(tmp_path / "c")["1.1.weight"])


@pytest.mark.parametrize("method", [AT(), ORAT(scout_epochs=1)], ids=["at", "orat automatic"])
def test_training_leaves_the_global_generator_alone(method: Method, tiny: str, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    train(quick(tiny, method, epochs=1), tmp_path, display=SILENT)
    assert torch.equal(before, torch.get_rng_state())


def test_the_ranked_range_removes_the_flipped_labels(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, ORAT(m=0.3), noise="symmetric", noise_rate=0.3, epochs=25, milestones=(), eps=0.05)
    result = train(run, tmp_path, display=SILENT)
    assert result["outliers"]["precision"] > 0.9
    assert result["outliers"]["recall"] > 0.9
    assert result["last"]["natural"] > 0.95


# Schedules.


class Steady(State):
    """A scalar whose rate does not follow the schedule."""

    def __init__(self) -> None:
        super().__init__()
        self.scalar = nn.Parameter(torch.tensor(0.0))

    def param_groups(self, lr: float) -> list[dict[str, Any]]:
        """The scalar."""
        return [{"params": [self.scalar], "lr": lr, "decays": False}]


@dataclass(frozen=True)
class WithScalar(AT):
    """Adversarial training with a scalar of its own."""

    def start(self, setting: Setting) -> Steady:
        """The scalar."""
        return Steady()


def test_rates_warm_up_and_fall_at_milestones_unless_a_group_keeps_its_rate(tiny: str) -> None:
    for method, constant in ((WithScalar(), True), (ORAT(m=0.1, solver="minmax"), False)):
        learner = learner_of(quick(tiny, method, warmup=2.0, milestones=(3, 4)))
        found = []
        for epoch, progress in ((1, 0.5), (1, 1.0), (2, 2.0), (3, 2.1), (4, 3.1)):
            learner.epoch = epoch
            learner.pace(progress)
            found.append([group["lr"] for group in learner.optimizer.param_groups])
        assert [rates[0] for rates in found] == pytest.approx([0.0125, 0.025, 0.05, 0.005, 0.0005])
        assert [rates[1] for rates in found] == ([0.05] * 5 if constant else [rates[0] for rates in found])


@dataclass(frozen=True)
class Records(AT):
    """Adversarial training that keeps the radius and the step size of every attack."""

    def loss(self, step: Step) -> Tensor:
        """The loss of adversarial training."""
        SEEN.append((step.epoch, *radius_and_step_size(step.adversary)))
        return super().loss(step)


SEEN: list[tuple[int, float, float | None]] = []


def test_the_radius_of_the_training_attack_warms_up_with_its_steps(tiny: str, tmp_path: Path) -> None:
    SEEN.clear()
    train(quick(tiny, Records(), attack_warmup=2.0, batch_size=135, epochs=3), tmp_path, display=SILENT)
    shares = [1.0, 0.25, 0.25, 0.5, 0.75, 1.0, 1.0, 1.0]  # two steps of the rehearsal, then two steps an epoch
    assert [epoch for epoch, _, _ in SEEN] == [1, 1, 1, 1, 2, 2, 3, 3]
    assert [radius for _, radius, _ in SEEN] == pytest.approx([0.1 * share for share in shares])
    assert [size for _, _, size in SEEN] == pytest.approx([0.025 * share for share in shares])


@pytest.mark.parametrize(
    ("steps", "epochs", "expected"), [(446, 50, 1), (372, 100, 1), (90, 22, 4), (2, 100, 25), (1, 3000, 300), (9, 2, 1)]
)
def test_the_first_cut_waits_for_enough_steps_but_not_for_more_than_a_quarter_of_the_run(
    steps: int, epochs: int, expected: int
) -> None:
    assert ORAT(m=1).start(Setting(10, 10, 2, steps, epochs)).burn_in == expected
    assert ORAT(m=1, burn_in=0).start(Setting(10, 10, 2, steps, epochs)).burn_in == 0


# The loop.


def test_fit_yields_every_step_and_every_epoch_with_its_record(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, AT(), epochs=2)
    session = Session(run, RunFolder(tmp_path), prepare(run), torch.device("cpu"), SILENT, "plain")
    learner = learner_of(run)
    events = list(fit(learner, session.loader, loop_engine()))
    steps = [(event.epoch, event.step, event.steps) for event in events if isinstance(event, StepDone)]
    assert steps == [(epoch, step, 9) for epoch in (1, 2) for step in range(1, 10)]
    records = [event.record for event in events if isinstance(event, EpochDone)]
    assert [record.keys() for record in records] == [{"epoch", "lr", "loss", "state"}] * 2
    assert [record["lr"] for record in records] == pytest.approx([0.05, 0.05])
    assert (learner.epoch, learner.step) == (3, 0)
    assert list(fit(learner, session.loader, loop_engine())) == []


def loop_engine() -> Any:
    """Each step as it comes."""
    return lambda step, ticket, key: step(*ticket)


def test_a_loss_that_is_no_number_stops_the_training(tiny: str, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"nan in epoch 1.*--lr \(now 1e\+30\)"):
        train(quick(tiny, AT(), lr=1e30, warmup=0.0), tmp_path, display=SILENT)
    assert RunFolder(tmp_path).history() == []


# Results.


def test_a_chosen_epoch_before_the_last_is_tested_with_its_own_weights(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, AT(), lr=0.2, epochs=6, milestones=(), noise="symmetric", noise_rate=0.4)
    for seed in range(5):
        result = train(replace(run, seed=seed), tmp_path / str(seed), display=SILENT)
        if result["chosen"]["epoch"] != 6:
            break
    else:
        pytest.fail("in none of five seeds an earlier epoch was chosen")
    test = prepare(run).test
    assert test is not None
    model = load_model(tmp_path / str(seed), which="chosen")
    assert evaluate(model, test, {}, run.threat)["natural"] == result["chosen"]["natural"]


def test_a_finished_run_is_not_trained_again(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, heard = quick(tiny, AT(), epochs=1), Heard()
    first = train(run, tmp_path, display=SILENT)
    monkeypatch.setattr("orat.training.train.Session", None)
    assert train(run, tmp_path, display=heard) == first
    assert heard.lines == [f"{tmp_path} is finished already"]
    assert not (tmp_path / "resume.pt").exists()


def test_a_loaded_model_gives_the_tested_accuracy(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, AT(), normalize=True)
    result = train(run, tmp_path, display=SILENT)
    test, model = prepare(run).test, load_model(tmp_path)
    assert test is not None
    accuracy = evaluate(model, test, ["fgsm", "pgd20", "cw"], run.threat)
    assert accuracy == {name: value for name, value in result["last"].items() if name != "epoch"}
    assert model[0].std.flatten().item() != 1  # the normalization of training travels with the weights


def test_the_state_of_a_run_has_its_decision_for_every_sample_and_the_place_of_the_sample(
    tiny: str, tmp_path: Path
) -> None:
    run = quick(tiny, ORAT(m=0.2, burn_in=1, ramp=0), noise="symmetric", noise_rate=0.2)
    result = train(run, tmp_path, display=SILENT)
    state, parts = RunFolder(tmp_path).load_tensors("state"), prepare(run)
    assert torch.equal(state["id"], parts.ids)
    assert torch.equal(state["labels"], parts.train.labels)
    assert int((~state["keep"]).sum()) == result["outliers"]["cut"] == 54
    train(quick(tiny, AT(), epochs=1), tmp_path / "at", display=SILENT)
    assert RunFolder(tmp_path / "at").load_tensors("state").keys() == {"id"}


def test_no_class_loses_its_last_sample_to_the_validation_part(tmp_path: Path) -> None:
    labels = np.repeat(np.arange(9), [1, 1, 1, 2, 2, 40, 40, 40, 40])
    np.savez(tmp_path / "few.npz", x_train=np.zeros((len(labels), 4, 4), np.uint8), y_train=labels)
    for seed in range(8):
        parts = prepare(quick(str(tmp_path / "few.npz"), AT(), validation=0.5, seed=seed))
        assert parts.validation is not None
        assert (len(parts.train), len(parts.validation)) == (84, 83) or len(parts.validation) == 84
        assert parts.train.labels.bincount(minlength=9).min() >= 1
        both = torch.cat([parts.train.labels, parts.validation.labels])
        assert both.bincount().tolist() == [1, 1, 1, 2, 2, 40, 40, 40, 40]
    (line,) = few_samples(parts.train)
    assert line.startswith(
        ("5 classes with fewer than 20 training", "6 classes", "7 classes", "8 classes", "9 classes")
    )
    assert "0 1, 1 1, 2 1 and " in line


@pytest.mark.parametrize("n", [100, 167])
def test_a_validation_part_that_takes_no_last_sample_is_as_before(n: int) -> None:
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    chosen = spared(order, torch.arange(n) % 5, n // 4)
    assert chosen.tolist() == [True] * (n // 4) + [False] * (n - n // 4)


def test_the_first_lines_name_method_network_data_and_radius(tiny: str, tmp_path: Path) -> None:
    for name, method, words in (
        ("at", AT(), "at: mlp-16 on"),
        ("m", ORAT(m=0.2), "orat (k = 270, m = 54 of n = 270, first cut in epoch 2, all of m in epoch 3): mlp-16 on"),
        ("auto", ORAT(scout_epochs=1), "orat (automatic): mlp-16 on"),
    ):
        heard = Heard()
        train(quick(tiny, method), tmp_path / name, device="cpu", display=heard)
        assert heard.lines[0].startswith(words)
        assert "(270 train, 30 validation, 90 test), linf eps 0.1, 4 epochs, cpu, about " in heard.lines[0]
    assert heard.lines[1].startswith("cross-fitting 1/1  loss ")
    assert heard.lines[2].startswith("orat: automatic; the scout networks cannot judge labels")
