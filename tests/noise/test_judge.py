"""Verdicts on planted label noise: noise rate, noise matrix, probabilities, flags, and refused inputs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from planted_noise import CLASSES, flipped, logits, truth
from torch import Tensor

from orat.core.errors import InputError
from orat.noise import inject as noise
from orat.noise.judge import RELIABLE, Verdict, combine, judge, limited, margin


def log_probs(true: Tensor, sharpness: float, seed: int = 0, classes: int = CLASSES) -> Tensor:
    """Predictions of a network that sees the truth through noise."""
    return logits(true, sharpness, seed, classes).log_softmax(1)


def area(score: Tensor, positive: Tensor) -> float:
    """The probability that a wrong label is ranked above a right one, ties counting half."""
    above = (score[positive][:, None] > score[~positive]).double().mean()
    equal = (score[positive][:, None] == score[~positive]).double().mean()
    return float(above + equal / 2)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.2, 0.4, 0.6])
def test_the_share_of_labels_flipped_to_any_class_is_found(rate: float) -> None:
    true = truth(6000)
    labels = flipped(true, rate)
    verdict = judge(log_probs(true, 6.0), labels)
    share = float((labels != true).double().mean())
    assert abs(verdict.noise_rate - share) < 0.03
    assert abs(verdict.noise_rate - share) < 4 * verdict.error + 0.01


@pytest.mark.parametrize("pairs", [{0: 1, 1: 0}, {2: 3}, {0: 1, 1: 2, 2: 3}], ids=str)
def test_the_share_of_labels_flipped_to_a_certain_class_is_found_and_so_is_the_matrix(pairs: dict[int, int]) -> None:
    """In a chain, class 1 gains samples of class 0 and loses samples to class 2."""
    true = truth(6000)
    labels = flipped(true, 0.4, pairs=pairs)
    verdict = judge(log_probs(true, 6.0), labels)
    expected = torch.stack([torch.bincount(true[labels == a], minlength=CLASSES) for a in range(CLASSES)]).double()
    expected /= expected.sum(1, keepdim=True)
    assert (verdict.noise_matrix - expected).abs().max() < 0.06
    assert abs(verdict.noise_rate - float((labels != true).double().mean())) < 0.02


def test_rows_of_the_matrix_are_shares_and_give_the_rate() -> None:
    true = truth(3000)
    labels = flipped(true, 0.3)
    verdict = judge(log_probs(true, 4.0), labels)
    assert torch.allclose(verdict.noise_matrix.sum(1), torch.ones(CLASSES, dtype=torch.float64))
    assert (verdict.noise_matrix >= 0).all()
    sizes = torch.bincount(labels, minlength=CLASSES)
    assert verdict.noise_rate == pytest.approx(1 - float((verdict.noise_matrix.diagonal() * sizes).sum()) / len(labels))


def test_chances_of_given_labels_are_those_counted_with_the_right_classes() -> None:
    true = truth(6000)
    labels = flipped(true, 0.4, pairs={0: 1, 1: 2, 2: 3})
    found = judge(log_probs(true, 6.0), labels).transition()
    expected = torch.stack([torch.bincount(labels[true == a], minlength=CLASSES) for a in range(CLASSES)]).double()
    assert (found - expected / expected.sum(1, keepdim=True)).abs().max() < 0.06
    torch.testing.assert_close(found.sum(1), torch.ones(CLASSES, dtype=torch.float64))


def test_a_wrong_label_has_at_most_85_percent_of_the_chance_of_the_right_one() -> None:
    true = truth(3000)
    verdict = judge(log_probs(true, 6.0), flipped(true, 0.2))
    swapped = replace(verdict, noise_matrix=torch.eye(CLASSES).double().roll(1, 1))
    found = swapped.transition()
    assert found.sum(1).tolist() == pytest.approx([1] * CLASSES)
    assert (found / found.diagonal()[:, None] - torch.eye(CLASSES)).max().item() == pytest.approx(0.85)


def test_classes_without_a_label_are_given_their_own() -> None:
    true = truth(3000).clamp(max=CLASSES - 2)
    assert judge(log_probs(true, 6.0), flipped(true, 0.0)).transition()[CLASSES - 1, CLASSES - 1] == 1


def test_wrong_labels_have_a_high_probability_and_right_labels_a_low_one() -> None:
    true = truth(6000)
    labels = flipped(true, 0.3)
    verdict = judge(log_probs(true, 6.0), labels)
    wrong = labels != true
    assert area(verdict.score, wrong) > 0.99
    cut = verdict.p_wrong > 0.5
    assert wrong[cut].double().mean() > 0.95
    assert cut[wrong].double().mean() > 0.9
    assert torch.equal(verdict.predicted, log_probs(true, 6.0).argmax(1))


def test_probabilities_are_calibrated() -> None:
    """About half of the labels with a probability around one half are wrong."""
    true = truth(40_000)
    labels = flipped(true, 0.4)
    verdict = judge(log_probs(true, 2.5), labels)
    wrong = (labels != true).double()
    for low, high in ((0.0, 0.1), (0.3, 0.7), (0.9, 1.01)):
        inside = (verdict.p_wrong >= low) & (verdict.p_wrong < high)
        assert inside.sum() > 500
        assert abs(float(wrong[inside].mean() - verdict.p_wrong[inside].mean())) < 0.1


def test_classes_of_unequal_confidence_are_ranked_together_better_than_by_loss() -> None:
    """Two classes have 40 % wrong labels, two others look alike with right labels; a loss does not separate them."""
    true = truth(10_000)
    seen = log_probs(true, 5.0)
    seen[:, 2] += 3.5 * (true == 3)
    seen[:, 3] += 3.5 * (true == 2)
    labels = flipped(true, 0.4, pairs={0: 1, 1: 0})
    seen[:, 0] += 4.0 * (true == 1)
    seen[:, 1] += 4.0 * (true == 0)
    wrong = labels != true
    by_loss = area(-seen.log_softmax(1).gather(1, labels[:, None]).squeeze(1), wrong)
    assert area(judge(seen.log_softmax(1), labels).score, wrong) > by_loss + 0.02


@pytest.mark.parametrize(("sharpness", "least", "most"), [(0.0, 0, 0.1), (0.6, 0.15, 0.4), (1.0, 0.3, 0.45)])
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_the_reliability_of_a_poor_network_is_low(sharpness: float, least: float, most: float, rate: float) -> None:
    """A poor network doubts right labels: with random predictions, four of five."""
    true = truth(10_000)
    verdict = judge(log_probs(true, sharpness, seed=5), flipped(true, rate))
    assert least <= verdict.reliability <= most < RELIABLE
    assert not verdict.flagged().any()


@pytest.mark.parametrize(("sharpness", "reliability"), [(1.5, 0.54), (2.0, 0.70), (3.0, 0.91)])
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_reliability_does_not_depend_on_the_noise_and_a_reliable_network_doubts_few_right_labels(
    sharpness: float, reliability: float, rate: float
) -> None:
    true = truth(10_000)
    labels = flipped(true, rate)
    verdict = judge(log_probs(true, sharpness, seed=5), labels)
    assert verdict.reliability == pytest.approx(reliability, abs=0.05)
    assert abs(verdict.noise_rate - float((labels != true).double().mean())) < 0.03
    if not rate:
        assert (verdict.p_wrong > 0.5).double().mean() < 0.003


def test_two_classes_suffice_and_small_classes_have_no_wrong_labels() -> None:
    true = truth(3000, 2)
    labels = flipped(true, 0.2, classes=2)
    assert abs(judge(log_probs(true, 6.0, classes=2), labels).noise_rate - 0.2) < 0.03
    few = torch.cat([true, torch.full((5,), 2)])
    verdict = judge(log_probs(few, 6.0, classes=3), few)
    assert torch.equal(verdict.p_wrong[-5:], torch.zeros(5, dtype=torch.float64))
    assert verdict.noise_rate < 0.01


def test_a_single_class_has_no_wrong_labels() -> None:
    verdict = judge(log_probs(torch.zeros(100, dtype=torch.int64), 3.0), torch.zeros(100, dtype=torch.int64))
    assert verdict.noise_rate == 0
    assert not verdict.p_wrong.any()


def test_a_hundred_classes_with_few_samples_each() -> None:
    true = truth(10_000, 100)
    labels = flipped(true, 0.3, classes=100)
    verdict = judge(log_probs(true, 9.0, classes=100), labels)
    assert abs(verdict.noise_rate - float((labels != true).double().mean())) < 0.05
    assert area(verdict.score[:2000], (labels != true)[:2000]) > 0.97


UNIFORM = torch.full((4, 2), 0.5)
LABELS = torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("log_probs", "labels", "words"),
    [
        (UNIFORM[:3].log(), LABELS, "3 predictions for 4 labels"),
        (UNIFORM[:, 0].log(), LABELS, "shape (4,)"),
        (UNIFORM[:, :1].log(), LABELS, "at least 2 classes"),
        (UNIFORM.log().expand(1, 3, 4, 2), LABELS, "shape (1, 3, 4, 2)"),
        (UNIFORM.log().expand(0, 4, 2), LABELS, "shape (0, 4, 2)"),
        (UNIFORM[:0].log(), LABELS[:0], "0 predictions for 0 labels"),
        (UNIFORM.log(), LABELS + 1, "labels from 1 to 2 for 2 classes"),
        (UNIFORM.log(), LABELS.double(), "labels are torch.float64 of shape (4,): give one class index per sample"),
        (UNIFORM.log(), UNIFORM.long(), "labels are torch.int64 of shape (4, 2)"),
        (UNIFORM.log(), np.array(list("abab")), "labels are no numbers"),
        (UNIFORM.log().index_fill(0, torch.tensor([1, 3]), torch.nan), LABELS, "NaN in 2 rows"),
        (UNIFORM, LABELS, "log_probs are probabilities (rows sum to 1): give their logarithm"),
        (torch.tensor([[5.0, -1.0]]).expand(4, 2), LABELS, "log_probs are logits (a row sums to 149 after exp"),
        (2 * UNIFORM.log(), LABELS, "a row sums to 0.5 after exp, not to 1): give .log_softmax(-1)"),
    ],
)
def test_anything_but_log_probabilities_is_refused_in_one_line(log_probs: Tensor, labels: Tensor, words: str) -> None:
    with pytest.raises(InputError) as error:
        judge(log_probs, labels)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_probability_of_zero_is_accepted_and_counts_as_a_tiny_one() -> None:
    true = truth(3000)
    labels, seen = flipped(true, 0.3), log_probs(true, 6.0)
    certain = torch.arange(3000) % 5 == 0
    seen[certain] = torch.nn.functional.one_hot(true[certain], CLASSES).float().log()
    verdict = judge(seen, labels)
    assert verdict.p_wrong.isfinite().all()
    assert verdict.score.isfinite().all()
    assert (verdict.flagged() == (labels != true))[certain].double().mean() > 0.95


def verdict_with(p_wrong: Tensor, noise: tuple[float, float], reliability: float = 0.9) -> Verdict:
    """A verdict on ten labels of class 0 and six of class 1, ranked by p_wrong."""
    labels = torch.tensor([0] * 10 + [1] * 6)
    return Verdict(
        labels=labels,
        p_wrong=p_wrong,
        score=p_wrong,
        predicted=1 - labels,
        others=torch.eye(2)[1 - labels],
        noise_matrix=torch.tensor([[1 - noise[0], noise[0]], [noise[1], 1 - noise[1]]], dtype=torch.float64),
        noise_rate=0.2,
        error=0.15,
        reliability=reliability,
    )


def test_flags_are_doubted_labels_of_no_class_more_than_half_unless_more_are_estimated_wrong() -> None:
    p_wrong = torch.tensor([0.9, 0.8, *[0.4] * 8, *[0.6 + 0.05 * i for i in range(6)]], dtype=torch.float64)
    assert verdict_with(p_wrong, (0.1, 0.3)).flagged().nonzero().flatten().tolist() == [0, 1, 13, 14, 15]
    assert verdict_with(p_wrong, (0.9, 0.7)).flagged().nonzero().flatten().tolist() == [0, 1, 12, 13, 14, 15]
    assert verdict_with(p_wrong, (0.1, 0.3)).flagged(0.82).nonzero().flatten().tolist() == [0, 15]


def test_unreliable_predictions_flag_no_label() -> None:
    p_wrong = torch.full((16,), 0.9, dtype=torch.float64)
    assert not verdict_with(p_wrong, (0.9, 0.9), RELIABLE - 0.01).flagged().any()
    assert verdict_with(p_wrong, (0.9, 0.9), RELIABLE).flagged().any()


def test_a_probability_of_one_half_but_for_rounding_flags_no_label() -> None:
    p_wrong = torch.full((16,), 0.5 + 1e-16 * 2, dtype=torch.float64)
    assert (p_wrong > 0.5).all()
    assert not verdict_with(p_wrong, (0.9, 0.9)).flagged().any()


def test_a_verdict_survives_a_file_of_tensors() -> None:
    true = truth(1000)
    verdict = judge(log_probs(true, 3.0), flipped(true, 0.3))
    tensors = verdict.tensors()
    assert "labels" not in tensors
    again = Verdict.of(verdict.labels, tensors)
    for name, value in vars(verdict).items():
        assert torch.equal(torch.as_tensor(getattr(again, name)), torch.as_tensor(value))
    assert isinstance(again.noise_rate, float)
    assert again.flagged().equal(verdict.flagged())


def test_the_interval_is_two_errors_wide_and_lies_within_0_and_1() -> None:
    assert verdict_with(torch.zeros(16), (0.1, 0.1)).interval == (0.0, pytest.approx(0.494))


def test_a_limited_class_keeps_the_flags_with_the_highest_scores() -> None:
    flags, score = torch.ones(6, dtype=torch.bool), torch.tensor([1.0, 5.0, 2.0, 4.0, 3.0, 0.0])
    kept = limited(flags, score, torch.zeros(6, dtype=torch.int64), torch.tensor([0.2]))
    assert kept.tolist() == [False, True, False, True, True, False]
    assert flags.all()


def test_the_margin_is_that_of_the_best_other_class() -> None:
    seen = torch.tensor([[1.0, 3.0, 2.0], [5.0, 0.0, 1.0]])
    assert margin(seen, torch.tensor([2, 0])).tolist() == [1.0, -4.0]


def test_two_independent_networks_multiply_their_likelihood_ratios() -> None:
    """Bayes' rule: the joint likelihood ratio of two independent predictions is the product of both."""
    one, other, before = (torch.tensor(values) for values in ([0.2, 0.9, 0.5], [0.4, 0.5, 0.5], [0.3, 0.5, 0.1]))
    joined = combine(one, other, before, torch.full_like(one, 1e-3), 1.0)
    for got, first, second, prior in zip(joined, one, other, before, strict=True):
        likelihoods = [(chance / prior, (1 - chance) / (1 - prior)) for chance in (first, second)]
        wrong, right = (
            prior * likelihoods[0][0] * likelihoods[1][0],
            (1 - prior) * likelihoods[0][1] * likelihoods[1][1],
        )
        assert got.item() == pytest.approx((wrong / (wrong + right)).item())


