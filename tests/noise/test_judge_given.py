"""Verdicts on several sets of predictions, on the same predictions in another form, and on given predictions."""

from __future__ import annotations

from pathlib import Path

import judging
import pytest
import torch
from planted_noise import CLASSES, flipped, logits, truth
from torch import Tensor

from orat.core.errors import InputError
from orat.noise.judge import Verdict, judge
from orat.noise.truth import area

N = 3000
TRUE = truth(N)
LABELS = flipped(TRUE, 0.3)
SEEN = logits(TRUE, 2.5).double().log_softmax(1)
OTHER = logits(TRUE, 2.5, seed=1).double().log_softmax(1)


@pytest.fixture(scope="module")
def alone() -> Verdict:
    """The verdict by one set of predictions."""
    return judge(SEEN, LABELS)


def agreement(one: Tensor, other: Tensor) -> float:
    return float((one == other).double().mean())


def test_two_independent_sets_are_better_than_one(alone: Verdict) -> None:
    both = judge(torch.stack([SEEN, OTHER]), LABELS)
    wrong = LABELS != TRUE
    scores = [(area(one.score, wrong), judging.f1(one.flagged(), wrong)) for one in (alone, both)]
    assert scores[1][0] > scores[0][0] + 0.01
    assert scores[1][1] > scores[0][1] + 0.02
    assert both.reliability > alone.reliability
    assert abs(both.noise_rate - 0.3) < 0.03


def test_a_set_of_its_own_is_judged_as_without_sets(alone: Verdict) -> None:
    assert torch.equal(judge(SEEN[None], LABELS).p_wrong, alone.p_wrong)


def test_the_order_of_samples_does_not_matter_where_all_are_fitted(alone: Verdict) -> None:
    order = torch.randperm(N, generator=torch.Generator().manual_seed(2))
    moved = judge(SEEN[order], LABELS[order])
    torch.testing.assert_close(moved.p_wrong, alone.p_wrong[order], atol=1e-3, rtol=0)
    assert moved.noise_rate == pytest.approx(alone.noise_rate, abs=1e-4)


def test_the_names_of_classes_do_not_matter(alone: Verdict) -> None:
    names = torch.tensor([3, 0, 4, 1, 2])
    moved = judge(torch.empty_like(SEEN).index_copy(1, names, SEEN), names[LABELS])
    torch.testing.assert_close(moved.p_wrong, alone.p_wrong, atol=1e-3, rtol=0)
    torch.testing.assert_close(moved.noise_matrix[names][:, names], alone.noise_matrix, atol=1e-3, rtol=0)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_temperature_of_predictions_hardly_matters(alone: Verdict, temperature: float) -> None:
    other = judge((SEEN / temperature).log_softmax(1), LABELS)
    assert agreement(other.flagged(), alone.flagged()) > 0.99
    assert other.noise_rate == pytest.approx(alone.noise_rate, abs=0.01)


@pytest.mark.parametrize("shape", [(N - 1, CLASSES), (N, CLASSES - 1), (2, N, CLASSES)])
def test_a_witness_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="give the shape"):
        judge(SEEN, LABELS, torch.zeros(shape).log_softmax(-1))


def test_labels_of_people_in_the_order_of_the_file_are_judged_as_well_as_the_weak_network_allows(
    human_dir: Path,
) -> None:
    """In the order of the file. In five of six random orders, the estimate is 14 to 15 % and F1 0.73 to 0.75."""
    (given,) = judging.read(human_dir / "cifar10-human.npz")
    row = judging.compared(given)
    assert row["f1"] >= 0.77
    assert row["f1"] >= row["cleanlab_f1"]
    assert abs(row["estimate"] - row["wrong"]) < 0.03
    assert row["covered"]


@pytest.mark.parametrize("name", ["script-middling", "script-strong", "human-middling", "human-strong"])
def test_labels_are_judged_as_well_as_a_strong_network_allows(human_dir: Path, name: str) -> None:
    given = next(one for one in judging.read(human_dir / "strong-networks.npz") if one.name == name)
    verdict = judge(given.sets, given.labels)
    best = judging.best_f1(verdict.score, given.wrong)
    assert judging.f1(verdict.flagged(), given.wrong) > best - 0.02
    assert (
        abs(verdict.noise_rate - float(given.wrong.double().mean())) < 0.04
    )  # human-strong: 0.029; 0.054 in a random order
