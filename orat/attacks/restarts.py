"""Several attempts at a sample, restarts or target classes: the first that breaks it ends the others."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from orat.core.types import Images, Indices, Labels

CPU_ROWS = 256  # attempts at once: more fill no cache, and those after a success would have been for nothing
GPU_VALUES = 2**22  # pixels at once: few attempts leave a GPU idle
GPU_PATIENCE = 10  # steps between looks at what is broken, each of which waits for the device

# sample and number of each attempt -> the points they reached, and which of them are broken
Attempt = Callable[[Indices, Indices], tuple[Images, Tensor]]


def attempts(attempt: Attempt, x: Images, count: int) -> Images:
    """For each sample the point of the first attempt that broke it, else that of its last attempt.

    Attempts do not know of each other, so that the same samples are broken however many run at once.
    """
    adv = x.detach().clone()
    standing = torch.arange(len(x), device=x.device)
    number = 0
    while number < count and len(standing):
        together = min(max(rows_at_once(x) // len(standing), 1), count - number)
        sample = standing.repeat(together)
        which = torch.arange(number, number + together, device=x.device).repeat_interleave(len(standing))
        reached, broken = attempt(sample, which)
        adv[standing] = reached[-len(standing) :]
        rows = first_broken(broken, sample)
        adv[sample[rows]] = reached[rows]
        standing = standing[~lost(broken, sample)[standing]]
        number += together
    return adv


def first_broken(broken: Tensor, sample: Indices) -> Tensor:
    """For each broken sample the row of the first attempt that broke it."""
    rows = broken.nonzero().squeeze(1)
    none = len(broken)
    first = rows.new_full((int(sample.max()) + 1,), none).scatter_reduce_(0, sample[rows], rows, "amin")
    return first[first < none]


def lost(broken: Tensor, sample: Indices) -> Tensor:
    """For every sample up to the last one here, whether any of its attempts has broken it."""
    return broken.new_zeros(int(sample.max()) + 1).index_fill_(0, sample[broken], True)


def likeliest(model: nn.Module, x: Images, y: Labels, count: int) -> Tensor:
    """The wrong classes that the model finds likeliest on each clean image, at most so many, likeliest first."""
    with torch.no_grad():
        logits = model(x)
    wrong = logits.scatter(1, y[:, None], float("-inf"))
    return wrong.topk(min(count, logits.shape[1] - 1), dim=1).indices


def rows_at_once(x: Images) -> int:
    """How many attempts to make together."""
    if not x.is_cuda:
        return CPU_ROWS
    return max(min(GPU_VALUES // x.shape[1:].numel(), 16 * len(x)), len(x))
