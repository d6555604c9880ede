"""Image folders and tar files of image folders: read into memory, or decoded on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from orat.core.errors import InputError
from orat.core.files import read_bytes
from orat.core.types import Labels
from orat.data.decode import Pixels, Size, decode, header, in_threads, stacked
from orat.data.image_files import ENDINGS, PARTS, File, files, listed
from orat.data.reading import PLAIN, Reading
from orat.data.source import Dataset, Splits, check_labels

LAYOUT = "an image folder holds train/<class>/*.png (or .jpg, .bmp, .webp)"
STREAMED_GROUP = 8  # images of a batch that one thread decodes


@dataclass(frozen=True)
class Picture:
    """One image of the data set: file, size, and pixels if decoded."""

    file: File
    size: Size
    is_gray: bool
    pixels: Pixels | None = None


@dataclass(frozen=True)
class Listing:
    """The images of a data set, sorted by part, class and name, with their classes and common shape."""

    pictures: list[Picture]
    classes: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of every image: one channel if all images are gray."""
        return (1 if all(picture.is_gray for picture in self.pictures) else 3, *self.pictures[0].size)

    def part(self, name: str) -> tuple[list[Picture], Labels, tuple[str, ...]]:
        """The images, labels and paths of the training or test part."""
        number = {label: i for i, label in enumerate(self.classes)}
        pictures = [picture for picture in self.pictures if picture.file.part == name]
        labels = torch.tensor([number[picture.file.label] for picture in pictures])
        return pictures, labels, tuple(picture.file.path for picture in pictures)


def read(root: Path, reading: Reading = PLAIN) -> Splits:
    """The images of a folder or a tar file in memory, resized to (height, width) if a size is given."""

    def decoded(file: File) -> Picture:
        pixels = decode(file.raw, root / file.path, size)
        return Picture(replace(file, raw=b""), (pixels.shape[0], pixels.shape[1]), pixels.ndim == 2, pixels)

    size = reading.image_size
    folders: set[tuple[str, str]] = set()
    listing = listing_of(root, folders, in_threads(decoded, images(files(root), folders)))
    parts = [dataset(listing, name) for name in PARTS]
    assert parts[0] is not None
    return Splits(parts[0], parts[1])


def dataset(listing: Listing, name: str) -> Dataset | None:
    """A part of the data set in memory, if there is any image."""
    pictures, labels, paths = listing.part(name)
    if not pictures:
        return None
    pixels = stacked([picture.pixels for picture in pictures if picture.pixels is not None], listing.shape)
    return Dataset(pixels, labels, listing.classes, paths=paths)


@dataclass(frozen=True, eq=False)
class FolderSource:
    """The streamed source: one part of an image folder, decoded on demand to a fixed shape."""

    root: Path
    paths: tuple[str, ...]
    labels: Labels
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    truth: Labels | None = None

    def __post_init__(self) -> None:
        for name, labels in (("labels", self.labels), ("true labels", self.truth)):
            if labels is not None:
                check_labels(name, labels, len(self), len(self.classes))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitems__(self, ids: list[int]) -> Tensor:
        """The raw images with these ids, decoded in threads."""
        size = (self.shape[1], self.shape[2])

        def pixels(path: Path) -> Pixels:
            return decode(read_bytes(path), path, size)

        return stacked(list(in_threads(pixels, [self.root / self.paths[i] for i in ids], STREAMED_GROUP)), self.shape)

    def take(self, ids: Tensor) -> FolderSource:
        """The source of the samples with these ids, in the order given."""
        paths = tuple(self.paths[i] for i in ids.tolist())
        return replace(
            self, paths=paths, labels=self.labels[ids], truth=None if self.truth is None else self.truth[ids]
        )

    def fingerprint(self) -> str:
        """A hash of the paths, file sizes, labels and class names; the pixels are not read."""
        digest = hashlib.sha256(repr((self.shape, self.classes, self.labels.tolist())).encode())
        for path in self.paths:
            digest.update(f"{path} {(self.root / path).stat().st_size}\n".encode())
        return digest.hexdigest()[:16]


def stream(root: Path, reading: Reading = PLAIN) -> tuple[FolderSource, FolderSource | None]:
    """The training and test part of a folder, decoded on demand; only the headers of the images are read now."""

    def headed(file: File) -> Picture:
        own, is_gray = header(root / file.path)
        return Picture(file, size or own, is_gray)

    size = reading.image_size
    folders: set[tuple[str, str]] = set()
    listing = listing_of(root, folders, in_threads(headed, images(listed(root), folders)))
    (_, labels, paths), (_, test_labels, test_paths) = (listing.part(name) for name in PARTS)
    train = FolderSource(root, paths, labels, listing.classes, listing.shape)
    return train, replace(train, paths=test_paths, labels=test_labels) if test_paths else None


def images(found: Iterable[File], folders: set[tuple[str, str]]) -> Iterator[File]:
    """The image files among these files; their class folders (part, class) are added to `folders`."""
    for file in found:
        folders.add((file.part, file.label))
        if file.name:
            yield file


def listing_of(root: Path, folders: set[tuple[str, str]], found: Iterable[Picture]) -> Listing:
    """The listing of these images; images of different sizes are refused as soon as they are found."""
    pictures: list[Picture] = []
    for picture in found:
        pictures.append(picture)
        if picture.size != pictures[0].size:
            seen = " and ".join("{} is {}x{}".format(one.file.path, *one.size) for one in (pictures[0], picture))
            raise InputError(f"images differ in size (height x width): {seen}; give one, as in --image-size 32x32")
    pictures.sort(key=lambda picture: (picture.file.part, picture.file.label, picture.file.name))
    return Listing(pictures, checked_classes(root, folders, pictures))


def checked_classes(root: Path, folders: set[tuple[str, str]], pictures: list[Picture]) -> tuple[str, ...]:
    """The sorted class names; empty classes and classes that only the test part has are refused."""
    classes = tuple(sorted(label for part, label in folders if part == "train"))
    if not classes:
        raise InputError(f"{root} has no class folders in train/: {LAYOUT}")
    filled = {(picture.file.part, picture.file.label) for picture in pictures}
    for part, label in sorted(folders):
        if label not in classes:
            raise InputError(f"{root / part / label} is a class that train/ does not have: rename or remove it")
        if (part, label) not in filled:
            raise InputError(f"{root / part / label} has no images ({', '.join(ENDINGS)}): fill or remove it")
    return classes
