"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009) in their binary and their Python version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from orat.core.errors import InputError
from orat.core.files import read_bytes
from orat.data import cifar_pickle
from orat.data.source import Dataset, Reader, Splits

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

CIFAR100_NAMES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
    bowl boy bridge bus butterfly camel can castle caterpillar cattle
    chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
    dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
    lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
    mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
    plain plate poppy porcupine possum rabbit raccoon ray road rocket
    rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CIFAR100_CLASSES = tuple(CIFAR100_NAMES.split())

Kind = Literal["cifar10", "cifar100"]
Bytes = npt.NDArray[np.uint8]

PIXELS = 3 * 32 * 32  # the red plane, then the green, then the blue, each row by row


@dataclass(frozen=True)
class Version:
    """The file names and the file layout of one version of a data set."""

    folder: str
    train: tuple[str, ...]
    test: str
    names: str
    label_bytes: int | None  # before each image, the last byte is the label; None: a pickle
    label_key: bytes = b""
    names_key: bytes = b""


BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
BINARY_BATCHES = tuple(f"{batch}.bin" for batch in BATCHES)

VERSIONS: dict[Kind, tuple[Version, Version]] = {
    "cifar10": (
        Version("cifar-10-batches-bin", BINARY_BATCHES, "test_batch.bin", "batches.meta.txt", label_bytes=1),
        Version("cifar-10-batches-py", BATCHES, "test_batch", "batches.meta", None, b"labels", b"label_names"),
    ),
    "cifar100": (
        # The coarse label comes before the fine label.
        Version("cifar-100-binary", ("train.bin",), "test.bin", "fine_label_names.txt", label_bytes=2),
        Version("cifar-100-python", ("train",), "test", "meta", None, b"fine_labels", b"fine_label_names"),
    ),
}
NAMES: dict[Kind, tuple[str, ...]] = {"cifar10": CIFAR10_CLASSES, "cifar100": CIFAR100_CLASSES}


def present(folder: Path, kind: Kind) -> bool:
    """Whether any file of either version is in this folder or in its usual subfolder."""
    return find(folder, kind) is not None


def read(folder: Path, kind: Kind) -> Splits:
    """The training and test images in this folder or in its usual subfolder."""
    found = find(folder, kind)
    if found is None:
        files = " or ".join(version.train[0] for version in VERSIONS[kind])
        raise InputError(f"{folder} has no {files}: put the {kind} files there")
    place, version = found
    classes = class_names(place / version.names, version, NAMES[kind])
    batches = [read_batch(place / name, version, classes) for name in version.train]
    check_lengths(place, version, [len(labels) for _, labels in batches])
    return Splits(
        train=joined(batches, classes), test=joined([read_batch(place / version.test, version, classes)], classes)
    )


def find(folder: Path, kind: Kind) -> tuple[Path, Version] | None:
    """The folder with the files, and their version, if there are any."""
    for version in VERSIONS[kind]:
        for place in (folder, folder / version.folder):
            if any((place / name).is_file() for name in (*version.train, version.test)):
                return place, version
    return None


def read_batch(file: Path, version: Version, classes: tuple[str, ...]) -> tuple[Bytes, Bytes]:
    """The images (n, 3072) and labels of one file."""
    if not file.is_file():
        raise InputError(f"{file} is missing: put it there, or get the whole set again")
    if version.label_bytes is None:
        images, labels = from_pickle(file, version.label_key)
    else:
        images, labels = from_binary(file, version.label_bytes)
    if labels.max() >= len(classes):
        raise InputError(f"{file} holds the label {labels.max()}: there are {len(classes)} classes; get the file again")
    return images, labels


def from_binary(file: Path, label_bytes: int) -> tuple[Bytes, Bytes]:
    """The images and labels of a file of the binary version."""
    raw = read_bytes(file)
    record = label_bytes + PIXELS
    whole, rest = divmod(len(raw), record)
    if rest or not whole:
        wanted = (whole + 1) * record
        raise InputError(
            f"{file} is cut off: {len(raw)} bytes found, {wanted} wanted ({record} an image); get it again"
        )
    records = np.frombuffer(raw, dtype=np.uint8).reshape(whole, record)
    return records[:, label_bytes:], records[:, label_bytes - 1]


def from_pickle(file: Path, label_key: bytes) -> tuple[Bytes, Bytes]:
    """The images and labels of a file of the Python version."""
    fields = cifar_pickle.load(file)
    images, labels = fields.get(b"data"), fields.get(label_key)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (PIXELS,):
        raise InputError(f"{file} has no 'data' of bytes in the shape (n, {PIXELS}): it is no CIFAR file")
    if not isinstance(labels, list) or len(labels) != len(images) or not labels or not all(map(is_byte, labels)):
        raise InputError(f"{file} has no {label_key.decode()!r} for its {len(images)} images: it is no CIFAR file")
    return images, np.array(labels, dtype=np.uint8)


def is_byte(label: Any) -> bool:
    """Whether a label of a pickle is an integer from 0 to 255."""
    return isinstance(label, int) and 0 <= label <= 255


def class_names(file: Path, version: Version, official: tuple[str, ...]) -> tuple[str, ...]:
    """The class names in the file of names, or the official names if there is no such file."""
    if not file.is_file():
        return official
    if version.label_bytes is None:
        listed = cifar_pickle.load(file).get(version.names_key)
        names = [text(name) for name in listed] if isinstance(listed, list) else []
    else:
        names = text(read_bytes(file)).split()
    if len(names) != len(official):
        raise InputError(f"{file} names {len(names)} classes, not {len(official)}: get it again, or remove it")
    return tuple(names)


def text(name: Any) -> str:
    """A name or a file's content as text."""
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def check_lengths(place: Path, version: Version, lengths: list[int]) -> None:
    """Refuses files of unequal length: a file cut off between two images is well formed."""
    for name, length in zip(version.train, lengths, strict=True):
        if length != max(lengths):
            raise InputError(f"{place / name} is cut off: {length} images found, {max(lengths)} wanted; get it again")


def joined(batches: list[tuple[Bytes, Bytes]], classes: tuple[str, ...]) -> Dataset:
    """The data set of all images and labels of a part."""
    images = np.concatenate([images for images, _ in batches]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in batches]).astype(np.int64)
    return Dataset(images=torch.from_numpy(images), labels=torch.from_numpy(labels), classes=classes)


CIFAR10 = Reader(partial(present, kind="cifar10"), partial(read, kind="cifar10"))
CIFAR100 = Reader(partial(present, kind="cifar100"), partial(read, kind="cifar100"))
