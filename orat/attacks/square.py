"""Square attack (Andriushchenko et al., 2020; l1: Croce & Hein, 2021): random search that asks for no gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from orat.attacks.balls import per_sample
from orat.attacks.pgd import check_images, check_radius, frozen
from orat.attacks.replay import Replay, Step
from orat.attacks.square_steps import SQUARES, Squares
from orat.core.errors import InputError
from orat.core.losses import margin
from orat.core.random import Source, source_of, take, uniform
from orat.core.types import Images, Labels, PerSample

FIRST_SHARE = 0.8  # of the image that the first squares cover
HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # queries; the share is halved after each
RECORDING = 0.02  # of the samples must leave before a GPU records its steps anew
LONGEST_BLOCK = 100  # queries whose random numbers are drawn at once


@dataclass(frozen=True)
class Square:
    """Tries squares of random place and sign and keeps those that help; every sample has its own squares."""

    eps: float
    norm: str = "linf"
    queries: int = 5000

    def __post_init__(self) -> None:
        check_radius(self.eps, self.norm)
        if self.queries < 1:
            raise InputError(f"queries = {self.queries}: give 1 or more")

    def __call__(self, model: nn.Module, x: Images, y: Labels, generator: Source | None = None) -> Images:
        """For each sample a point of its ball where the model is wrong, or the worst one found."""
        check_images(x)
        with frozen(model), torch.no_grad():
            return self.search(model, x, y, source_of(generator, x))

    def search(self, model: nn.Module, x: Images, y: Labels, source: Source) -> Images:
        """Proposes a square to every sample that stands, query by query; what is broken leaves between blocks."""
        squares = SQUARES[self.norm](x.reshape(len(x), *image_shape(x)), self.eps)
        best = squares.start(uniform(x.new_empty(len(x), squares.start_count), source))
        state: tuple[Tensor, ...] = (best, *ask(model, best, x.shape[1:], y))
        reached, row = best.clone(), torch.arange(len(x), device=x.device)
        replay, recorded = None, None
        for first, last in blocks(self.queries):
            stay = ~state[2]
            if (~stay).sum() > (RECORDING if x.is_cuda else 0) * len(row):
                reached[row] = state[0]
                squares.take(stay)
                source, recorded = take(source, stay), None
                row, y, state = row[stay], y[stay], tuple(values[stay] for values in state)
                if not len(row):
                    break
            numbers = uniform(x.new_empty(len(row), last - first, squares.square_count), source)
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
        """One query: a square for each sample, kept where the margin grows."""

        def step(best: Images, value: PerSample, wrong: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
            proposed = squares.propose(best, share, numbers)
            new_value, new_wrong = ask_changed(model, proposed, best, shape, y)
            better = (new_value > value) & ~wrong
            best = torch.where(per_sample(better, best), proposed, best)
            return best, torch.where(better, new_value, value), wrong | (better & new_wrong)

        return step


def blocks(queries: int) -> Iterator[tuple[int, int]]:
    """The queries in blocks of at most a hundred, within which squares have one size."""
    borders = sorted({0, queries, *range(0, queries, LONGEST_BLOCK), *(after + 1 for after in HALVED_AFTER)})
    return pairwise(border for border in borders if border <= queries)


def ask(model: nn.Module, images: Images, shape: tuple[int, ...], y: Labels) -> tuple[PerSample, Tensor]:
    """The margin at each image, in the shape that the model takes, and whether the model is wrong there."""
    logits = model(images.reshape(len(images), *shape))
    return margin(logits, y), logits.argmax(1) != y


def ask_changed(
    model: nn.Module, images: Images, best: Images, shape: tuple[int, ...], y: Labels
) -> tuple[PerSample, Tensor]:
    """The same where a square changed anything: a fifth of the later ones does not, and cannot help."""
    if images.is_cuda:  # which would have to wait for the count
        return ask(model, images, shape, y)
    changed = (images != best).flatten(1).any(1)
    value, wrong = y.new_full((len(y),), -torch.inf, dtype=images.dtype), torch.zeros_like(changed)
    if changed.any():  # not every model takes an empty batch
        value[changed], wrong[changed] = ask(model, images[changed], shape, y[changed])
    return value, wrong


def image_shape(x: Images) -> tuple[int, int, int]:
    """Channels, height and width; a point of the plane is an image of one row."""
    if x.dim() == 4:
        return x.shape[1], x.shape[2], x.shape[3]
    return 1, 1, x.shape[1:].numel()


def share(query: int) -> float:
    """The share of the image that a square covers at this query."""
    return FIRST_SHARE / 2 ** sum(query > limit for limit in HALVED_AFTER)
