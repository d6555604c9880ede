"""MNIST: four IDX files, plain or gzipped, as LeCun et al. publish them (1998)."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from orat.core.errors import InputError
from orat.core.files import read_bytes
from orat.data.source import Dataset, Reader, Splits

CLASSES = tuple("0123456789")
SIDE = 28
SAMPLE = Path(__file__).parent / "mnist_sample"  # made by scripts/make_sample.py
GZIP_MAGIC = b"\x1f\x8b"


def present(folder: Path) -> bool:
    """Whether any of the four files is in this folder."""
    parts = ((prefix, kind) for prefix in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
    return any(spelling.is_file() for prefix, kind in parts for spelling in spellings(folder, prefix, kind))


def read_sample() -> Splits:
    """The bundled sample of MNIST: 600 training and 100 test digits a class."""
    return read(SAMPLE)


def read(folder: Path) -> Splits:
    """The training and test digits in this folder."""
    return Splits(train=read_part(folder, "train"), test=read_part(folder, "t10k"))


def read_idx(file: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """The bytes of one IDX file in the shape of its header."""
    raw = content(file)
    header = 4 * (1 + dimensions)
    if len(raw) < header:
        raise InputError(f"{file} is cut off: {len(raw)} bytes found, {header} wanted for its header; get it again")
    magic, *shape = struct.unpack(f">{1 + dimensions}I", raw[:header])
    wanted_magic = 0x0800 + dimensions  # 08: unsigned bytes
    if magic != wanted_magic:
        raise InputError(f"{file} starts with {magic}, not with {wanted_magic}: it is no IDX file of this kind")
    wanted = header + math.prod(shape)
    if len(raw) != wanted:
        fault = "is cut off" if len(raw) < wanted else "is too long"
        raise InputError(f"{file} {fault}: {len(raw)} bytes found, {wanted} wanted by its header; get it again")
    return np.frombuffer(raw, dtype=np.uint8, offset=header).reshape(shape)


def read_part(folder: Path, prefix: str) -> Dataset:
    """The training or the test digits in this folder."""
    images_file = find(folder, prefix, "images-idx3")
    labels_file = find(folder, prefix, "labels-idx1")
    images = read_idx(images_file, dimensions=3)
    labels = read_idx(labels_file, dimensions=1)
    n, height, width = images.shape
    if (height, width) != (SIDE, SIDE):
        raise InputError(f"{images_file} holds images of {height}x{width}: MNIST has {SIDE}x{SIDE}")
    if len(labels) != n:
        raise InputError(f"{images_file} holds {n} images, but {labels_file} {len(labels)} labels: get both again")
    if n and labels.max() >= len(CLASSES):
        raise InputError(f"{labels_file} holds the label {labels.max()}: MNIST has 0..9; get the file again")
    pixels = torch.from_numpy(images.copy()).unsqueeze(1)
    return Dataset(images=pixels, labels=torch.from_numpy(labels.astype(np.int64)), classes=CLASSES)


def spellings(folder: Path, prefix: str, kind: str) -> list[Path]:
    """The paths that one of the four files may have."""
    # The publisher writes "train-images-idx3-ubyte.gz", some archives write "train-images.idx3-ubyte".
    stems = (f"{prefix}-{kind}-ubyte", f"{prefix}-{kind.replace('-', '.')}-ubyte")
    return [folder / f"{stem}{ending}" for stem in stems for ending in ("", ".gz")]


def find(folder: Path, prefix: str, kind: str) -> Path:
    """The path of one of the four files."""
    for file in spellings(folder, prefix, kind):
        if file.is_file():
            return file
    raise InputError(f"{folder} has no {prefix}-{kind}-ubyte or {prefix}-{kind}-ubyte.gz: put the file there")


def content(file: Path) -> bytes:
    """The bytes of a file, unpacked if the file is gzipped."""
    raw = read_bytes(file)
    try:
        # The name does not tell: some servers unpack a .gz file without a change of its name.
        return gzip.decompress(raw) if raw.startswith(GZIP_MAGIC) else raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{file} is a damaged gzip file, {len(raw)} bytes found ({error}): get it again") from error


MNIST = Reader(present, read)
