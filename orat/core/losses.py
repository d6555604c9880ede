"""Losses of logits and labels, one number per sample, and weights of samples."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from orat.core.errors import InputError
from orat.core.types import Images, Labels, Logits, PerSample

CW_CONFIDENCE = 50.0  # the paper's CW attack gains nothing from a larger lead of a wrong class
BOOST_FLOOR = 1.0001 + 1e-12  # MART's 1 in log(1 - p), which keeps the loss finite at p = 1
TINY = 1e-12  # keeps a ratio of logits finite if all logits are equal


def cross_entropy(logits: Logits, labels: Labels) -> PerSample:
    """The cross-entropy of each sample."""
    return functional.cross_entropy(logits, labels, reduction="none")


def expected_cross_entropy(logits: Logits, chances: Tensor) -> PerSample:
    """The cross-entropy of each sample over its right class, by the chance of each class (n, classes)."""
    return functional.cross_entropy(logits, chances.to(logits.dtype), reduction="none")


def noisy_cross_entropy(logits: Logits, labels: Labels, transition: Tensor) -> PerSample:
    """The cross-entropy of given labels, drawn from the row of the right class in `transition` (classes, classes).

    The logits are then those of right classes: the forward correction of Patrini et al. (2017).
    """
    return -(logits.log_softmax(1) + transition.log().T[labels]).logsumexp(1)


def margin(logits: Logits, labels: Labels) -> PerSample:
    """The lead of the best wrong class over the labeled class in logits; positive if the prediction is wrong."""
    labeled = logits.gather(1, labels[:, None]).squeeze(1)
    return best_other(logits, labels) - labeled


def cw(logits: Logits, labels: Labels) -> PerSample:
    """The margin, capped at 50: the objective of the paper's CW attack."""
    return margin(logits, labels).clamp(max=CW_CONFIDENCE)


def best_other(logits: Logits, labels: Labels) -> Tensor:
    """The largest logit of a wrong class."""
    return logits.scatter(1, labels[:, None], float("-inf")).amax(1)


def probability(logits: Logits, labels: Labels) -> PerSample:
    """The probability of the labeled class."""
    return logits.softmax(1).gather(1, labels[:, None]).squeeze(1)


def probability_margin(logits: Logits, labels: Labels) -> PerSample:
    """The lead of the labeled class over the best wrong class in probability; positive if the prediction is right."""
    return -margin(logits.softmax(1), labels)


def boosted_cross_entropy(logits: Logits, labels: Labels) -> PerSample:
    """Cross-entropy plus a penalty on the probability of the best wrong class (MART, Wang et al., 2020)."""
    return cross_entropy(logits, labels) - (BOOST_FLOOR - best_other(logits.softmax(1), labels)).log()


def divergence(logits: Logits, others: Logits) -> PerSample:
    """The Kullback-Leibler divergence KL(p || q) of p = softmax(logits) and q = softmax(others)."""
    log_p, log_q = logits.log_softmax(1), others.log_softmax(1)
    return (log_p.exp() * (log_p - log_q)).sum(1)


def mean_one(log_weights: PerSample) -> PerSample:
    """Weights of mean 1 from their logarithms, without underflow."""
    return len(log_weights) * log_weights.softmax(0)


def dlr(logits: Logits, labels: Labels) -> PerSample:
    """The difference-of-logits ratio (Croce & Hein, 2020): the margin over the gap of the first to the third logit.

    With two classes, no third logit exists, and the loss is the margin, whose gradient has the same direction.
    """
    if logits.shape[1] < 3:
        return margin(logits, labels)
    top = logits.topk(3, dim=1).values
    return margin(logits, labels) / (top[:, 0] - top[:, 2] + TINY)


def dlr_targeted(logits: Logits, labels: Labels, targets: Labels) -> PerSample:
    """The lead of the target class, over the gap of the first logit to the mean of the third and fourth.

    With three classes, the third logit also replaces the fourth; with two classes, nothing is divided.
    """
    lead = (logits.gather(1, targets[:, None]) - logits.gather(1, labels[:, None])).squeeze(1)
    if logits.shape[1] < 3:
        return lead
    top = logits.topk(min(4, logits.shape[1]), dim=1).values
    return lead / (top[:, 0] - 0.5 * (top[:, 2] + top[:, -1]) + TINY)


def slope(losses: PerSample, x: Images) -> Images:
    """The gradient of each loss by its input; 0 where the gradient is not finite."""
    return gradient_of(losses, x).nan_to_num(0, 0, 0)


def gradient_at(objective: Callable[[Images], PerSample], x: Images) -> Images:
    """The gradient of each objective by its input, also where the caller disabled gradients."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        losses = objective(x)
        if not isinstance(losses, Tensor) or losses.shape != (len(x),):
            shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            raise InputError(
                f"the loss of the attack gives {shape} for {len(x)} samples: give one number per sample, without "
                "mean or sum"
            )
        return gradient_of(losses, x)


def gradient_of(losses: PerSample, x: Images) -> Images:
    """The gradient of each loss by its input; refuses a network that cuts the graph, where attacks stand still."""
    gradient = reaching(losses, x)
    if gradient is None:
        raise cut_graph()
    return gradient


def reaching(losses: PerSample, x: Images) -> Images | None:
    """The gradient of each loss by its input; None where the network cuts the graph."""
    if not losses.requires_grad:
        return None
    (gradient,) = torch.autograd.grad(losses.sum(), x, allow_unused=True)
    return gradient


def cut_graph() -> InputError:
    """The error for logits whose gradient does not reach the input."""
    if torch.is_inference_mode_enabled():
        return InputError("torch.inference_mode() hides gradients from attacks: leave it, or use torch.no_grad()")
    return InputError(
        "no gradient of the network reaches its input, as behind detach(), no_grad() or NumPy in its forward: "
        "remove what cuts the graph, or give only attacks without gradients (square)"
    )


def check_gradients_on() -> None:
    """Refuses a training where the caller switched gradients off."""
    for off, name in ((torch.is_inference_mode_enabled(), "inference_mode"), (not torch.is_grad_enabled(), "no_grad")):
        if off:
            raise InputError(f"torch.{name}() hides gradients from the training: call it outside of torch.{name}()")
