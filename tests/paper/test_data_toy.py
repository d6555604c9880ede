"""The toy sets against the paper's text, and against a margin measured point by point."""

from __future__ import annotations

import pytest
import torch

from orat.core.errors import InputError
from orat.data.catalog import load
from orat_paper import toy_sets as toy
from orat_paper.toy_sets import TOYS

EPS = 0.01  # the paper's radius on all three


@pytest.mark.parametrize(("name", "outliers"), [("toy-balanced", 2), ("toy-imbalanced", 1), ("toy-imbalanced-2", 1)])
def test_two_hundred_points_have_the_papers_number_of_outliers(name: str, outliers: int) -> None:
    train = toy.read(name).train
    assert train.images.shape == (200, 2)
    assert train.images.dtype == torch.float32
    assert train.wrong is not None
    assert train.wrong.sum() == outliers


def test_every_toy_set_is_a_data_set_of_the_package() -> None:
    for name in TOYS:
        assert load(name).train.fingerprint() == toy.read(name).train.fingerprint()


def test_the_balanced_set_has_an_outlier_in_each_class() -> None:
    train = toy.read("toy-balanced").train
    assert train.wrong is not None
    assert sorted(train.labels[train.wrong].tolist()) == [0, 1]
    assert train.labels.bincount().tolist() == [100, 100]


@pytest.mark.parametrize("name", ["toy-imbalanced", "toy-imbalanced-2"])
def test_the_imbalanced_outlier_lies_in_the_dominating_blue_class(name: str) -> None:
    train = toy.read(name).train
    assert train.wrong is not None
    assert train.truth is not None
    assert train.truth[train.wrong].tolist() == [toy.BLUE]
    assert (train.labels == toy.BLUE).float().mean() > 0.8


@pytest.mark.parametrize("name", TOYS)
def test_all_points_lie_in_the_unit_square(name: str) -> None:
    splits = toy.read(name)
    assert splits.test is not None
    for points in (splits.train.images, splits.test.images):
        assert points.min() >= EPS
        assert points.max() <= 1 - EPS


@pytest.mark.parametrize("name", TOYS)
def test_classes_are_further_apart_than_two_balls_without_the_outliers(name: str) -> None:
    splits = toy.read(name)
    assert splits.test is not None
    assert splits.train.truth is not None
    points = torch.cat([splits.train.images, splits.test.images])
    labels = torch.cat([splits.train.truth, splits.test.labels])
    gaps = torch.cdist(points[labels == toy.BLUE], points[labels == toy.RED], p=float("inf"))
    assert gaps.min() > 2 * EPS


@pytest.mark.parametrize("name", TOYS)
def test_an_outlier_lies_nearest_to_points_of_its_true_class(name: str) -> None:
    train = toy.read(name).train
    assert train.wrong is not None
    assert train.truth is not None
    distances = torch.cdist(train.images[train.wrong], train.images[~train.wrong])
    nearest = distances.topk(5, largest=False).indices
    near_labels = train.labels[~train.wrong][nearest]
    assert (near_labels == train.truth[train.wrong].unsqueeze(1)).all()


@pytest.mark.parametrize("name", TOYS)
def test_the_test_part_is_clean_and_has_both_classes(name: str) -> None:
    test = toy.read(name).test
    assert test is not None
    assert test.images.shape == (1000, 2)
    assert test.wrong is not None
    assert not test.wrong.any()
    assert test.labels.unique().tolist() == [0, 1]


@pytest.mark.parametrize("name", TOYS)
def test_a_toy_set_is_the_same_each_time_whatever_the_global_seed(name: str) -> None:
    torch.manual_seed(1)
    first = toy.read(name)
    torch.manual_seed(2)
    assert toy.read(name).train.fingerprint() == first.train.fingerprint()


def test_an_unknown_toy_set_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="unknown toy set 'toy-balance': did you mean 'toy-balanced'"):
        toy.read("toy-balance")
