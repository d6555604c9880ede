"""Which training labels look wrong, and how many are: from what a network says of each sample, and nothing else.

Samples of class j that were given label a look as samples given label j do. So the share of them among those given a is
the largest multiple of the others' distribution that fits under theirs: found where samples that are rightly a never
are, at the far end of log p(j) - log p(a). A sample's own chance follows from both distributions at its place.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from orat.errors import InputError
from orat.types import Labels

FAR_END = [0.02 * 40 ** (step / 35) for step in range(36)]  # to 0.8: shares of a class that lie beyond a threshold
PLACES = 15  # of either of two distributions, between which samples are taken for alike
FEWEST = 20  # samples of a class that say anything about it
FEWEST_WRONG = 5  # labels from one class to another for which the two are looked at alone
MOST = 0.9  # share of a class that can be wrong
CLEAR = 6  # standard errors from which on a share of one class is more than nothing; larger ones are shrunk a little
MOST_ROUNDS, SETTLED = 200, 1e-9  # until the matrix stays as it is
KNOWING = 0.5  # share of what can be known of the labels from which on a network may judge them
DOUBTED = 0.5  # chance of a wrong label from which on it is rather wrong than right
TIE = 1e-3  # weight of the margin where chances are equal


@dataclass(frozen=True)
class Care:
    """When a ratio of two distributions is trusted."""

    enough: int  # samples given a label that would lie beyond a threshold if all were of the other class
    enough_share: float  # or this share of those given the label, where that is less
    sure: float  # standard errors between ratios that differ


OF_ONE, OF_ALL = Care(20, 0.05, 2.25), Care(50, 0.1, 1.75)  # shares of one other class, and of all others together


@dataclass(frozen=True, eq=False)
class Verdict:
    """What is thought of the labels."""

    wrong: Tensor  # (n,) chance that the label is wrong
    suspicion: Tensor  # (n,) to rank by: that chance, and among equal ones how far another class is ahead
    looks_like: Tensor  # (n,) the class that the network sees
    matrix: Tensor  # (classes, classes) of those given a class (row), the share that belongs to each (column)
    rate: float  # share of wrong labels
    error: float  # its standard error, by counting alone
    knowledge: float  # how much the network knows of the labels, of what could be known with so many wrong


def judge(answers: Tensor, given: Labels) -> Verdict:
    """The verdict on labels by a network's logits (n, classes), averaged over epochs or of samples held out."""
    if len(answers) != len(given):
        raise InputError(f"{len(answers)} answers to {len(given)} labels: give one a label")
    seen, given = answers.detach().double().log_softmax(1), given.detach().to(answers.device)
    sides = Sides(seen, given)
    matrix, rests, error = shares(sides)
    wrong, origins = torch.zeros_like(seen[:, 0]), torch.linalg.pinv(matrix)
    for label in sides.known:
        by_class = chances(sides, matrix, origins, label).amax(0)
        wrong[sides.groups[label]] = torch.maximum(by_class, chance_of_rest(sides, matrix, label, rests[label]))
    rate = float(1 - (matrix.diagonal() * sides.sizes).sum() / len(given))
    known = knowledge(sides.looks_like, given, rate)
    return Verdict(wrong, suspicion(wrong, seen, given), sides.looks_like, matrix, rate, float(error), known)


def knowledge(looks_like: Labels, given: Labels, rate: float) -> float:
    """How often a network agrees with the labels, of how often it could with so many wrong; both beyond chance.

    One that knows little of the classes finds them in each other's places, as wrong labels are: it is no judge.
    """
    classes = int(torch.maximum(looks_like.max(), given.max())) + 1
    seen, said = (torch.bincount(labels, minlength=classes).double() / len(given) for labels in (looks_like, given))
    chance = float(seen @ said)
    agreement = float((looks_like == given).double().mean())
    return (agreement - chance) / (1 - rate - chance) if chance < min(agreement, 1 - rate) else 0.0


def suspicion(wrong: Tensor, seen: Tensor, given: Labels) -> Tensor:
    """What samples are ranked by: the chance, and among equal ones how far another class is ahead."""
    return wrong + TIE * torch.sigmoid(ahead(seen, given))


