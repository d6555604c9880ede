"""The domain of the inputs of a data set. Imports no torch, to keep help texts quick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

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
