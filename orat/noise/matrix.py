"""How many of those given a label are of which class: from what a network says of each sample, and nothing else.

Samples of class j that were given label a look as samples given label j do. So the share of them among those given a is
the largest multiple of the others' distribution that fits under theirs: found where samples that are rightly a never
are, at the far end of log p(j) - log p(a).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from orat.core.types import Labels

FAR_END = [0.02 * 40 ** (step / 35) for step in range(36)]  # to 0.8: shares of a class that lie beyond a threshold
FEWEST = 20  # samples of a class that say anything about it
MOST = 0.9  # share of a class that can be wrong
CLEAR = 6  # standard errors from which on a share of one class is more than nothing; larger ones are shrunk a little
SURE = 1.5  # standard errors by which a distribution lies nearer than another that it does not follow
MOST_ROUNDS, SETTLED = 200, 1e-9  # until the matrix stays as it is


@dataclass(frozen=True)
class Care:
    """When a ratio of two distributions is trusted."""

    enough: int  # samples given a label that would lie beyond a threshold if all were of the other class
    enough_share: float  # or this share of those given the label, where that is less


OF_ONE, OF_ALL = Care(20, 0.05), Care(50, 0.1)  # shares of one other class, and of all others together


class Sides:
    """Log-probabilities by given label."""

    def __init__(self, seen: Tensor, given: Labels) -> None:
        self.seen, self.given, self.classes = seen, given, seen.shape[1]
        self.groups = [(given == label).nonzero().squeeze(1) for label in range(self.classes)]
        self.known = [label for label, group in enumerate(self.groups) if len(group) >= FEWEST]
        self.sizes = torch.tensor([len(group) for group in self.groups], dtype=torch.float64, device=seen.device)
        self.members = torch.nn.utils.rnn.pad_sequence(self.groups, batch_first=True)  # as long as the largest
        self.fits = torch.arange(self.members.shape[1]).to(given) < self.sizes[:, None]
        self.looks_like = seen.argmax(1)
        best, second = seen.topk(2).values.unbind(1)
        is_best = self.looks_like[:, None] == torch.arange(self.classes, device=seen.device)
        self.nearness = seen - torch.where(is_best, second[:, None], best[:, None])  # to a class, beside all others

    def parted(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Of each label, which samples were given it and which were not (classes, samples), and how many they are."""
        own = self.given == torch.arange(self.classes).to(self.given)[:, None]
        return (own, self.sizes), (~own, len(self.given) - self.sizes)

    def toward(self, label: int) -> Tensor:
        """How much more the samples given `label` look like each other class than like it: (classes, samples)."""
        own = self.seen[self.groups[label]]
        return (own - own[:, label : label + 1]).T

    def ranked(self, label: int) -> tuple[Tensor, Tensor]:
        """The same, ascending, of those that look like one of both classes; others come last. And how many they are."""
        looks_like = self.looks_like[self.groups[label]]
        one_of_both = (looks_like == label) | (looks_like == torch.arange(self.classes).to(looks_like)[:, None])
        values = self.toward(label).masked_fill(~one_of_both, torch.inf).sort(1).values
        return values, one_of_both.sum(1)


def shares(sides: Sides) -> tuple[Tensor, Tensor, Tensor]:
    """The matrix of who is given what; the share of each label that is of other classes as a whole; an error."""
    ratios, errors = single_shares(sides)
    rests, rest_errors = whole_shares(sides)
    matrix, foreign = settled(clear(ratios, errors).cpu(), rests.cpu(), sides.sizes.cpu())
    matrix, foreign = matrix.to(ratios), foreign.to(ratios)
    by_label = torch.maximum((errors * matrix.diagonal()).square().sum(1).sqrt(), rest_errors)
    error = (sides.sizes / sides.sizes.sum() * by_label).square().sum().sqrt()
    return matrix, (rests * (1 - foreign)).clamp(max=MOST), error


