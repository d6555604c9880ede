"""The size that the images of a data set are brought to."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import median

from orat.core.domain import Size


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
