"""A data set in memory -> batches on its device, shuffled, cropped and flipped there."""

from __future__ import annotations

from math import ceil

import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

from orat.core.types import Batch, Images, Indices
from orat.data.source import Dataset


def on_device(dataset: Dataset, device: torch.device) -> Dataset:
    """The data set on the device as a whole where it takes at most half of what is free there, else where it is."""
    if device.type == "cuda" and dataset.images.nbytes > torch.cuda.mem_get_info(device)[0] / 2:
        return dataset
    return dataset.to(device)


PADDING = 4  # pixels on each side that a random crop may move by, as is usual on CIFAR
NUDGE = 16  # times smaller than an image is how far a nudge may move it


def shuffled(n: int, seed: int, epoch: int) -> Indices:
    """The order of one epoch; a function of seed and epoch alone, so that a resumed epoch finds it again."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(1_000_003 * seed + epoch))


def steps_per_epoch(n: int, batch_size: int) -> int:
    """How many batches an epoch has."""
    return ceil(n / batch_size)


def divided(order: Indices, batch_size: int) -> list[Tensor]:
    """The samples of each step: full batches, and two of half the rest and half a batch, so that none is tiny."""
    rest = len(order) % batch_size
    if not rest or len(order) < batch_size:
        return list(order.split(batch_size))
    full = len(order) - rest - batch_size
    return [*(order[:full].split(batch_size) if full else ()), *order[full:].tensor_split(2)]


def batch_of(data: Dataset, index: Indices, augment: str, generator: Generator) -> Batch:
    """These samples on the generator's device, randomly changed; `index` lies where the data does."""
    device = generator.device
    images = augmented(data.images[index].to(device), augment, generator)
    return Batch(as_input(images), data.labels[index].to(device), index.to(device))


def as_input(images: Tensor) -> Images:
    """Images as a network takes them: float32 in [0, 1], channels last in memory."""
    x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def augmented(images: Tensor, augment: str, generator: Generator) -> Tensor:
    """Images after the random changes that `augment` names."""
    if "crop" in augment:
        images = moved(images, PADDING, generator)
    if "nudge" in augment and images.dim() == 4:
        images = moved(images, min(images.shape[2:]) // NUDGE, generator)
    if "flip" in augment:
        images = flipped(images, generator)
    return images


def moved(images: Tensor, most: int, generator: Generator) -> Tensor:
    """Each image moved by up to so many pixels in both directions, zeros coming in."""
    n, _, height, width = images.shape
    moves = torch.randint(0, 2 * most + 1, (2, n, 1), generator=generator, device=images.device)
    rows = moves[0] + torch.arange(height, device=images.device)
    columns = moves[1] + torch.arange(width, device=images.device)
    padded = pad(images, (most,) * 4).movedim(1, -1)
    samples = torch.arange(n, device=images.device)
    return padded[samples[:, None, None], rows[:, :, None], columns[:, None, :]].movedim(-1, 1)


def flipped(images: Tensor, generator: Generator) -> Tensor:
    """Half of the images mirrored left to right."""
    coins = torch.rand(len(images), generator=generator, device=images.device) < 0.5
    return torch.where(coins[:, None, None, None], images.flip(3), images)
