"""A cell of a table or figure: one training that the paper reports, with the paper's numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orat.core.errors import InputError, unknown
from orat.core.options import number

KEYS = ("data", "eps", "noise", "rate", "method", "model", "k", "m")  # the fields that identify a cell


@dataclass(frozen=True)
class Cell:
    """One training of the paper, with values as the paper writes them."""

    data: str
    eps: str
    noise: str
    rate: int  # in percent
    method: str
    k: int | None = None
    m: int | None = None
    model: str | None = None  # None: the network of the data set
    theirs: Mapping[str, float] = field(default_factory=dict, compare=False)  # accuracy in percent, by column

    def key(self) -> dict[str, str | int | None]:
        """The fields that identify a cell."""
        return {name: getattr(self, name) for name in KEYS}

    def words(self) -> str:
        """The fields of the cell in words."""
        given = {name: value for name, value in self.key().items() if value is not None}
        return ", ".join(f"{name} {value}" for name, value in given.items())


def read_only(texts: Iterable[str]) -> dict[str, list[str]]:
    """The wanted values of every key, from texts such as data=mnist,eps=0.1,eps=0.2."""
    wanted: dict[str, list[str]] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in KEYS:
            raise unknown("field of --only:", name, KEYS)
        if not equals or not value:
            raise InputError(f"--only {part} names no value: write {name}=VALUE, with commas between several")
        wanted.setdefault(name, []).append(value)
    return wanted


def choose(cells: Sequence[Cell], wanted: Mapping[str, Sequence[str]], what: str) -> tuple[Cell, ...]:
    """The cells with a wanted value in every key; refuses a value without a cell."""
    left, place = list(cells), f"in {what}"
    for name, values in wanted.items():
        known = list(dict.fromkeys(str(getattr(cell, name)) for cell in left if getattr(cell, name) is not None))
        for value in values:
            if not any(is_same(name, other, value) for other in known):
                listed = ", ".join(known) or "no values"
                raise InputError(f"--only {name}={value} matches nothing: {place} there are {listed}")
        left = [cell for cell in left if any(is_same(name, str(getattr(cell, name)), value) for value in values)]
        place += f" with {name}={','.join(values)}"
    return tuple(left)


def is_same(name: str, one: str, other: str) -> bool:
    """Whether two texts are the same value; radii are compared as numbers."""
    if one.lower() == other.lower():
        return True
    try:
        return name == "eps" and number(one) == number(other)
    except InputError:
        return False
