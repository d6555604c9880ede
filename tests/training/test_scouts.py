"""Scout networks: which network, for how many epochs, in which batches and at which rates."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from quick_runs import quick
from torch import nn

from orat.core.errors import InputError
from orat.data.source import Dataset
from orat.methods import AT, ORAT
from orat.methods.base import Scouts
from orat.models.catalog import build
from orat.training.plan import Plan, affordable, cheaper, check_folds, in_minutes, plan_for
from orat.training.run import Run
from orat.training.scouts import ScoutLearner, scout_loader
from orat.training.setup import Parts, prepare

CPU = torch.device("cpu")


def parts_of(n: int, shape: tuple[int, ...] = (1, 28, 28)) -> Parts:
    """A training part of this size, whose images take no memory."""
    train = Dataset(torch.zeros(1, *shape).expand(n, *shape), torch.arange(n) % 2, ("a", "b"))
    return Parts(train, None, None, torch.arange(n), n)


@pytest.mark.parametrize(
    ("model", "shape", "expected"),
    [("small_cnn", (3, 32, 32), "quick_cnn"), ("lenet", (1, 28, 28), "lenet"), ("mlp-4", (1, 4, 9), "mlp-4")],
)
def test_scouts_are_the_cheaper_of_the_quick_network_and_the_network_of_the_run(
    model: str, shape: tuple[int, ...], expected: str
) -> None:
    train = parts_of(2, shape).train
    assert cheaper(Run(data="mine.npz", method=ORAT(), model=model, eps=0.1), train) == expected


def planned(
    n: int, epochs: int, cost: float, batch_size: int = 128, quick: bool = True, given: int | None = None
) -> tuple[int, int]:
    """The epochs and the batch size of scouts beside a run, at this cost of an epoch."""
    run = Run(data="mnist", method=ORAT(), epochs=epochs, batch_size=batch_size)
    plan = plan_for(run, parts_of(n), Scouts("quick_cnn"))
    plan = affordable(replace(plan, cost=cost, quick=quick), run, given)
    return plan.epochs, plan.batch_size


def test_scouts_train_for_enough_epochs_within_a_share_of_the_cost_of_the_run() -> None:
    assert planned(n=50_000, epochs=100, cost=0.1) == (36, 500)
    assert planned(n=1_000_000, epochs=100, cost=0.1) == (36, 512)
    assert planned(n=6400, epochs=1000, cost=0.1) == (70, 128)  # 3,500 steps
    assert planned(n=6400, epochs=1000, cost=0.1, batch_size=64) == (36, 64)
    assert planned(n=50_000, epochs=100, cost=0.1, quick=False) == (14, 500)
    assert planned(n=6400, epochs=1000, cost=0.1, quick=False) == (28, 128)
    assert planned(n=50_000, epochs=20, cost=0.1) == (23, 500)
    assert planned(n=50_000, epochs=20, cost=2.0) == (8, 500)  # fewer epochs would teach nothing
    assert planned(n=50_000, epochs=2, cost=2.0) == (2, 500)
    assert planned(n=50_000, epochs=20, cost=2.0, given=3) == (3, 500)


def test_an_epoch_of_cross_fitting_costs_its_share_of_arithmetic() -> None:
    """Two predictions and two lessons per sample, against two passes per step of the attack and a lesson."""
    run = Run(data="sample", method=ORAT(), attack_steps=10)
    parts = prepare(run)
    assert plan_for(run, parts, Scouts(run.model)).cost == pytest.approx(8 / 23)
    assert plan_for(replace(run, attack_steps=1), parts, Scouts(run.model)).cost == pytest.approx(8 / 5)
    assert [plan_for(run, parts, Scouts(name)).quick for name in (run.model, "quick_cnn")] == [False, True]


@pytest.mark.parametrize(
    ("n", "shape", "expected"),
    [
        (1000, (3, 48, 48), ("quick_cnn", 15)),
        (20_000, (3, 48, 48), ("demo_cnn", 33)),
        (100_000, (3, 48, 48), ("demo_cnn", 0)),  # in minutes, no network learns
        (1000, (1, 8, 8), ("demo_cnn", 100)),
    ],
)
def test_scouts_without_a_run_are_quick_networks_if_they_learn_in_minutes_on_a_cpu(
    n: int, shape: tuple[int, ...], expected: tuple[str, int]
) -> None:
    run = Run(data="mine.npz", method=ORAT(), model="demo_cnn", eps=0.1, batch_size=64, augment="none", lr=0.05)
    assert in_minutes(run, parts_of(n, shape), 4, CPU) == expected


def test_every_scout_has_initial_weights_of_its_own() -> None:
    plan = plan_for(Run(data="mnist", method=ORAT(), seed=3), parts_of(100), Scouts("lenet"))
    first, again, other = plan.make(0), plan.make(0), plan.make(1)
    for one, same, different in zip(first.parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, same)
        assert not torch.equal(one, different)


def learner(lr: float, plan: Plan) -> ScoutLearner:
    """Scouts of a run with this learning rate."""
    return ScoutLearner(Run(data="mnist", method=ORAT(), lr=lr), torch.arange(8) % 2, 2, plan, "plain")


def rates(scouts: ScoutLearner, *progress: float) -> list[float]:
    """The rate of the first scout after so many epochs."""
    found = []
    for done in progress:
        scouts.pace(done)
        found.append(scouts.optimizer.param_groups[0]["lr"])
    return found


def test_the_rate_of_quick_scouts_grows_with_their_batches_and_falls_to_nothing_in_the_last_third() -> None:
    plan = Plan(lambda number: build("quick_cnn", (1, 9, 9), 2, number), 1.0, True, 6, 256, scale=4.0)
    expected = [0.1, 0.2, 0.2, 0.1, 0.0, 0.0]
    assert rates(learner(0.03, plan), 0.25, 0.5, 4.0, 5.0, 6.0, 9.0) == pytest.approx(expected)


def test_other_scouts_take_the_higher_of_their_own_rate_and_that_of_the_run() -> None:
    plan = Plan(lambda number: nn.Linear(3, 2), 1.0, False, 4, 256, scale=4.0)
    fast = learner(0.03, plan)  # 0.12, for batches four times as large
    assert rates(fast, 10 / 3) == pytest.approx([0.06])
    assert fast.optimizer.param_groups[0]["nesterov"] is False
    slow = learner(0.01, plan)
    assert rates(slow, 10 / 3) == pytest.approx([0.06])  # their own 0.06 for 128 samples
    assert (slow.optimizer.param_groups[1]["weight_decay"], slow.optimizer.param_groups[1]["nesterov"]) == (5e-4, True)


@pytest.mark.parametrize(
    ("augment", "expected"), [("none", "none-nudge"), ("flip", "flip-nudge"), ("crop-flip", "crop-flip")]
)
def test_scouts_see_moved_images_even_if_the_run_does_not_move_them(augment: str, expected: str, tiny: str) -> None:
    run = quick(tiny, ORAT(scout_epochs=1), augment=augment)
    parts = prepare(run)
    assert scout_loader(run, parts, plan_for(run, parts, Scouts()), CPU).augment == expected


@pytest.mark.parametrize(
    ("folds", "epochs", "words"),
    [
        (2, None, "folds = 2: give 3 to 20"),
        (21, None, "folds = 21: give 3 to 20"),
        (5, None, "no more than there are"),
        (3, 0, "epochs = 0: give 1 or more"),
    ],
)
def test_folds_and_epochs_without_predictions_are_refused(folds: int, epochs: int | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_folds(folds, epochs, n=4)


def test_a_method_that_judges_no_labels_has_no_scouts() -> None:
    assert AT().scouts() is None
