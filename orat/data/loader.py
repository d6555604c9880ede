"""Batches of a source on a device: resident in its memory, or streamed to it; shuffled, cropped and flipped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from math import ceil
from typing import Any, TypeAlias

import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

from orat.core.errors import InputError
from orat.core.types import Batch, Images, Indices
from orat.data.source import Dataset, Source

AHEAD = 4  # batches that a streamed loader fetches in advance
PADDING = 4  # pixels on each side for the random crop, the usual number on CIFAR
NUDGE = 16  # a nudge moves an image by at most its side divided by this number

Ticket: TypeAlias = tuple[Tensor, ...]  # resident: (ids,); streamed: (raw samples, ids)


def loader(source: Source, batch_size: int, seed: int, device: torch.device, augment: str = "none") -> Loader:
    """A resident loader if the source fits on the device, else a streamed loader."""
    if isinstance(source, Dataset) and fits(source, device):
        return ResidentLoader(source, batch_size, seed, device, augment)
    return StreamedLoader(source, batch_size, seed, device, augment)


def fits(dataset: Dataset, device: torch.device) -> bool:
    """Whether the images take at most half of the free memory of a GPU; a CPU holds every resident data set."""
    return device.type != "cuda" or dataset.images.nbytes <= torch.cuda.mem_get_info(device)[0] / 2


class Loader(ABC):
    """The batches of every epoch; with several processes, each process gets its share of every batch."""

    def __init__(
        self,
        source: Source,
        batch_size: int,
        seed: int,
        device: torch.device,
        augment: str = "none",
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.source, self.samples = source, len(source)
        self.batch_size, self.seed, self.device, self.augment = batch_size, seed, device, augment
        self.rank, self.world_size = rank, world_size
        self.steps = steps_per_epoch(self.samples, batch_size)
        self.labels = source.labels.to(device)
        smallest = min(len(ids) for ids in divided(torch.arange(self.samples), batch_size))
        if smallest < world_size:
            raise InputError(f"a batch of {smallest} samples for {world_size} processes: raise the batch size")

    @abstractmethod
    def epoch(self, number: int, skip: int = 0) -> Iterator[Ticket]:
        """The tickets of an epoch on the device, without the first `skip`; cross-fitting has numbers up to 0."""

    @abstractmethod
    def batch(self, ticket: Ticket, generator: Generator) -> Batch:
        """The batch of a ticket, augmented; computed on the device only, so that a CUDA graph can record it."""

    def order(self, number: int, skip: int, device: torch.device) -> list[Indices]:
        """The ids of each step of an epoch for the process of this rank, without the first `skip` steps."""
        order = shuffled(self.samples, self.seed, number).to(device)
        return [ids.tensor_split(self.world_size)[self.rank] for ids in divided(order, self.batch_size)[skip:]]

    def assembled(self, raw: Tensor, ids: Indices, generator: Generator) -> Batch:
        """The batch of raw samples on the device."""
        return Batch(as_input(augmented(raw, self.augment, generator)), self.labels[ids], ids)


class ResidentLoader(Loader):
    """The loader of a data set held in the memory of the device; a ticket is (ids,)."""

    def __init__(self, source: Dataset, *settings: Any, **more: Any) -> None:
        super().__init__(source, *settings, **more)
        self.images = source.images.to(self.device)

    def epoch(self, number: int, skip: int = 0) -> Iterator[Ticket]:
        """The ids of each step."""
        for ids in self.order(number, skip, self.device):
            yield (ids,)

    def batch(self, ticket: Ticket, generator: Generator) -> Batch:
        """The batch gathered from the images on the device."""
        (ids,) = ticket
        return self.assembled(self.images[ids], ids, generator)


class StreamedLoader(Loader):
    """The loader of any source: a thread fetches a few batches in advance; a ticket is (raw samples, ids)."""

    def epoch(self, number: int, skip: int = 0) -> Iterator[Ticket]:
        """The raw samples and ids of each step, fetched in order; an error of the source is raised at its step."""
        steps = iter(self.order(number, skip, torch.device("cpu")))
        with ThreadPoolExecutor(1) as pool:
            ahead = deque(pool.submit(self.fetch, ids) for ids in islice(steps, AHEAD))
            try:
                while ahead:
                    ticket = ahead.popleft().result()
                    ahead.extend(pool.submit(self.fetch, ids) for ids in islice(steps, 1))
                    yield tuple(part.to(self.device, non_blocking=True) for part in ticket)
            finally:
                pool.shutdown(cancel_futures=True)

    def fetch(self, ids: Indices) -> Ticket:
        """The raw samples and ids of one step, in pinned memory if the device is a GPU."""
        ticket = self.source.__getitems__(ids.tolist()), ids
        return tuple(part.pin_memory() for part in ticket) if self.device.type == "cuda" else ticket

    def batch(self, ticket: Ticket, generator: Generator) -> Batch:
        """The batch of the fetched samples."""
        raw, ids = ticket
        return self.assembled(raw, ids, generator)


def shuffled(n: int, seed: int, epoch: int) -> Indices:
    """The order of one epoch; a function of seed and epoch alone, so that a resumed epoch has the same order."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(1_000_003 * seed + epoch))


def steps_per_epoch(n: int, batch_size: int) -> int:
    """The number of batches in an epoch."""
    return ceil(n / batch_size)


def divided(order: Indices, batch_size: int) -> list[Tensor]:
    """The ids of each step: full batches, then two batches that share the remainder and one batch size equally."""
    rest = len(order) % batch_size
    if not rest or len(order) < batch_size:
        return list(order.split(batch_size))
    full = len(order) - rest - batch_size
    return [*(order[:full].split(batch_size) if full else ()), *order[full:].tensor_split(2)]


def as_input(images: Tensor) -> Images:
    """Images as a network takes them: float32 in [0, 1], channels last in memory."""
    x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def augmented(images: Tensor, augment: str, generator: Generator) -> Tensor:
    """Images after the random changes named in `augment`: crop, nudge, flip."""
    if "crop" in augment:
        images = moved(images, PADDING, generator)
    if "nudge" in augment and images.dim() == 4:
        images = moved(images, min(images.shape[2:]) // NUDGE, generator)
    if "flip" in augment:
        images = flipped(images, generator)
    return images


def moved(images: Tensor, most: int, generator: Generator) -> Tensor:
    """Each image moved by a random number of pixels, up to `most` in both directions, and filled up with zeros."""
    n, _, height, width = images.shape
    moves = torch.randint(0, 2 * most + 1, (2, n, 1), generator=generator, device=images.device)
    rows = moves[0] + torch.arange(height, device=images.device)
    columns = moves[1] + torch.arange(width, device=images.device)
    padded = pad(images, (most,) * 4).movedim(1, -1)
    samples = torch.arange(n, device=images.device)
    return padded[samples[:, None, None], rows[:, :, None], columns[:, None, :]].movedim(-1, 1)


def flipped(images: Tensor, generator: Generator) -> Tensor:
    """A random half of the images mirrored left to right."""
    coins = torch.rand(len(images), generator=generator, device=images.device) < 0.5
    return torch.where(coins[:, None, None, None], images.flip(3), images)
