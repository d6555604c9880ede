"""Threat models: how far, in which norm and within which bounds an attack may change an input."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import repeat
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor

from orat.core.errors import InputError, unknown
from orat.core.options import norm_of, number
from orat.core.random import Randomness, exponential, normal, uniform
from orat.core.types import Images, PerSample

if TYPE_CHECKING:
    Norm: TypeAlias = Literal["linf", "l2", "l1"]
else:
    Norm = str | int | float  # `Threat` reads other spellings, and refuses unknown norms with a list of the known norms

NORMS: tuple[Norm, ...] = ("linf", "l2", "l1")
L1_SHARE = 0.01  # of the features move in one l1 step, at least one: true steepest ascent moves a single one
ROUNDING = 1e-6  # of 1 or of the input, whichever is larger: about 10 units in the last place of a float32


@dataclass(frozen=True)
class Threat:
    """All inputs within eps of the original input, in a norm, between lower and upper bounds.

    With a `scale`, the norm is that of delta / scale: feature i may change by eps * scale[i] in linf, and by nothing
    where its scale is 0. Tuples have one value per feature; features are those of the flattened input.
    """

    eps: float
    norm: Norm = "linf"
    low: float | tuple[float, ...] | None = 0.0  # None: no lower bound
    high: float | tuple[float, ...] | None = 1.0  # None: no upper bound
    scale: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if norm_of(self.norm) not in NORMS:
            raise unknown("norm", str(self.norm), NORMS)
        object.__setattr__(self, "norm", norm_of(self.norm))
        for field in fields(self):
            if field.name != "norm":
                object.__setattr__(self, field.name, as_floats(getattr(self, field.name)))
        check_bounds(self)
        check_radius(self)

    @classmethod
    def of(cls, value: ThreatLike) -> Threat:
        """A threat as it is; a radius, such as 0.1 or "8/255", as linf on inputs in [0, 1]."""
        return value if isinstance(value, Threat) else cls(number(value) if isinstance(value, str) else value)

    @property
    def plain(self) -> bool:
        """Whether inputs lie in [0, 1] and all features have the same radius."""
        return self.scale is None and self.low == 0 and self.high == 1

    def record(self) -> dict[str, Any]:
        """The threat as JSON, without default bounds and scale; the inverse is `Threat(**record)`."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, usual) in values.items() if name == "norm" or value != usual}

    def check_inputs(self, x: Images) -> None:
        """Refuses inputs outside of the bounds; not on a GPU, where the check would wait for the device."""
        if not self.plain:
            check_features(self, x.detach())
        if x.is_cuda or x.numel() == 0 or not self.plain:
            return
        low, high = x.detach().min().item(), x.detach().max().item()
        if not (low >= 0 and high <= 1):
            raise InputError(
                f"inputs run from {low:g} to {high:g}, but the bounds of the threat are [0, 1]: divide pixels by 255 "
                f"and put normalization inside the model as its first layer, or give Threat(..., low=, high=)"
            )

    def start(self, x: Images, randomness: Randomness) -> Images:
        """Random inputs, uniform in the ball around x, clipped to the bounds."""
        return self.project(x + self.scaled(self.eps * BALLS[self.norm].start(self, x, randomness)), x)

    def ascend(self, gradient: Images, adv: Images, inward: bool = True) -> Images:
        """The steepest step of size 1 from adv along the gradient; if not `inward`, l2 does not see the bounds."""
        if self.norm == "l1" or (self.norm == "l2" and inward):
            gradient = self.inward(gradient, adv)
        return BALLS[self.norm].ascend(self, gradient)

    def project(self, moved: Images, x: Images) -> Images:
        """The moved inputs, brought back into the ball around x and into the bounds."""
        return BALLS[self.norm].project(self, moved, x)

    def size(self, delta: Images) -> PerSample:
        """The size of each change: its norm in units of the scale; infinite where a frozen feature changed."""
        return BALLS[self.norm].length(flat(self.units(delta)))

    def allows(self, adv: Images, x: Images) -> Tensor:
        """Which inputs adv lie within the bounds and, up to rounding, in the ball around x."""
        delta, (low, high) = adv - x, self.bounds(x)
        inside = flat((adv >= low) & (adv <= high)).all(1) & self.size(delta).isfinite()
        unrounded = delta.sign() * (delta.abs() - ROUNDING * x.abs().clamp(min=1)).clamp(min=0)
        return inside & (self.size(unrounded) <= self.eps * (1 + 1e-5))

    def bounds(self, x: Images) -> tuple[float | Tensor, float | Tensor]:
        """The lower and the upper bound of inputs like x; infinite where there is none."""
        low, high = -inf if self.low is None else self.low, inf if self.high is None else self.high
        return row(low, x) if isinstance(low, tuple) else low, row(high, x) if isinstance(high, tuple) else high

    def clip(self, images: Images) -> Images:
        """The inputs, clipped to the bounds in place."""
        low, high = self.bounds(images)
        if isinstance(low, float) and isinstance(high, float):
            return images.clamp_(low, high)
        return images.clamp_(min=low).clamp_(max=high)

    def inward(self, gradient: Images, adv: Images) -> Images:
        """The gradient without the features that it would push out of the bounds."""
        low, high = self.bounds(adv)
        outward = ((adv <= low) & (gradient < 0)) | ((adv >= high) & (gradient > 0))
        return gradient.masked_fill(outward, 0)

    def scaled(self, units: Images) -> Images:
        """Changes in units of the scale -> changes of the input; gradients by the input -> gradients by the units."""
        return units if self.scale is None else units * row(self.scale, units)

    def units(self, delta: Images) -> Images:
        """Changes of the input -> changes in units of the scale."""
        return delta if self.scale is None else (delta / row(self.scale, delta)).masked_fill(delta == 0, 0)

    def free(self, values: Images) -> Images:
        """The values, 0 for frozen features."""
        return values if self.scale is None else values.masked_fill(row(self.scale, values) == 0, 0)


