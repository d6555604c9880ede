"""The noise matrix, and the probability of a wrong label: for samples with a given label, the share of each class.

Samples of class j with the wrong label a have predictions like samples with the label j. Their share among the samples
labeled a is therefore the largest multiple of class j's distribution that fits under the distribution of label a
(mixture proportion estimation; Scott, 2015). The ratio of both is read at the far end of log p(j) - log p(a), which
samples with a right label a do not reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from orat.core.types import Labels

TAIL = [0.02 * 40 ** (step / 35) for step in range(36)]  # shares of a class beyond each threshold, up to 0.8
MIN_SAMPLES = 20  # samples of a class, below which nothing is estimated
MAX_NOISE = 0.9  # largest share of wrong labels in a class
SIGNIFICANT = 6  # standard errors below which a share of one class counts as zero; larger shares shrink a little
SAME_SHAPE = 1.5  # standard errors within which one distribution follows another
MAX_ROUNDS, CONVERGED = 200, 1e-9  # of the fixed-point iteration
MIN_BINS, MAX_BINS = 10, 100  # of each of two histograms
MIN_WRONG = 5  # labels of one class given to another, below which the pair has no histogram of its own


@dataclass(frozen=True)
class Evidence:
    """The least number of samples beyond a threshold for a ratio of two distributions to count."""

    samples: int  # expected beyond the threshold if all samples with the label were of the other class
    share: float  # of the samples with the label, where that is fewer


ONE_CLASS, ALL_OTHERS = Evidence(20, 0.05), Evidence(50, 0.1)


class NoiseEstimate(NamedTuple):
    """A noise matrix, and its precision."""

    matrix: Tensor  # (classes, classes)
    spread: Tensor  # (classes,) share of each label that comes from all other classes together
    error: Tensor  # standard error of the noise rate


class ClassScores:
    """Log-probabilities grouped by given label."""

    def __init__(self, log_probs: Tensor, labels: Labels) -> None:
        self.log_probs, self.labels, self.classes = log_probs, labels, log_probs.shape[1]
        self.groups = [(labels == label).nonzero().squeeze(1) for label in range(self.classes)]
        self.large = [label for label, group in enumerate(self.groups) if len(group) >= MIN_SAMPLES]
        self.sizes = torch.tensor([len(group) for group in self.groups], dtype=torch.float64, device=log_probs.device)
        self.members = torch.nn.utils.rnn.pad_sequence(self.groups, batch_first=True)  # padded to the largest group
        self.is_member = torch.arange(self.members.shape[1]).to(labels) < self.sizes[:, None]
        self.predicted = log_probs.argmax(1)
        best, second = log_probs.topk(2).values.unbind(1)
        is_best = self.predicted[:, None] == torch.arange(self.classes, device=log_probs.device)
        self.margins = log_probs - torch.where(is_best, second[:, None], best[:, None])  # over the best other class

    def labeled_and_rest(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """For each class, the masks (classes, n) of samples with and without its label, each with its row sums."""
        labeled = self.labels == torch.arange(self.classes).to(self.labels)[:, None]
        return (labeled, self.sizes), (~labeled, len(self.labels) - self.sizes)

    def log_odds(self, label: int) -> Tensor:
        """Log-odds of each class against `label`, for the samples labeled `label`: (classes, samples)."""
        group = self.log_probs[self.groups[label]]
        return (group - group[:, label : label + 1]).T

    def sorted_log_odds(self, label: int) -> tuple[Tensor, Tensor]:
        """Ascending log-odds of the samples predicted as `label` or as the row's class, padded; and their number."""
        predicted = self.predicted[self.groups[label]]
        either = (predicted == label) | (predicted == torch.arange(self.classes).to(predicted)[:, None])
        values = self.log_odds(label).masked_fill(~either, torch.inf).sort(1).values
        return values, either.sum(1)


def estimate_noise(scores: ClassScores) -> NoiseEstimate:
    """The noise matrix from shares of single classes and from the share of all other classes together."""
    pairs, pair_errors = pair_shares(scores)
    totals, total_errors = total_shares(scores)
    matrix, mixed = solve(significant(pairs, pair_errors).cpu(), totals.cpu(), scores.sizes.cpu())
    matrix, mixed = matrix.to(pairs), mixed.to(pairs)
    by_label = torch.maximum((pair_errors * matrix.diagonal()).square().sum(1).sqrt(), total_errors)
    error = (scores.sizes / scores.sizes.sum() * by_label).square().sum().sqrt()
    return NoiseEstimate(matrix, (totals * (1 - mixed)).clamp(max=MAX_NOISE), error)