def two_groups(values: Tensor) -> Tensor:
    """The value that parts these into two groups that differ most: Otsu's threshold, over all of them."""
    ranked = values.detach().double().sort().values
    below = torch.arange(1, len(ranked), dtype=torch.float64, device=ranked.device)
    sums = ranked.cumsum(0)
    gap = sums[:-1] / below - (sums[-1] - sums[:-1]) / (len(ranked) - below)
    best = int((below * (len(ranked) - below) * gap**2).argmax())
    return (ranked[best] + ranked[best + 1]) / 2


def ahead(seen: Tensor, given: Labels) -> Tensor:
    """How far the best other class is ahead of the given one."""
    others = seen.scatter(1, given[:, None], -torch.inf)
    return others.max(1).values - seen.gather(1, given[:, None]).squeeze(1)


class Sides:
    """Log-probabilities by given label."""

    def __init__(self, seen: Tensor, given: Labels) -> None:
        self.seen, self.given, self.classes = seen, given, seen.shape[1]
        self.groups = [(given == label).nonzero().squeeze(1) for label in range(self.classes)]
        self.known = [label for label, group in enumerate(self.groups) if len(group) >= FEWEST]
        self.sizes = torch.tensor([len(group) for group in self.groups], dtype=torch.float64, device=seen.device)
        self.looks_like = seen.argmax(1)
        best, second = seen.topk(2).values.unbind(1)
        is_best = self.looks_like[:, None] == torch.arange(self.classes, device=seen.device)
        self.nearness = seen - torch.where(is_best, second[:, None], best[:, None])  # to a class, beside all others

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
    beyond, expected, limits = sides.seen.new_zeros(3, size, size, len(FAR_END))  # by label, other class
    for other in sides.known:  # its own samples lie at the far end of every way from a label to it
        values, count = sides.ranked(other)
        places = (far_end * count[:, None]).long().clamp(max=values.shape[1] - 1)
        limits[:, other] = values.gather(1, places)
        expected[:, other] = torch.searchsorted(values, limits[:, other].contiguous(), right=True).to(expected)
    for label in sides.known:
        values, count = sides.ranked(label)
        beyond[label] = (count[:, None] - torch.searchsorted(values, -limits[label])).clamp(min=0).to(beyond)
    ratios, errors = fitting(beyond, expected, sides.sizes[:, None, None], sides.sizes[:, None], OF_ONE)
    apart = 1 - torch.eye(size).to(ratios)
    return ratios * apart, errors * apart


def whole_shares(sides: Sides) -> tuple[Tensor, Tensor]:
    """How much of all other classes together fits into those given each label, and the errors."""
    far_end = torch.tensor(FAR_END).to(sides.seen)
    beyond, expected = sides.seen.new_zeros(2, sides.classes, len(FAR_END))
    for label in sides.known:
        own, others = (sides.nearness[part, label].sort().values for part in parted(sides, label))
        if len(others):
            limits = others[(far_end * len(others)).long()]
            expected[label], beyond[label] = (
                torch.searchsorted(values, limits, right=True) for values in (others, own)
            )
    return fitting(beyond, expected, sides.sizes[:, None], (len(sides.given) - sides.sizes)[:, None], OF_ALL)


def parted(sides: Sides, label: int) -> tuple[Tensor, Tensor]:
    """Those that were given a label, and all others."""
    own = sides.given == label
    return own, ~own


def fitting(beyond: Tensor, expected: Tensor, among: Tensor, of: Tensor, care: Care) -> tuple[Tensor, Tensor]:
    """The largest multiple of a distribution that fits under another at its far end, and its error.

    So many of the two lie beyond thresholds (last dimension) that come nearer. The ratio of both is smallest at the far
    end, where none is rightly there; it is taken at the nearest threshold, which counts most, that no farther one with
    enough samples contradicts.
    """
    share = expected.clamp(min=1) / of.clamp(min=1) * among.clamp(min=1)
    ratio, error = beyond / share, (beyond + 1).sqrt() / share
    few = share < (among * care.enough_share).clamp(max=care.enough)
    few[..., -1] = False
    part = (share[..., :, None] / share[..., None, :]).clamp(
        max=1
    )  # of those beyond a near threshold, beyond a far one
    near = beyond[..., None, :]
    lack = (near * part - beyond[..., :, None]) / (near * part * (1 - part) + 0.25).sqrt()  # in standard errors
    order = torch.arange(beyond.shape[-1], device=beyond.device)
    contradicts = (lack > care.sure) & (order[:, None] < order) & ~few[..., :, None]
    nearest = (~contradicts.any(-2) & ~few).mul(order).amax(-1, keepdim=True)
    found = expected.amax(-1) > 0
    return ratio.gather(-1, nearest).squeeze(-1) * found, error.gather(-1, nearest).squeeze(-1) * found


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


