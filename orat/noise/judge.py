"""Which training labels look wrong: from what a network says of each sample, and how many of each label are.

A sample's chance follows from the distributions of its given and of the other class at its place.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from orat.core.errors import InputError
from orat.core.types import Labels
from orat.noise.matrix import FEWEST, MOST, Sides, shares

FEWEST_PLACES, MOST_PLACES = 10, 100  # of either of two distributions, between which samples are taken for alike
FEWEST_WRONG = 5  # labels from one class to another for which the two are looked at alone
KNOWING = 0.5  # share of what can be known of the labels from which on a network may judge them
BEYOND_CHANCE = 2  # standard errors that this share is taken lower, for what could be chance
DOUBTED = 0.5  # chance of a wrong label from which on it is rather wrong than right
SUREST, LEAST_SURE = 1e-3, 0.25  # chance of being wrong that one of two witnesses leaves, by how much it has seen
LEAST_BEFORE = 0.1  # share of wrong labels that two witnesses start from
LEANING = 0.2  # weight of the margin beside the odds


@dataclass(frozen=True, eq=False)
class Verdict:
    """What is thought of the labels."""

    wrong: Tensor  # (n,) chance that the label is wrong
    suspicion: Tensor  # (n,) to rank by: that chance, and how far another class is ahead
    looks_like: Tensor  # (n,) the class that the network sees
    sure: Tensor  # (n,) chance that it is rightly of that class, where that is not the given one
    matrix: Tensor  # (classes, classes) of those given a class (row), the share that belongs to each (column)
    rate: float  # share of wrong labels
    error: float  # its standard error, by counting alone
    knowledge: float  # how much the network knows of the labels, of what could be known with so many wrong


@dataclass(frozen=True, eq=False)
class Hearing:
    """What follows from what one network says alone."""

    sides: Sides
    matrix: Tensor
    rests: Tensor
    wrong: Tensor
    right: Tensor  # (n,) how often samples are of the class that they look like
    rate: float
    error: float
    knowledge: float


def judge(answers: Tensor, given: Labels, second: Tensor | None = None) -> Verdict:
    """The verdict on labels by a network's logits (n, classes), averaged over epochs or of samples held out.

    `second` are those of another network, whose word on single samples counts by how much it knows, but not on how many
    are wrong.
    """
    return verdict_of(hearing(answers, given), second)


def hearing(answers: Tensor, given: Labels) -> Hearing:
    """What a network's logits say of the labels."""
    if len(answers) != len(given):
        raise InputError(f"{len(answers)} answers to {len(given)} labels: give one a label")
    sides = Sides(answers.detach().double().log_softmax(1), given.detach().to(answers.device))
    matrix, rests, error = shares(sides)
    rate = float(1 - (matrix.diagonal() * sides.sizes).sum() / len(given))
    known = knowledge(sides.looks_like, sides.given, rate, float(error))
    wrong, right = chances_of(sides, matrix, rests), rightness(sides, matrix)
    return Hearing(sides, matrix, rests, wrong, right, rate, float(error), known)


def verdict_of(first: Hearing, second: Tensor | None = None) -> Verdict:
    """The verdict of one network, or of two: `second` are the logits of the other."""
    sides, matrix, wrong, both = first.sides, first.matrix, first.wrong, first.sides.seen
    given = sides.given
    if second is not None:
        own = Sides(second.detach().double().log_softmax(1), given)
        behind = sides.sizes[given] / (2 * places_in(sides))  # samples that a chance is of
        doubt = (1 / behind).clamp(SUREST, LEAST_SURE)
        weight = min(1.0, knowledge(own.looks_like, given, first.rate, first.error))
        wrong = together(wrong, chances_of(own, matrix, first.rests), 1 - matrix.diagonal()[given], doubt, weight)
        both = both + weight * own.seen
    agreed = (sides.looks_like == both.argmax(1)) & (sides.looks_like != given)
    ranks = suspicion(wrong, sides.seen, given)
    rest = matrix, first.rate, first.error, first.knowledge
    return Verdict(wrong, ranks, sides.looks_like, wrong * first.right * agreed, *rest)


