"""Numbers in people's notation: 8/255, 0.1, 1800, 32x48."""

from __future__ import annotations

from fractions import Fraction

from orat.core.errors import InputError

PIXEL = 255  # a radius in linf is often a number of its 255ths


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
    """Whole numbers with commas between them; an empty text has none."""
    return tuple(whole(part) for part in text.split(",") if part)


def size(text: str) -> tuple[int, int]:
    """A height and a width, such as 32x48; one number for a square."""
    height, _, width = text.partition("x")
    return whole(height), whole(width or height)


def size_text(height_and_width: tuple[int, int]) -> str:
    """A height and a width as text, such as 32x48."""
    return "x".join(map(str, height_and_width))


def radius(eps: float) -> str:
    """A radius for people: 0.1, or 8/255 (0.0314) where a quotient is shorter."""
    pixels = round(eps * PIXEL)
    if not is_short(eps) and abs(pixels - eps * PIXEL) < 1e-9:
        return f"{pixels}/{PIXEL} ({eps:.4f})"
    return f"{eps:g}"


def in_pixels(eps: float, norm: str) -> bool:
    """Whether a radius is a quotient k/255 without a shorter decimal form; 51/255 is 0.2."""
    return norm == "linf" and not is_short(eps) and abs(round(eps * PIXEL) / PIXEL - eps) < 1e-6


def is_short(value: float) -> bool:
    """Whether four digits write the number exactly."""
    return float(f"{value:.4g}") == value


def radius_label(value: float, pixels: bool) -> str:
    """A radius on an axis: 8/255 in pixels, else 0.3."""
    return f"{PIXEL * value:.4g}/{PIXEL}" if pixels and value else f"{value:.4g}"
