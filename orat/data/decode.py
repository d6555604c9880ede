"""Image files to pixels: gray or RGB with 8 bits, by Pillow, in several threads."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from orat.core.errors import InputError, line_of

# Pillow tries every format that it knows, PostScript by an external program too, unless the formats are given.
FORMATS = ("BMP", "JPEG", "PNG", "WEBP")
# The errors of Pillow's decoders on damaged bytes.
BROKEN = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, Image.DecompressionBombError)
GROUP = 64  # images in one task of the pool: a task for each small image costs more than the image

Size = tuple[int, int]  # height, width
Pixels = npt.NDArray[np.uint8]  # (height, width) for gray, (height, width, 3) for color
A = TypeVar("A")
B = TypeVar("B")


def decode(raw: bytes, path: Path, size: Size | None) -> Pixels:
    """The pixels of an image file, resized to (height, width) if a size is given."""
    with opened(io.BytesIO(raw), path) as image:
        image.load()
        pixels = gray_or_color(image, path)
    if size is not None and pixels.size != size[::-1]:
        pixels = pixels.resize(size[::-1], Image.Resampling.BILINEAR)
    return np.asarray(pixels)


def header(path: Path) -> tuple[Size, bool]:
    """The height and width of an image file, and whether the image is gray, without decoding the pixels."""
    with opened(path, path) as image:
        check_depth(image, path)
        return image.size[::-1], is_gray(image)


@contextmanager
def opened(file: io.BytesIO | Path, path: Path) -> Iterator[Image.Image]:
    """The image in a file; damaged files are refused by their path."""
    try:
        with Image.open(file, formats=FORMATS) as image:
            yield image
    except InputError:
        raise
    except BROKEN as error:
        raise InputError(f"cannot read the image {path} ({line_of(error)}): mend or remove it") from error


def gray_or_color(image: Image.Image, path: Path) -> Image.Image:
    """The image in mode L or RGB."""
    check_depth(image, path)
    if is_gray(image):
        return image.convert("L")
    # Pillow drops the transparency of a palette without a warning only from RGBA.
    return (image.convert("RGBA") if image.mode == "P" else image).convert("RGB")


def check_depth(image: Image.Image, path: Path) -> None:
    """Refuses deep pixels, which Pillow clips to white."""
    if image.mode.startswith(("I", "F")):
        raise InputError(f"{path} has more than 8 bits a pixel (mode {image.mode!r}): save it with 8 bits")


def is_gray(image: Image.Image) -> bool:
    """Whether the image has one channel of gray."""
    return image.mode in ("L", "1")


def stacked(images: list[Pixels], shape: tuple[int, ...]) -> Tensor:
    """Images as (n, channels, height, width); a gray image among color images has three equal channels."""
    stack = torch.empty(len(images), *shape, dtype=torch.uint8)
    filled = stack.numpy()
    for i, pixels in enumerate(images):
        filled[i] = pixels if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return stack


def in_threads(function: Callable[[A], B], items: Iterable[A], group: int = GROUP) -> Iterator[B]:
    """The results of a function in the order of the items; Pillow decodes without the interpreter's lock."""
    items = iter(items)
    groups = iter(lambda: list(islice(items, group)), [])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for results in pool.map(lambda some: [function(item) for item in some], groups):
            yield from results