def settled(ratios: Tensor, rests: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The matrix, and how much of other labels is of each class: what was compared with holds others too.

    A ratio is that to a class's own part of those given its label, which the matrix itself says.
    """
    matrix, foreign = torch.eye(len(sizes)).to(ratios), torch.zeros_like(sizes)
    for _ in range(MOST_ROUNDS):
        foreign = (sizes @ matrix - sizes * matrix.diagonal()) / (sizes.sum() - sizes).clamp(min=1)
        before, matrix = matrix, spread(ratios * matrix.diagonal(), rests * (1 - foreign))
        if (matrix - before).abs().max() < SETTLED:
            break
    return matrix, foreign


def single_shares(sides: Sides) -> tuple[Tensor, Tensor]:
    """How much of each other class (column) fits into those given a label (row), and the errors."""
    size, far_end = sides.classes, torch.tensor(FAR_END).to(sides.seen)
    ranks = {label: sides.ranked(label) for label in sides.known}
    beyond, expected, limits = sides.seen.new_zeros(3, size, size, len(FAR_END))  # by label, other class
    for other, (values, count) in ranks.items():  # its own samples lie at the far end of every way from a label to it
        places = (far_end * count[:, None]).long().clamp(max=values.shape[1] - 1)
        limits[:, other] = values.gather(1, places)
        expected[:, other] = torch.searchsorted(values, limits[:, other].contiguous(), right=True).to(expected)
    for label, (values, count) in ranks.items():
        beyond[label] = (count[:, None] - torch.searchsorted(values, -limits[label])).clamp(min=0).to(beyond)
    ratios, errors = fitting(beyond, expected, sides.sizes[:, None, None], sides.sizes[:, None], OF_ONE)
    apart = 1 - torch.eye(size).to(ratios)
    return ratios * apart, errors * apart


def whole_shares(sides: Sides) -> tuple[Tensor, Tensor]:
    """How much of all other classes together fits into those given each label, and the errors."""
    parts, near = sides.parted(), sides.nearness.T
    own, others = (near.masked_fill(~part, torch.inf).sort(1).values for part, _ in parts)
    sizes, rest = (size for _, size in parts)
    limits = others.gather(1, (torch.tensor(FAR_END).to(near) * rest[:, None]).long())
    known = ((sizes >= FEWEST) & (rest > 0))[:, None]
    beyond, expected = (torch.searchsorted(values, limits, right=True).to(near) * known for values in (own, others))
    return fitting(beyond, expected, sizes[:, None], rest[:, None], OF_ALL)


def fitting(beyond: Tensor, expected: Tensor, among: Tensor, of: Tensor, care: Care) -> tuple[Tensor, Tensor]:
    """The largest multiple of a distribution that fits under another at its far end, and its error.

    So many of the two lie beyond thresholds (last dimension) that come nearer. The ratio of both is smallest at the far
    end, where none is rightly there; it is taken at the nearest threshold, which counts most, beyond which one still
    follows the other: those that are rightly there lie near it, and draw the mean of all places beyond it there.
    """
    share = expected.clamp(min=1) / of.clamp(min=1) * among.clamp(min=1)
    few = share < (among * care.enough_share).clamp(max=care.enough)
    few[..., -1] = False
    follows = lead(beyond, share) <= SURE
    order = torch.arange(beyond.shape[-1], device=beyond.device)
    nearest = torch.maximum((follows & ~few).mul(order).amax(-1), few.sum(-1))[..., None]
    ratio, error = beyond / share, (beyond + 1).sqrt() / share
    found = expected.amax(-1) > 0
    return ratio.gather(-1, nearest).squeeze(-1) * found, error.gather(-1, nearest).squeeze(-1) * found


def lead(beyond: Tensor, share: Tensor) -> Tensor:
    """How much nearer to each threshold the samples beyond it lie in the mean than a share of others, in its errors."""
    samples, others = (counts.diff(dim=-1, prepend=torch.zeros_like(counts[..., :1])) for counts in (beyond, share))
    place = share - others / 2  # of a sample between two thresholds
    mean = (others * place).cumsum(-1) / share
    variance = (others * place.square()).cumsum(-1) / share - mean.square()
    excess = (samples * place).cumsum(-1) - beyond * mean
    return excess / (beyond * variance).clamp(min=SETTLED).sqrt()


def clear(shares: Tensor, errors: Tensor) -> Tensor:
    """Shares that are clearly more than nothing about as they are, others as nothing: many would add up to much."""
    return shares * (1 - (CLEAR * errors / shares.clamp(min=1e-12)).pow(4)).clamp(min=0)


def spread(pairs: Tensor, rests: Tensor) -> Tensor:
    """A matrix of shares: what no single class explains comes from all alike, and a class keeps some of its own."""
    total = torch.maximum(pairs.sum(1), rests).clamp(max=MOST)
    explained = torch.minimum(pairs.sum(1), total)
    matrix = pairs * (explained / pairs.sum(1).clamp(min=1e-12))[:, None]
    matrix = matrix + ((total - explained) / (len(pairs) - 1))[:, None]
    return matrix.fill_diagonal_(0) + torch.diag(1 - total)
