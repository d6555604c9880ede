"""A folder of images, train/<class>/* and test/<class>/*, or a tar file of such a folder."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from orat.core.errors import InputError
from orat.data.source import Dataset, Splits

ENDINGS = (".bmp", ".jpeg", ".jpg", ".png", ".webp")
PARTS = ("train", "test")
LAYOUT = "an image folder holds train/<class>/*.png (or .jpg, .bmp, .webp)"

# What Pillow's decoders raise on bytes that are not what they should be.
BROKEN = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, Image.DecompressionBombError)
BROKEN_TAR = (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error, OSError)

# Images decoded by one task of the pool: a task for each small image would cost more than the image.
GROUP = 64
BUFFER = 1 << 20
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".tgz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

Size = tuple[int, int]  # height, width
Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class File:
    """One image file as it lies in the data set; the name is empty for a class folder itself."""

    part: str
    label: str
    name: str
    raw: bytes

    @property
    def path(self) -> str:
        """Where it lies, from the root of the data set."""
        return f"{self.part}/{self.label}/{self.name}"


@dataclass(frozen=True)
class Picture:
    """One decoded image: pixels (height, width) for gray, (height, width, 3) for color."""

    file: File
    pixels: Pixels


def read(root: Path, size: Size | None = None) -> Splits:
    """The images of a folder or a tar file, resized to (height, width) where a size is given."""
    if size is not None and min(size) < 1:
        raise InputError(f"the image size is {size[0]}x{size[1]}: give a height and a width of at least 1")
    return _splits(root, *_decode_all(root, files(root), size))


def files(root: Path) -> Iterator[File]:
    """The image files of a folder or a tar file as they are, and its class folders, in the order they lie there."""
    return _from_folder(root) if root.is_dir() else _from_tar(root)


def _from_folder(root: Path) -> Iterator[File]:
    for part in PARTS:
        for folder in _visible(root / part):
            if not folder.is_dir():
                continue
            yield File(part, folder.name, "", b"")
            for file in _visible(folder):
                if file.suffix.lower() in ENDINGS and file.is_file():
                    yield File(part, folder.name, file.name, _content(file))


def _visible(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error


def _from_tar(archive: Path) -> Iterator[File]:
    # Unpacked by these and not by tarfile, which takes the end of a cut-off stream for the end of the archive.
    opened = OPENERS.get(archive.suffix, open)
    try:
        # A stream: going back and forth in a compressed archive would unpack it again and again.
        with opened(archive, "rb") as raw, tarfile.open(fileobj=raw, mode="r|", tarinfo=_Header) as tar:
            for member in tar:
                file = _member(tar, member)
                if file is not None:
                    yield file
            # To the end: there lies the checksum of what was unpacked.
            while raw.read(BUFFER):
                pass
    except BROKEN_TAR as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{archive} is no whole tar file ({reason}): pack or get it again") from error


class _Header(tarfile.TarInfo):
    """A header in a tar file, broken ones refused: tarfile by itself takes one for the end of the archive."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """The header in one block."""
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) == tarfile.BLOCKSIZE and not any(buf):
                raise  # the empty block that ends every archive
            raise tarfile.ReadError(str(error)) from error


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> File | None:
    # Only the end of the path counts: an archive may hold train/ at its top or inside one folder.
    parts = PurePosixPath(member.name).parts[-3:]
    if member.isdir() and len(parts) >= 2 and parts[-2] in PARTS and not parts[-1].startswith("."):
        return File(parts[-2], parts[-1], "", b"")
    if not member.isfile() or len(parts) < 3 or parts[0] not in PARTS:
        return None
    part, label, name = parts
    if label.startswith(".") or name.startswith(".") or PurePosixPath(name).suffix.lower() not in ENDINGS:
        return None
    stream = tar.extractfile(member)
    return File(part, label, name, stream.read() if stream else b"")


def _decode_all(root: Path, files: Iterable[File], size: Size | None) -> tuple[set[tuple[str, str]], list[Picture]]:
    """The class folders seen as (part, class), and all images in the order of their paths."""
    folders: set[tuple[str, str]] = set()
    pictures: list[Picture] = []

    def decode_group(group: list[File]) -> list[Picture]:
        return [Picture(file, _decode(root, file, size)) for file in group]

    # Pillow decodes outside of the interpreter's lock, so threads are enough.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for group in pool.map(decode_group, _groups(_images(files, folders))):
            _check_sizes(pictures[:1] + group)
            pictures.extend(group)
    return folders, sorted(pictures, key=lambda picture: (picture.file.part, picture.file.label, picture.file.name))


def _images(files: Iterable[File], folders: set[tuple[str, str]]) -> Iterator[File]:
    """The files that are images; their class folders are noted on the way."""
    for file in files:
        folders.add((file.part, file.label))
        if file.name:
            yield file


def _groups(files: Iterator[File]) -> Iterator[list[File]]:
    while group := list(islice(files, GROUP)):
        yield group


def _decode(root: Path, file: File, size: Size | None) -> Pixels:
    try:
        with Image.open(io.BytesIO(file.raw)) as image:
            image.load()
            mode, color = image.mode, _gray_or_color(image)
    except BROKEN as error:
        reason = " ".join(str(error).split())
        raise InputError(f"cannot read the image {root / file.path} ({reason}): mend or remove it") from error
    if color is None:
        raise InputError(f"{root / file.path} has more than 8 bits a pixel (mode {mode!r}): save it with 8 bits")
    if size is not None and color.size != size[::-1]:
        color = color.resize(size[::-1], Image.Resampling.BILINEAR)
    return np.asarray(color)


def _gray_or_color(image: Image.Image) -> Image.Image | None:
    """The image in mode L or RGB; None for deep pixels, which Pillow would clip to white."""
    if image.mode in ("L", "1"):
        return image.convert("L")
    if image.mode.startswith(("I", "F")):
        return None
    # A palette may hold transparency, which Pillow drops without a warning only from RGBA.
    return (image.convert("RGBA") if image.mode == "P" else image).convert("RGB")


def _check_sizes(pictures: list[Picture]) -> None:
    first = pictures[0]
    for picture in pictures:
        if picture.pixels.shape[:2] != first.pixels.shape[:2]:
            seen = " and ".join("{} is {}x{}".format(p.file.path, *p.pixels.shape) for p in (first, picture))
            raise InputError(f"images differ in size (height x width): {seen}; give one, as in --image-size 32x32")


def _splits(root: Path, folders: set[tuple[str, str]], pictures: list[Picture]) -> Splits:
    classes = tuple(sorted(label for part, label in folders if part == "train"))
    if not classes:
        raise InputError(f"{root} has no class folders in train/: {LAYOUT}")
    filled = {(picture.file.part, picture.file.label) for picture in pictures}
    for part, label in sorted(folders):
        if label not in classes:
            raise InputError(f"{root / part / label} is a class that train/ does not have: rename or remove it")
        if (part, label) not in filled:
            raise InputError(f"{root / part / label} has no images ({', '.join(ENDINGS)}): fill or remove it")
    gray = all(picture.pixels.ndim == 2 for picture in pictures)
    parts = {part: [picture for picture in pictures if picture.file.part == part] for part in PARTS}
    train = _dataset(parts["train"], classes, gray)
    return Splits(train=train, test=_dataset(parts["test"], classes, gray) if parts["test"] else None)


def _dataset(pictures: list[Picture], classes: tuple[str, ...], gray: bool) -> Dataset:
    height, width = pictures[0].pixels.shape[:2]
    images = torch.empty(len(pictures), 1 if gray else 3, height, width, dtype=torch.uint8)
    filled = images.numpy()
    for i, picture in enumerate(pictures):
        # A gray image among colored ones has three equal channels.
        filled[i] = picture.pixels if picture.pixels.ndim == 2 else picture.pixels.transpose(2, 0, 1)
    number = {label: i for i, label in enumerate(classes)}
    labels = torch.tensor([number[picture.file.label] for picture in pictures])
    return Dataset(images, labels, classes, paths=tuple(picture.file.path for picture in pictures))
