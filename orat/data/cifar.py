"""The class names of CIFAR-10 and CIFAR-100 (Krizhevsky, 2009) in the order of their labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from orat.core.errors import InputError
from orat.data import cifar as cifar_names
from orat.data import cifar_pickle
from orat.data.source import Dataset, Splits

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_CIFAR100 = """
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
CIFAR100 = tuple(_CIFAR100.split())

Kind = Literal["cifar10", "cifar100"]
Bytes = npt.NDArray[np.uint8]

PIXELS = 3 * 32 * 32  # the red plane, then the green, then the blue, each row by row


@dataclass(frozen=True)
class Version:
    """Where one version of one set keeps its files, and how a file is laid out."""

    folder: str
    train: tuple[str, ...]
    test: str
    names: str
    label_bytes: int | None  # before each image, the used one last; None: a pickle
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
        # The coarse label comes first, the fine one second.
        Version("cifar-100-binary", ("train.bin",), "test.bin", "fine_label_names.txt", label_bytes=2),
        Version("cifar-100-python", ("train",), "test", "meta", None, b"fine_labels", b"fine_label_names"),
    ),
}
NAMES: dict[Kind, tuple[str, ...]] = {"cifar10": cifar_names.CIFAR10, "cifar100": cifar_names.CIFAR100}


def present(folder: Path, kind: Kind) -> bool:
    """Whether any file of either version is in this folder or in its usual subfolder."""
    return _find(folder, kind) is not None


def read(folder: Path, kind: Kind) -> Splits:
    """The training and test images in this folder or in its usual subfolder."""
    found = _find(folder, kind)
    if found is None:
        files = " or ".join(version.train[0] for version in VERSIONS[kind])
        raise InputError(f"{folder} has no {files}: put the {kind} files there")
    place, version = found
    classes = _class_names(place / version.names, version, NAMES[kind])
    batches = [_batch(place / name, version, classes) for name in version.train]
    _check_lengths(place, version, [len(labels) for _, labels in batches])
    return Splits(
        train=_dataset(batches, classes), test=_dataset([_batch(place / version.test, version, classes)], classes)
    )


def _find(folder: Path, kind: Kind) -> tuple[Path, Version] | None:
    for version in VERSIONS[kind]:
        for place in (folder, folder / version.folder):
            if any((place / name).is_file() for name in (*version.train, version.test)):
                return place, version
    return None


def _batch(file: Path, version: Version, classes: tuple[str, ...]) -> tuple[Bytes, Bytes]:
    if not file.is_file():
        raise InputError(f"{file} is missing: put it there, or get the whole set again")
    if version.label_bytes is None:
        images, labels = _from_pickle(file, version.label_key)
    else:
        images, labels = _from_binary(file, version.label_bytes)
    if labels.max() >= len(classes):
        raise InputError(f"{file} holds the label {labels.max()}: there are {len(classes)} classes; get the file again")
    return images, labels


def _from_binary(file: Path, label_bytes: int) -> tuple[Bytes, Bytes]:
    raw = _content(file)
    record = label_bytes + PIXELS
    whole, rest = divmod(len(raw), record)
    if rest or not whole:
        wanted = (whole + 1) * record
        raise InputError(
            f"{file} is cut off: {len(raw)} bytes found, {wanted} wanted ({record} an image); get it again"
        )
    records = np.frombuffer(raw, dtype=np.uint8).reshape(whole, record)
    return records[:, label_bytes:], records[:, label_bytes - 1]


def _from_pickle(file: Path, label_key: bytes) -> tuple[Bytes, Bytes]:
    content = cifar_pickle.load(file)
    images, labels = content.get(b"data"), content.get(label_key)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (PIXELS,):
        raise InputError(f"{file} has no 'data' of bytes in the shape (n, {PIXELS}): it is no CIFAR file")
    if not isinstance(labels, list) or len(labels) != len(images) or not labels or not all(map(_is_byte, labels)):
        raise InputError(f"{file} has no {label_key.decode()!r} for its {len(images)} images: it is no CIFAR file")
    return images, np.array(labels, dtype=np.uint8)


def _is_byte(label: Any) -> bool:
    return isinstance(label, int) and 0 <= label <= 255


def _class_names(file: Path, version: Version, official: tuple[str, ...]) -> tuple[str, ...]:
    if not file.is_file():
        return official
    if version.label_bytes is None:
        listed = cifar_pickle.load(file).get(version.names_key)
        names = [_text(name) for name in listed] if isinstance(listed, list) else []
    else:
        names = _text(_content(file)).split()
    if len(names) != len(official):
        raise InputError(f"{file} names {len(names)} classes, not {len(official)}: get it again, or remove it")
    return tuple(names)


def _text(name: Any) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def _check_lengths(place: Path, version: Version, lengths: list[int]) -> None:
    """Refuses batches of unequal length: one that is cut off between two images looks whole by itself."""
    for name, length in zip(version.train, lengths, strict=True):
        if length != max(lengths):
            raise InputError(f"{place / name} is cut off: {length} images found, {max(lengths)} wanted; get it again")


def _dataset(batches: list[tuple[Bytes, Bytes]], classes: tuple[str, ...]) -> Dataset:
    images = np.concatenate([images for images, _ in batches]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in batches]).astype(np.int64)
    return Dataset(images=torch.from_numpy(images), labels=torch.from_numpy(labels), classes=classes)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
