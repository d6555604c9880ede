"""Networks that learn the natural images before the other learns anything, and say what they see in those of others.

The samples are in as many parts as there are scouts. Each learns all parts but one, and is asked about that: what it
says of a label cannot have been learned by heart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from orat.core.losses import cross_entropy
from orat.core.types import Batch, Logits, PerSample, Scalar
from orat.models.layers import nothing_dropped
from orat.models.quick_cnn import QuickCNN

OWN_BATCH = 128  # samples in a step, those that are asked about among them, at which rates of scouts' own hold
RATE = 0.06  # of networks that are no quick ones


@dataclass(frozen=True)
class Scouting:
    """How scouts learn."""

    make: Callable[[int], nn.Module]
    epochs: int
    batch_size: int
    scale: float  # how much larger than the run's their batches are
    quick: bool  # whether they are of the kind that learns at a high rate, whatever the run's is
    parts: int = 2  # of the samples, and so many scouts


def lesson(sees: Sequence[nn.Module], batch: Batch, kept: Tensor) -> tuple[Scalar, Logits, Batch]:
    """The number that scouts minimize on a batch, what is said of its samples, and the batch in the order of that.

    Batches hold about as many samples of each part: those that are too many are passed over, and what is said of them
    is NaN. Of all samples, those that are not kept are not learned. The number is the mean of all scouts' losses, its
    gradient that of each.
    """
    parts = len(sees)
    order = (batch.id % parts).argsort(stable=True)
    batch = Batch(batch.x[order], batch.y[order], batch.id[order])
    ends = [len(order) * part // parts for part in range(parts + 1)]
    slices = [slice(*place) for place in pairwise(ends)]
    fits = torch.cat([batch.id[place] % parts == part for part, place in enumerate(slices)])
    with torch.no_grad(), nothing_dropped(*sees):
        said = [sees[part - 1](batch.x[place]).float() for part, place in enumerate(slices)]
        answers = torch.cat(said).masked_fill(~fits[:, None], torch.nan)
    learned, losses = kept[batch.id] & fits, []
    for see, asked in zip(sees, [*slices[1:], slices[0]], strict=True):
        each = cross_entropy(see(without(batch.x, asked)), without(batch.y, asked))
        losses.append(own_mean(each, without(learned, asked)))
    loss = torch.stack(losses).sum()
    return loss - loss.detach() * (1 - 1 / parts), answers, batch


def without(values: Tensor, part: slice) -> Tensor:
    """The values before and after a part."""
    if part.start == 0 or part.stop == len(values):
        return values[part.stop :] if part.start == 0 else values[: part.start]
    return torch.cat([values[: part.start], values[part.stop :]])


def own_mean(losses: PerSample, own: Tensor) -> Scalar:
    """The mean over some of the samples, of which there may be none."""
    return (losses * own).sum() / own.sum().clamp(min=1)


def groups_of(scouts: nn.ModuleList, scouting: Scouting, lr: float) -> list[dict[str, Any]]:
    """Scouts learn at a rate that falls to nothing while they do: at one of their own, or the run's if that is higher.

    With their own go a decay of weights and Nesterov's momentum. Quick ones have no other.
    """
    of_run = lr * scouting.scale
    own = (QuickCNN.rate if scouting.quick else RATE) * scouting.batch_size / OWN_BATCH
    group: dict[str, Any] = {"lr": lr, "decays": True, "begins": -scouting.epochs, "peak": of_run}
    if scouting.quick or own > of_run:
        group |= {"peak": own, "weight_decay": QuickCNN.decay, "nesterov": True}
    return [{"params": list(scout.parameters()), **group} for scout in scouts]
