"""Numbers as people write them: 8/255, 0.1, 1800, 32x48."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from orat.core.errors import InputError

if TYPE_CHECKING:
    pass


def number(text: str) -> float:
    """A number, or a quotient such as 8/255."""
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{text!r} is not a number: write it as 0.03 or 8/255") from None


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{text!r} is not a whole number") from None


def wholes(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them; nothing for none."""
    return tuple(whole(part) for part in text.split(",") if part)


def amount(text: str) -> int | float:
    """A whole number as a count, anything else as a fraction."""
    return int(text) if text.lstrip("+-").isdigit() else number(text)


def size(text: str) -> tuple[int, int]:
    """A height and a width, such as 32x48; one number for a square."""
    height, _, width = text.partition("x")
    return whole(height), whole(width or height)


def radius(eps: float) -> str:
    """A radius as it is when it is short, as 8/255 (0.0314) when it is such a quotient."""
    pixels = round(eps * 255)
    if float(f"{eps:.4g}") != eps and abs(pixels - eps * 255) < 1e-9:
        return f"{pixels}/255 ({eps:.4f})"
    return f"{eps:g}"


def in_pixels(eps: float, norm: str) -> bool:
    """Whether the radius is k/255 and has no shorter name, such as 0.2 for 51/255."""
    return norm == "linf" and float(f"{eps:.4g}") != eps and abs(round(eps * 255) / 255 - eps) < 1e-6


def radius_label(value: float, pixels: bool) -> str:
    """A radius as 8/255 or as 0.3."""
    return f"{255 * value:.4g}/255" if pixels and value else f"{value:.4g}"
