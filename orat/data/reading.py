"""How data are read. Imports no torch, to keep help texts quick."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from orat.core.domain import Bounds, Columns
from orat.core.errors import InputError

Size = tuple[int, int]  # height, width

KINDS = {  # of data that have a setting
    "image_size": "folders of images", "class_depth": "folders of images", "target": "tables",
    "bounds": "tables and vectors", "frozen": "tables and vectors",
}  # fmt: skip


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
            height, width = self.image_size
            raise InputError(f"the image size is {height}x{width}: give a height and a width of at least 1")

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
