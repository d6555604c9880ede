"""Square attack (Andriushchenko et al., 2020; l1: Croce & Hein, 2021): random search that asks for no gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from orat.attacks.attempts import GPU_PATIENCE
from orat.attacks.balls import per_sample
from orat.attacks.chance import Source, source_of, take, uniform
from orat.attacks.pgd import check_images, check_radius, frozen
from orat.attacks.squares import SQUARES
from orat.errors import InputError
from orat.losses import margin
from orat.types import Images, Labels, PerSample

FIRST_SHARE = 0.8  # of the image that the first squares cover
HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # queries; the share is halved after each
DRAWN_TOGETHER = 100  # queries whose random numbers are drawn at once


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
        """Proposes a square to every sample that stands, query by query."""
        squares = SQUARES[self.norm](x.reshape(len(x), *image_shape(x)), self.eps)
        best = squares.start(uniform(x.new_empty(len(x), squares.start_count), source))
        value, wrong = ask(model, best, x.shape[1:], y)
        reached, row = best.clone(), torch.arange(len(x), device=x.device)
        for query in range(self.queries):
            if query % DRAWN_TOGETHER == 0:
                numbers = uniform(x.new_empty(len(row), DRAWN_TOGETHER, squares.square_count), source)
            if (query % GPU_PATIENCE == 0 or not x.is_cuda) and wrong.any():
                reached[row] = best
                stay = ~wrong
                squares.take(stay)
                source = take(source, stay)
                row, y, best, value, wrong, numbers = (t[stay] for t in (row, y, best, value, wrong, numbers))
                if not len(row):
                    break
            proposed = squares.propose(best, share(query), numbers[:, query % DRAWN_TOGETHER])
            new_value, new_wrong = ask(model, proposed, x.shape[1:], y)
            better = (new_value > value) & ~wrong
            best = torch.where(per_sample(better, best), proposed, best)
            value = torch.where(better, new_value, value)
            wrong = wrong | (better & new_wrong)
        reached[row] = best
        return reached.reshape(x.shape)


def ask(model: nn.Module, images: Images, shape: tuple[int, ...], y: Labels) -> tuple[PerSample, Tensor]:
    """The margin at each image, in the shape that the model takes, and whether the model is wrong there."""
    logits = model(images.reshape(len(images), *shape))
    return margin(logits, y), logits.argmax(1) != y


def image_shape(x: Images) -> tuple[int, int, int]:
    """Channels, height and width; a point of the plane is an image of one row."""
    if x.dim() == 4:
        return x.shape[1], x.shape[2], x.shape[3]
    return 1, 1, x[0].numel()


def share(query: int) -> float:
    """The share of the image that a square covers at this query."""
    return FIRST_SHARE / 2 ** sum(query > limit for limit in HALVED_AFTER)