def together(one: Tensor, other: Tensor, before: Tensor, doubt: Tensor, weight: float) -> Tensor:
    """The chance that two witnesses give who know nothing of each other, from that of each and that before both.

    Neither is surer than its doubt, and the other one counts by its weight: the less it knows, the more what it says is
    about what is hard to see for both. So, too, two small doubts make no large one where hardly any label is wrong.
    """
    before = before.clamp(LEAST_BEFORE, MOST)
    first, second = (torch.logit(chance.clamp(torch.minimum(doubt, before), 1 - doubt)) for chance in (one, other))
    return torch.sigmoid(first + weight * (second - torch.logit(before)))


def knowledge(looks_like: Labels, given: Labels, rate: float, error: float) -> float:
    """How often a network agrees with the labels, of how often it could with so many wrong; both beyond chance.

    One that knows little of the classes finds them in each other's places, as wrong labels are: it is no judge. What
    could be by chance, at so few samples, is not taken for knowledge.
    """
    classes = int(torch.maximum(looks_like.max(), given.max())) + 1
    seen, said = (torch.bincount(labels, minlength=classes).double() / len(given) for labels in (looks_like, given))
    chance = float(seen @ said)
    agreement = float((looks_like == given).double().mean())
    at_least = agreement - BEYOND_CHANCE * (agreement * (1 - agreement) / len(given)) ** 0.5
    at_most = 1 - rate + BEYOND_CHANCE * error
    return (at_least - chance) / (at_most - chance) if chance < min(at_least, at_most) else 0.0


def suspicion(wrong: Tensor, seen: Tensor, given: Labels) -> Tensor:
    """What samples are ranked by: doubted ones first; among both, by the odds and how far another class is ahead.

    Chances are those of many samples at a time, and so alike for some that are not.
    """
    odds = torch.logit(wrong, SUREST) + LEANING * ahead(seen, given)
    return (wrong > DOUBTED) + torch.sigmoid(odds)


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


def chances_of(sides: Sides, matrix: Tensor, rests: Tensor) -> Tensor:
    """The chance of each sample that its label is wrong, if so many of each label are."""
    wrong, origins = chance_of_rest(sides, matrix, rests), torch.linalg.pinv(matrix)
    for label in sides.known:
        own = sides.groups[label]
        wrong[own] = torch.maximum(wrong[own], chances(sides, matrix, origins, label).amax(0))
    return wrong


def chances(sides: Sides, matrix: Tensor, origins: Tensor, label: int) -> Tensor:
    """The chance of each sample given `label` to be of each class (classes, samples), by how much it looks like it."""
    classes, own = sides.classes, sides.groups[label]
    wanted = (matrix[label] * sides.sizes[label] >= FEWEST_WRONG) & (sides.sizes >= FEWEST)
    wanted[label] = False
    toward = (sides.seen - sides.seen[:, label : label + 1]).T.contiguous()
    count = places_in(sides)
    of_label = places_of(toward[:, own], sides.sizes[label].expand(classes), count)
    of_others = places_of(toward.gather(1, sides.members).masked_fill(~sides.fits, torch.inf), sides.sizes, count)
    edges = torch.cat([of_label, of_others], 1).sort(1).values
    bins, columns = edges.shape[1] + 1, torch.arange(classes).to(own)[:, None]
    places = torch.searchsorted(edges, toward)
    cells = ((columns * classes + sides.given) * bins + places).flatten()
    counts = torch.bincount(cells, minlength=classes * classes * bins).view(classes, classes, bins)
    parts = counts / sides.sizes.clamp(min=1)[:, None]
    pure = (origins[:, None] @ parts).squeeze(1).clamp(min=0)  # of those of a class, whatever they were given
    level = rising(matrix[label][:, None] * pure, parts[:, label])
    return level.gather(1, places[:, own]) * wanted[:, None]


