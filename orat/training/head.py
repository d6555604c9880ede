"""Linear heads on features: cross-fitted predictions in seconds, where features are given or need no training."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from orat.core.types import Labels

FOLDS = 5
RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0)  # for features with a mean square of 1 over all columns together
SCALES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # of the outputs, as logits
STEPS = 50  # of L-BFGS
CONSTANT = 1e-3  # deviation of a feature that is not scaled up, as a share of the mean deviation
NEIGHBORS = (10, 30, 100)
ROWS = 1024  # of similarities at once


def ridge_log_probs(features: Tensor, labels: Labels, classes: int, seed: int) -> Tensor:
    """Log-probabilities (n, classes) by ridge regression on all folds but a sample's own; the seed decides the folds.

    The ridge has the best likelihood of the given labels of the first fold; the scale of the outputs, of all folds.
    """
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).to(features.device)
    parts = order.tensor_split(FOLDS)
    x = compressed(standardized(features))
    targets = functional.one_hot(labels, classes).to(x.dtype) - 1 / classes
    squares = torch.stack([(x[part].T @ x[part]).double() for part in parts])
    products = torch.stack([(x[part].T @ targets[part]).double() for part in parts])

    def outputs(fold: int, ridge: float) -> Tensor:
        left = squares.sum(0) - squares[fold]
        left.diagonal().add_(ridge)
        weights = torch.cholesky_solve(products.sum(0) - products[fold], torch.linalg.cholesky(left))
        return x[parts[fold]].double() @ weights

    def loss(ridge: float) -> float:
        return scaled(outputs(0, ridge), labels[parts[0]])[1]

    ridge = min(RIDGES, key=loss)
    found = torch.cat([outputs(fold, ridge) for fold in range(FOLDS)])
    return scaled(torch.empty_like(found).index_copy(0, order, found), labels)[0].log_softmax(1)


def scaled(outputs: Tensor, labels: Labels) -> tuple[Tensor, float]:
    """Outputs as logits of the scale with the smallest loss, and the loss."""
    every = [(scale, float(functional.cross_entropy(scale * outputs, labels))) for scale in SCALES]
    scale, loss = min(every, key=lambda one: one[1])
    return scale * outputs, loss


def standardized(features: Tensor) -> Tensor:
    """Features with mean 0, deviation 1 and, over all columns together, a mean square of 1."""
    centered = features - features.mean(0)
    deviation = centered.std(0, correction=0)
    return centered / (deviation + CONSTANT * deviation.mean()).clamp(min=1e-12) / features.shape[1] ** 0.5


def compressed(features: Tensor) -> Tensor:
    """Features with the same inner products in no more columns than rows."""
    if features.shape[1] <= len(features):
        return features
    values, axes = torch.linalg.eigh(features.double() @ features.double().T)
    return axes * values.clamp(min=0).sqrt()


def neighbor_log_probs(features: Tensor, labels: Labels, classes: int) -> Tensor:
    """Log-probabilities (n, classes) by the labels of a sample's nearest neighbors, without its own label.

    The number of neighbors is the one with the best likelihood of the given labels.
    """
    x, most = functional.normalize(standardized(features), dim=1), min(max(NEIGHBORS), len(labels) - 1)
    found = torch.empty(len(x), most, dtype=torch.int64, device=x.device)
    for start in range(0, len(x), ROWS):
        like = x[start : start + ROWS] @ x.T
        rows = torch.arange(len(like), device=x.device)
        like[rows, start + rows] = -torch.inf
        found[start : start + ROWS] = like.topk(most).indices
    votes = functional.one_hot(labels[found], classes).double()
    shares = labels.bincount(minlength=classes).double() / len(labels)
    every = [(votes[:, :count].sum(1) + shares) / (min(count, most) + 1) for count in NEIGHBORS]
    every = [probabilities.clamp(min=1e-12).log().log_softmax(1) for probabilities in every]
    return min(every, key=lambda log_probs: float(functional.nll_loss(log_probs, labels)))


def stacked(kinds: Sequence[Tensor], labels: Labels) -> Tensor:
    """Several kinds of predictions (n, classes) as one: their product, with the powers of the best likelihood."""
    logs = torch.stack([one.double() for one in kinds])
    powers = torch.zeros(len(kinds), dtype=torch.double, device=logs.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([powers], max_iter=STEPS, line_search_fn="strong_wolfe")

    def mixed() -> Tensor:
        return (powers.exp()[:, None, None] * logs).sum(0).log_softmax(1)

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = functional.nll_loss(mixed(), labels)
        value.backward()
        return value

    optimizer.step(loss)
    return mixed().detach()
