"""Label noise moves the exact number of labels, in the right classes, and keeps the true labels."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orat.core.errors import InputError
from orat.core.options import field_types
from orat.data.source import Dataset, relabel
from orat.noise import inject as noise
from orat.training.run import Run
from orat.training.setup import with_noise

MNIST = tuple("0123456789")
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def balanced(classes: int, each: int) -> torch.Tensor:
    order = torch.randperm(classes * each, generator=torch.Generator().manual_seed(1))
    return torch.arange(classes).repeat_interleave(each)[order]


def moves(before: torch.Tensor, after: torch.Tensor) -> dict[tuple[int, int], int]:
    """The number of labels moved from each class to each other class."""
    changed = before != after
    pairs = zip(before[changed].tolist(), after[changed].tolist(), strict=True)
    counts: dict[tuple[int, int], int] = {}
    for pair in pairs:
        counts[pair] = counts.get(pair, 0) + 1
    return counts


@settings(deadline=None, max_examples=60)
@given(classes=st.integers(2, 12), each=st.integers(1, 40), percent=st.integers(0, 99), seed=st.integers(0, 2**31))
def test_symmetric_moves_the_exact_count_of_each_class_and_never_to_itself(classes, each, percent, seed):
    labels = balanced(classes, each)
    kept = labels.clone()
    noisy = noise.symmetric(labels, classes, percent / 100, seed)
    for source in range(classes):
        assert (noisy[labels == source] != source).sum() == percent * each // 100  # the decimal rate, in integers
    assert torch.equal(labels, kept)
    assert noisy.dtype == torch.int64
    assert noisy.min() >= 0
    assert noisy.max() < classes


def test_three_tenths_of_600_are_180():
    labels = balanced(10, 600)
    assert (noise.symmetric(labels, 10, 0.3, 0) != labels).sum() == 1800


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "asymmetric-authors", "instance"])
def test_equal_seeds_give_equal_labels_and_other_seeds_others(kind):
    labels = balanced(100, 20)
    inputs = torch.rand(2000, 1, 2, 3)

    def change(rate, seed):
        return noise.inject(kind, labels, noise.CIFAR100, rate, seed, inputs)

    assert torch.equal(change(0.4, 5), change(0.4, 5))
    assert not torch.equal(change(0.4, 5), change(0.4, 6))
    assert torch.equal(labels, change(0.0, 5))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_instance_noise_flips_about_the_rate_of_all_classes_and_never_to_itself(rate):
    labels = balanced(10, 2000)
    noisy = noise.instance_dependent(torch.rand(20_000, 1, 4, 4), labels, 10, rate, 0)
    shares = [(noisy[labels == source] != source).double().mean().item() for source in range(10)]
    # Around a rate of 0.1, cutting the normal distribution at 0 raises its mean: by 0.1 times the hazard at -1.
    expected = rate + 0.1 * 0.2876 if rate == 0.1 else rate
    assert sum(shares) / 10 == pytest.approx(expected, abs=0.01)
    assert max(abs(share - expected) for share in shares) < 0.05


def test_instance_noise_sends_alike_samples_to_the_same_class():
    """Equal images as bytes and as floats get equal labels; two images flip to a class each."""
    images = torch.randint(0, 256, (2, 1, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    labels = torch.zeros(4000, dtype=torch.int64)
    many = images.repeat(2000, 1, 1, 1)
    noisy = with_noise(Dataset(many, labels, MNIST), "instance", 0.5, 3).labels
    assert torch.equal(noisy, noise.instance_dependent(many.float() / 255, labels, 10, 0.5, 3))
    for which in (0, 1):
        flipped = noisy[which::2][noisy[which::2] != 0]
        assert flipped.bincount().max() / len(flipped) > 0.5
    assert noisy[noisy != 0].unique().numel() > 1


def test_noise_leaves_the_global_random_state_alone():
    before = torch.get_rng_state()
    noise.symmetric(balanced(10, 20), 10, 0.4, 0)
    noise.asymmetric(balanced(100, 5), noise.CIFAR100, 0.4, 0)
    assert torch.equal(before, torch.get_rng_state())


def test_symmetric_targets_are_uniform_over_the_other_classes():
    labels = balanced(10, 4000)
    counts = moves(labels, noise.symmetric(labels, 10, 0.45, 3))
    assert len(counts) == 90
    expected = 1800 / 9
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_square < 130  # 80 degrees of freedom: 0.03 % of uniform draws exceed it


def test_symmetric_refuses_a_class_that_is_too_small():
    labels = torch.tensor([0] * 9 + [1])
    with pytest.raises(InputError, match=r"class 1 has 1 samples, but symmetric noise of rate 0.4 moves 2"):
        noise.symmetric(labels, 2, 0.4, 0)
    with pytest.raises(InputError, match="got 1 classes"):
        noise.symmetric(torch.zeros(3, dtype=torch.int64), 1, 0.4, 0)


@pytest.mark.parametrize(
    ("class_names", "expected"),
    [
        (MNIST, {(7, 1), (2, 7), (3, 8), (5, 6), (6, 5)}),
        (CIFAR10, {(9, 1), (2, 0), (4, 7), (3, 5), (5, 3)}),  # the ids of the authors' code
    ],
)
@pytest.mark.parametrize("grouping", ["true", "authors"])
def test_asymmetric_flips_those_of_the_paper_to_the_exact_count(class_names, expected, grouping):
    labels = balanced(10, 50)
    noisy = noise.asymmetric(labels, class_names, 0.3, 0, grouping)
    assert moves(labels, noisy) == dict.fromkeys(expected, 15)


def test_asymmetric_follows_the_names_and_not_the_order():
    labels = balanced(10, 50)
    noisy = noise.asymmetric(labels, CIFAR10[::-1], 0.3, 0)
    assert set(moves(labels, noisy)) == {(0, 8), (7, 9), (5, 2), (6, 4), (4, 6)}


@settings(deadline=None, max_examples=30)
@given(counts=st.lists(st.integers(0, 30), min_size=10, max_size=10), percent=st.integers(0, 99))
def test_asymmetric_rounds_down_in_every_source_class(counts, percent):
    labels = torch.arange(10).repeat_interleave(torch.tensor(counts))
    noisy = noise.asymmetric(labels, MNIST, percent / 100, 0)
    flips = {7: 1, 2: 7, 3: 8, 5: 6, 6: 5}
    expected = {(a, b): percent * counts[a] // 100 for a, b in flips.items()}
    assert moves(labels, noisy) == {pair: count for pair, count in expected.items() if count}


@pytest.mark.parametrize("grouping", ["true", "authors"])
def test_cifar100_swaps_one_pair_in_each_group(grouping):
    labels = balanced(100, 50)
    noisy = noise.asymmetric(labels, noise.CIFAR100, 0.4, 2, grouping)
    assert (noisy != labels).float().mean() == pytest.approx(0.4 * 0.4)
    counts = moves(labels, noisy)
    assert set(counts.values()) == {20}
    assert {(b, a) for a, b in counts} == set(counts)
    groups = [{noise.CIFAR100.index(name) for name in group} for group in noise.GROUPINGS[grouping]]
    assert [sum({a, b} <= group for a, b in counts) for group in groups] == [2] * 20


def test_authors_groups_are_five_consecutive_ids():
    noisy = noise.asymmetric(torch.arange(100).repeat(10), noise.CIFAR100, 0.5, 2, "authors")
    assert all(a // 5 == b // 5 for a, b in moves(torch.arange(100).repeat(10), noisy))


@pytest.mark.parametrize("grouping", ["true", "authors"])
def test_groups_cover_each_of_the_100_classes_once(grouping):
    groups = noise.GROUPINGS[grouping]
    assert [len(group) for group in groups] == [5] * 20
    assert len({name for group in groups for name in group}) == 100


def test_asymmetric_refuses_what_it_does_not_know():
    labels = torch.tensor([0, 1, 0, 1])
    with pytest.raises(InputError, match=r"MNIST, CIFAR-10 and CIFAR-100 only, got 2 classes ant, bee.*in a file"):
        noise.asymmetric(labels, ("ant", "bee"), 0.2, 0)
    with pytest.raises(InputError, match="unknown grouping 'author': did you mean 'authors'"):
        noise.asymmetric(labels, MNIST, 0.2, 0, "author")


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan")])
@pytest.mark.parametrize("kind", noise.NOISES)
def test_rates_outside_0_to_1_are_refused(kind, rate):
    with pytest.raises(InputError, match=f"noise rate is {rate}"):
        with_noise(dataset(), kind, rate, 0)


def dataset(true_labels: torch.Tensor | None = None) -> Dataset:
    images = torch.zeros(100, 1, 2, 2, dtype=torch.uint8)
    return Dataset(images, balanced(10, 10), MNIST, true_labels)


def test_apply_keeps_the_truth():
    clean = dataset()
    noisy = with_noise(clean, "symmetric", 0.3, 0)
    assert noisy.truth is clean.labels
    assert noisy.wrong.sum() == 30
    again = with_noise(noisy, "asymmetric", 0.4, 0)
    assert again.truth is clean.labels
    assert clean.truth is None
    assert torch.equal(noisy.labels, noise.symmetric(clean.labels, 10, 0.3, 0))


def test_no_noise_does_not_vouch_for_the_labels():
    assert with_noise(dataset(), "none", 0.0, 0).truth is None
    with pytest.raises(InputError, match=r"noise 'none' with rate 0.3"):
        with_noise(dataset(), "none", 0.3, 0)


def test_instance_noise_without_inputs_is_refused():
    with pytest.raises(InputError, match="instance noise depends on the inputs"):
        noise.inject("instance", balanced(10, 10), MNIST, 0.3, 0)


def test_unknown_noise_names_the_nearest():
    with pytest.raises(InputError, match="unknown noise 'symetric': did you mean 'symmetric'"):
        with_noise(dataset(), "symetric", 0.3, 0)


def test_relabel_keeps_the_truth_and_refuses_wrong_labels():
    clean = dataset()
    shifted = (clean.labels + 1) % 10
    assert relabel(clean, shifted).wrong.all()
    with pytest.raises(InputError, match="100 samples but labels of shape"):
        relabel(clean, shifted[:5])


def test_the_offered_names_are_those_of_the_table():
    assert tuple(noise.NOISES) == get_args(field_types(Run)["noise"])
