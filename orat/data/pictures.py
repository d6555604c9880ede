"""Samples as pictures in a page of HTML."""

from __future__ import annotations

import io
from base64 import b64encode
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

SHOWN = 128  # pixels of the longer side on a page
LARGEST = 256  # pixels of the longer side in the file


def drawable(shape: tuple[int, ...]) -> bool:
    """Whether samples of a shape are gray or colored images."""
    return len(shape) == 3 and shape[0] in (1, 3)


def image_of(pixels: Tensor) -> Image.Image:
    """A sample (channels, height, width) as an image."""
    whole = pixels if pixels.dtype == torch.uint8 else (255 * pixels).round().to(torch.uint8)
    array = whole.cpu().movedim(0, -1).numpy()
    return Image.fromarray(np.ascontiguousarray(array[..., 0] if array.shape[-1] == 1 else array))


def picture(image: Image.Image, shown: int = SHOWN, largest: int = LARGEST) -> dict[str, Any]:
    """An image as a data URL with its size on the page; a tiny image is enlarged."""
    small = image.copy()
    small.thumbnail((largest, largest))
    raw = io.BytesIO()
    small.save(raw, "PNG", optimize=True)
    scale = shown / max(small.size)
    width, height = (max(1, round(scale * side)) for side in small.size)
    source = f"data:image/png;base64,{b64encode(raw.getvalue()).decode()}"
    return {"width": width, "height": height, "tiny": scale > 1, "source": source}