def test_two_small_doubts_where_hardly_any_label_is_wrong_make_no_large_one() -> None:
    small = torch.tensor([0.1])
    assert combine(small, small, torch.tensor([0.002]), small / 100, 1.0).item() == pytest.approx(1 / 10, abs=1e-6)


def test_the_second_network_counts_by_its_weight() -> None:
    one, other, before, doubt = (torch.tensor([value]) for value in (0.6, 0.1, 0.3, 1e-3))
    chances = [combine(one, other, before, doubt, weight).item() for weight in (0.0, 0.5, 1.0)]
    assert chances[0] == pytest.approx(0.6)
    assert chances[0] > chances[1] > chances[2]
    assert math.log(chances[1] / (1 - chances[1])) == pytest.approx(
        sum(math.log(chance / (1 - chance)) for chance in chances[::2]) / 2, abs=1e-5
    )


def test_a_second_network_without_reliability_changes_nothing() -> None:
    true = truth(3000)
    seen, labels = log_probs(true, 3.0), flipped(true, 0.3)
    alone, joined = judge(seen, labels), judge(seen, labels, log_probs(true, 0.0, seed=1))
    sure = (alone.p_wrong > 0.1) & (alone.p_wrong < 0.9)
    torch.testing.assert_close(joined.p_wrong[sure], alone.p_wrong[sure])
    assert torch.equal(joined.p_wrong > 0.5, alone.p_wrong > 0.5)


