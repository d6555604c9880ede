"""Cut samples that surely are of another class, which are learned as samples of that one."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from planted_noise import CLASSES, flipped, truth
from planted_noise import logits as answers
from test_watching import no_attack, watch
from torch import Tensor

from orat.core.types import Batch
from orat.methods.automatic import Rule, Watch
from orat.noise.judge import judge

N = 2000
PAIRS = {0: 1, 1: 0, 2: 3}


@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["any class", "certain classes"])
@pytest.mark.parametrize("sharpness", [2.0, 3.0, 5.0])
def test_of_samples_that_are_said_to_be_of_another_class_as_many_are(
    pairs: dict[int, int] | None, sharpness: float
) -> None:
    true = truth(20_000)
    labels = flipped(true, 0.4, pairs=pairs)
    verdict = judge(answers(true, sharpness).log_softmax(1), labels)
    right = verdict.predicted == true
    groups = [
        (low, (verdict.confidence >= low) & (verdict.confidence < high))
        for low, high in pairwise((0.5, 0.8, 0.95, 1.01))
    ]
    large = [(low, those) for low, those in groups if those.sum() > 200]
    assert large
    for low, those in large:
        assert float(right[those].double().mean()) > low - 0.03
    assert verdict.confidence[verdict.predicted == labels].max() == 0


def test_most_of_the_wrong_labels_that_a_good_network_sees_through_are_corrected() -> None:
    true = truth(20_000)
    labels = flipped(true, 0.4)
    verdict = judge(answers(true, 6.0).log_softmax(1), labels)
    sure = verdict.confidence > 0.9
    assert int((sure & (labels != true)).sum()) > 0.8 * int((labels != true).sum())
    assert float((verdict.predicted[sure] == true[sure]).double().mean()) > 0.99


def test_a_class_that_a_second_witness_does_not_see_is_not_taken() -> None:
    true = truth(6000)
    labels = flipped(true, 0.3)
    first, second = answers(true, 6.0), answers(true, 8.0, seed=2)
    denied = torch.arange(6000) % 7 == 0
    second[denied] = 20 * torch.nn.functional.one_hot((true[denied] + 1) % CLASSES, CLASSES).float()
    alone, heard = (
        judge(given.log_softmax(-1), labels).confidence > 0.9 for given in (first, torch.stack([first, second]))
    )
    wrong = labels != true
    assert (alone & denied & wrong).sum() > 0.8 * (denied & wrong).sum()
    assert not (heard & denied).any()
    assert (heard & ~denied & wrong).sum() > 0.8 * (~denied & wrong).sum()


def labeled() -> tuple[Batch, Tensor]:
    """Samples of which every tenth has a wrong label, and the right labels."""
    true = truth(N, 2)
    wrong = torch.arange(N) % 10 == 3
    return Batch(torch.zeros(N, 1), torch.where(wrong, 1 - true, true), torch.arange(N)), true


def convinced(confidence: float, asked: str = "scout") -> Watch:
    """A watch whose scouts are through, and see which labels are wrong."""
    state = Watch(N, 2, asked, Rule("chance", 0.7, 1, confidence=confidence), watch(asked).scouting)
    batch, true = labeled()
    state.given.copy_(batch.y)
    state.answers.copy_(answers(true, 8.0, classes=2).log_softmax(1))
    state.epochs = state.ahead - 1
    state.end_epoch()
    return state


def are_most(those: Tensor, of: Tensor) -> bool:
    """Whether these are four fifths of the others at least, and nothing else."""
    return not (those & ~of).any() and int(those.sum()) > 0.8 * int(of.sum())


def test_samples_of_another_class_are_learned_as_such_and_counted_as_cut() -> None:
    state, (batch, true) = convinced(0.9), labeled()
    again = state.restored
    assert are_most(state.cut(), batch.y != true)
    assert are_most(again, batch.y != true)
    learned = state.relabeled(batch)
    assert torch.equal(learned.y, torch.where(again, true, batch.y))
    assert torch.equal(learned.x, batch.x)
    losses, used = torch.arange(N, dtype=torch.float64), ~state.cut() | again
    assert float(state(losses, torch.arange(N))) == pytest.approx(float(losses[used].mean()))
    state.epochs += 1
    corrected = state.corrected()
    assert corrected is not None
    assert torch.equal(corrected, learned.y)


def test_with_a_confidence_of_one_samples_are_cut_alone() -> None:
    state, (batch, true) = convinced(1.0), labeled()
    assert are_most(state.cut(), batch.y != true)
    assert not state.restored.any()
    assert state.corrected() is None
    losses = torch.arange(N, dtype=torch.float64)
    assert float(state(losses, torch.arange(N))) == pytest.approx(float(losses[~state.cut()].mean()))


def test_those_who_know_too_little_move_nothing_whatever_cuts() -> None:
    """By averaged losses, samples are cut even then; nothing says what else they are."""
    state = Watch(N, 2, "scout", Rule("loss", 0.7, 1, confidence=0.5), watch().scouting)
    batch, true = labeled()
    state.given.copy_(batch.y)
    state.mean_loss.copy_(torch.where(batch.y == true, 0.1, 5.0))
    state.answers.copy_(answers(true, 0.3, classes=2).log_softmax(1))
    state.epochs = state.ahead - 1
    state.end_epoch()
    assert float(state.known) < 0.5
    assert state.cut().any()
    assert not state.restored.any()


def test_where_the_network_is_a_witness_nothing_is_learned_anew_before_it_was_heard() -> None:
    state, (batch, true) = convinced(0.9, "both"), labeled()
    assert are_most(state.cut(), batch.y != true)
    assert not state.restored.any()
    state.watch(torch.nn.Identity(), batch, no_attack(), answers(true, 8.0, seed=3, classes=2))
    state.end_epoch()
    assert are_most(state.restored, batch.y != true)
