"""Which labels of a training set look wrong, from predictions of networks that did not train on the samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from orat.core.errors import InputError, line_of
from orat.core.types import Labels
from orat.noise.evidence import evidence

DOUBTED = 0.5  # probability of a wrong label above which a label is flagged
RELIABLE = 0.5  # reliability below which no label is flagged
MOST_OF_A_CLASS = 0.5  # largest share of a class that is flagged, unless more of its labels are estimated wrong
BEYOND_CHANCE = 2  # standard errors by which agreement is discounted
MIN_DOUBT, MAX_DOUBT = 1e-3, 0.25  # smallest probability of error of one network, by its number of samples
MIN_PRIOR = 0.1  # smallest noise rate from which two networks are combined
MARGIN_WEIGHT = 0.02  # of the margin beside the log-odds of a wrong label, in the score
LEAST_ODDS = 1e-6  # smallest probability of a wrong label, in the score
RIGHT_TO_BEGIN = 0.5  # right labels of each class, added to counts
MOST_OF_RIGHT = 0.85  # largest chance of a wrong label, as a share of that of the right label; 0.82 for 45 % pair flips
MAX_NOISE = 0.9  # largest share of wrong labels in a class
RESOLUTION = (10, 100)  # probabilities of a class that can be told apart, at least and at most
OF_ESTIMATES, OF_MISTAKES = 0.3, 0.15  # error of the rate: shares of the distance of both estimates, and of mistakes
SUM_TOLERANCE = 1e-3  # of the probabilities of one sample
LEAST = -40.0  # smallest log-probability
Z95 = 1.96  # standard errors of a 95 % interval


@dataclass(frozen=True, eq=False)
class Verdict:
    """The estimate of the label noise, and of each label."""

    labels: Labels  # (n,) as given
    p_wrong: Tensor  # (n,) probability that the label is wrong
    score: Tensor  # (n,) ranks the labels, most likely wrong first
    predicted: Tensor  # (n,) predicted class
    others: Tensor  # (n, classes) probability of each other class if the label is wrong; 0 for the label
    noise_matrix: Tensor  # (classes, classes) share of each given label (row) that belongs to each class (column)
    noise_rate: float  # share of wrong labels
    error: float  # standard error of the noise rate
    reliability: float  # agreement of predictions and labels, as a share of the agreement of a perfect network

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the noise rate."""
        low, high = self.noise_rate - Z95 * self.error, self.noise_rate + Z95 * self.error
        return max(low, 0.0), min(high, 1.0)

    @property
    def reason(self) -> str | None:
        """The reason why labels should not be changed by this verdict; None if there is none."""
        if self.reliability >= RELIABLE:
            return None
        return f"their reliability is {self.reliability:.0%}, and flags need {RELIABLE:.0%}"

    @property
    def trusted(self) -> bool:
        """Whether labels may be changed by this verdict."""
        return self.reason is None

    def chances(self) -> Tensor:
        """The chance of each class to be the right one, (n, classes)."""
        return right_chances(self.p_wrong, self.others, self.labels)

    def transition(self) -> Tensor:
        """The chance (classes, classes) of each given label (column) of the samples of each class (row).

        Wrong labels are bounded below the right label. Without the bound, scout networks can swap two classes.
        """
        right = torch.eye(len(self.noise_matrix)).to(self.noise_matrix)
        counts = torch.bincount(self.labels, minlength=len(right)).to(right)
        joint = self.noise_matrix.T * counts + RIGHT_TO_BEGIN * right
        joint = torch.minimum(joint, joint.diagonal()[:, None] * torch.where(right > 0, 1.0, MOST_OF_RIGHT))
        return joint / joint.sum(1, keepdim=True)

    def flagged(self, threshold: float = DOUBTED) -> Tensor:
        """Labels called wrong (n,): p_wrong above the threshold, limited by class; none if unreliable."""
        p_wrong, noise_matrix = self.p_wrong.float(), self.noise_matrix.float()  # no flag by rounding errors
        flags = (p_wrong > threshold) & (self.reliability >= RELIABLE)
        return limited(flags, self.score, self.labels, 1 - noise_matrix.diagonal())

    def tensors(self) -> dict[str, Tensor]:
        """The fields but the labels as tensors, for a checkpoint or a file."""
        values = {name: value for name, value in vars(self).items() if name != "labels"}
        number = self.p_wrong.new_tensor  # on the same device
        return {name: number(value) if isinstance(value, float) else value for name, value in values.items()}

    @classmethod
    def of(cls, labels: Labels, tensors: Mapping[str, Tensor]) -> Verdict:
        """The verdict with these tensors."""
        values: dict[str, Any] = {name: value if value.dim() else value.item() for name, value in tensors.items()}
        return cls(labels, **values)