def test_a_network_with_few_samples_does_not_clear_a_label_doubted_by_the_other() -> None:
    one, other, before = torch.tensor([0.9, 0.9]), torch.tensor([0.0, 1.0]), torch.tensor([0.2, 0.2])
    cleared, doubted = combine(one, other, before, torch.full_like(one, 1e-3), 1.0).tolist()
    assert cleared < 0.05
    assert doubted > 0.99
    cleared, doubted = combine(one, other, before, torch.full_like(one, 0.25), 1.0).tolist()
    assert cleared == pytest.approx(0.75)  # the bound of the first probability
    assert 0.9 < doubted < 0.98


@pytest.mark.parametrize(("n", "rate"), [(3000, 0.3), (6000, 0.2), (6000, 0.4)])
def test_the_estimate_is_not_low_where_samples_are_few(n: int, rate: float) -> None:
    """The mean error over draws of the noise is near zero."""
    true, errors = truth(n, 10), []
    for seed in range(8):
        labels = noise.symmetric(true, 10, rate, seed)
        seen = log_probs(true, 5.0, seed, classes=10)
        errors.append(judge(seen, labels).noise_rate - float((labels != true).double().mean()))
    assert abs(sum(errors) / len(errors)) < 0.01
    assert max(abs(error) for error in errors) < 0.03


def test_the_second_network_does_not_change_the_noise_rate() -> None:
    true = truth(3000)
    seen, labels = log_probs(true, 3.0), flipped(true, 0.3)
    alone, joined = judge(seen, labels), judge(seen, labels, log_probs(true, 0.0, seed=1))
    assert (joined.noise_rate, joined.error, joined.reliability) == (alone.noise_rate, alone.error, alone.reliability)
    assert torch.equal(joined.noise_matrix, alone.noise_matrix)


def test_an_independent_second_network_improves_the_ranking() -> None:
    true = truth(3000)
    seen, labels = log_probs(true, 2.5), flipped(true, 0.3)
    alone, joined = judge(seen, labels), judge(seen, labels, log_probs(true, 2.5, seed=1))
    wrong = labels != true
    assert area(joined.p_wrong, wrong) > area(alone.p_wrong, wrong) + 0.01
