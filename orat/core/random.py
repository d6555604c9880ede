"""Random numbers per sample: a function of seed, sample and draw, whatever the batch and the device."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from math import prod, sqrt
from typing import TypeAlias

import numpy as np
import torch
from torch import Generator, Tensor

from orat.core.types import Indices


class Draws:
    """One stream of random numbers per sample of a batch; every draw advances all streams."""

    def __init__(self, keys: Indices, drawn: int = 0) -> None:
        self.keys = keys
        self.drawn = drawn

    @classmethod
    def of(cls, seed: int, index: Indices) -> Draws:
        """The streams of the samples with these places in the data set."""
        return cls(mixed(mixed((torch.full_like(index, seed) + 1) * GOLDEN) + index * GOLDEN))

    def take(self, rows: Tensor) -> Draws:
        """The streams of some samples, at their present position."""
        return Draws(self.keys[rows], self.drawn)

    def fork(self, number: int | Indices) -> Draws:
        """New streams of the same samples, for example one per restart or target class."""
        return Draws(mixed(self.keys + (torch.as_tensor(number, device=self.keys.device) + 1) * GOLDEN))

    def uniform(self, shape: tuple[int, ...]) -> Tensor:
        """Numbers strictly between 0 and 1 in double precision, of this shape per sample."""
        count = prod(shape)
        counter = torch.arange(self.drawn + 1, self.drawn + count + 1, device=self.keys.device)
        self.drawn += count
        bits = mixed(self.keys[:, None] + counter * GOLDEN)
        return ((shifted(bits, 12).double() + 0.5) * 2.0**-52).reshape(-1, *shape)  # one more bit would round to 1


Randomness: TypeAlias = Generator | Draws


def randomness_of(given: Randomness | None, x: Tensor) -> Randomness:
    """The given randomness; by default streams of seed 0 and the place in the batch, without global state."""
    return Draws.of(0, torch.arange(len(x), device=x.device)) if given is None else given


def fork(randomness: Randomness, number: int | Indices) -> Randomness:
    """New streams for streams per sample; a generator stays the same."""
    return randomness.fork(number) if isinstance(randomness, Draws) else randomness


def take(randomness: Randomness, rows: Tensor) -> Randomness:
    """The streams of some samples; a generator stays the same."""
    return randomness.take(rows) if isinstance(randomness, Draws) else randomness


def uniform(x: Tensor, randomness: Randomness | None) -> Tensor:
    """Uniform numbers between 0 and 1 in the shape of x."""
    randomness = randomness_of(randomness, x)
    if isinstance(randomness, Generator):
        return torch.empty_like(x).uniform_(generator=randomness)
    return torch.empty_like(x).copy_(randomness.uniform(x.shape[1:]))


def normal(x: Tensor, randomness: Randomness | None) -> Tensor:
    """Standard normal numbers in the shape of x."""
    randomness = randomness_of(randomness, x)
    if isinstance(randomness, Generator):
        return torch.empty_like(x).normal_(generator=randomness)
    return torch.empty_like(x).copy_(sqrt(2) * torch.erfinv(2 * randomness.uniform(x.shape[1:]) - 1))


def exponential(x: Tensor, randomness: Randomness | None) -> Tensor:
    """Exponential numbers of mean 1 in the shape of x."""
    randomness = randomness_of(randomness, x)
    if isinstance(randomness, Generator):
        return torch.empty_like(x).exponential_(generator=randomness)
    return torch.empty_like(x).copy_(-randomness.uniform(x.shape[1:]).log())


CPU = torch.device("cpu")


@contextmanager
def seeded(seed: int, device: torch.device = CPU) -> Iterator[None]:
    """Seeds the global generators of torch, Python and NumPy for a user's code; restores all states afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        # Not torch.manual_seed, which would also seed other GPUs, whose state is not restored.
        torch.default_generator.manual_seed(seed)
        for gpu in devices:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def global_states(device: torch.device = CPU) -> Hashable:
    """The states of the global generators of torch, Python and NumPy."""
    torch_states = [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]
    numpy = np.random.get_state(legacy=False)["state"]
    return random.getstate(), numpy["key"].tobytes(), numpy["pos"], *(bytes(state.numpy()) for state in torch_states)


# As int64, whose products wrap around.
GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
MIXERS = ((30, 0xBF58476D1CE4E5B9 - (1 << 64)), (27, 0x94D049BB133111EB - (1 << 64)))


def mixed(bits: Tensor) -> Tensor:
    """The output function of SplitMix64 (Steele, Lea, Flood, 2014)."""
    for shift, factor in MIXERS:
        bits = (bits ^ shifted(bits, shift)) * factor
    return bits ^ shifted(bits, 31)


def shifted(bits: Tensor, by: int) -> Tensor:
    """A logical shift to the right: zeros come in, whatever the sign."""
    return (bits >> by) & ((1 << (64 - by)) - 1)
