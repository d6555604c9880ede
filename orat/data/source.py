"""A data set is tensors: images as they are on disk (uint8), labels, and the true labels where they are known."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from orat.core.errors import InputError
from orat.core.types import Labels


def relabel(dataset: Dataset, labels: Labels) -> Dataset:
    """The data set with these labels, which remembers the true ones; where none were known, the old labels are."""
    truth = dataset.labels if dataset.true_labels is None else dataset.true_labels
    return replace(dataset, labels=labels.to(dataset.labels.device), true_labels=truth)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images (n, channels, height, width), uint8 or float32 in [0, 1], or points float32 (n, d); and their labels."""

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    true_labels: Tensor | None = None
    paths: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        n = len(self.images)
        if n == 0:
            raise InputError("the data set is empty: it has no images")
        if self.images.is_floating_point() and not (self.images.min() >= 0 and self.images.max() <= 1):
            low, high = self.images.min().item(), self.images.max().item()
            raise InputError(f"values run from {low:g} to {high:g}, but must lie in [0, 1]: divide pixels by 255")
        for name, labels in (("labels", self.labels), ("true labels", self.true_labels)):
            if labels is None:
                continue
            if labels.shape != (n,):
                raise InputError(
                    f"there are {n} images but {name} of shape {tuple(labels.shape)}: give one label an image"
                )
            low, high = int(labels.min()), int(labels.max())
            if low < 0 or high >= len(self.classes):
                raise InputError(f"{name} run from {low} to {high}, but must lie in 0..{len(self.classes) - 1}")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image."""
        return tuple(self.images.shape[1:])

    @property
    def flipped(self) -> Tensor | None:
        """Which labels are known to be wrong."""
        return None if self.true_labels is None else self.labels != self.true_labels

    def take(self, indices: Tensor) -> Dataset:
        """The data set of these samples, in this order."""
        return replace(
            self,
            images=self.images[indices],
            labels=self.labels[indices],
            true_labels=None if self.true_labels is None else self.true_labels[indices],
            paths=None if self.paths is None else tuple(self.paths[i] for i in indices.tolist()),
        )

    def first(self, count: int) -> Dataset:
        """The first samples, or all; where they are sorted by class, as in folders, as many with even steps between."""
        count = min(count, len(self))
        is_sorted = bool((self.labels[1:] >= self.labels[:-1]).all())
        return self.take(torch.arange(count) * len(self) // count if is_sorted else torch.arange(count))

    def to(self, device: torch.device) -> Dataset:
        """The same data set on another device."""
        true_labels = None if self.true_labels is None else self.true_labels.to(device)
        return replace(self, images=self.images.to(device), labels=self.labels.to(device), true_labels=true_labels)

    def fingerprint(self) -> str:
        """A hash of images and labels: the same data, the same fingerprint."""
        digest = hashlib.sha256(repr((self.images.shape, self.classes)).encode())
        for tensor in (self.images, self.labels):
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Splits:
    """A data set as it is handed out: what to train on, and what to test on where there is such a part."""

    train: Dataset
    test: Dataset | None