def solve(pairs: Tensor, totals: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The noise matrix, and each class's share among the samples with other labels, by fixed-point iteration.

    Each reference distribution is itself noisy: a ratio refers to the part of a label that belongs to its class, which
    is on the diagonal of the matrix.
    """
    matrix, mixed = torch.eye(len(sizes)).to(pairs), torch.zeros_like(sizes)
    for _ in range(MAX_ROUNDS):
        mixed = (sizes @ matrix - sizes * matrix.diagonal()) / (sizes.sum() - sizes).clamp(min=1)
        before, matrix = matrix, assemble(pairs * matrix.diagonal(), totals * (1 - mixed))
        if (matrix - before).abs().max() < CONVERGED:
            break
    return matrix, mixed


def pair_shares(scores: ClassScores) -> tuple[Tensor, Tensor]:
    """The largest share of each single class (column) in each label (row), and its standard error."""
    size, tail = scores.classes, torch.tensor(TAIL).to(scores.log_probs)
    ranked = {label: scores.sorted_log_odds(label) for label in scores.large}
    beyond, expected, limits = scores.log_probs.new_zeros(3, size, size, len(TAIL))  # by label, other class
    for other, (values, count) in ranked.items():  # samples labeled `other` are at the far end for every label
        places = (tail * count[:, None]).long().clamp(max=values.shape[1] - 1)
        limits[:, other] = values.gather(1, places)
        expected[:, other] = torch.searchsorted(values, limits[:, other].contiguous(), right=True).to(expected)
    for label, (values, count) in ranked.items():
        beyond[label] = (count[:, None] - torch.searchsorted(values, -limits[label])).clamp(min=0).to(beyond)
    ratios, errors = largest_multiple(beyond, expected, scores.sizes[:, None, None], scores.sizes[:, None], ONE_CLASS)
    off_diagonal = 1 - torch.eye(size).to(ratios)
    return ratios * off_diagonal, errors * off_diagonal


def total_shares(scores: ClassScores) -> tuple[Tensor, Tensor]:
    """The largest share of all other classes together in each label, and its standard error."""
    masks, margins = scores.labeled_and_rest(), scores.margins.T
    labeled, rest = (margins.masked_fill(~mask, torch.inf).sort(1).values for mask, _ in masks)
    sizes, rest_sizes = (size for _, size in masks)
    limits = rest.gather(1, (torch.tensor(TAIL).to(margins) * rest_sizes[:, None]).long())
    large = ((sizes >= MIN_SAMPLES) & (rest_sizes > 0))[:, None]
    beyond, expected = (
        torch.searchsorted(values, limits, right=True).to(margins) * large for values in (labeled, rest)
    )
    return largest_multiple(beyond, expected, sizes[:, None], rest_sizes[:, None], ALL_OTHERS)


def largest_multiple(
    beyond: Tensor, expected: Tensor, among: Tensor, of: Tensor, evidence: Evidence
) -> tuple[Tensor, Tensor]:
    """The largest multiple of a reference distribution that fits under the far end of a distribution, and its error.

    `beyond` counts samples of the distribution beyond each threshold (last dimension, from the far end inwards).
    `expected` counts samples of the reference. The ratio is read at the innermost threshold beyond which both have the
    same shape. Samples with a right label lie near a threshold and shift the mean beyond the threshold.
    """
    share = expected.clamp(min=1) / of.clamp(min=1) * among.clamp(min=1)
    few = share < (among * evidence.share).clamp(max=evidence.samples)
    few[..., -1] = False
    same_shape = shift(beyond, share) <= SAME_SHAPE
    order = torch.arange(beyond.shape[-1], device=beyond.device)
    place = torch.maximum((same_shape & ~few).mul(order).amax(-1), few.sum(-1))[..., None]
    ratio, error = beyond / share, (beyond + 1).sqrt() / share
    found = expected.amax(-1) > 0
    return ratio.gather(-1, place).squeeze(-1) * found, error.gather(-1, place).squeeze(-1) * found


def shift(beyond: Tensor, share: Tensor) -> Tensor:
    """The shift of the samples beyond each threshold toward it, against the reference, in standard errors."""
    samples, others = (counts.diff(dim=-1, prepend=torch.zeros_like(counts[..., :1])) for counts in (beyond, share))
    place = share - others / 2  # of a sample between two thresholds
    mean = (others * place).cumsum(-1) / share
    variance = (others * place.square()).cumsum(-1) / share - mean.square()
    excess = (samples * place).cumsum(-1) - beyond * mean
    return excess / (beyond * variance).clamp(min=CONVERGED).sqrt()


def significant(shares: Tensor, errors: Tensor) -> Tensor:
    """Shares shrunk toward zero by their error: many insignificant shares would add up to a large one."""
    return shares * (1 - (SIGNIFICANT * errors / shares.clamp(min=1e-12)).pow(4)).clamp(min=0)


def assemble(pairs: Tensor, totals: Tensor) -> Tensor:
    """The noise matrix with rows that sum to 1; the rest of a total is spread evenly over the other classes."""
    total = torch.maximum(pairs.sum(1), totals).clamp(max=MAX_NOISE)
    explained = torch.minimum(pairs.sum(1), total)
    matrix = pairs * (explained / pairs.sum(1).clamp(min=1e-12))[:, None]
    matrix = matrix + ((total - explained) / (len(pairs) - 1))[:, None]
    return matrix.fill_diagonal_(0) + torch.diag(1 - total)


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
