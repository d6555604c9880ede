"""Wrong labels from answers whose truth is planted: how many there are, which, and from where to where."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from orat.core.errors import InputError
from orat.noise import inject as noise
from orat.noise.judge import KNOWING, ahead, judge, rising, together, two_groups

CLASSES = 5


def answers(true: Tensor, sharpness: float, seed: int = 0, classes: int = CLASSES) -> Tensor:
    """Logits of a network that sees the truth through noise: the larger the sharpness, the better."""
    noise = torch.randn(len(true), classes, generator=torch.Generator().manual_seed(seed))
    return noise + sharpness * torch.nn.functional.one_hot(true, classes)


def truth(n: int, classes: int = CLASSES) -> Tensor:
    return torch.arange(n) % classes


def flipped(true: Tensor, rate: float, classes: int = CLASSES, pairs: dict[int, int] | None = None) -> Tensor:
    """Labels of which a share is wrong: any other class, or for some classes one certain other."""
    generator = torch.Generator().manual_seed(1)
    wrong = torch.rand(len(true), generator=generator) < rate
    if pairs is None:
        other = (true + 1 + torch.randint(classes - 1, (len(true),), generator=generator)) % classes
    else:
        goal = torch.tensor([pairs.get(label, label) for label in range(classes)])
        other = goal[true]
    return torch.where(wrong, other, true)


def area(score: Tensor, positive: Tensor) -> float:
    """The chance that a wrong label is ranked above a right one, ties counting half."""
    above = (score[positive][:, None] > score[~positive]).double().mean()
    equal = (score[positive][:, None] == score[~positive]).double().mean()
    return float(above + equal / 2)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.2, 0.4, 0.6])
def test_the_share_of_labels_flipped_to_any_class_is_found(rate: float) -> None:
    true = truth(6000)
    labels = flipped(true, rate)
    verdict = judge(answers(true, 6.0), labels)
    share = float((labels != true).double().mean())
    assert abs(verdict.rate - share) < 0.03
    assert abs(verdict.rate - share) < 4 * verdict.error + 0.01


@pytest.mark.parametrize("pairs", [{0: 1, 1: 0}, {2: 3}, {0: 1, 1: 2, 2: 3}], ids=str)
def test_the_share_of_labels_flipped_to_a_certain_class_is_found_and_so_is_the_way(pairs: dict[int, int]) -> None:
    """Chains too: class 1 then holds some of 0, and loses some to 2."""
    true = truth(6000)
    labels = flipped(true, 0.4, pairs=pairs)
    verdict = judge(answers(true, 6.0), labels)
    expected = torch.stack([torch.bincount(true[labels == a], minlength=CLASSES) for a in range(CLASSES)]).double()
    expected /= expected.sum(1, keepdim=True)
    assert (verdict.matrix - expected).abs().max() < 0.06
    assert abs(verdict.rate - float((labels != true).double().mean())) < 0.02


def test_rows_of_the_matrix_are_shares_and_give_the_rate() -> None:
    true = truth(3000)
    labels = flipped(true, 0.3)
    verdict = judge(answers(true, 4.0), labels)
    assert torch.allclose(verdict.matrix.sum(1), torch.ones(CLASSES, dtype=torch.float64))
    assert (verdict.matrix >= 0).all()
    sizes = torch.bincount(labels, minlength=CLASSES)
    assert verdict.rate == pytest.approx(1 - float((verdict.matrix.diagonal() * sizes).sum()) / len(labels))


def test_wrong_labels_have_a_high_chance_and_right_ones_a_low_one() -> None:
    true = truth(6000)
    labels = flipped(true, 0.3)
    verdict = judge(answers(true, 6.0), labels)
    wrong = labels != true
    assert area(verdict.suspicion, wrong) > 0.99
    cut = verdict.wrong > 0.5
    assert wrong[cut].double().mean() > 0.95
    assert cut[wrong].double().mean() > 0.9
    assert torch.equal(verdict.looks_like, answers(true, 6.0).argmax(1))


def test_chances_are_calibrated() -> None:
    """Of samples with a chance around a half, about half are wrong."""
    true = truth(40_000)
    labels = flipped(true, 0.4)
    verdict = judge(answers(true, 2.5), labels)
    wrong = (labels != true).double()
    for low, high in ((0.0, 0.1), (0.3, 0.7), (0.9, 1.01)):
        inside = (verdict.wrong >= low) & (verdict.wrong < high)
        assert inside.sum() > 500
        assert abs(float(wrong[inside].mean() - verdict.wrong[inside].mean())) < 0.1


def test_classes_of_unequal_confidence_are_ranked_together_better_than_by_loss() -> None:
    """Two classes are mixed up in 40 % of their labels, two look alike but are right: a loss cannot tell them apart."""
    true = truth(10_000)
    seen = answers(true, 5.0)
    seen[:, 2] += 3.5 * (true == 3)
    seen[:, 3] += 3.5 * (true == 2)
    labels = flipped(true, 0.4, pairs={0: 1, 1: 0})
    seen[:, 0] += 4.0 * (true == 1)
    seen[:, 1] += 4.0 * (true == 0)
    wrong = labels != true
    by_loss = area(-seen.log_softmax(1).gather(1, labels[:, None]).squeeze(1), wrong)
    assert area(judge(seen, labels).suspicion, wrong) > by_loss + 0.02


@pytest.mark.parametrize(("sharpness", "least", "most"), [(0.0, 0, 0.1), (0.6, 0.2, 0.4), (1.0, 0.3, 0.45)])
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_a_network_that_knows_little_is_known_to(sharpness: float, least: float, most: float, rate: float) -> None:
    """It takes right labels for wrong ones: the blind one four of five of them."""
    true = truth(10_000)
    verdict = judge(answers(true, sharpness, seed=5), flipped(true, rate))
    assert least <= verdict.knowledge <= most < KNOWING
    assert verdict.rate > rate


@pytest.mark.parametrize(("sharpness", "knowledge"), [(1.5, 0.54), (2.0, 0.70), (3.0, 0.91)])
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_one_that_may_judge_knows_as_much_whatever_is_wrong_and_leaves_right_labels_alone(
    sharpness: float, knowledge: float, rate: float
) -> None:
    true = truth(10_000)
    labels = flipped(true, rate)
    verdict = judge(answers(true, sharpness, seed=5), labels)
    assert verdict.knowledge == pytest.approx(knowledge, abs=0.04)
    assert abs(verdict.rate - float((labels != true).double().mean())) < 0.03
    if not rate:
        assert (verdict.wrong > 0.5).double().mean() < 0.003


def test_two_classes_will_do_and_small_classes_are_left_alone() -> None:
    true = truth(3000, 2)
    labels = flipped(true, 0.2, classes=2)
    assert abs(judge(answers(true, 6.0, classes=2), labels).rate - 0.2) < 0.03
    few = torch.cat([true, torch.full((5,), 2)])
    verdict = judge(answers(few, 6.0, classes=3), few)
    assert torch.equal(verdict.wrong[-5:], torch.zeros(5, dtype=torch.float64))
    assert verdict.rate < 0.01


def test_a_single_class_has_no_wrong_labels() -> None:
    verdict = judge(answers(torch.zeros(100, dtype=torch.int64), 3.0), torch.zeros(100, dtype=torch.int64))
    assert verdict.rate == 0
    assert not verdict.wrong.any()


def test_a_hundred_classes_with_few_samples_each() -> None:
    true = truth(10_000, 100)
    labels = flipped(true, 0.3, classes=100)
    verdict = judge(answers(true, 9.0, classes=100), labels)
    assert abs(verdict.rate - float((labels != true).double().mean())) < 0.05
    assert area(verdict.suspicion[:2000], (labels != true)[:2000]) > 0.97


def test_one_answer_a_label() -> None:
    with pytest.raises(InputError, match="3 answers to 4 labels"):
        judge(torch.zeros(3, 2), torch.zeros(4, dtype=torch.int64))


def test_the_threshold_between_two_groups_is_otsus() -> None:
    """Against a search over all thresholds by the variance between the groups."""
    values = torch.cat([torch.randn(300), 4 + torch.randn(100)]).double()

    def between(threshold: float) -> float:
        low, high = values[values <= threshold], values[values > threshold]
        return len(low) * len(high) * float(low.mean() - high.mean()) ** 2

    best = max(values.sort().values[:-1].tolist(), key=between)
    assert between(float(two_groups(values))) == pytest.approx(between(best))


def test_ahead_is_the_margin_of_the_best_other_class() -> None:
    seen = torch.tensor([[1.0, 3.0, 2.0], [5.0, 0.0, 1.0]])
    assert ahead(seen, torch.tensor([2, 0])).tolist() == [1.0, -4.0]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1)), min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_shares_made_to_rise_do_and_keep_their_weighted_mean(pairs: list[tuple[float, float]]) -> None:
    whole = torch.tensor([weight for _, weight in pairs], dtype=torch.float64)
    part = torch.tensor([share for share, _ in pairs], dtype=torch.float64) * whole
    result = rising(part, whole)
    assert (result.diff() >= -1e-12).all()
    assert float((result * whole).sum()) == pytest.approx(float(part.sum()))


def test_two_witnesses_count_as_one_that_saw_both() -> None:
    """By Bayes: of two independent looks at the same samples, the joint likelihood ratio is the product of both."""
    one, other, before = (torch.tensor(values) for values in ([0.2, 0.9, 0.5], [0.4, 0.5, 0.5], [0.3, 0.5, 0.1]))
    joined = together(one, other, before, torch.full_like(one, 1e-3), 1.0)
    for got, first, second, prior in zip(joined, one, other, before, strict=True):
        likelihoods = [(chance / prior, (1 - chance) / (1 - prior)) for chance in (first, second)]
        wrong, right = (
            prior * likelihoods[0][0] * likelihoods[1][0],
            (1 - prior) * likelihoods[0][1] * likelihoods[1][1],
        )
        assert got.item() == pytest.approx((wrong / (wrong + right)).item())


def test_two_small_doubts_where_hardly_any_label_is_wrong_make_no_large_one() -> None:
    small = torch.tensor([0.1])
    assert together(small, small, torch.tensor([0.002]), small / 100, 1.0).item() == pytest.approx(1 / 10, abs=1e-6)


def test_a_witness_counts_by_its_weight() -> None:
    one, other, before, doubt = (torch.tensor([value]) for value in (0.6, 0.1, 0.3, 1e-3))
    chances = [together(one, other, before, doubt, weight).item() for weight in (0.0, 0.5, 1.0)]
    assert chances[0] == pytest.approx(0.6)
    assert chances[0] > chances[1] > chances[2]
    assert math.log(chances[1] / (1 - chances[1])) == pytest.approx(
        sum(math.log(chance / (1 - chance)) for chance in chances[::2]) / 2, abs=1e-5
    )


def test_a_witness_that_knows_nothing_changes_nothing() -> None:
    true = truth(3000)
    seen, labels = answers(true, 3.0), flipped(true, 0.3)
    alone, joined = judge(seen, labels), judge(seen, labels, answers(true, 0.0, seed=1))
    sure = (alone.wrong > 0.1) & (alone.wrong < 0.9)
    torch.testing.assert_close(joined.wrong[sure], alone.wrong[sure])
    assert torch.equal(joined.wrong > 0.5, alone.wrong > 0.5)


def test_a_witness_that_saw_few_samples_does_not_clear_a_label_that_the_other_doubts() -> None:
    one, other, before = torch.tensor([0.9, 0.9]), torch.tensor([0.0, 1.0]), torch.tensor([0.2, 0.2])
    cleared, doubted = together(one, other, before, torch.full_like(one, 1e-3), 1.0).tolist()
    assert cleared < 0.05
    assert doubted > 0.99
    cleared, doubted = together(one, other, before, torch.full_like(one, 0.25), 1.0).tolist()
    assert cleared == pytest.approx(0.75)  # what the first says, as far as it is sure
    assert 0.9 < doubted < 0.98


@pytest.mark.parametrize(("n", "rate"), [(3000, 0.3), (6000, 0.2), (6000, 0.4)])
def test_the_estimate_is_not_low_where_samples_are_few(n: int, rate: float) -> None:
    """Over draws of the noise its mean is near the truth: no single threshold out of many decides."""
    true, errors = truth(n, 10), []
    for seed in range(8):
        labels = noise.symmetric(true, 10, rate, seed)
        seen = answers(true, 5.0, seed, classes=10)
        errors.append(judge(seen, labels).rate - float((labels != true).double().mean()))
    assert abs(sum(errors) / len(errors)) < 0.01
    assert max(abs(error) for error in errors) < 0.03


def test_a_second_witness_says_nothing_of_how_many_are_wrong() -> None:
    true = truth(3000)
    seen, labels = answers(true, 3.0), flipped(true, 0.3)
    alone, joined = judge(seen, labels), judge(seen, labels, answers(true, 0.0, seed=1))
    assert (joined.rate, joined.error, joined.knowledge) == (alone.rate, alone.error, alone.knowledge)
    assert torch.equal(joined.matrix, alone.matrix)


def test_a_second_witness_who_looks_for_himself_makes_the_ranking_better() -> None:
    true = truth(3000)
    seen, labels = answers(true, 2.5), flipped(true, 0.3)
    alone, joined = judge(seen, labels), judge(seen, labels, answers(true, 2.5, seed=1))
    wrong = labels != true
    assert area(joined.wrong, wrong) > area(alone.wrong, wrong) + 0.01