def judge(
    log_probs: Tensor | npt.NDArray[Any],
    labels: Tensor | npt.NDArray[Any],
    witness: Tensor | npt.NDArray[Any] | None = None,
) -> Verdict:
    """The verdict on labels from predictions of networks that did not train on the samples.

    `log_probs` is (n, classes), or (sets, n, classes) with independent predictions of each sample. `witness`
    (n, classes) holds predictions of another network, such as the one in training. It changes single samples, weighted
    by its reliability, but not the noise rate.
    """
    log_probs, labels = tensor_of("log_probs", log_probs), tensor_of("labels", labels)
    check_predictions(log_probs, labels)
    labels = labels.detach().long().to(log_probs.device)
    sets = finite(log_probs).reshape(-1, *log_probs.shape[-2:])
    verdict = verdict_of(sets, labels)
    if witness is None:
        return verdict
    witness = tensor_of("witness", witness)
    check_witness(witness, log_probs, labels)
    return heard(verdict, sets.mean(0), finite(witness).to(sets))


def right_chances(p_wrong: Tensor, others: Tensor, labels: Labels) -> Tensor:
    """The chance of each class to be the right one (n, classes), by those of a wrong label and then of the others."""
    wrong = p_wrong[:, None]
    return (wrong * others).scatter(1, labels[:, None], 1 - wrong)


def finite(log_probs: Tensor) -> Tensor:
    """Log-probabilities in double precision, a probability of zero as a tiny one."""
    return log_probs.detach().double().clamp(min=LEAST).log_softmax(-1)


def verdict_of(sets: Tensor, labels: Labels) -> Verdict:
    """The verdict by independent predictions (sets, n, classes)."""
    mean = sets.mean(0).log_softmax(1)
    found = evidence(mean, labels, between(sets))
    p_wrong = found.p_wrong
    others = found.posterior.scatter(1, labels[:, None], 0.0)
    others = others / others.sum(1, keepdim=True).clamp(min=1e-300)
    matrix = noise_matrix(p_wrong[:, None] * others, labels)
    rate = float(p_wrong.mean())
    predicted = found.scores.argmax(1)
    sampling = (rate * (1 - rate) / len(labels)) ** 0.5
    mistakes = max(0.0, float((predicted != labels).double().mean()) - rate)
    doubt = OF_ESTIMATES * abs(found.by_split - found.by_latent) + OF_MISTAKES * mistakes
    return Verdict(
        labels=labels,
        p_wrong=p_wrong,
        score=score_of(p_wrong, mean, labels),
        predicted=predicted,
        others=others.float(),
        noise_matrix=matrix,
        noise_rate=rate,
        error=(sampling**2 + doubt**2) ** 0.5,
        reliability=reliability_of(predicted, labels, rate, sampling),
    )


def between(sets: Tensor) -> float | None:
    """The share of samples on which two independent predictions disagree; None for one prediction."""
    predicted = sets.argmax(2)
    pairs = [(predicted[a] != predicted[b]).double().mean() for a in range(len(sets)) for b in range(a)]
    return float(torch.stack(pairs).mean()) if pairs else None


def noise_matrix(wrong: Tensor, labels: Labels) -> Tensor:
    """For each given label (row), the share of each class; `wrong` (n, classes) are chances of the other classes."""
    classes = wrong.shape[1]
    rows = torch.nn.functional.one_hot(labels, classes).to(wrong)
    shares = rows.T @ wrong / rows.sum(0).clamp(min=1)[:, None]
    return shares.fill_diagonal_(0) + torch.diag(1 - shares.sum(1))


def heard(verdict: Verdict, log_probs: Tensor, witness: Tensor) -> Verdict:
    """The verdict with the evidence of another network's predictions (n, classes)."""
    labels = verdict.labels
    found = evidence(witness, labels, None, verdict.noise_rate)
    weight = min(1.0, reliability_of(witness.argmax(1), labels, verdict.noise_rate, 0.0))
    sizes = torch.bincount(labels, minlength=witness.shape[1]).to(witness)
    behind = sizes[labels] / (2 * resolution(sizes))  # samples behind one probability
    doubt = (1 / behind).clamp(MIN_DOUBT, MAX_DOUBT)
    prior = 1 - verdict.noise_matrix.diagonal()[labels]
    p_wrong = combine(verdict.p_wrong, found.p_wrong, prior, doubt, weight)
    return replace(verdict, p_wrong=p_wrong, score=score_of(p_wrong, log_probs, labels))


def resolution(sizes: Tensor) -> float:
    """The resolution of a probability: the square root of the samples per class, within limits."""
    return float(sizes[sizes > 0].mean().sqrt().clamp(*RESOLUTION))


def tensor_of(name: str, values: Tensor | npt.NDArray[Any]) -> Tensor:
    """The values as a tensor; texts and objects are refused."""
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} are no numbers ({line_of(error)}): give a tensor or an array of numbers") from None


