"""The geometry of an attack: for each norm how to start, how to ascend and how to come back into the eps-ball."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from orat.types import Images

L1_SHARE = 0.01  # of the coordinates move in one l1 step, at least one: true steepest ascent moves a single one


@dataclass(frozen=True)
class Ball:
    """One norm's start inside the unit ball, steepest unit step from a point, projection onto radius eps, and size."""

    start: Callable[[Images, Generator | None], Images]
    ascend: Callable[[Images, Images], Images]
    project: Callable[[Images, float], Images]
    size: Callable[[Images], Tensor]


def per_sample(values: Tensor, like: Images) -> Tensor:
    """One value a sample, shaped so that it multiplies images."""
    return values.reshape(-1, *[1] * (like.dim() - 1))


def flat(images: Images) -> Tensor:
    """Each image as one row."""
    return images.flatten(1)


def like_rows(rows: Tensor, images: Images) -> Images:
    """Rows back in the shape of images."""
    return rows.reshape(images.shape)


def linf_start(x: Images, generator: Generator | None) -> Images:
    """Uniform in the cube."""
    return torch.empty_like(x).uniform_(-1, 1, generator=generator)


def l2_start(x: Images, generator: Generator | None) -> Images:
    """Uniform in the Euclidean ball: a Gaussian direction and a radius u^(1/d)."""
    direction = torch.empty_like(x).normal_(generator=generator)
    radius = torch.empty(len(x), dtype=x.dtype, device=x.device).uniform_(generator=generator)
    return direction * per_sample(radius ** (1 / x[0].numel()) / flat(direction).norm(dim=1), x)


def l1_start(x: Images, generator: Generator | None) -> Images:
    """Uniform in the l1 ball: signed exponentials over their sum and one more exponential."""
    sizes = torch.empty_like(x).exponential_(generator=generator)
    signs = torch.empty_like(x).uniform_(-1, 1, generator=generator).sign()
    slack = torch.empty(len(x), dtype=x.dtype, device=x.device).exponential_(generator=generator)
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


def l2_project(delta: Images, eps: float) -> Images:
    """Shrinks what is longer than eps."""
    norms = flat(delta).norm(dim=1)
    return delta * per_sample((eps / norms.clamp(min=eps)) if eps > 0 else torch.zeros_like(norms), delta)


def l1_project(delta: Images, eps: float) -> Images:
    """The nearest point of the l1 ball: every coordinate loses the same amount (Duchi et al., 2008)."""
    rows = flat(delta)
    ranked = rows.abs().sort(dim=1, descending=True).values
    places = torch.arange(1, rows.shape[1] + 1, device=rows.device, dtype=rows.dtype)
    excess = (ranked.cumsum(1) - eps) / places
    support = (ranked > excess).sum(1, keepdim=True).clamp(min=1)
    loss = excess.gather(1, support - 1).clamp(min=0)
    return like_rows(rows.sign() * (rows.abs() - loss).clamp(min=0), delta)


BALLS = {
    "linf": Ball(linf_start, linf_ascend, lambda delta, eps: delta.clamp(-eps, eps), lambda d: flat(d).abs().amax(1)),
    "l2": Ball(l2_start, l2_ascend, l2_project, lambda d: flat(d).norm(dim=1)),
    "l1": Ball(l1_start, l1_ascend, l1_project, lambda d: flat(d).abs().sum(1)),
}
