"""The geometry of an attack: for each norm how to start, how to ascend and how to come back into the eps-ball."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from orat.core.random import Source, exponential, normal, uniform
from orat.core.types import Images, PerSample

L1_SHARE = 0.01  # of the coordinates move in one l1 step, at least one: true steepest ascent moves a single one


@dataclass(frozen=True)
class Ball:
    """One norm's start in the unit ball, steepest unit step from a point, way back into ball and [0, 1], and size."""

    start: Callable[[Images, Source], Images]
    ascend: Callable[[Images, Images], Images]
    project: Callable[[Images, Images, float], Images]  # moved point, center, eps
    size: Callable[[Images], PerSample]


def per_sample(values: Tensor, like: Images) -> Tensor:
    """One value a sample, shaped so that it multiplies images."""
    return values.reshape(-1, *[1] * (like.dim() - 1))


def flat(images: Images) -> Tensor:
    """Each image as one row."""
    return images.flatten(1)


def like_rows(rows: Tensor, images: Images) -> Images:
    """Rows back in the shape of images."""
    return rows.reshape(images.shape)


def linf_start(x: Images, source: Source) -> Images:
    """Uniform in the cube."""
    return 2 * uniform(x, source) - 1


def l2_start(x: Images, source: Source) -> Images:
    """Uniform in the Euclidean ball: a Gaussian direction and a radius u^(1/d)."""
    direction = normal(x, source)
    radius = uniform(x.new_empty(len(x)), source)
    return direction * per_sample(radius ** (1 / x.shape[1:].numel()) / flat(direction).norm(dim=1), x)


def l1_start(x: Images, source: Source) -> Images:
    """Uniform in the l1 ball: signed exponentials over their sum and one more exponential."""
    sizes = exponential(x, source)
    signs = (uniform(x, source) - 0.5).sign()
    slack = exponential(x.new_empty(len(x)), source)
    return signs * sizes / per_sample(flat(sizes).sum(1) + slack, x)


def inward(gradient: Images, adv: Images) -> Images:
    """The gradient without what points out of [0, 1], where no step can go."""
    outward = ((adv <= 0) & (gradient < 0)) | ((adv >= 1) & (gradient > 0))
    return gradient.masked_fill(outward, 0)


def linf_ascend(gradient: Images, adv: Images) -> Images:
    """The sign of the gradient; what points out of [0, 1] is clipped later all the same."""
    return gradient.sign()


def l2_ascend(gradient: Images, adv: Images) -> Images:
    """The gradient's direction; nothing where there is no gradient."""
    gradient = inward(gradient, adv)
    tiny = torch.finfo(gradient.dtype).tiny
    return gradient / per_sample(flat(gradient).norm(dim=1).clamp(min=tiny), gradient)


def l1_ascend(gradient: Images, adv: Images) -> Images:
    """The sign of the largest partial derivatives, shared equally among them."""
    rows = flat(inward(gradient, adv))
    some = max(1, int(L1_SHARE * rows.shape[1]))
    largest = rows.abs().topk(some, dim=1).indices
    chosen = torch.zeros_like(rows).scatter(1, largest, 1 / some)
    return like_rows(rows.sign() * chosen, gradient)


def linf_project(moved: Images, x: Images, eps: float) -> Images:
    """The nearest point; x + eps is met exactly, without the rounding of a difference."""
    return torch.clamp(moved, x - eps, x + eps).clamp_(0, 1)


def l2_project(moved: Images, x: Images, eps: float) -> Images:
    """Shrinks what is longer than eps, then clips, which never makes it longer, since x is in [0, 1]."""
    delta = moved - x
    norms = flat(delta).norm(dim=1)
    scale = eps / norms.clamp(min=eps) if eps > 0 else torch.zeros_like(norms)
    return (x + delta * per_sample(scale, x)).clamp_(0, 1)


def l1_project(moved: Images, x: Images, eps: float) -> Images:
    """The nearest point: every coordinate loses the same amount, but goes no farther than to its border.

    With y the move and r the room to the border, the l1 size after a loss of t is the sum of (|y|-t)+ - (|y|-r-t)+:
    piecewise linear in t with its corners at |y| and |y|-r, which are sorted to find the t that leaves eps.
    """
    y = flat(moved - x)
    size = y.abs()
    room = torch.where(y > 0, 1 - flat(x), flat(x))
    corners, order = torch.cat([size, size - room], 1).sort(dim=1, descending=True)
    slopes = torch.where(order < y.shape[1], 1.0, -1.0).to(y.dtype)
    slope, offset = slopes.cumsum(1), (slopes * corners).cumsum(1)
    left = offset - corners * slope  # the size when t is at this corner; grows along the row
    place = ((left <= eps).sum(1, keepdim=True) - 1).clamp(min=0)
    loss = (offset.gather(1, place) - eps) / slope.gather(1, place).clamp(min=1)
    kept = torch.minimum((size - loss.clamp(min=0)).clamp(min=0), room)
    return (x + like_rows(y.sign() * kept, x)).clamp_(0, 1)


BALLS = {
    "linf": Ball(linf_start, linf_ascend, linf_project, lambda d: flat(d).abs().amax(1)),
    "l2": Ball(l2_start, l2_ascend, l2_project, lambda d: flat(d).norm(dim=1)),
    "l1": Ball(l1_start, l1_ascend, l1_project, lambda d: flat(d).abs().sum(1)),
}