def check_predictions(log_probs: Tensor, labels: Tensor) -> None:
    """Refuses anything but log-probabilities of at least two classes, and labels of these classes."""
    shape = tuple(log_probs.shape)
    if len(shape) not in (2, 3) or shape[-1] < 2 or 0 in shape[:-2]:
        raise InputError(
            f"log_probs of shape {shape}: give (n, classes) or (sets, n, classes), with at least 2 classes"
        )
    if labels.dim() != 1 or labels.is_floating_point() or labels.is_complex():
        raise InputError(f"labels are {labels.dtype} of shape {tuple(labels.shape)}: give one class index per sample")
    if not shape[-2] or shape[-2] != len(labels):
        raise InputError(f"{shape[-2]} predictions for {len(labels)} labels: give one prediction per label")
    if labels.min() < 0 or labels.max() >= shape[-1]:
        low, high = int(labels.min()), int(labels.max())
        raise InputError(f"labels from {low} to {high} for {shape[-1]} classes: give labels from 0 to {shape[-1] - 1}")
    check_log_probs(log_probs.detach().double().reshape(-1, shape[-1]))


def check_witness(witness: Tensor, log_probs: Tensor, labels: Labels) -> None:
    """Refuses anything but log-probabilities (n, classes) of the same samples and classes."""
    if witness.shape != log_probs.shape[-2:]:
        wanted = tuple(log_probs.shape[-2:])
        raise InputError(f"witness of shape {tuple(witness.shape)}: give the shape {wanted}, like one set of log_probs")
    check_predictions(witness, labels)


def check_log_probs(rows: Tensor) -> None:
    """Refuses NaN, probabilities and logits."""
    if missing := int(rows.isnan().any(1).sum()):
        raise InputError(f"log_probs has NaN in {missing:,} rows: leave these samples out, or predict them again")
    sums = rows.exp().sum(1)
    worst = sums[(sums - 1).abs().argmax()].item()
    if abs(worst - 1) > SUM_TOLERANCE or rows.max() > SUM_TOLERANCE:
        probabilities = rows.min() >= 0 and (rows.sum(1) - 1).abs().max() <= SUM_TOLERANCE
        if probabilities:
            raise InputError("log_probs are probabilities (rows sum to 1): give their logarithm, .log()")
        raise InputError(f"log_probs are logits (a row sums to {worst:.3g} after exp, not to 1): give .log_softmax(-1)")


def combine(one: Tensor, other: Tensor, prior: Tensor, doubt: Tensor, weight: float) -> Tensor:
    """The probability of a wrong label from two independent networks: their log-odds beyond the prior add up.

    `doubt` keeps both probabilities away from 0 and 1. `weight` scales the evidence of the second network. The prior is
    at least MIN_PRIOR: two weak doubts stay weak where hardly any label is wrong.
    """
    prior = prior.clamp(MIN_PRIOR, MAX_NOISE)
    first, second = (torch.logit(p_wrong.clamp(torch.minimum(doubt, prior), 1 - doubt)) for p_wrong in (one, other))
    return torch.sigmoid(first + weight * (second - torch.logit(prior)))


def reliability_of(predicted: Labels, labels: Labels, rate: float, error: float) -> float:
    """The agreement of predictions and labels beyond chance, as a share of the agreement possible at this noise rate.

    A network that confuses the classes disagrees with right labels as with wrong ones, and cannot judge labels. The
    agreement counts at the lower end of its confidence interval, as few samples agree by chance.
    """
    classes = int(torch.maximum(predicted.max(), labels.max())) + 1
    shares = [torch.bincount(values, minlength=classes).double() / len(labels) for values in (predicted, labels)]
    chance = float(shares[0] @ shares[1])
    agreement = float((predicted == labels).double().mean())
    at_least = agreement - BEYOND_CHANCE * (agreement * (1 - agreement) / len(labels)) ** 0.5
    at_most = 1 - rate + BEYOND_CHANCE * error
    return (at_least - chance) / (at_most - chance) if chance < min(at_least, at_most) else 0.0


def score_of(p_wrong: Tensor, log_probs: Tensor, labels: Labels) -> Tensor:
    """The ranking of labels: by the log-odds of a wrong label, and a little by the margin, which orders ties."""
    log_odds = torch.logit(p_wrong, LEAST_ODDS) + MARGIN_WEIGHT * margin(log_probs, labels)
    return (p_wrong > DOUBTED) + torch.sigmoid(log_odds)


def margin(log_probs: Tensor, labels: Labels) -> Tensor:
    """The margin of the best other class over the given label."""
    others = log_probs.scatter(1, labels[:, None], -torch.inf)
    return others.max(1).values - log_probs.gather(1, labels[:, None]).squeeze(1)


def limited(flags: Tensor, score: Tensor, labels: Labels, noise: Tensor) -> Tensor:
    """The flags with at most half of each class, or its estimated noise (classes,) if higher: the highest scores."""
    flags = flags.clone()
    for label in labels.unique().tolist():
        group = (labels == label).nonzero().squeeze(1)
        most = int(max(MOST_OF_A_CLASS, float(noise[label])) * len(group))
        if int(flags[group].sum()) > most:
            flags[group] = False
            flags[group[score[group].topk(most).indices]] = True
    return flags
