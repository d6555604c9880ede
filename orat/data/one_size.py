"""Pillow images of a user's data set -> arrays of one size, by the rule of image folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from orat.core.domain import Reading, Size
from orat.data.image_sizes import chosen_size, size_words


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
