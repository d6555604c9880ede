"""Square attack (Andriushchenko et al., 2020; l1: Croce & Hein, 2021): random search without gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from orat.attacks.base import Attack, frozen
from orat.attacks.replay import Replay, Step
from orat.attacks.square_steps import SQUARES, Squares
from orat.attacks.threat import Threat, ThreatLike, per_sample
from orat.core.errors import InputError
from orat.core.losses import margin
from orat.core.random import Randomness, take, uniform
from orat.core.types import Images, Labels, PerSample

FIRST_SHARE = 0.8  # of the image, covered by the first squares
HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # queries after which the share is halved
RECORDING = 0.02  # share of samples that must be broken before a GPU records the steps anew
LONGEST_BLOCK = 100  # queries with random numbers drawn at once


@dataclass(frozen=True)
class Square(Attack):
    """Tries squares of random place and sign, and keeps a square that raises the margin; per sample."""

    half: ClassVar[torch.dtype | None] = torch.float16  # its digits resolve the small gains of late queries
    follows_gradients: ClassVar[bool] = False

    queries: int = 5000

    def __post_init__(self) -> None:
        if self.queries < 1:
            raise InputError(f"queries = {self.queries}: give 1 or more")

    def __call__(
        self, model: nn.Module, x: Images, y: Labels, threat: ThreatLike, draws: Randomness | None = None
    ) -> Images:
        """For each sample an adversarial input, or the input of the largest margin."""
        threat, randomness = self.prepared(threat, x, draws)
        with frozen(model), torch.no_grad():
            return self.search(model, x, y, threat, randomness)

    def work(self, threat: Threat, classes: int) -> int:
        """One forward pass per query."""
        return self.queries

    def search(self, model: nn.Module, x: Images, y: Labels, threat: Threat, randomness: Randomness) -> Images:
        """Proposes one square per query and sample; broken samples leave between blocks of queries."""
        squares = SQUARES[threat.norm](x.reshape(len(x), *image_shape(x)), threat.eps)
        best = squares.start(uniform(x.new_empty(len(x), squares.start_count), randomness))
        state: tuple[Tensor, ...] = (best, *ask(model, best, x.shape[1:], y))
        reached, row = best.clone(), torch.arange(len(x), device=x.device)
        replay, recorded = None, None
        for first, last in blocks(self.queries):
            stay = ~state[2]
            if (~stay).sum() > (RECORDING if x.is_cuda else 0) * len(row):
                reached[row] = state[0]
                squares.take(stay)
                randomness, recorded = take(randomness, stay), None
                row, y, state = row[stay], y[stay], tuple(values[stay] for values in state)
                if not len(row):
                    break
            numbers = uniform(x.new_empty(len(row), last - first, squares.square_count), randomness)
            if replay is None or recorded != share(first):
                recorded = share(first)
                step = self.trial(model, squares, recorded, x.shape[1:], y)
                replay = Replay(step, state, numbers[:, 0], replay)
            for query in range(last - first):
                replay(numbers[:, query])
            state = replay.state
        reached[row] = state[0]
        return reached.reshape(x.shape)

    def trial(self, model: nn.Module, squares: Squares, share: float, shape: tuple[int, ...], y: Labels) -> Step:
        """One query: a square per sample, kept where the margin grows."""

        def step(best: Images, value: PerSample, wrong: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
            proposed = squares.propose(best, share, numbers)
            new_value, new_wrong = ask_changed(model, proposed, best, shape, y)
            better = ((new_value > value) | new_wrong) & ~wrong  # of equal logits, the first wins: no margin grows
            best = torch.where(per_sample(better, best), proposed, best)
            return best, torch.where(better, new_value, value), wrong | (better & new_wrong)

        return step


def blocks(queries: int) -> Iterator[tuple[int, int]]:
    """The queries in blocks of at most a hundred, each with squares of one size."""
    borders = sorted({0, queries, *range(0, queries, LONGEST_BLOCK), *(after + 1 for after in HALVED_AFTER)})
    return pairwise(border for border in borders if border <= queries)


def ask(model: nn.Module, images: Images, shape: tuple[int, ...], y: Labels) -> tuple[PerSample, Tensor]:
    """The margin at each image, and whether the network misclassifies the image."""
    logits = model(images.reshape(len(images), *shape))
    return margin(logits, y), logits.argmax(1) != y


def ask_changed(
    model: nn.Module, images: Images, best: Images, shape: tuple[int, ...], y: Labels
) -> tuple[PerSample, Tensor]:
    """The same for the images that a square changed: a fifth of the later squares changes nothing."""
    if images.is_cuda:  # counting would wait for the GPU
        return ask(model, images, shape, y)
    changed = (images != best).flatten(1).any(1)
    value, wrong = y.new_full((len(y),), -torch.inf, dtype=images.dtype), torch.zeros_like(changed)
    if changed.any():  # not every network takes an empty batch
        value[changed], wrong[changed] = ask(model, images[changed], shape, y[changed])
    return value, wrong


def image_shape(x: Images) -> tuple[int, int, int]:
    """Channels, height and width; other inputs are images of one row."""
    if x.dim() == 4:
        return x.shape[1], x.shape[2], x.shape[3]
    return 1, 1, x.shape[1:].numel()


def share(query: int) -> float:
    """The share of the image under a square at this query."""
    return FIRST_SHARE / 2 ** sum(query > limit for limit in HALVED_AFTER)
