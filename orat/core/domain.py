"""How data are read, and the domain of their inputs. Imports no torch, to keep help texts quick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from orat.core.errors import InputError
from orat.core.options import whole

Size = tuple[int, int]  # height, width
KINDS = {  # of data that have a setting
    "image_size": "folders of images", "class_depth": "folders of images", "target": "tables",
    "bounds": "tables and vectors", "frozen": "tables and vectors",
}  # fmt: skip

Bounds: TypeAlias = Literal["data", "none"] | tuple[float, float]


@dataclass(frozen=True)
class Columns:
    """The columns of a table, or the features of vectors, as a run reads them."""

    target: str | None = None  # the column of the labels of a table
    bounds: Bounds = "data"
    frozen: tuple[str, ...] = ()  # the columns that no attack changes; features of vectors are named by their numbers


USUAL = Columns()


@dataclass(frozen=True)
class Domain:
    """The values that inputs can have: bounds, and the unit of each feature; features are those of the flat input.

    Images lie in [0, 1] and have one unit. Columns of a table have their own bounds, or None, and their own units, such
    as standard deviations; a feature with unit 0 is frozen: no attack changes it.
    """

    low: float | tuple[float, ...] | None = 0.0
    high: float | tuple[float, ...] | None = 1.0
    scale: tuple[float, ...] | None = None
    columns: Columns = field(default=USUAL, compare=False, repr=False)  # that decided bounds and units

    @property
    def unit(self) -> str:
        """The unit of a radius, after its number; empty for images."""
        return unit_of(self.scale)


UNIT = Domain()


def unit_of(scale: Sequence[float] | None) -> str:
    """The unit of a radius for features of this scale, after its number; empty without a scale."""
    return "" if scale is None else " standard deviations"


@dataclass(frozen=True)
class Reading:
    """The settings of a run that decide its samples, classes and bounds; see the fields of `Run`."""

    image_size: Size | None = None
    class_depth: int = 1
    target: str | None = None
    bounds: Bounds = "data"
    frozen: tuple[str, ...] = ()
    largest: int | None = None  # pixels of the longer side, where no size is given; None is as large as the images

    def __post_init__(self) -> None:
        if self.image_size is not None and min(self.image_size) < 1:
            raise InputError(f"the image size is {size_text(self.image_size)}: give a height and a width of at least 1")

    @property
    def columns(self) -> Columns:
        """The settings of tables and vectors."""
        return Columns(self.target, self.bounds, self.frozen)

    def check(self, name: str, used: tuple[str, ...] = ()) -> None:
        """Refuses a setting that is not used for this data set."""
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in KINDS and one.name not in used and value != one.default:
                words = f"the {one.name.replace('_', ' ')} {text_of(value)} is for {KINDS[one.name]}"
                raise InputError(f"{words}: leave it out for {name!r}")


def text_of(value: Any) -> str:
    """A setting for people: sizes as 32x48, names with commas."""
    if isinstance(value, tuple):
        return ("x" if all(isinstance(part, int) for part in value) else ",").join(map(str, value))
    return str(value)


PLAIN = Reading()


def size(text: str) -> tuple[int, int]:
    """A height and a width, such as 32x48; one number for a square."""
    height, _, width = text.partition("x")
    return whole(height), whole(width or height)


def size_text(height_and_width: tuple[int, int]) -> str:
    """A height and a width as text, such as 32x48."""
    return "x".join(map(str, height_and_width))


def check_bounds(bounds: Bounds) -> None:
    """Refuses bounds of columns without a meaning."""
    numbers = [one for one in bounds if isinstance(one, int | float)] if isinstance(bounds, tuple) else []
    if bounds not in ("data", "none") and not (len(numbers) == len(bounds) == 2 and numbers[0] < numbers[1]):
        raise InputError(f"bounds = {bounds}: give data, none, or two numbers LOW,HIGH with LOW below HIGH")