def chances(sides: Sides, matrix: Tensor, origins: Tensor, label: int) -> Tensor:
    """The chance of each sample given `label` to be of each class (classes, samples), by how much it looks like it."""
    classes, own = sides.classes, sides.groups[label]
    wanted = (matrix[label] * sides.sizes[label] >= FEWEST_WRONG) & (sides.sizes >= FEWEST)
    wanted[label] = False
    toward = (sides.seen - sides.seen[:, label : label + 1]).T.contiguous()
    theirs = [places_of(toward[other, group]) for other, group in enumerate(sides.groups)]
    edges = torch.cat([places_of(toward[:, own]), torch.stack(theirs)], 1).sort(1).values
    bins, columns = edges.shape[1] + 1, torch.arange(classes).to(own)[:, None]
    places = torch.searchsorted(edges, toward)
    cells = ((columns * classes + sides.given) * bins + places).flatten()
    counts = torch.bincount(cells, minlength=classes * classes * bins).view(classes, classes, bins)
    parts = counts / sides.sizes.clamp(min=1)[:, None]
    pure = (origins[:, None] @ parts).squeeze(1).clamp(min=0)  # of those of a class, whatever they were given
    level = rising(matrix[label][:, None] * pure, parts[:, label])
    return level.gather(1, places[:, own]) * wanted[:, None]


def chance_of_rest(sides: Sides, matrix: Tensor, label: int, share: Tensor) -> Tensor:
    """The chance of each sample given `label` to be of any other class, if a share of them is, all classes alike."""
    own, others = parted(sides, label)
    away = -sides.nearness[:, label]
    edges = torch.cat([places_of(away[part]) for part in (own, others)]).sort().values
    places = torch.bucketize(away, edges)
    bins = len(edges) + 1
    mixed, rest = (torch.bincount(places[part], minlength=bins) / part.sum().clamp(min=1) for part in (own, others))
    count = sides.sizes[label]
    foreign = ((sides.sizes * matrix[:, label]).sum() - count * matrix[label, label]) / others.sum().clamp(min=1)
    determinant = ((1 - share) * (1 - foreign) - share * foreign).clamp(min=1e-3)
    pure = (((1 - share) * rest - foreign * mixed) / determinant).clamp(min=0)
    return rising(share * pure, mixed.to(pure))[places[own]]


def places_of(values: Tensor) -> Tensor:
    """Values (in the last dimension) with about as many others between each two of them."""
    count = values.shape[-1]
    if not count:
        return values.new_zeros(*values.shape[:-1], PLACES)
    return values.sort(-1).values[..., [(place + 1) * count // (PLACES + 1) for place in range(PLACES)]]


def rising(part: Tensor, whole: Tensor) -> Tensor:
    """The share of a part in the whole of each bin (last dimension), made to rise from bin to bin by pooling neighbors.

    The share that rises and is nearest in the mean square is, in a bin, the most over all starts before it of the least
    over all ends after it of what lies between them.
    """
    weight = whole.clamp(min=1e-12)
    amount = torch.minimum(part, whole)
    sums = [torch.nn.functional.pad(values.cumsum(-1), (1, 0)) for values in (amount, weight)]
    between, weights = (ends[..., None, 1:] - ends[..., :-1, None] for ends in sums)  # by start, end
    bins = torch.arange(whole.shape[-1], device=whole.device)
    means = (between / weights).masked_fill(bins < bins[:, None], torch.inf)
    least = means.flip(-1).cummin(-1).values.flip(-1)  # over ends from a bin on
    return least.masked_fill(bins < bins[:, None], -torch.inf).amax(-2).clamp(0, 1)
