"""Labels corrected on the way: which, when, against what, and that a checkpoint holds it. Iterates are by hand."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
from one_step import Played, network, samples
from quick_runs import quick
from torch import Tensor, nn

import orat
from orat.core.console import SILENT
from orat.core.types import Batch
from orat.data.source import Dataset
from orat.methods import Setting
from orat.methods.relabeling import Corrections
from orat.noise.truth import found_corrections
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare

CLASSES = 3


def iterates(answers: list[list[int]], sure: float = 0.8) -> Tensor:
    """Logits of an attack on some samples, of which each is seen as these classes, so surely; (steps, n, classes)."""
    seen = nn.functional.one_hot(torch.tensor(answers).T, CLASSES)
    return torch.where(seen == 1, sure, (1 - sure) / (CLASSES - 1)).log()


def some(given: list[int], index: list[int] | None = None) -> Batch:
    """A batch of these labels; its images do not matter."""
    places = torch.arange(len(given)) if index is None else torch.tensor(index)
    return Batch(torch.zeros(len(given), 1), torch.tensor(given), places)


def corrections(
    n: int, burn_in: int = 1, withstands: int = 1, confidence: float = 0.0, persistent: bool = False
) -> Corrections:
    """A memory in which nothing was seen yet."""
    return Corrections(n, burn_in, withstands, confidence, persistent)


def test_in_the_burn_in_labels_are_those_given_whatever_the_attack_says() -> None:
    state, batch = corrections(2, burn_in=3), some([0, 1])
    for epoch in (1, 2, 3):
        assert state.labels(batch, epoch).tolist() == [0, 1]
        state.remember(batch, iterates([[2, 2, 2], [0, 0, 0]]))
        assert not state.changed.any()
    assert state.labels(batch, 4).tolist() == [2, 0]


@pytest.mark.parametrize("withstands", [0, 1, 2])
@pytest.mark.parametrize("least", [0.0, 0.7])
def test_a_label_is_replaced_exactly_where_it_fell_early_and_another_class_was_seen_surely_enough(
    withstands: int, least: float
) -> None:
    """Every attack of three points on a sample of label 1, seen with confidence 0.6 or 0.8 at the first."""
    for sure in (0.6, 0.8):
        attacks = [list(classes) for classes in product(range(CLASSES), repeat=3)]
        state, batch = corrections(27, 1, withstands, least), some([1] * 27)
        state.labels(batch, 1)
        state.remember(batch, iterates(attacks, sure))
        replaced = [seen.count(1) <= withstands and seen[0] != 1 and sure >= least for seen in attacks]
        expected = [seen[0] if doubted else 1 for seen, doubted in zip(attacks, replaced, strict=True)]
        assert state.labels(batch, 2).tolist() == expected
        assert state.changed.tolist() == replaced
        assert state.corrected().tolist() == expected
        assert any(replaced) == (sure >= least)


def test_a_sample_never_seen_is_never_corrected() -> None:
    state = corrections(4, burn_in=0, withstands=100)
    assert state.labels(some([1, 2]), 1).tolist() == [1, 2]
    state.remember(some([1, 2]), iterates([[0], [0]]))
    assert state.labels(some([1, 2, 1, 2]), 2).tolist() == [0, 0, 1, 2]


def test_what_is_remembered_belongs_to_the_sample_not_to_its_place_in_the_batch() -> None:
    state = corrections(4, burn_in=0)
    state.remember(some([0, 1], index=[3, 1]), iterates([[2, 2], [1, 1]]))
    assert state.labels(some([1, 2, 0, 0], index=[1, 2, 3, 0]), 2).tolist() == [1, 2, 2, 0]
    assert state.corrected().tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize(("persistent", "later"), [(False, 0), (True, 2)])
def test_a_transient_correction_heals_once_the_given_label_stands_and_a_persistent_one_stays(
    persistent: bool, later: int
) -> None:
    state, batch = corrections(1, burn_in=0, persistent=persistent), some([0])
    state.remember(batch, iterates([[2, 2, 2]]))
    assert state.labels(batch, 2).item() == 2
    state.remember(batch, iterates([[0, 0, 2]]))  # attacked away from 2, and yet seen as the given class twice
    assert state.labels(batch, 3).item() == later
    state.remember(batch, iterates([[0, 0, 0]]))
    assert state.labels(batch, 4).item() == later
    assert state.changed.item() == (later != 0)


def test_the_given_label_is_tested_not_the_correction() -> None:
    """Under its correction a sample may stand every step: against the given label that is none, so it stays doubted."""
    state, batch = corrections(1, burn_in=0), some([0])
    for epoch in (2, 3, 4):
        state.remember(batch, iterates([[2, 2, 2]]))
        assert state.withstood.item() == 0
        assert state.labels(batch, epoch).item() == 2


@pytest.mark.parametrize("persistent", [False, True])
def test_a_correction_gives_way_to_another(persistent: bool) -> None:
    state, batch = corrections(1, burn_in=0, persistent=persistent), some([0])
    for seen in (2, 1):
        state.remember(batch, iterates([[seen, 0, seen]]))
        assert state.labels(batch, 2).item() == seen


@pytest.mark.parametrize("persistent", [False, True])
def test_a_state_dict_holds_what_was_seen_and_what_was_corrected(persistent: bool) -> None:
    state, batch = corrections(3, burn_in=0, persistent=persistent), some([0, 1, 2])
    state.remember(batch, iterates([[1, 1, 1], [1, 1, 1], [1, 2, 1]]))
    state.labels(some([0], index=[0]), 2)  # in the middle of an epoch
    state.remember(some([0], index=[0]), iterates([[0, 0, 0]]))
    again = corrections(3, burn_in=0, persistent=persistent)
    again.load_state_dict(state.state_dict())
    assert torch.equal(again.corrected(), state.corrected())
    assert again.labels(batch, 3).tolist() == state.labels(batch, 3).tolist() == [int(persistent), 1, 1]


def test_attack_and_loss_both_use_the_corrected_labels() -> None:
    model, batch = network(), samples()
    doubted = torch.arange(len(batch.y)) % 2 == 0
    corrected = torch.where(doubted, (batch.y + 1) % CLASSES, batch.y)
    attack = Played(batch.x, iterates(corrected[:, None].repeat(1, 4).tolist()), model)
    method = orat.RAA(burn_in=1)
    state = method.start(Setting(len(batch.y), len(batch.y), CLASSES, steps=1, epochs=2, attack_steps=4))
    losses = [method.loss(model, batch, attack, state, epoch).item() for epoch in (1, 2)]
    log_p = model(batch.x).log_softmax(1).tolist()
    for loss, attacked, used in zip(losses, attack.labels, (batch.y, corrected), strict=True):
        assert torch.equal(attacked, used)
        terms = [-row[label] for row, label in zip(log_p, used.tolist(), strict=True)]
        assert loss == pytest.approx(sum(terms) / len(terms))


def test_corrections_are_counted_and_judged_by_the_truth() -> None:
    """Given 0 1 2 0 with the truth 0 1 0 1: the last two are wrong."""
    images, given, truth = torch.zeros(4, 1), torch.tensor([0, 1, 2, 0]), torch.tensor([0, 1, 0, 1])
    train = Dataset(images, given, ("a", "b", "c"), truth)
    harmed_and_repaired = torch.tensor([0, 2, 0, 0])
    assert found_corrections(harmed_and_repaired, train) == {
        "changed": 2, "of": 4, "rightly": 1, "harmed": 1, "flipped": 2, "precision": 0.5, "recall": 0.5,
    }  # fmt: skip
    still_wrong_and_repaired = found_corrections(torch.tensor([0, 1, 1, 1]), train)
    assert [still_wrong_and_repaired[key] for key in ("changed", "rightly", "harmed")] == [2, 1, 0]
    assert found_corrections(given, train)["precision"] is None
    assert found_corrections(given, Dataset(images, given, ("a", "b", "c"))) == {"changed": 0, "of": 4}


def test_training_repairs_flipped_labels_and_says_how_many(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, orat.RAA(burn_in=8), noise="symmetric", noise_rate=0.3, epochs=16, milestones=(), eps=0.05)
    found = orat.train(run, tmp_path / "a", display=SILENT)["corrections"]
    data, used = prepare(run).train, RunFolder(tmp_path / "a").load_tensors("state")["used"]
    changed, right = used != data.labels, used == data.true_labels
    assert found["precision"] == pytest.approx((changed & right).sum().item() / changed.sum().item())
    assert found["precision"] > 0.9
    assert found["recall"] > 0.9
    assert right.float().mean() > 0.97  # where 0.7 were right before
