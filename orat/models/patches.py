"""Features of images without training: the likeness to random patches of the images themselves.

Patches are whitened (Coates, Ng and Lee, 2011) and have length 1, so that contrast does not count.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from orat.core.types import Images

COUNT, SIDE, STRIDE = 256, 6, 2  # patches, their pixels a side, and pixels between places in an image
DRAWN = 20_000  # patches for the covariance
SMALL = 1e-3  # added to the variances, as a share of their mean
LIKENESS = 0.15  # cosine above which a place counts
PLACES = 3  # parts of an image a side; likeness is averaged in each
LARGEST = 48  # pixels of the longer side of an image
SHORTEST = 1e-6  # length of a patch that is not scaled up


class Patches(nn.Module):
    """The mean likeness of each part of an image to each patch and to its negative."""

    filters: Tensor
    bias: Tensor
    whitening: Tensor
    shift: Tensor

    def __init__(self, images: Tensor, generator: Generator) -> None:
        """Draws the patches from images (n, channels, height, width) in [0, 1]."""
        super().__init__()
        drawn = patches_of(images, DRAWN, generator)
        mean, channels = drawn.mean(0), images.shape[1]
        variances, axes = torch.linalg.eigh((drawn - mean).T.cov(correction=0))
        whiten = (axes * (variances + SMALL * variances.mean()).rsqrt()) @ axes.T
        known = functional.normalize((drawn[:COUNT] - mean) @ whiten, dim=1) @ whiten
        for name, rows in (("filters", known), ("whitening", whiten)):
            self.register_buffer(name, rows.reshape(-1, channels, SIDE, SIDE).float())
        self.register_buffer("bias", -(known @ mean).float())
        self.register_buffer("shift", -(whiten @ mean).float())

    def forward(self, x: Images) -> Tensor:
        x = shrunk(x)
        length = functional.conv2d(x, self.whitening, self.shift, STRIDE).norm(dim=1, keepdim=True)
        likeness = functional.conv2d(x, self.filters, self.bias, STRIDE) / length.clamp(min=SHORTEST)
        both = torch.cat([likeness - LIKENESS, -likeness - LIKENESS], 1).relu()
        return functional.adaptive_avg_pool2d(both, PLACES).flatten(1)


def patches_of(images: Tensor, count: int, generator: Generator) -> Tensor:
    """Random patches of random images, one in a row, in double precision."""
    which = torch.randint(len(images), (count,), generator=generator)
    x = shrunk(images[which])
    places = (torch.randint(side - SIDE + 1, (count, 1), generator=generator) for side in x.shape[2:])
    rows, columns = (place + torch.arange(SIDE) for place in places)
    found = x[torch.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return found.movedim(-1, 1).flatten(1).double()


def shrunk(x: Images) -> Images:
    """Images with at most `LARGEST` pixels of the longer side."""
    height, width = x.shape[2:]
    if max(height, width) <= LARGEST:
        return x
    size = [max(SIDE, round(side * LARGEST / max(height, width))) for side in (height, width)]
    return functional.interpolate(x, size=size, mode="bilinear", antialias=True)


def takes(shape: tuple[int, ...]) -> bool:
    """Whether samples of a shape are images that hold several places of a patch in each part."""
    return len(shape) == 3 and min(shape[1:]) >= SIDE + STRIDE * PLACES
