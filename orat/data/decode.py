"""Image files to pixels: gray or RGB with 8 bits, upright and opaque, by Pillow, in several threads."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

from orat.core.domain import Size
from orat.core.errors import InputError, line_of

# Pillow tries every format that it knows, PostScript by an external program too, unless the formats are given.
FORMATS = ("BMP", "JPEG", "PNG", "TIFF", "WEBP")
# The errors of Pillow's decoders on damaged bytes.
BROKEN = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, Image.DecompressionBombError)
STORED = (0x0100, 0x0101)  # the TIFF tags of width and height
ORIENTATION, TURNED = 0x0112, 5  # the EXIF tag, and the first of its values that swap height and width
DEEP = (1 << 16) - 1  # the largest value of 16 bits
SPARE = 2  # the least size at which a JPEG is decoded, as a multiple of the size that it is resized to
GROUP = 64  # images in one task of the pool: a task for each small image costs more than the image

Pixels = npt.NDArray[np.uint8]  # (height, width) for gray, (height, width, 3) for color
A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class Head:
    """What the first bytes of an image file say."""

    size: Size
    is_gray: bool
    has_alpha: bool


def decode(raw: bytes, path: Path, size: Size | None) -> Pixels:
    """The pixels of an image file, resized to (height, width) if a size is given."""
    with opened(io.BytesIO(raw), path) as image:
        if size is not None:
            image.draft(None, (SPARE * max(size),) * 2)  # a JPEG is decoded at a part of its size, if large enough
        pixels = gray_or_color(image, path)
        if size is not None and pixels.size != size[::-1]:
            pixels = pixels.resize(size[::-1], Image.Resampling.BILINEAR)
        return np.asarray(pixels)


def header(file: io.BytesIO | Path, path: Path) -> Head:
    """The facts of an image file that need no pixels."""
    with opened(file, path) as image:
        check_depth(image, path)
        # Of a TIFF, some versions of Pillow give the turned size, others the size as stored, which its tags have.
        width, height = image.size
        if isinstance(image, TiffImageFile):
            width, height = (int(image.tag_v2[tag]) for tag in STORED)
        is_turned = image.getexif().get(ORIENTATION, 1) >= TURNED
        return Head((width, height) if is_turned else (height, width), is_gray(image), has_alpha(image))


@contextmanager
def opened(file: io.BytesIO | Path, path: Path) -> Iterator[Image.Image]:
    """The image in a file; damaged files are refused by their path."""
    try:
        with Image.open(file, formats=FORMATS) as image:
            yield image
    except InputError:
        raise
    except BROKEN as error:
        reason = "no image" if isinstance(error, UnidentifiedImageError) else line_of(error)
        raise InputError(f"cannot read the image {path} ({reason}): mend or remove it") from error


def gray_or_color(image: Image.Image, path: Path | str) -> Image.Image:
    """The image as people see it, in mode L or RGB: turned as its EXIF says, and on white where it is transparent."""
    check_depth(image, path)
    image.load()
    mode = "L" if is_gray(image) else "RGB"
    ImageOps.exif_transpose(image, in_place=True)
    if image.mode.startswith("I"):
        image = eight_bits(image)
    if has_alpha(image):
        color = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", color.size, "white"), color)
    return image.convert(mode)


def check_depth(image: Image.Image, path: Path | str) -> None:
    """Refuses pixels whose range is not known."""
    if image.mode == "F":
        raise InputError(f"{path} holds floats of unknown range (mode 'F'): save it with 8 or 16 bits")


def eight_bits(image: Image.Image) -> Image.Image:
    """Gray pixels of 16 bits scaled to 8 bits, which Pillow would clip to white."""
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > DEEP:
        raise ValueError(f"pixels from {values.min()} to {values.max()} are not 16 bits")
    return Image.fromarray(((values * 255 + DEEP // 2) // DEEP).astype(np.uint8))


def is_gray(image: Image.Image) -> bool:
    """Whether the image has one channel of gray, besides transparency."""
    return image.mode in ("L", "1", "LA", "La") or image.mode.startswith("I")


def has_alpha(image: Image.Image) -> bool:
    """Whether pixels of the image may be transparent."""
    return image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info


def put(pixels: Pixels, row: Pixels) -> None:
    """Writes pixels to a row of images (n, channels, height, width); gray pixels to all channels."""
    row[:] = pixels if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def in_threads(function: Callable[[A], B], items: Iterable[A], group: int = GROUP) -> Iterator[B]:
    """The results of a function in the order of the items; Pillow decodes without the interpreter's lock."""
    workers = os.cpu_count() or 1
    items = iter(items)
    groups = iter(lambda: list(islice(items, group)), [])
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[list[B]]] = deque()
        for some in groups:
            waiting.append(pool.submit(lambda some: [function(item) for item in some], some))
            if len(waiting) > 2 * workers:  # no more items in memory than the workers need
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
