"""Labels corrected by the attack: conditions, burn-in, persistence and checkpoints."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
from one_step import Played, loss_of, network, samples, setting
from quick_runs import quick
from torch import Tensor, nn

from orat.core.console import SILENT
from orat.core.types import Batch
from orat.methods import RAA
from orat.methods.corrections import Corrections
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare
from orat.training.train import train

CLASSES = 3


def iterates(predicted: list[list[int]], confidence: float = 0.8) -> Tensor:
    """Logits (steps, n, classes) of attacks on samples, which are predicted as these classes at each step."""
    one_hot = nn.functional.one_hot(torch.tensor(predicted).T, CLASSES)
    return torch.where(one_hot == 1, confidence, (1 - confidence) / (CLASSES - 1)).log()


def batch_of(labels: list[int], ids: list[int] | None = None) -> Batch:
    """A batch of these labels; the images do not matter."""
    places = torch.arange(len(labels)) if ids is None else torch.tensor(ids)
    return Batch(torch.zeros(len(labels), 1), torch.tensor(labels), places)


def corrections(
    n: int, burn_in: int = 1, withstands: int = 1, confidence: float = 0.0, persistent: bool = False
) -> Corrections:
    """The state of a training without a step."""
    return Corrections(n, burn_in, withstands, confidence, persistent)


def test_during_the_burn_in_the_given_labels_are_learned() -> None:
    state, batch = corrections(2, burn_in=3), batch_of([0, 1])
    for epoch in (1, 2, 3):
        assert state.labels(batch, epoch).tolist() == [0, 1]
        state.remember(batch, iterates([[2, 2, 2], [0, 0, 0]]))
        assert not state.decision().flagged(batch.y).any()
    assert state.labels(batch, 4).tolist() == [2, 0]


@pytest.mark.parametrize("withstands", [0, 1, 2])
@pytest.mark.parametrize("least", [0.0, 0.7])
def test_a_label_is_corrected_where_it_fell_early_and_the_prediction_is_another_class_with_enough_confidence(
    withstands: int, least: float
) -> None:
    """Every attack of three points on a sample of label 1, with a first confidence of 0.6 or 0.8."""
    for confidence in (0.6, 0.8):
        attacks = [list(classes) for classes in product(range(CLASSES), repeat=3)]
        state, batch = corrections(27, 1, withstands, least), batch_of([1] * 27)
        state.labels(batch, 1)
        state.remember(batch, iterates(attacks, confidence))
        doubted = [seen.count(1) <= withstands and seen[0] != 1 and confidence >= least for seen in attacks]
        expected = [seen[0] if changes else 1 for seen, changes in zip(attacks, doubted, strict=True)]
        assert state.labels(batch, 2).tolist() == expected
        assert state.decision().keep is None
        assert state.decision().labels.tolist() == expected
        assert state.decision().flagged(batch.y).tolist() == doubted
        assert any(doubted) == (confidence >= least)


def test_a_sample_that_was_never_attacked_keeps_its_label() -> None:
    state = corrections(4, burn_in=0, withstands=100)
    assert state.labels(batch_of([1, 2]), 1).tolist() == [1, 2]
    state.remember(batch_of([1, 2]), iterates([[0], [0]]))
    assert state.labels(batch_of([1, 2, 1, 2]), 2).tolist() == [0, 0, 1, 2]


def test_the_memory_goes_by_the_id_of_a_sample_and_not_by_its_place_in_the_batch() -> None:
    state = corrections(4, burn_in=0)
    state.remember(batch_of([0, 1], ids=[3, 1]), iterates([[2, 2], [1, 1]]))
    assert state.labels(batch_of([1, 2, 0, 0], ids=[1, 2, 3, 0]), 2).tolist() == [1, 2, 2, 0]
    assert state.decision().labels.tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize(("persistent", "later"), [(False, 0), (True, 2)])
def test_a_correction_ends_once_the_given_label_stands_unless_it_is_persistent(persistent: bool, later: int) -> None:
    state, batch = corrections(1, burn_in=0, persistent=persistent), batch_of([0])
    state.remember(batch, iterates([[2, 2, 2]]))
    assert state.labels(batch, 2).item() == 2
    state.remember(batch, iterates([[0, 0, 2]]))  # attacked away from 2, and yet predicted as the given class twice
    assert state.labels(batch, 3).item() == later
    state.remember(batch, iterates([[0, 0, 0]]))
    assert state.labels(batch, 4).item() == later
    assert state.memory["changed"].item() == (later != 0)


def test_the_given_label_is_tested_and_not_the_correction() -> None:
    """A corrected sample that withstands every step as its new class still has a given label that stands at none."""
    state, batch = corrections(1, burn_in=0), batch_of([0])
    for epoch in (2, 3, 4):
        state.remember(batch, iterates([[2, 2, 2]]))
        assert state.memory["withstood"].item() == 0
        assert state.labels(batch, epoch).item() == 2


@pytest.mark.parametrize("persistent", [False, True])
def test_a_correction_gives_way_to_another(persistent: bool) -> None:
    state, batch = corrections(1, burn_in=0, persistent=persistent), batch_of([0])
    for seen in (2, 1):
        state.remember(batch, iterates([[seen, 0, seen]]))
        assert state.labels(batch, 2).item() == seen


@pytest.mark.parametrize("persistent", [False, True])
def test_a_state_dict_holds_the_attacks_and_the_corrections(persistent: bool) -> None:
    state, batch = corrections(3, burn_in=0, persistent=persistent), batch_of([0, 1, 2])
    state.remember(batch, iterates([[1, 1, 1], [1, 1, 1], [1, 2, 1]]))
    state.labels(batch_of([0], ids=[0]), 2)  # in the middle of an epoch
    state.remember(batch_of([0], ids=[0]), iterates([[0, 0, 0]]))
    again = corrections(3, burn_in=0, persistent=persistent)
    again.load_state_dict(state.state_dict())
    assert torch.equal(again.decision().labels, state.decision().labels)
    assert again.labels(batch, 3).tolist() == state.labels(batch, 3).tolist() == [int(persistent), 1, 1]


def test_attack_and_loss_use_the_corrected_labels() -> None:
    model, batch = network(), samples()
    doubted = torch.arange(len(batch.y)) % 2 == 0
    corrected = torch.where(doubted, (batch.y + 1) % CLASSES, batch.y)
    attack = Played(batch.x, iterates(corrected[:, None].repeat(1, 4).tolist()))
    method = RAA(burn_in=1)
    state = method.start(setting(batch, CLASSES))
    losses = [loss_of(method, model, batch, attack, state, epoch).item() for epoch in (1, 2)]
    log_p = model(batch.x).log_softmax(1).tolist()
    for loss, attacked, learned in zip(losses, attack.labels, (batch.y, corrected), strict=True):
        assert torch.equal(attacked, learned)
        terms = [-row[label] for row, label in zip(log_p, learned.tolist(), strict=True)]
        assert loss == pytest.approx(sum(terms) / len(terms))


def test_training_repairs_flipped_labels_and_counts_them(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, RAA(burn_in=8), noise="symmetric", noise_rate=0.3, epochs=16, milestones=(), eps=0.05)
    result = train(run, tmp_path / "a", display=SILENT)
    found, data, state = result["corrections"], prepare(run).train, RunFolder(tmp_path / "a").load_tensors("state")
    changed, right = state["labels"] != data.labels, state["labels"] == data.truth
    assert state["keep"].all()
    assert result["outliers"] is None
    assert found["precision"] == pytest.approx((changed & right).sum().item() / changed.sum().item())
    assert found["precision"] > 0.9
    assert found["recall"] > 0.9
    assert right.float().mean() > 0.97  # 0.7 of the given labels
