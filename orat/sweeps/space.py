"""What a search is over: fields of a run or of its method, each with values or a range, and the runs they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass
from itertools import product
from types import NoneType
from typing import Any, get_args

from orat.core.errors import InputError, unknown
from orat.core.options import one_of, reader, written
from orat.methods import METHODS
from orat.training.run import Run
from orat.training.text import Texts, declared_fields, run_from

Choice = dict[str, str]  # field -> value, as it is written on the command line

DECIDE_DATA = (
    "data", "image_size", "labels", "noise", "noise_rate", "noise_seed", "without_outliers_of", "validation", "seed",
)  # fmt: skip
DECIDE_ATTACK = ("eps", "norm")  # of validation


@dataclass(frozen=True)
class Values:
    """A field and the values to try, by how they are written."""

    field: str
    by_text: dict[str, Any]

    def corners(self) -> list[str]:
        """All of them."""
        return list(self.by_text)

    def read(self, text: str) -> Any:
        """The value that is written so."""
        return self.by_text[text]

    def record(self) -> list[str]:
        """As plain JSON."""
        return list(self.by_text)


@dataclass(frozen=True)
class Range:
    """A field and the numbers between which to try; whole ones between whole ones."""

    field: str
    low: int | float
    high: int | float
    log: bool

    def corners(self) -> list[str]:
        """Its ends."""
        return [str(self.low), str(self.high)]

    def read(self, text: str) -> int | float:
        """The value that is written so."""
        return type(self.low)(text)

    def record(self) -> str:
        """As it is written."""
        return f"{'log:' if self.log else ''}{self.low}..{self.high}"


Axis = Values | Range


def axes_of(over: Mapping[str, Any]) -> list[Axis]:
    """The fields of a search; each has values, or text as on the command line: 0.1,0.2 or 0.05..0.5 or log:0.01..1."""
    if not over:
        raise InputError("nothing to search over: name a field and its values, such as m=0.1,0.2")
    return [axis_of(name.strip().removeprefix("--").replace("-", "_"), tried) for name, tried in over.items()]


def axis_of(name: str, tried: Any) -> Axis:
    """One field with what to try."""
    field, hint = declared(name)
    try:
        if not isinstance(tried, str):
            if not isinstance(tried, Iterable):
                raise InputError(f"{tried!r} is one value: give a list of them")
            return listed(name, [written(field, value) for value in tried])
        if ".." in tried and {*(get_args(hint) or (hint,))} <= {int, float, NoneType}:
            return between(name, tried, reader(field, hint))
        separator = ";" if hint == tuple[int, ...] else ","  # there, a value has commas itself
        return listed(name, [text.strip() for text in tried.split(separator) if text.strip()])
    except InputError as error:
        raise InputError(f"--over {name}: {error}") from None


def declared(name: str) -> tuple[Field[Any], Any]:
    """Where a field is declared, and its type."""
    known = declared_fields()
    if name not in known:
        raise unknown("field to search over:", name, known, listed=False)
    return known[name]


def listed(name: str, texts: list[str]) -> Values:
    """Values, each once however often it is written."""
    if not texts:
        raise InputError(f"no values: write them as {name}=A,B,...")
    field, hint = declared(name)
    values: dict[str, Any] = {}
    for text in texts:
        value = one_of(text, tuple(METHODS), "method") if name == "method" else reader(field, hint)(text)
        # 1 is a count and 1.0 is everything
        if not any(value == other and type(value) is type(other) for other in values.values()):
            values[text] = value
    return Values(name, values)


def between(name: str, text: str, read: Any) -> Range:
    """A range of numbers."""
    low, _, high = text.removeprefix("log:").partition("..")
    ends = [read(end.strip()) for end in (low, high)]
    if any(isinstance(end, float) for end in ends):
        ends = [float(end) for end in ends]
    if not ends[0] < ends[1]:
        raise InputError(f"{text} is no range: the first number must be the smaller one")
    if text.startswith("log:") and ends[0] <= 0:
        raise InputError(f"{text}: a logarithmic scale has no {low.strip()}; begin above 0")
    return Range(name, ends[0], ends[1], text.startswith("log:"))


def run_of(texts: Texts, choice: Choice) -> Run:
    """The run of one choice; refuses one that holds nothing out to choose by."""
    run = run_from({**texts, **choice})
    if run.validation == 0:
        raise InputError("validation = 0 holds nothing out to choose by: give a share, such as --validation 0.05")
    return run


def choices_of(axes: list[Axis]) -> list[Choice]:
    """Every combination of values, and of the ends of ranges."""
    combinations = product(*(axis.corners() for axis in axes))
    return [dict(zip((axis.field for axis in axes), texts, strict=True)) for texts in combinations]


def first_run(texts: Texts, axes: list[Axis]) -> Run:
    """The run of the first choice that makes one; where none does, the first reason why."""
    reasons = []
    for choice in choices_of(axes):
        try:
            return run_of(texts, choice)
        except InputError as error:
            reasons.append(error)
    raise reasons[0]


def doubts(axes: list[Axis]) -> list[str]:
    """A sentence for each field whose values cannot be compared by accuracy on validation."""
    found = []
    for axis in axes:
        decides = "attack" if axis.field in DECIDE_ATTACK else "images or labels" if axis.field in DECIDE_DATA else ""
        if decides:
            found.append(f"{axis.field} decides the {decides} of validation too: its values do not compare by accuracy")
    return found
