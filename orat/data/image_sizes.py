"""The size that the images of a data set are brought to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

from orat.core.domain import Reading, Size


def chosen_size(sizes: Sequence[Size], largest: int | None) -> Size:
    """The common size of images if all have one size and it is not too large, else the median shape."""
    most = max(max(size) for size in sizes) if largest is None else largest
    if len(set(sizes)) == 1 and max(sizes[0]) <= most:
        return sizes[0]
    longer = min(int(median(max(size) for size in sizes)), most)
    ratio = exp(median(log(height / width) for height, width in sizes))
    shorter = max(1, round(longer * min(ratio, 1 / ratio)))
    return (longer, shorter) if ratio >= 1 else (shorter, longer)


def size_words(sizes: Sequence[Size], size: Size, largest: int | None) -> str:
    """The line about images that are resized to a size of our choice."""
    seen = sorted(set(sizes), key=lambda size: (size[0] * size[1], size))
    least, most = ("{}x{}".format(*one) for one in (seen[0], seen[-1]))
    given = f"of {least}" if least == most else f"of different sizes, {least} to {most},"
    limit = "" if largest is None else f" and at most {largest} pixels a side"
    text = "{}x{}".format(*size)
    return f"images {given} are resized to {text} (height x width), their median shape{limit}: or give --image-size HxW"


def of_one_size(content: Mapping[str, Any], reading: Reading) -> tuple[dict[str, Any], Size | None, tuple[str, ...]]:
    """The content with arrays in place of lists of Pillow images; their size, if any, and a line if it was chosen."""
    parts = {key: own for key, own in content.items() if isinstance(own, list) and isinstance(own[0], Image.Image)}
    if not parts:
        return dict(content), None, ()
    sizes = {key: [(image.height, image.width) for image in images] for key, images in parts.items()}
    every = [size for own in sizes.values() for size in own]
    size = reading.image_size or chosen_size(sizes.get("x_train", every), reading.largest)
    is_chosen = reading.image_size is None and set(every) != {size}
    mode = "L" if all(image.mode == "L" for images in parts.values() for image in images) else "RGB"
    arrays = {key: np.stack([resized(image, mode, size) for image in images]) for key, images in parts.items()}
    return {**content, **arrays}, size, (size_words(every, size, reading.largest),) if is_chosen else ()


def resized(image: Image.Image, mode: str, size: Size) -> Any:
    """The pixels of an image in this mode and size."""
    pixels = image.convert(mode)
    return np.asarray(pixels if pixels.size == size[::-1] else pixels.resize(size[::-1], Image.Resampling.BILINEAR))
