"""The probability of a wrong label for each sample, from the noise matrix and the distributions of predictions.

Bayes' rule on histograms of predictions: in a bin, the share of a class among the samples with a label is the entry in
the noise matrix times the histogram of the class, divided by the histogram of the label.
"""

from __future__ import annotations

import torch
from torch import Tensor

from orat.noise.matrix import MAX_NOISE, MIN_SAMPLES, ClassScores

MIN_BINS, MAX_BINS = 10, 100  # of each of two histograms
MIN_WRONG = 5  # labels of one class given to another, below which the pair has no histogram of its own


def wrong_probabilities(scores: ClassScores, matrix: Tensor, spread: Tensor) -> Tensor:
    """The probability of a wrong label for each sample (n,)."""
    wrong, inverse = any_other_class(scores, matrix, spread), torch.linalg.pinv(matrix)
    for label in scores.large:
        group = scores.groups[label]
        wrong[group] = torch.maximum(wrong[group], single_classes(scores, matrix, inverse, label).amax(0))
    return wrong


def single_classes(scores: ClassScores, matrix: Tensor, inverse: Tensor, label: int) -> Tensor:
    """The probability of each class (classes, samples) for the samples labeled `label`, by their log-odds."""
    classes, group = scores.classes, scores.groups[label]
    enough = (matrix[label] * scores.sizes[label] >= MIN_WRONG) & (scores.sizes >= MIN_SAMPLES)
    enough[label] = False
    log_odds = (scores.log_probs - scores.log_probs[:, label : label + 1]).T.contiguous()
    count = bin_count(scores)
    of_label = quantiles(log_odds[:, group], scores.sizes[label].expand(classes), count)
    members = log_odds.gather(1, scores.members).masked_fill(~scores.is_member, torch.inf)
    edges = torch.cat([of_label, quantiles(members, scores.sizes, count)], 1).sort(1).values
    bins, rows = edges.shape[1] + 1, torch.arange(classes).to(group)[:, None]
    places = torch.searchsorted(edges, log_odds)
    cells = ((rows * classes + scores.labels) * bins + places).flatten()
    counts = torch.bincount(cells, minlength=classes * classes * bins).view(classes, classes, bins)
    histograms = counts / scores.sizes.clamp(min=1)[:, None]
    pure = (inverse[:, None] @ histograms).squeeze(1).clamp(min=0)  # of each class, whatever its samples are labeled
    posterior = isotonic(matrix[label][:, None] * pure, histograms[:, label])
    return posterior.gather(1, places[:, group]) * enough[:, None]


def any_other_class(scores: ClassScores, matrix: Tensor, spread: Tensor) -> Tensor:
    """The probability that a sample is of any class but its label, if all other classes have wrong labels alike."""
    masks, away = scores.labeled_and_rest(), -scores.margins.T.contiguous()
    ends = [quantiles(away.masked_fill(~mask, torch.inf), size, bin_count(scores)) for mask, size in masks]
    edges = torch.cat(ends, 1).sort(1).values
    places, bins = torch.searchsorted(edges, away), edges.shape[1] + 1
    labeled, rest = (histogram(places, mask, size, bins) for mask, size in masks)
    sizes, others = (size for _, size in masks)
    share, mixed = spread[:, None], ((sizes @ matrix - sizes * matrix.diagonal()) / others.clamp(min=1))[:, None]
    determinant = ((1 - share) * (1 - mixed) - share * mixed).clamp(min=1e-3)
    pure = (((1 - share) * rest - mixed * labeled) / determinant).clamp(min=0)
    posterior = isotonic(share * pure, labeled).gather(1, places)
    return posterior.T.gather(1, scores.labels[:, None]).squeeze(1) * (sizes >= MIN_SAMPLES)[scores.labels]


def right_predictions(scores: ClassScores, matrix: Tensor) -> Tensor:
    """The probability that the predicted class is the right one (n,), by its margin over the second class.

    The noise matrix gives the share of a class with its own label. Where this share is lower among the samples
    predicted as the class, the remaining samples belong to other classes.
    """
    margin, predicted, classes = scores.margins.amax(1), scores.predicted, scores.classes
    alike = predicted == torch.arange(classes).to(predicted)[:, None]
    edges = quantiles(torch.where(alike, margin, torch.inf), alike.sum(1), bin_count(scores))
    bins = edges.shape[1] + 1
    places = torch.searchsorted(edges, margin.expand(classes, -1).contiguous()).gather(0, predicted[None]).squeeze(0)
    cells = predicted * bins + places
    agreeing, whole = (
        torch.bincount(own, minlength=classes * bins).view(classes, bins).to(margin)
        for own in (cells[scores.labels == predicted], cells)
    )
    labeled = scores.sizes * matrix.diagonal() / (scores.sizes @ matrix).clamp(min=1)
    right = (isotonic(agreeing, whole) / labeled.clamp(min=1 - MAX_NOISE)[:, None]).clamp(max=1)
    return (right * (scores.sizes >= MIN_SAMPLES)[:, None]).flatten()[cells]


def bin_count(scores: ClassScores) -> int:
    """The number of bins of a histogram: the square root of the samples per class, within limits."""
    samples = len(scores.labels) / max(len(scores.large), 1)
    return min(max(int(samples**0.5), MIN_BINS), MAX_BINS)


def quantiles(values: Tensor, counts: Tensor, number: int) -> Tensor:
    """Equally spaced quantiles of the first `counts` values of each row in ascending order; infinities are padding."""
    steps = torch.arange(1, number + 1, device=values.device) * counts.long()[:, None] // (number + 1)
    return values.sort(1).values.gather(1, steps).masked_fill(counts[:, None] == 0, 0.0)


def histogram(places: Tensor, mask: Tensor, size: Tensor, bins: int) -> Tensor:
    """The share of the masked samples of each row in each bin."""
    rows = torch.arange(len(places)).to(places)[:, None]
    counts = torch.bincount((rows * bins + places)[mask], minlength=len(places) * bins)
    return counts.view(len(places), bins) / size.clamp(min=1)[:, None]


def isotonic(part: Tensor, whole: Tensor) -> Tensor:
    """The isotonic regression of part / whole over the bins (last dimension), weighted by the whole.

    Min-max formula: the largest, over all starts before a bin, of the smallest mean up to any end after the bin.
    """
    weight = whole.clamp(min=1e-12)
    sums = [torch.nn.functional.pad(values.cumsum(-1), (1, 0)) for values in (part, weight)]
    between, weights = (ends[..., None, 1:] - ends[..., :-1, None] for ends in sums)  # by start, end
    bins = torch.arange(whole.shape[-1], device=whole.device)
    means = (between / weights).masked_fill(bins < bins[:, None], torch.inf)
    least = means.flip(-1).cummin(-1).values.flip(-1)  # over all ends from a bin on
    return least.masked_fill(bins < bins[:, None], -torch.inf).amax(-2).clamp(0, 1)
