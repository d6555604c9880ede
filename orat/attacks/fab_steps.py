"""The shortest move onto a hyperplane within [0, 1], for each norm; one row per point."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.linalg import vecdot
from torch.nn.functional import pad

NEWTON_STEPS = 5
NO_SLOPE = 1e-8  # in l2 and l1, features of less weight do not move: their quotients would overflow


def onto_hyperplane(points: Tensor, weight: Tensor, offset: Tensor, norm: str) -> Tensor:
    """The move of least size from each point to the plane weight . z = offset, or to the nearest corner of [0, 1]^d.

    Every feature moves against the sign of its weight, at most to its bound. A move of r closes |weight| r of the gap.
    Norms differ in the proportion of the moves of the features.
    """
    gap = (weight * points).sum(1) - offset
    weight = (2.0 * (gap >= 0) - 1)[:, None].to(weight.dtype) * weight
    room = torch.where(weight > 0, points, 1 - points)
    size = weight.abs()
    if norm != "linf":
        size = torch.where(size > NO_SLOPE, size, 0)
        room = torch.where(size > 0, room, 0)
    return -weight.sign() * MOVES[norm](size, room, gap.abs()[:, None])


def linf_move(size: Tensor, room: Tensor, gap: Tensor) -> Tensor:
    """All features move by the same amount."""
    return torch.minimum(level(size, room, gap), room)


def l2_move(size: Tensor, room: Tensor, gap: Tensor) -> Tensor:
    """Features move in proportion to their weights."""
    limit = room / size.clamp(min=NO_SLOPE)
    return size * torch.minimum(level(size**2, limit, gap), limit)


def l1_move(size: Tensor, room: Tensor, gap: Tensor) -> Tensor:
    """Features move to their bounds in the order of their weights; the last one as far as needed."""
    order = size.argsort(dim=1, descending=True)
    gains = (size * room).gather(1, order)
    open_gap = gap - (gains.cumsum(1) - gains)  # before the turn of this feature
    needed = open_gap.clamp(min=0) / size.gather(1, order).clamp(min=NO_SLOPE)
    return torch.empty_like(room).scatter(1, order, torch.minimum(needed, room.gather(1, order)))


def level(gain: Tensor, limit: Tensor, gap: Tensor) -> Tensor:
    """The common level t at which the sum of gain * min(t, limit) equals the gap; infinite if all limits are reached.

    Newton's method on this concave function nearly always ends after a few steps; the remaining rows are sorted.
    """
    level = gap / gain.sum(1, keepdim=True).clamp(min=torch.finfo(gap.dtype).tiny)
    product = gain * limit
    for _ in range(NEWTON_STEPS):
        beyond = (limit > level).to(gain.dtype)
        slope = vecdot(gain, beyond)[:, None]
        full = vecdot(product, 1 - beyond)[:, None]
        before, level = level, torch.where(slope > 0, (gap - full) / slope, torch.inf)
    rest = (level != before).squeeze(1)
    if rest.any():
        level[rest] = level_by_sorting(gain[rest], limit[rest], gap[rest])
    return level


def level_by_sorting(gain: Tensor, limit: Tensor, gap: Tensor) -> Tensor:
    """The common level, from the sorted limits."""
    limits, order = limit.sort(dim=1)
    gains = gain.gather(1, order)
    full = (gains * limits).cumsum(1)  # of the features at their limits, up to this feature
    slope = pad(gains[:, 1:].flip(1).cumsum(1).flip(1), (0, 1))  # of the features beyond, summed from the small end
    place = (full + slope * limits < gap).sum(1, keepdim=True)  # number of features at their limits
    done = torch.where(place > 0, full.gather(1, (place - 1).clamp(min=0)), 0)
    left = torch.where(place > 0, slope.gather(1, (place - 1).clamp(min=0)), gains.sum(1, keepdim=True))
    return torch.where(place < limit.shape[1], (gap - done) / left.clamp(min=torch.finfo(gap.dtype).tiny), torch.inf)


MOVES = {"linf": linf_move, "l2": l2_move, "l1": l1_move}
