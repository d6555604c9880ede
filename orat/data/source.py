"""Data sets: the contract of a source of samples, and the resident data set, held in memory as tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from orat.core.domain import UNIT, Domain
from orat.core.errors import InputError
from orat.core.types import Labels


@runtime_checkable
class Source(Protocol):
    """A torch map-style data set whose labels are in memory."""

    @property
    def labels(self) -> Labels:
        """The label of each sample, right or wrong."""

    @property
    def truth(self) -> Labels | None:
        """The true labels, if known."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names in the order of the labels."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""

    def __len__(self) -> int:
        """The number of samples."""

    def __getitems__(self, ids: list[int]) -> Tensor:
        """The raw samples with these ids: uint8 images, or floats in [0, 1]."""

    def fingerprint(self) -> str:
        """A hash of the samples, labels and class names."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """The resident source: images (n, channels, height, width) as uint8 or floats in [0, 1], or features (n, d)."""

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    truth: Tensor | None = None
    paths: tuple[str, ...] | None = None
    domain: Domain = UNIT
    features: tuple[str, ...] | None = None  # the names of the columns of a table
    lines: tuple[int, ...] | None = None  # of the rows in the file of a table; without lines, the rows from 0 on

    def __post_init__(self) -> None:
        n = len(self.images)
        if n == 0:
            raise InputError("the data set is empty: it has no samples")
        unit = self.domain.low == 0 and self.domain.high == 1
        if unit and self.images.is_floating_point() and not (self.images.min() >= 0 and self.images.max() <= 1):
            low, high = self.images.min().item(), self.images.max().item()
            raise InputError(f"values run from {low:g} to {high:g}, but must lie in [0, 1]: divide pixels by 255")
        for name, labels in (("labels", self.labels), ("true labels", self.truth)):
            if labels is not None:
                check_labels(name, labels, n, len(self.classes))

    def __len__(self) -> int:
        return len(self.images)

    def __getitems__(self, ids: list[int]) -> Tensor:
        """The raw samples with these ids."""
        return self.images[ids]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.images.shape[1:])

    @property
    def wrong(self) -> Tensor | None:
        """The mask of labels known to be wrong, if the true labels are known."""
        return None if self.truth is None else self.labels != self.truth

    def take(self, ids: Tensor) -> Dataset:
        """The data set of the samples with these ids, in the order given."""
        return replace(
            self,
            images=self.images[ids],
            labels=self.labels[ids],
            truth=None if self.truth is None else self.truth[ids],
            paths=None if self.paths is None else tuple(self.paths[i] for i in ids.tolist()),
            lines=None if self.lines is None else tuple(self.lines[i] for i in ids.tolist()),
        )

    def first(self, count: int) -> Dataset:
        """The first `count` samples, or `count` evenly spaced samples if the data set is sorted by class."""
        count = min(count, len(self))
        is_sorted = bool((self.labels[1:] >= self.labels[:-1]).all())
        return self.take(torch.arange(count) * len(self) // count if is_sorted else torch.arange(count))

    def to(self, device: torch.device) -> Dataset:
        """The data set on another device."""
        truth = None if self.truth is None else self.truth.to(device)
        return replace(self, images=self.images.to(device), labels=self.labels.to(device), truth=truth)

    def fingerprint(self) -> str:
        """A hash of the samples, labels and class names, and of bounds and units other than [0, 1]."""
        about = (self.images.shape, self.classes, *(() if self.domain == UNIT else (self.domain,)))
        digest = hashlib.sha256(repr(about).encode())
        for tensor in (self.images, self.labels):
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


def check_labels(name: str, labels: Tensor, n: int, classes: int) -> None:
    """Refuses labels whose number or range does not fit the data set."""
    if labels.shape != (n,):
        raise InputError(f"there are {n} samples but {name} of shape {tuple(labels.shape)}: give one label a sample")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise InputError(f"{name} run from {low} to {high}, but must lie in 0..{classes - 1}")


def relabel(dataset: Dataset, labels: Labels) -> Dataset:
    """The data set with new labels; the old labels become the true labels if no true labels are known."""
    truth = dataset.labels if dataset.truth is None else dataset.truth
    return replace(dataset, labels=labels.to(dataset.labels.device), truth=truth)


@dataclass(frozen=True, eq=False)
class Splits:
    """A data set in its published parts: training, and test and validation where there are any."""

    train: Dataset
    test: Dataset | None
    validation: Dataset | None = None
    notes: tuple[str, ...] = ()  # lines for people: how the data were read
    image_size: tuple[int, int] | None = None  # height and width that images were resized to


@dataclass(frozen=True)
class Reader:
    """The reader of a public data set."""

    present: Callable[[Path], bool]  # whether a folder has any of the files
    read: Callable[[Path], Splits]
