"""Several attempts per sample, from new starts or toward new target classes, until the first success."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from orat.core.types import Images, Indices, Labels

CPU_ROWS = 256  # attempts at once: more do not fit into the cache, and a success makes later attempts useless
GPU_VALUES = 2**22  # features at once: fewer leave a GPU idle
GPU_PATIENCE = 10  # steps between checks for success, each of which waits for the GPU

# samples and attempt numbers -> the points reached, and whether each one is adversarial
Attempt = Callable[[Indices, Indices], tuple[Images, Tensor]]


def attempts(attempt: Attempt, x: Images, count: int) -> Images:
    """For each sample the point of the first successful attempt, or of the last attempt.

    Attempts are independent: the result does not depend on how many run at once.
    """
    adv = x.detach().clone()
    standing = torch.arange(len(x), device=x.device)
    number = 0
    while number < count and len(standing):
        together = min(max(rows_at_once(x) // len(standing), 1), count - number)
        sample = standing.repeat(together)
        numbers = torch.arange(number, number + together, device=x.device).repeat_interleave(len(standing))
        reached, broken = attempt(sample, numbers)
        adv[standing] = reached[-len(standing) :]
        rows = first_broken(broken, sample)
        adv[sample[rows]] = reached[rows]
        standing = standing[~lost(broken, sample)[standing]]
        number += together
    return adv


def first_broken(broken: Tensor, sample: Indices) -> Tensor:
    """The row of the first successful attempt at each broken sample."""
    rows = broken.nonzero().squeeze(1)
    none = len(broken)
    first = rows.new_full((int(sample.max()) + 1,), none).scatter_reduce_(0, sample[rows], rows, "amin")
    return first[first < none]


def lost(broken: Tensor, sample: Indices) -> Tensor:
    """For every sample number up to the largest here, whether an attempt succeeded."""
    return broken.new_zeros(int(sample.max()) + 1).index_fill_(0, sample[broken], True)


def likeliest(model: nn.Module, x: Images, y: Labels, count: int) -> Tensor:
    """The wrong classes of highest logits on each clean input, at most `count`, highest first."""
    with torch.no_grad():
        logits = model(x)
    wrong = logits.scatter(1, y[:, None], float("-inf"))
    return wrong.topk(min(count, logits.shape[1] - 1), dim=1).indices


def rows_at_once(x: Images) -> int:
    """The number of attempts that run together."""
    if not x.is_cuda:
        return CPU_ROWS
    return max(min(GPU_VALUES // x.shape[1:].numel(), 16 * len(x)), len(x))
