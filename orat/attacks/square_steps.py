"""The squares of each norm: the start of the search, and the change of an image by a square."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from orat.attacks.threat import Norm, Threat, per_sample

TILES = 5  # along the shorter side of the image, at the start in l2 and l1
SMALLEST_WINDOW = 3  # side of a window in l2 and l1, with room for two signs
STEEPNESS = {"l2": 2, "l1": 4}  # of a bump: rings grow by 1 / ring ** steepness toward the middle
INSIDE = 1 - 1e-6  # share of eps in l1, so that rounding does not leave the ball
TINY = 1e-12


@runtime_checkable
class Squares(Protocol):
    """Start and proposals of one norm for images (n, channels, height, width), from uniform numbers (n, count)."""

    start_count: int
    square_count: int

    def start(self, numbers: Tensor) -> Tensor: ...
    def propose(self, best: Tensor, share: float, numbers: Tensor) -> Tensor: ...
    def take(self, rows: Tensor) -> None: ...


class Corners:
    """linf: every pixel is x + eps or x - eps; a square draws one sign per channel."""

    def __init__(self, x: Tensor, eps: float) -> None:
        self.low, self.high = (x - eps).clamp_(0, 1), (x + eps).clamp_(0, 1)
        _, self.channels, self.height, self.width = x.shape
        self.start_count, self.square_count = self.channels * self.width, 2 + self.channels

    def start(self, numbers: Tensor) -> Tensor:
        """Vertical stripes."""
        return torch.where(numbers.reshape(-1, self.channels, 1, self.width) > 0.5, self.high, self.low)

    def propose(self, best: Tensor, share: float, numbers: Tensor) -> Tensor:
        """One more square, at the same place in all channels."""
        side = min(max(round(sqrt(share * self.height * self.width)), 1), self.height, self.width)
        rows = covered(places(numbers[:, 0], side, self.height), side, self.height)
        columns = covered(places(numbers[:, 1], side, self.width), side, self.width)
        up = numbers[:, 2:, None, None] > 0.5
        return torch.where(rows[:, None, :, None] & columns[:, None, None], torch.where(up, self.high, self.low), best)

    def take(self, rows: Tensor) -> None:
        """Drops the other samples."""
        self.low, self.high = self.low[rows], self.high[rows]


class Windows:
    """l2 and l1: the change inside one window moves to another window, plus a bump of two signs."""

    def __init__(self, x: Tensor, eps: float, norm: Norm) -> None:
        self.x, self.eps, self.norm, self.power = x, eps, norm, int(norm[1])
        self.surface = Threat(eps if norm == "l2" else INSIDE * eps, norm)
        _, self.channels, self.height, self.width = x.shape
        self.bumps: dict[int, Tensor] = {}
        side = max(min(self.height, self.width) // TILES, 1)
        self.tiles = [
            (slice(row, row + side), slice(column, column + side))
            for row in range(self.height % side // 2, self.height - side + 1, side)
            for column in range(self.width % side // 2, self.width - side + 1, side)
        ]
        self.tile_side = side
        self.start_count, self.square_count = len(self.tiles) * (1 + self.channels), 5 + self.channels

    def start(self, numbers: Tensor) -> Tensor:
        """A bump in every tile."""
        delta = torch.zeros_like(self.x)
        for (rows, columns), own in zip(self.tiles, numbers.tensor_split(len(self.tiles), 1), strict=True):
            bump = self.bump(self.tile_side, own[:, :1]) * sign(own[:, 1:, None])
            delta[:, :, rows, columns] = bump.reshape(*bump.shape[:2], self.tile_side, self.tile_side)
        return self.finished(delta)

    def propose(self, best: Tensor, share: float, numbers: Tensor) -> Tensor:
        """The first window takes the norm of the second window."""
        side = max(round(sqrt(share * self.height * self.width)), SMALLEST_WINDOW)
        side = min(side + 1 - side % 2, self.height, self.width)
        delta = (best - self.x).flatten(2)
        first, second = (self.window(own, side, delta) for own in (numbers[:, :2], numbers[:, 2:4]))
        in_both = delta - delta.scatter(2, first, 0).scatter(2, second, 0)
        old = delta.gather(2, first)
        new = self.bump(side, numbers[:, 4:5]) * sign(numbers[:, 5:, None]) + old / (self.size(old) + TINY)
        free = (self.eps**self.power - self.surface.size(delta) ** self.power).clamp(min=0)[:, None, None]
        mass = (free / self.channels + self.size(in_both) ** self.power) ** (1 / self.power)
        if self.norm == "l1":
            mass = mass * self.channels
        new = new / (self.size(new) + TINY) * mass
        return self.finished(delta.scatter(2, second, 0).scatter(2, first, new).reshape(best.shape))

    def take(self, rows: Tensor) -> None:
        """Drops the other samples."""
        self.x = self.x[rows]

    def finished(self, delta: Tensor) -> Tensor:
        """The changed image, scaled (l2) or projected (l1) onto the surface of the ball."""
        if self.norm == "l1":
            return self.surface.project(self.x + delta, self.x)
        scale = self.eps / (self.surface.size(delta) + TINY)
        return (self.x + per_sample(scale, delta) * delta).clamp_(0, 1)

    def window(self, numbers: Tensor, side: int, delta: Tensor) -> Tensor:
        """The pixels of one window per sample, in all channels, as places in the flattened image."""
        reach = torch.arange(side, device=delta.device)
        rows = places(numbers[:, :1], side, self.height) + reach
        columns = places(numbers[:, 1:], side, self.width) + reach
        pixels = (rows[:, :, None] * self.width + columns[:, None]).flatten(1)
        return pixels[:, None].expand(-1, self.channels, -1)

    def bump(self, side: int, numbers: Tensor) -> Tensor:
        """One flattened bump per sample, upright or lying."""
        if side not in self.bumps:
            self.bumps[side] = two_signs(side, self.norm).to(self.x)
        bump = self.bumps[side]
        return torch.where(numbers > 0.5, bump.T.flatten(), bump.flatten())[:, None]

    def size(self, values: Tensor) -> Tensor:
        """The norm of each channel."""
        return values.norm(self.power, dim=2, keepdim=True)


def two_signs(side: int, norm: Norm) -> Tensor:
    """A positive mound above a negative one, of size 1."""
    half = side // 2
    bump = torch.cat([mound(half, side, norm), -mound(side - half, side, norm)])
    return bump / bump.norm(int(norm[1]))


def mound(height: int, width: int, norm: Norm) -> Tensor:
    """A rectangle of size 1 that rises in rings toward the middle."""
    rows = (torch.arange(height) - height // 2).abs()
    columns = (torch.arange(width) - width // 2).abs()
    ring = torch.maximum(rows[:, None], columns)
    rings = max(height // 2, width // 2) + 1
    rise = torch.arange(1, rings + 1, dtype=torch.float64) ** -STEEPNESS[norm]
    values = rise.flip(0).cumsum(0).flip(0)[ring]
    return values / values.norm(int(norm[1])) if height else values


def places(numbers: Tensor, side: int, length: int) -> Tensor:
    """Random first pixels of a side inside a length, all equally likely."""
    return (numbers * (length - side + 1)).long().clamp(max=length - side)


def covered(first: Tensor, side: int, length: int) -> Tensor:
    """Which rows, or columns, a square with this first row covers."""
    distance = torch.arange(length, device=first.device) - first[:, None]
    return (distance >= 0) & (distance < side)


def sign(numbers: Tensor) -> Tensor:
    """Random signs."""
    return torch.where(numbers > 0.5, 1.0, -1.0).to(numbers.dtype)


SQUARES: dict[str, Callable[[Tensor, float], Squares]] = {
    "linf": Corners,
    "l2": lambda x, eps: Windows(x, eps, "l2"),
    "l1": lambda x, eps: Windows(x, eps, "l1"),
}