ThreatLike: TypeAlias = Threat | float | str


@dataclass(frozen=True)
class Ball:
    """One norm: random points of the unit ball, the steepest unit step, the way back into the ball, and the length."""

    start: Callable[[Threat, Images, Randomness], Images]
    ascend: Callable[[Threat, Images], Images]
    project: Callable[[Threat, Images, Images], Images]
    length: Callable[[Tensor], PerSample]


def linf_start(threat: Threat, x: Images, randomness: Randomness) -> Images:
    """Uniform in the cube."""
    return 2 * uniform(x, randomness) - 1


def l2_start(threat: Threat, x: Images, randomness: Randomness) -> Images:
    """Uniform in the Euclidean ball: a Gaussian direction and a radius u^(1/d)."""
    direction = threat.free(normal(x, randomness))
    radius = uniform(x.new_empty(len(x)), randomness)
    d = x.shape[1:].numel() if threat.scale is None else sum(map(bool, threat.scale))
    return direction * per_sample(radius ** (1 / d) / flat(direction).norm(dim=1), x)


def l1_start(threat: Threat, x: Images, randomness: Randomness) -> Images:
    """Uniform in the l1 ball: signed exponentials over their sum and one more exponential."""
    sizes = threat.free(exponential(x, randomness))
    signs = (uniform(x, randomness) - 0.5).sign()
    slack = exponential(x.new_empty(len(x)), randomness)
    return signs * sizes / per_sample(flat(sizes).sum(1) + slack, x)


def linf_ascend(threat: Threat, gradient: Images) -> Images:
    """The sign of the gradient; the projection clips steps out of the bounds."""
    return threat.scaled(gradient.sign())


def l2_ascend(threat: Threat, gradient: Images) -> Images:
    """The direction of the gradient; 0 where the gradient is 0."""
    gradient = threat.scaled(gradient)
    tiny = torch.finfo(gradient.dtype).tiny
    return threat.scaled(gradient / per_sample(flat(gradient).norm(dim=1).clamp(min=tiny), gradient))


def l1_ascend(threat: Threat, gradient: Images) -> Images:
    """The signs of the largest partial derivatives, in equal shares."""
    rows = flat(threat.scaled(gradient))
    count = max(1, int(L1_SHARE * rows.shape[1]))
    largest = rows.abs().topk(count, dim=1).indices
    chosen = torch.zeros_like(rows).scatter(1, largest, 1 / count)
    return threat.scaled((rows.sign() * chosen).reshape(gradient.shape))


def linf_project(threat: Threat, moved: Images, x: Images) -> Images:
    """The nearest point; x + eps is met exactly, without the rounding of a difference."""
    reach = threat.eps if threat.scale is None else threat.eps * row(threat.scale, x)
    return threat.clip(torch.clamp(moved, x - reach, x + reach))


def l2_project(threat: Threat, moved: Images, x: Images) -> Images:
    """Shrinks changes longer than eps, then clips; clipping shortens, since x lies within the bounds."""
    delta = threat.free(moved - x)
    norms = threat.size(delta)
    share = threat.eps / norms.clamp(min=threat.eps) if threat.eps > 0 else torch.zeros_like(norms)
    return threat.clip(x + delta * per_sample(share, x))


