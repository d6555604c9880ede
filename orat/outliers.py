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

FAR_END = torch.linspace(0.1, 0.8, 36, dtype=torch.float64)  # shares of a class that lie beyond a threshold
BINS = 30  # of a distribution
FEWEST = 20  # samples of a class that say anything about it
FEWEST_WRONG = 5  # labels from one class to another for which the two are looked at alone
MOST = 0.9  # share of a class that can be wrong
SURE = 2  # standard errors between ratios that differ
DOUBTED = 0.5  # chance of a wrong label from which on it is rather wrong than right
TIE = 1e-3  # weight of the margin where chances are equal


@dataclass(frozen=True, eq=False)
class Verdict:
    """What is thought of the labels."""

    wrong: Tensor  # (n,) chance that the label is wrong
    suspicion: Tensor  # (n,) to rank by: that chance, and among equal ones how far another class is ahead
    looks_like: Tensor  # (n,) the class that the network sees
    matrix: Tensor  # (classes, classes) of those given a class (row), the share that belongs to each (column)
    rate: float  # share of wrong labels
    error: float  # its standard error, by counting alone


def judge(answers: Tensor, given: Labels) -> Verdict:
    """The verdict on labels by a network's logits (n, classes), averaged over epochs or of samples held out."""
    if len(answers) != len(given):
        raise InputError(f"{len(answers)} answers to {len(given)} labels: give one a label")
    seen = answers.detach().cpu().double().log_softmax(1)
    given = given.detach().cpu()
    sides = Sides(seen, given)
    matrix, rests, error = shares(sides)
    wrong, origins = torch.zeros(len(given), dtype=torch.float64), torch.linalg.pinv(matrix)
    for label in sides.known:
        others = [other for other in sides.known if matrix[label, other] * sides.sizes[label] >= FEWEST_WRONG]
        chances = [chance(sides, matrix, origins, label, other) for other in others if other != label]
        chances += [chance_of_rest(sides, matrix, label, rests[label])] if rests[label] > 0 else []
        if chances:
            wrong[sides.groups[label]] = torch.stack(chances).max(0).values
    rate = 1 - (matrix.diagonal() * sides.sizes).sum() / len(given)
    return Verdict(wrong, suspicion(wrong, seen, given), sides.looks_like, matrix, float(rate), float(error))


def suspicion(wrong: Tensor, seen: Tensor, given: Labels) -> Tensor:
    """What samples are ranked by: the chance, and among equal ones how far another class is ahead."""
    return wrong + TIE * torch.sigmoid(ahead(seen, given))


def two_groups(values: Tensor) -> Tensor:
    """The value that parts these into two groups that differ most: Otsu's threshold, over all of them."""
    ranked = values.detach().cpu().double().sort().values
    below = torch.arange(1, len(ranked), dtype=torch.float64)
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
        self.sizes = torch.tensor([len(group) for group in self.groups], dtype=torch.float64)
        self.looks_like = seen.argmax(1)

    def toward(self, label: int, other: int, of: int) -> Tensor:
        """How much more the samples given class `of` that look like one of both look like `other` than like `label`."""
        own = self.groups[of]
        looks_like = self.looks_like[own]
        seen = self.seen[own[(looks_like == label) | (looks_like == other)]]
        return seen[:, other] - seen[:, label]

    def away(self, label: int) -> Tensor:
        """How much more every sample looks like some other class than like `label`."""
        others = self.seen.clone()
        others[:, label] = -torch.inf
        return others.max(1).values - self.seen[:, label]


def shares(sides: Sides) -> tuple[Tensor, Tensor, Tensor]:
    """The matrix of who is given what; the share of each label that is of other classes as a whole; an error."""
    size = sides.classes
    ratios, errors = torch.zeros(2, size, size, dtype=torch.float64)
    rests, rest_errors = torch.zeros(2, size, dtype=torch.float64)
    for label in sides.known:
        away = sides.away(label)
        own, others = away[sides.groups[label]], away[sides.given != label]
        rests[label], rest_errors[label] = fitting(own, others, len(own), len(others))
        for other in sides.known:
            if other != label:
                mixed, pure = (sides.toward(label, other, of) for of in (label, other))
                sizes = (len(sides.groups[of]) for of in (label, other))
                ratios[label, other], errors[label, other] = fitting(mixed, pure, *sizes)
    matrix, total = torch.eye(size, dtype=torch.float64), sides.sizes.sum()
    for _ in range(100):  # what was compared with holds others too: a ratio is that to its own part
        foreign = (sides.sizes @ matrix - sides.sizes * matrix.diagonal()) / (total - sides.sizes).clamp(min=1)
        matrix = spread(ratios * matrix.diagonal(), rests * (1 - foreign))
    by_label = torch.maximum((errors * matrix.diagonal()).square().sum(1).sqrt(), rest_errors)
    error = (sides.sizes / total * by_label).square().sum().sqrt()
    return matrix, (rests * (1 - foreign)).clamp(max=MOST), error


