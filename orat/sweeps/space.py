"""The space of a search: fields of a run or its method, each with values or a range, and the runs of all settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass
from itertools import product
from types import MappingProxyType, NoneType
from typing import Any, get_args

from orat.core.errors import InputError, unknown
from orat.core.options import reader, written
from orat.training.run import Run
from orat.training.text import Texts, declared_fields, method_class, run_from

Choice = dict[str, str]  # a setting: field -> value as on the command line

DECIDE_DATA = (
    "data", "image_size", "class_depth", "target", "bounds", "frozen", "labels", "noise", "noise_rate", "noise_seed",
    "validation", "seed",
)  # fmt: skip
DECIDE_ATTACK = ("eps", "norm")  # of validation


@dataclass(frozen=True)
class Values:
    """A searched field and a list of values, each under the text of the command line."""

    field: str
    by_text: dict[str, Any]

    def corners(self) -> list[str]:
        """All values as text."""
        return list(self.by_text)

    def read(self, text: str) -> Any:
        """The value of a text."""
        return self.by_text[text]

    def record(self) -> list[str]:
        """The values as plain JSON."""
        return list(self.by_text)


@dataclass(frozen=True)
class Range:
    """A field and a range of numbers, whole numbers if both ends are."""

    field: str
    low: int | float
    high: int | float
    log: bool

    def corners(self) -> list[str]:
        """Both ends as text."""
        return [str(self.low), str(self.high)]

    def read(self, text: str) -> int | float:
        """The value of a text."""
        return type(self.low)(text)

    def record(self) -> str:
        """The range as on the command line."""
        return f"{'log:' if self.log else ''}{self.low}..{self.high}"


Axis = Values | Range
Declared = tuple[Field[Any], Any]  # a field and its type


def axes_of(over: Mapping[str, Any], texts: Texts = MappingProxyType({})) -> list[Axis]:
    """The fields of a search with values, or with text as on the command line: 0.1,0.2 or 0.05..0.5 or log:0.01..1.

    The fields are those of a run, of all methods, and of the methods that `texts` and `over` name.
    """
    if not over:
        raise InputError("there is no field to search over: give a field and its values, such as m=0.1,0.2")
    tried = {name.strip().removeprefix("--").replace("-", "_"): values for name, values in over.items()}
    methods = tried.get("method", ())
    named = [*(separated(methods) if isinstance(methods, str) else methods), texts.get("method")]
    known = declared_fields() | declared_fields(method_class(name) for name in named if name is not None)
    return [axis_of(name, values, known) for name, values in tried.items()]


def separated(text: str, separator: str = ",") -> list[str]:
    """The parts of a text that are not empty."""
    return [part.strip() for part in text.split(separator) if part.strip()]


def axis_of(name: str, tried: Any, known: Mapping[str, Declared]) -> Axis:
    """One searched field with a list of values or a range."""
    if name not in known:
        raise unknown("field to search over:", name, known, listed=False)
    field, hint = known[name]
    try:
        if not isinstance(tried, str):
            if not isinstance(tried, Iterable):
                raise InputError(f"{tried!r} is one value: give a list of them")
            return listed(field, hint, [written(field, value) for value in tried])
        if ".." in tried and {*(get_args(hint) or (hint,))} <= {int, float, NoneType}:
            return between(name, tried, reader(field, hint))
        separator = ";" if hint == tuple[int, ...] else ","  # a value has commas
        return listed(field, hint, separated(tried, separator))
    except InputError as error:
        raise InputError(f"--over {name}: {error}") from None


def listed(field: Field[Any], hint: Any, texts: list[str]) -> Values:
    """Values from texts, without repetitions."""
    name = field.name
    if not texts:
        raise InputError(f"no values: give {name}=A,B,...")
    values: dict[str, Any] = {}
    for text in texts:
        value = text if name == "method" else reader(field, hint)(text)
        # 1 is a count, 1.0 a fraction
        if not any(value == other and type(value) is type(other) for other in values.values()):
            values[text] = value
    return Values(name, values)


def between(name: str, text: str, read: Any) -> Range:
    """A range from text."""
    low, _, high = text.removeprefix("log:").partition("..")
    ends = [read(end.strip()) for end in (low, high)]
    if any(isinstance(end, float) for end in ends):
        ends = [float(end) for end in ends]
    if not ends[0] < ends[1]:
        raise InputError(f"{text} is no range: give the smaller number first")
    if text.startswith("log:") and ends[0] <= 0:
        raise InputError(f"{text}: a logarithmic scale starts above 0, not at {low.strip()}")
    return Range(name, ends[0], ends[1], text.startswith("log:"))


def run_of(texts: Texts, choice: Choice) -> Run:
    """The run of one setting; refuses a run without validation samples."""
    run = run_from({**texts, **choice})
    if run.validation == 0:
        raise InputError("validation = 0 leaves no samples to rank by: give a share, such as --validation 0.05")
    return run


def choices_of(axes: list[Axis]) -> list[Choice]:
    """Every combination of values, and of the ends of ranges."""
    combinations = product(*(axis.corners() for axis in axes))
    return [dict(zip((axis.field for axis in axes), texts, strict=True)) for texts in combinations]


def first_run(texts: Texts, axes: list[Axis]) -> Run:
    """The run of the first valid setting; if no setting is valid, the first error."""
    reasons = []
    for choice in choices_of(axes):
        try:
            return run_of(texts, choice)
        except InputError as error:
            reasons.append(error)
    raise reasons[0]


def doubts(axes: list[Axis]) -> list[str]:
    """A warning for each field whose values cannot be compared by validation accuracy."""
    found = []
    for axis in axes:
        decides = "attack" if axis.field in DECIDE_ATTACK else "images or labels" if axis.field in DECIDE_DATA else ""
        if decides:
            found.append(
                f"{axis.field} changes the {decides} of validation, so accuracies of its values do not compare"
            )
    return found
