"""A cell of a table or figure: one training that the paper reports on, with its numbers where it prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orat.core.errors import InputError, unknown
from orat.core.numbers import number

KEYS = ("data", "eps", "noise", "rate", "method", "model", "k", "m")  # what cells differ in, and are chosen by


@dataclass(frozen=True)
class Cell:
    """One training of the paper; values are written as there."""

    data: str
    eps: str
    noise: str
    rate: int  # in percent
    method: str
    k: int | None = None
    m: int | None = None
    model: str | None = None  # where it is not the data set's own
    theirs: Mapping[str, float] = field(default_factory=dict, compare=False)  # accuracy in percent, by column

    def key(self) -> dict[str, str | int | None]:
        """What tells it from other cells."""
        return {name: getattr(self, name) for name in KEYS}

    def words(self) -> str:
        """The cell for people."""
        said = {name: value for name, value in self.key().items() if value is not None}
        return ", ".join(f"{name} {value}" for name, value in said.items())


def read_only(texts: Iterable[str]) -> dict[str, list[str]]:
    """The values that are wanted of each key, from texts such as data=mnist,eps=0.1,eps=0.2."""
    wanted: dict[str, list[str]] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in KEYS:
            raise unknown("field of --only:", name, KEYS)
        if not equals or not value:
            raise InputError(f"--only {part} names no value: write it as {name}=VALUE, with commas between several")
        wanted.setdefault(name, []).append(value)
    return wanted


def choose(cells: Sequence[Cell], wanted: Mapping[str, Sequence[str]], what: str) -> tuple[Cell, ...]:
    """The cells with one of the wanted values in every key; a value that none has is an error."""
    left, said = list(cells), f"in {what}"
    for name, values in wanted.items():
        there = list(dict.fromkeys(str(getattr(cell, name)) for cell in left if getattr(cell, name) is not None))
        for value in values:
            if not any(is_same(name, other, value) for other in there):
                listed = ", ".join(there) or "no values"
                raise InputError(f"--only {name}={value} matches nothing: {said} there are {listed}")
        left = [cell for cell in left if any(is_same(name, str(getattr(cell, name)), value) for value in values)]
        said += f" with {name}={','.join(values)}"
    return tuple(left)


def is_same(name: str, one: str, other: str) -> bool:
    """Whether two texts are one value: radii by their size, all else by its letters."""
    if one.lower() == other.lower():
        return True
    try:
        return name == "eps" and number(one) == number(other)
    except InputError:
        return False