def chance_of_rest(sides: Sides, matrix: Tensor, rests: Tensor) -> Tensor:
    """The chance of each sample to be of any other class than its label, if a share of each is, all classes alike."""
    parts, away = sides.parted(), -sides.nearness.T.contiguous()
    ends = [places_of(away.masked_fill(~part, torch.inf), size, places_in(sides)) for part, size in parts]
    edges = torch.cat(ends, 1).sort(1).values
    places, bins = torch.searchsorted(edges, away), edges.shape[1] + 1
    mixed, rest = (shares_in(places, part, size, bins) for part, size in parts)
    sizes, others = (size for _, size in parts)
    share, foreign = rests[:, None], ((sizes @ matrix - sizes * matrix.diagonal()) / others.clamp(min=1))[:, None]
    determinant = ((1 - share) * (1 - foreign) - share * foreign).clamp(min=1e-3)
    pure = (((1 - share) * rest - foreign * mixed) / determinant).clamp(min=0)
    level = rising(share * pure, mixed).gather(1, places)
    return level.T.gather(1, sides.given[:, None]).squeeze(1) * (sizes >= FEWEST)[sides.given]


def shares_in(places: Tensor, part: Tensor, size: Tensor, bins: int) -> Tensor:
    """Of each row, the share of a part of it at each of its places."""
    rows = torch.arange(len(places)).to(places)[:, None]
    counts = torch.bincount((rows * bins + places)[part], minlength=len(places) * bins)
    return counts.view(len(places), bins) / size.clamp(min=1)[:, None]


def rightness(sides: Sides, matrix: Tensor) -> Tensor:
    """How often samples are of the class that they look like, by how far it is ahead of all others.

    Of the samples of a class, a part was given its label, which the matrix says. Where fewer of those that look like it
    were, the others are not of it.
    """
    lead, seen_as, classes = sides.nearness.amax(1), sides.looks_like, sides.classes
    alike = seen_as == torch.arange(classes).to(seen_as)[:, None]
    edges = places_of(torch.where(alike, lead, torch.inf), alike.sum(1), places_in(sides))
    bins = edges.shape[1] + 1
    places = torch.searchsorted(edges, lead.expand(classes, -1).contiguous()).gather(0, seen_as[None]).squeeze(0)
    cells = seen_as * bins + places
    part, whole = (
        torch.bincount(own, minlength=classes * bins).view(classes, bins).to(lead)
        for own in (cells[sides.given == seen_as], cells)
    )
    named = sides.sizes * matrix.diagonal() / (sides.sizes @ matrix).clamp(min=1)
    right = (rising(part, whole) / named.clamp(min=1 - MOST)[:, None]).clamp(max=1)
    return (right * (sides.sizes >= FEWEST)[:, None]).flatten()[cells]


def places_in(sides: Sides) -> int:
    """How many places of a distribution to tell apart: the finer, the more samples there are of a class."""
    of_a_class = len(sides.given) / max(len(sides.known), 1)
    return min(max(int(of_a_class**0.5), FEWEST_PLACES), MOST_PLACES)


def places_of(values: Tensor, counts: Tensor, places: int) -> Tensor:
    """So many values of each row with about as many others between each two; a row has some, and infinities else."""
    steps = torch.arange(1, places + 1, device=values.device) * counts.long()[:, None] // (places + 1)
    return values.sort(1).values.gather(1, steps).masked_fill(counts[:, None] == 0, 0.0)


def rising(part: Tensor, whole: Tensor) -> Tensor:
    """The share of a part in the whole of each bin (last dimension), made to rise from bin to bin by pooling neighbors.

    The share that rises and is nearest in the mean square is, in a bin, the most over all starts before it of the least
    over all ends after it of what lies between them.
    """
    weight = whole.clamp(min=1e-12)
    sums = [torch.nn.functional.pad(values.cumsum(-1), (1, 0)) for values in (part, weight)]
    between, weights = (ends[..., None, 1:] - ends[..., :-1, None] for ends in sums)  # by start, end
    bins = torch.arange(whole.shape[-1], device=whole.device)
    means = (between / weights).masked_fill(bins < bins[:, None], torch.inf)
    least = means.flip(-1).cummin(-1).values.flip(-1)  # over ends from a bin on
    return least.masked_fill(bins < bins[:, None], -torch.inf).amax(-2).clamp(0, 1)
