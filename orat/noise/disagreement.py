"""Disagreement of predictions and given labels, split into mistakes of the network and wrong labels.

Where a network disagrees with a label, the network is mistaken or the label is wrong. A single sample cannot tell. Four
facts tell over many samples, in the order from the surest prediction of each class to the least sure:

1. The surest predictions are right. Their disagreements are wrong labels.
2. Mistakes of networks rise steeply toward the least sure predictions. Wrong labels given by people rise slowly, and
   wrong labels given by a script hardly.
3. A mistaken network mostly has the right class in second place. Wrong labels are spread over all places.
4. Two independent networks are mistaken in different samples, and disagree with each other there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from orat.core.types import Labels
from orat.noise.latent import minimized, ranks

BINS = 20  # by place in the order of confidence
SURE = 0.25  # share of a predicted class that is taken as right to begin with
SHARP = 3.0  # sharpness of the right class of mistaken predictions
RISE, RISE_ERROR = 8.0, 0.5  # log-odds of mistakes of networks, from the surest to the least sure prediction
HUMAN, HUMAN_ERROR = 1.8, 0.3  # the same of labels given by people
CLASS_RISE, CLASS_LEVEL, CLASS_MISTAKES = 0.3, 1.5, 1.0  # standard deviations between classes
SECOND_OF_MISTAKES, LOOK_ALIKE = 0.7, 0.35  # right classes in second place; human share of that beyond chance
ROUGH = 0.2  # relative error of these curves, whatever the number of samples
DRIFT, SPREAD = 0.1, 1.0  # standard deviations of the places of wrong labels: along the order, and from even
SHRINK = 20.0  # wrong labels of a pair of classes below which its frequency is that of all pairs
SWEEPS = 5  # over pairs of classes
TWO_NETWORKS, TWO_ERROR = 1.3, 0.25  # mistakes of an average of networks, per disagreement between them; log-error
ROUNDS = 300


class Counts(NamedTuple):
    """Samples and disagreements by predicted class and bin, and the places of the given labels in disagreements."""

    samples: Tensor  # (classes, bins)
    disagree: Tensor  # (classes, bins)
    places: Tensor  # (bins, classes - 1) from the second place on
    right: Tensor  # (bins, classes - 1) of the right classes of mistaken predictions
    weight: Tensor  # (bins,) lower where many samples make random errors smaller than those of the curves


class Curves(NamedTuple):
    """Parameters: log-odds that start at a level and rise along the order of confidence."""

    wrong: Tensor  # (classes,)
    wrong_rise: Tensor  # ()
    class_rise: Tensor  # (classes,)
    mistaken: Tensor  # (classes,)
    mistaken_rise: Tensor  # ()
    places: Tensor  # (classes - 1,) logarithms
    drift: Tensor  # (classes - 1,)


@dataclass(frozen=True, eq=False)
class Order:
    """Predictions in the order of confidence."""

    labels: Labels  # as given
    order: Tensor  # (n, classes) classes of each sample, from the likeliest on
    places: Tensor  # (n, classes) of each class in that order
    along: Tensor  # (n,) from the surest prediction of a class (0) to the least sure (1)
    right: Tensor  # (n, classes) chance of each class where the prediction is mistaken

    @classmethod
    def of(cls, scores: Tensor, labels: Labels) -> Order:
        """The order of log-probabilities (n, classes)."""
        order = scores.argsort(dim=1, descending=True, stable=True)
        numbers = torch.arange(scores.shape[1]).to(labels).expand_as(order)
        places = torch.empty_like(order).scatter(1, order, numbers)
        right = (SHARP * scores).scatter(1, order[:, :1], -torch.inf).softmax(1)
        return cls(labels, order, places, ranks(scores), right)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.order.shape[1]

    @property
    def predicted(self) -> Labels:
        """The likeliest class."""
        return self.order[:, 0]

    @property
    def place(self) -> Labels:
        """The place of the given label, 0 where the prediction agrees."""
        return self.places.gather(1, self.labels[:, None]).squeeze(1)

    @property
    def disagrees(self) -> Tensor:
        """Whether the prediction is another class than the given label."""
        return self.place > 0

    @property
    def bin(self) -> Tensor:
        """The bin of a prediction along the order."""
        return (self.along * BINS).long().clamp(max=BINS - 1)

    def counts(self) -> Counts:
        """The counts that the curves are fitted to."""
        cells, others = self.predicted * BINS + self.bin, self.classes - 1
        samples, disagree = (
            torch.bincount(part, minlength=self.classes * BINS).view(self.classes, BINS).to(self.right)
            for part in (cells, cells[self.disagrees])
        )
        given = (self.bin * others + self.place - 1)[self.disagrees]
        places = torch.bincount(given, minlength=BINS * others).view(BINS, others).to(self.right)
        in_bin = one_hot(self.bin, BINS).to(self.right)
        right = in_bin.T @ self.right.gather(1, self.order)[:, 1:] / in_bin.sum(0).clamp(min=1)[:, None]
        share = (disagree.sum(0) + 0.5) / (samples.sum(0) + 1)
        weight = 1 / (1 + ROUGH**2 * samples.sum(0) * share / (1 - share))
        return Counts(samples, disagree, places, right, weight)


def split(order: Order, between: float | None = None) -> Tensor:
    """The chance of a wrong label (n,).

    `between` is the share of samples on which independent networks disagree with each other.
    """
    counts = order.counts()
    curves = fitted(counts, human_rise(order), between)
    wrong, mistaken = (curve[order.predicted, order.bin] for curve in levels(curves))
    return posterior(order, wrong, mistaken, curves.places.softmax(0))


def human_rise(order: Order) -> float:
    """The rise of wrong labels to expect: that of people, as far as wrong labels look like the right classes."""
    others = order.classes - 1
    if others < 2:
        return HUMAN / 2
    sure = order.disagrees & (order.along < SURE)
    second = (float((order.place[sure] == 1).sum()) + SHRINK / others) / (float(sure.sum()) + SHRINK)
    alike = (second - 1 / others) / (SECOND_OF_MISTAKES - 1 / others)
    return HUMAN * min(max(alike / LOOK_ALIKE, 0.0), 1.0)


def levels(curves: Curves) -> tuple[Tensor, Tensor]:
    """The share of wrong labels, and of mistaken predictions: (classes, bins)."""
    along = centers(curves.wrong)
    wrong = curves.wrong[:, None] + (curves.wrong_rise + curves.class_rise)[:, None] * along
    return wrong.sigmoid(), (curves.mistaken[:, None] + curves.mistaken_rise * along).sigmoid()


def centers(like: Tensor) -> Tensor:
    """The middle of each bin along the order, from 0 to 1."""
    return (torch.arange(BINS).to(like) + 0.5) / BINS


def fitted(counts: Counts, human: float, between: float | None) -> Curves:
    """The curves of the highest likelihood, with priors."""
    classes, others = len(counts.samples), counts.places.shape[1]
    zeros, zero, places = (counts.samples.new_zeros(size) for size in ((classes,), (), (others,)))
    start = Curves(zeros - 2, zero + human, zeros, zeros - 6, zero + RISE, places, places)

    def loss(*values: Tensor) -> Tensor:
        curves = Curves(*values)
        return surprise(counts, curves) + priors(curves, human) + independent(counts, curves, between)

    return Curves(*minimized(start, loss, ROUNDS))


def surprise(counts: Counts, curves: Curves) -> Tensor:
    """The negative log-likelihood of the disagreements and of the places of their given labels."""
    wrong, mistaken = levels(curves)
    along = centers(wrong)
    places = (curves.places + curves.drift * (along[:, None] - SURE / 2)).softmax(1)
    right_but_mistaken = (1 - wrong) * mistaken
    at_all = (wrong * (1 - mistaken * places[:, 0]) + right_but_mistaken).clamp(1e-9, 1 - 1e-9)
    rates = counts.disagree * at_all.log() + (counts.samples - counts.disagree) * (1 - at_all).log()
    share = ((right_but_mistaken * counts.samples).sum(0) / (at_all * counts.samples).sum(0).clamp(min=1e-9))[:, None]
    given = counts.places * (share * counts.right + (1 - share) * places).clamp(min=1e-9).log()
    return -(counts.weight * rates).sum() - (counts.weight[:, None] * given).sum()


def priors(curves: Curves, human: float) -> Tensor:
    """The penalty of unusual curves."""
    wrong, mistaken = curves.wrong.mean(), curves.mistaken.mean()
    terms = (
        (curves.class_rise / CLASS_RISE).square().sum(),
        ((curves.wrong_rise - human) / HUMAN_ERROR).square(),
        ((curves.mistaken_rise - RISE) / RISE_ERROR).square(),
        ((curves.mistaken - mistaken) / CLASS_MISTAKES).square().sum(),
        ((curves.wrong - wrong) / CLASS_LEVEL).square().sum(),
        0.01 * (wrong.square() + mistaken.square()),
        ((curves.places - curves.places.mean()) / SPREAD).square().sum() + 0.02 * curves.places.mean().square(),
        (curves.drift / DRIFT).square().sum(),
    )
    return torch.stack(terms).sum() / 2


def independent(counts: Counts, curves: Curves, between: float | None) -> Tensor:
    """The penalty of a share of mistakes unlike that seen between two independent networks."""
    if between is None:
        return counts.samples.new_zeros(())
    few = 1 / counts.samples.sum()
    mistakes = (levels(curves)[1] * counts.samples).sum() / counts.samples.sum()
    return ((((mistakes + few) / (TWO_NETWORKS * between + few)).log()) / TWO_ERROR).square() / 2


def posterior(order: Order, wrong: Tensor, mistaken: Tensor, places: Tensor) -> Tensor:
    """The chance of a wrong label (n,), with frequencies of each wrong label by predicted class."""
    second = places[0]
    agreed = wrong * mistaken * second
    p_wrong = agreed / (agreed + (1 - wrong) * (1 - mistaken))
    at = order.disagrees.nonzero().squeeze(1)
    predicted, given = order.predicted[at], order.labels[at][:, None]
    right = (1 - wrong[at]) * mistaken[at] * order.right[at].gather(1, given).squeeze(1)
    usual = torch.cat([places.new_zeros(1), places])[order.places[at]]
    rows = one_hot(predicted, order.classes).to(usual)
    labels = one_hot(given.squeeze(1), order.classes).to(usual)
    pairs, found = usual.new_ones(order.classes, order.classes), p_wrong[at]
    for _ in range(SWEEPS):
        spread = usual * pairs[predicted]
        spread = spread / spread.sum(1, keepdim=True).clamp(min=1e-12)
        chance = wrong[at] * (1 - mistaken[at] * second) * spread.gather(1, given).squeeze(1)
        found = chance / (chance + right).clamp(min=1e-300)
        seen, expected = rows.T @ (labels * found[:, None]), rows.T @ (spread * found[:, None])
        pairs = pairs * (seen + SHRINK) / (expected + SHRINK)
    return p_wrong.index_copy(0, at, found)
