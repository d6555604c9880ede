"""Random numbers that belong to a sample: they depend on seed, sample and draw, never on the batch or the device."""

from __future__ import annotations

from math import prod, sqrt
from typing import TypeAlias

import torch
from torch import Generator, Tensor

from orat.core.types import Indices


class Draws:
    """One stream of random numbers for each sample of a batch; a draw gives every sample its own next numbers."""

    def __init__(self, keys: Indices, drawn: int = 0) -> None:
        self.keys = keys
        self.drawn = drawn

    @classmethod
    def of(cls, seed: int, index: Indices) -> Draws:
        """The streams of the samples with these places in their data set."""
        return cls(mixed(mixed((torch.full_like(index, seed) + 1) * GOLDEN) + index * GOLDEN))

    def take(self, rows: Tensor) -> Draws:
        """The streams of some of the samples, from where they are now."""
        return Draws(self.keys[rows], self.drawn)

    def fork(self, number: int | Indices) -> Draws:
        """Other streams of the same samples: one for each restart or target class."""
        return Draws(mixed(self.keys + (torch.as_tensor(number, device=self.keys.device) + 1) * GOLDEN))

    def uniform(self, shape: tuple[int, ...]) -> Tensor:
        """Numbers strictly between 0 and 1, of this shape for every sample, in double precision."""
        count = prod(shape)
        counter = torch.arange(self.drawn + 1, self.drawn + count + 1, device=self.keys.device)
        self.drawn += count
        bits = mixed(self.keys[:, None] + counter * GOLDEN)
        return ((shifted(bits, 12).double() + 0.5) * 2.0**-52).reshape(-1, *shape)  # one digit more would round to 1


Source: TypeAlias = Generator | Draws


def source_of(given: Source | None, x: Tensor) -> Source:
    """What to draw from where nothing is given: seed 0 and the place in the batch, so that no global state is used."""
    return Draws.of(0, torch.arange(len(x), device=x.device)) if given is None else given


def fork(source: Source, number: int | Indices) -> Source:
    """Other streams, where each sample has its own; one generator for all goes on as it is."""
    return source.fork(number) if isinstance(source, Draws) else source


def take(source: Source, rows: Tensor) -> Source:
    """The streams of some of the samples; one generator for all goes on as it is."""
    return source.take(rows) if isinstance(source, Draws) else source


def uniform(x: Tensor, source: Source) -> Tensor:
    """Uniform numbers between 0 and 1 in the shape of x."""
    if isinstance(source, Generator):
        return torch.empty_like(x).uniform_(generator=source)
    return torch.empty_like(x).copy_(source.uniform(x.shape[1:]))


def normal(x: Tensor, source: Source) -> Tensor:
    """Standard normal numbers in the shape of x."""
    if isinstance(source, Generator):
        return torch.empty_like(x).normal_(generator=source)
    return torch.empty_like(x).copy_(sqrt(2) * torch.erfinv(2 * source.uniform(x.shape[1:]) - 1))


def exponential(x: Tensor, source: Source) -> Tensor:
    """Exponential numbers of mean 1 in the shape of x."""
    if isinstance(source, Generator):
        return torch.empty_like(x).exponential_(generator=source)
    return torch.empty_like(x).copy_(-source.uniform(x.shape[1:]).log())


# As int64, whose products wrap around.
GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
MIXERS = ((30, 0xBF58476D1CE4E5B9 - (1 << 64)), (27, 0x94D049BB133111EB - (1 << 64)))


def mixed(bits: Tensor) -> Tensor:
    """Every bit of the result depends on every bit given."""
    for shift, factor in MIXERS:
        bits = (bits ^ shifted(bits, shift)) * factor
    return bits ^ shifted(bits, 31)


def shifted(bits: Tensor, by: int) -> Tensor:
    """A shift to the right that brings in zeros, whatever the sign."""
    return (bits >> by) & ((1 << (64 - by)) - 1)