def l1_project(threat: Threat, moved: Images, x: Images) -> Images:
    """The nearest point: every feature loses the same amount t, and stops at its bound.

    With changes y and rooms r until the bounds, the l1 size after a loss of t is the sum of (|y|-t)+ - (|y|-r-t)+:
    piecewise linear in t with corners at |y| and |y|-r. Sorted, the corners bracket the t that leaves eps.
    """
    delta, (low, high) = threat.free(moved - x), threat.bounds(x)
    y = flat(threat.units(delta))
    size, room = y.abs(), flat(threat.units(torch.where(delta > 0, high - x, x - low)))
    room = room if threat.plain else torch.minimum(room, size)  # without a bound, the room is infinite
    corners, order = torch.cat([size, size - room], 1).sort(dim=1, descending=True)
    slopes = torch.where(order < y.shape[1], 1.0, -1.0).to(y.dtype)
    slope, offset = slopes.cumsum(1), (slopes * corners).cumsum(1)
    left = offset - corners * slope  # the size when t is at this corner; grows along the row
    place = ((left <= threat.eps).sum(1, keepdim=True) - 1).clamp(min=0)
    rate, last = slope.gather(1, place), corners.shape[1] - 1
    after = torch.where(place < last, corners.gather(1, (place + 1).clamp(max=last)), 0)
    loss = torch.where(rate > 0, (offset.gather(1, place) - threat.eps) / rate, after)  # rate 0: constant until then
    kept = torch.minimum((size - loss.clamp(min=0)).clamp(min=0), room)
    return threat.clip(x + threat.scaled((y.sign() * kept).reshape(x.shape)))


BALLS: dict[str, Ball] = {
    "linf": Ball(linf_start, linf_ascend, linf_project, lambda rows: rows.abs().amax(1)),
    "l2": Ball(l2_start, l2_ascend, l2_project, lambda rows: rows.norm(dim=1)),
    "l1": Ball(l1_start, l1_ascend, l1_project, lambda rows: rows.abs().sum(1)),
}


def per_sample(values: Tensor, like: Images) -> Tensor:
    """One value per sample, in a shape that multiplies images."""
    return values.reshape(-1, *[1] * (like.dim() - 1))


def flat(images: Tensor) -> Tensor:
    """Each image as one row."""
    return images.flatten(1)


def row(values: tuple[float, ...], like: Images) -> Tensor:
    """One value per feature, in the shape of an input."""
    return tensor_of(values, like.dtype, like.device).reshape(like.shape[1:])


@lru_cache(maxsize=32)
def tensor_of(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """The values on a device, made once, so that a recorded training step can read them."""
    return torch.tensor(values, dtype=dtype, device=device)


def as_floats(value: Any) -> Any:
    """A number as a float, several numbers as a tuple of floats, None as it is."""
    if isinstance(value, Iterable) and getattr(value, "ndim", None) != 0:  # a number of numpy or torch has no axis
        return tuple(float(one) for one in value)
    return None if value is None else float(value)


def check_bounds(threat: Threat) -> None:
    """Refuses contradicting bounds and invalid scales."""
    counts = {len(value) for value in (threat.low, threat.high, threat.scale) if isinstance(value, tuple)}
    if len(counts) > 1:
        raise InputError(f"low, high and scale have {counts} values: give one value per feature to each of them")
    lows = threat.low if isinstance(threat.low, tuple) else repeat(-inf if threat.low is None else threat.low)
    highs = threat.high if isinstance(threat.high, tuple) else repeat(inf if threat.high is None else threat.high)
    for low, high, _ in zip(lows, highs, range(max(counts, default=1)), strict=False):
        if not low <= high:
            raise InputError(f"low = {low:g} and high = {high:g}: give a lower bound that is not above the upper bound")
    scale = threat.scale if isinstance(threat.scale, tuple) else ()
    if threat.scale is not None and not (all(0 <= value < inf for value in scale) and any(scale)):
        raise InputError("scale: give one finite number of 0 or more per feature, at least one of them above 0")


def check_radius(threat: Threat) -> None:
    """Refuses a radius that is negative, infinite or meant for pixels of 0 to 255."""
    if not 0 <= threat.eps < inf:
        raise InputError(f"eps = {threat.eps}: the radius of an attack is a finite number of 0 or more")
    if threat.plain and threat.norm == "linf" and threat.eps > 1:
        eps = f"{threat.eps:g}"
        raise InputError(f"eps = {eps} is more than the whole range of a pixel in [0, 1]: did you mean {eps}/255?")


def check_features(threat: Threat, x: Images) -> None:
    """Refuses inputs of another number of features, or of values outside of the bounds."""
    for name in ("low", "high", "scale"):
        value, features = getattr(threat, name), x.shape[1:].numel()
        if isinstance(value, tuple) and len(value) != features:
            raise InputError(f"{name} has {len(value)} values for {features} features: give one value per feature")
    if x.is_cuda:
        return
    low, high = threat.bounds(x)
    outside = flat(~((x >= low) & (x <= high))).any(0).nonzero().flatten().tolist()
    if outside:
        values = f"{flat(x)[:, outside[0]].min():g} to {flat(x)[:, outside[0]].max():g}"
        raise InputError(f"feature {outside[0]} of the inputs runs from {values}: give bounds that hold for all inputs")
