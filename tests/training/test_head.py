"""Linear heads, neighbors and patches: against scikit-learn where it has the same model, and by planted features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from orat.data.source import Dataset
from orat.models.patches import LARGEST, Patches, shrunk, takes
from orat.training.features import combined, flat
from orat.training.head import (
    FOLDS,
    compressed,
    neighbor_log_probs,
    ridge_log_probs,
    scaled,
    stacked,
    standardized,
)

N, CLASSES = 300, 3
LABELS = torch.arange(N) % CLASSES
GENERATOR = torch.Generator().manual_seed(0)
FEATURES = functional.one_hot(LABELS, CLASSES) * 2.0 + torch.randn((N, CLASSES), generator=GENERATOR)


@pytest.mark.parametrize("columns", [CLASSES, 2 * N])
def test_a_ridge_head_predicts_the_class_of_planted_features(columns: int) -> None:
    wide = FEATURES @ torch.randn((CLASSES, columns), generator=GENERATOR)
    log_probs = ridge_log_probs(wide, LABELS, CLASSES, seed=0)
    assert torch.allclose(log_probs.exp().sum(1), torch.ones(N, dtype=torch.float64))
    assert (log_probs.argmax(1) == LABELS).double().mean() > 0.75


def test_predictions_are_those_of_ridge_regression_on_the_other_folds() -> None:
    """Up to the ridge and the scale of the outputs, which the head chooses."""
    log_probs, x = ridge_log_probs(FEATURES, LABELS, CLASSES, seed=3), standardized(FEATURES).double().numpy()
    order = torch.randperm(N, generator=torch.Generator().manual_seed(3))
    own = order.tensor_split(FOLDS)[1].numpy()
    rest = np.setdiff1d(np.arange(N), own)
    targets = np.eye(CLASSES)[LABELS.numpy()] - 1 / CLASSES
    centered = log_probs[own] - log_probs[own].mean(1, keepdim=True)
    errors = []
    for ridge in (0.1, 0.3, 1.0, 3.0, 10.0):
        weights = np.linalg.solve(x[rest].T @ x[rest] + ridge * np.eye(CLASSES), x[rest].T @ targets[rest])
        expected = x[own] @ weights
        expected -= expected.mean(1, keepdims=True)
        cosine = (centered.numpy() * expected).sum() / np.linalg.norm(centered) / np.linalg.norm(expected)
        errors.append(1 - cosine)
    assert min(errors) < 1e-9


@pytest.mark.parametrize("predict", [lambda y: ridge_log_probs(FEATURES, y, CLASSES, 0), lambda y: neighbors(y)])
def test_a_label_does_not_reach_the_prediction_of_its_own_sample(predict) -> None:  # type: ignore[no-untyped-def]
    before = predict(LABELS).argmax(1)
    for sample in (0, 7):
        after = predict(torch.where(torch.arange(N) == sample, (LABELS + 1) % CLASSES, LABELS)).argmax(1)
        assert after[sample] == before[sample]


def neighbors(labels: torch.Tensor) -> torch.Tensor:
    """The predictions by neighbors."""
    return neighbor_log_probs(FEATURES, labels, CLASSES)


def test_neighbors_predict_the_class_of_planted_features() -> None:
    log_probs = neighbors(LABELS)
    assert torch.allclose(log_probs.exp().sum(1), torch.ones(N, dtype=torch.float64))
    assert (log_probs.argmax(1) == LABELS).double().mean() > 0.75


def test_compressed_features_have_the_same_inner_products() -> None:
    wide = torch.randn((10, 50), generator=GENERATOR)
    short = compressed(wide)
    assert short.shape == (10, 10)
    assert torch.allclose(short @ short.T, (wide @ wide.T).double(), atol=1e-5)
    assert compressed(wide.T) is not None
    constant = standardized(torch.ones(5, 2))
    assert constant.abs().max() == 0


def test_the_scale_has_the_smallest_loss() -> None:
    outputs = functional.one_hot(LABELS, CLASSES).double()
    assert torch.equal(scaled(outputs, LABELS)[0], 32 * outputs)
    assert torch.equal(scaled(-outputs, LABELS)[0], -outputs)


def test_stacking_leaves_a_useless_kind_out_and_is_no_worse_than_the_best() -> None:
    good = ridge_log_probs(FEATURES, LABELS, CLASSES, seed=0)
    useless = torch.randn((N, CLASSES), generator=GENERATOR).double().log_softmax(1)
    both = stacked([good, useless], LABELS)
    losses = [float(functional.nll_loss(one, LABELS)) for one in (good, both)]
    assert losses[1] <= losses[0] + 1e-9
    assert (both.argmax(1) == good.argmax(1)).double().mean() > 0.95
    sets = torch.stack([good, useless])
    assert combined([sets], LABELS) is sets
    assert combined([sets, sets], LABELS).shape == sets.shape


def test_patches_do_not_see_brightness_and_contrast() -> None:
    images = torch.rand((40, 3, 20, 24), generator=GENERATOR)
    patches = Patches(images, torch.Generator().manual_seed(1))
    found = patches(images[:5])
    assert found.shape == (5, 2 * 256 * 9)
    assert (found >= 0).all()
    assert 0 < found.mean() < 0.2
    assert not torch.equal(found, Patches(images, torch.Generator().manual_seed(2))(images[:5]))


def test_large_images_are_shrunk_and_small_samples_have_no_patches() -> None:
    assert shrunk(torch.rand(1, 3, 96, 200)).shape == (1, 3, 23, LARGEST)
    assert shrunk(torch.rand(1, 3, 30, 48)).shape == (1, 3, 30, 48)
    assert takes((3, 32, 32))
    assert not takes((3, 8, 32))
    assert not takes((30,))


def test_maps_of_features_are_averaged_over_their_places() -> None:
    maps = torch.rand((2, 5, 3, 4), generator=GENERATOR)
    assert torch.allclose(flat(maps), maps.mean((2, 3)))
    assert flat(maps[..., 0]).shape == (2, 15)
    assert isinstance(Dataset(maps, torch.zeros(2, dtype=torch.int64), ("a",)), Dataset)