def spread(pairs: Tensor, rests: Tensor) -> Tensor:
    """A matrix of shares: what no single class explains comes from all alike, and a class keeps some of its own."""
    total = torch.maximum(pairs.sum(1), rests).clamp(max=MOST)
    explained = torch.minimum(pairs.sum(1), total)
    matrix = pairs * (explained / pairs.sum(1).clamp(min=1e-12))[:, None]
    matrix = matrix + ((total - explained) / (len(pairs) - 1))[:, None]
    return matrix.fill_diagonal_(0) + torch.diag(1 - total)


def fitting(mixed: Tensor, pure: Tensor, among: int, of: int) -> tuple[Tensor, Tensor]:
    """The largest multiple of `pure`'s distribution that fits under `mixed`'s at its far end, and its error.

    Both are parts of so many samples. The ratio of those beyond a threshold is smallest where none is rightly there; of
    the thresholds where it cannot be told from the smallest, the nearest counts most samples.
    """
    if not len(pure):
        return torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    ranked = pure.sort(descending=True).values
    thresholds = ranked[(FAR_END * len(ranked)).long().clamp(max=len(ranked) - 1)]
    beyond, expected = ((values[:, None] >= thresholds).sum(0) for values in (mixed, pure))
    share = expected / of
    ratio, error = beyond / among / share, (beyond + 1).sqrt() / among / share
    alike = ratio <= (ratio + SURE * error).min()
    nearest = int(alike.nonzero().max())
    return ratio[nearest], error[nearest]


def chance(sides: Sides, matrix: Tensor, origins: Tensor, label: int, other: int) -> Tensor:
    """The chance of each sample given `label` to be of class `other`, by how much more it looks like it."""
    own = sides.groups[label]
    toward = sides.seen[:, other] - sides.seen[:, label]
    edges = edges_of(torch.cat([toward[own], toward[sides.groups[other]]]))
    places = torch.bucketize(toward, edges)
    counts = torch.bincount(sides.given * BINS + places, minlength=sides.classes * BINS).view(sides.classes, BINS)
    parts = counts / sides.sizes.clamp(min=1)[:, None]
    pure = (origins[other] @ parts).clamp(min=0)  # of those that are of the class, whatever they were given
    return rising(matrix[label, other] * pure, parts[label])[places[own]]


def chance_of_rest(sides: Sides, matrix: Tensor, label: int, share: Tensor) -> Tensor:
    """The chance of each sample given `label` to be of any other class, if a share of them is, all classes alike."""
    own, away = sides.groups[label], sides.away(label)
    inside = sides.given == label
    edges = edges_of(torch.cat([away[inside], away[~inside][:: max(1, len(away) // len(own) - 1)]]))
    places = torch.bucketize(away, edges)
    mixed, others = (torch.bincount(places[part], minlength=BINS).double() / part.sum() for part in (inside, ~inside))
    foreign = ((sides.sizes * matrix[:, label]).sum() - len(own) * matrix[label, label]) / (~inside).sum()
    determinant = ((1 - share) * (1 - foreign) - share * foreign).clamp(min=1e-3)
    pure = (((1 - share) * others - foreign * mixed) / determinant).clamp(min=0)
    return rising(share * pure, mixed)[places[own]]


def edges_of(values: Tensor) -> Tensor:
    """Inner borders of bins that hold about as many of these values each."""
    return values.sort().values[torch.arange(1, BINS) * len(values) // BINS].contiguous()


def rising(part: Tensor, whole: Tensor) -> Tensor:
    """The share of a part in the whole of each bin, made to rise from bin to bin by pooling neighbors that do not."""
    levels: list[list[float]] = []  # [share, weight, bins]
    for some, everything in zip(part.tolist(), whole.tolist(), strict=True):
        share = min(some / everything, 1.0) if everything > 0 else 0.0
        levels.append([share, everything, 1])
        while len(levels) > 1 and levels[-2][0] >= levels[-1][0]:
            last, before = levels.pop(), levels.pop()
            weight = before[1] + last[1]
            mean = (before[0] * before[1] + last[0] * last[1]) / weight if weight > 0 else before[0]
            levels.append([mean, weight, before[2] + last[2]])
    return torch.tensor([share for share, _, bins in levels for _ in range(int(bins))], dtype=torch.float64)
