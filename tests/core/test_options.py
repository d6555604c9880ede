"""Fields as options: types are found without imports, and text and value are each other's inverse."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as some
from refusals import assert_refused_in_one_line

from orat.cli.flags import literal
from orat.core.domain import size, size_text
from orat.core.options import (
    check_choices,
    check_numbers,
    field_types,
    flag,
    option,
    reader,
    reader_of,
    written,
)

if TYPE_CHECKING:
    from somewhere_else import Imported

Names = list[str]
WORDS = some.text("abcdefgh-", min_size=1, max_size=5)
HINTS: list[tuple[Any, Any]] = [
    (int, some.integers()),
    (float, some.floats(allow_nan=False)),
    (bool, some.booleans()),
    (str, some.text()),
    (Path, WORDS.map(Path)),
    (Literal["a", "b", 3], some.sampled_from(("a", "b", 3))),
    (int | float, some.integers() | some.floats(allow_nan=False)),
    (float | None, some.none() | some.floats(allow_nan=False)),
    (Optional[int], some.none() | some.integers()),  # noqa: UP045
    (Union[str, int], some.integers() | WORDS),  # noqa: UP007
    (Path | None, some.none() | WORDS.map(Path)),
    (bool | None, some.none() | some.booleans()),
    (tuple[int, ...], some.lists(some.integers()).map(tuple)),
    (tuple[float, float], some.tuples(*(some.floats(allow_nan=False),) * 2)),
    (tuple[str, int] | None, some.none() | some.tuples(WORDS, some.integers())),
    (list[str], some.lists(WORDS)),
    (list[float] | None, some.none() | some.lists(some.floats(allow_nan=False), min_size=1)),
    (Literal["low", "high"] | None, some.sampled_from((None, "low", "high"))),
]


@dataclass(frozen=True)
class Base:
    """The fields of a base class."""

    rate: float = option(0.1, "a rate", least=0, most=1)


@dataclass(frozen=True)
class Sample(Base):
    """A field of each kind, one of them of a type that only the type checker imports."""

    shared: ClassVar[Imported]

    names: Names = option((), "names")
    other: Imported = option(None, "a value from elsewhere", type=object)
    place: Path | None = option(None, "a place")
    count: int | None = option(None, "a count", least=1)
    kind: Literal["a", "b"] = option("a", "a kind")
    shape: tuple[int, int] = option((1, 1), "a shape", parse=size, write=size_text)


@pytest.mark.parametrize(("hint", "values"), HINTS, ids=lambda one: str(one) if "typing" in str(one) else "")
def test_the_text_of_a_value_gives_the_value_back(hint: Any, values: Any) -> None:
    (field,) = (field for field in fields(Base) if field.name == "rate")

    @given(values)
    def check(value: Any) -> None:
        back = reader_of(hint, "field")(written(field, value))
        assert back == value
        assert type(back) is type(value)

    check()


def test_types_are_evaluated_where_a_class_is_written_and_without_those_of_the_type_checker() -> None:
    assert field_types(Sample) == {
        "rate": float, "names": list[str], "other": object, "place": Path | None, "count": int | None,
        "kind": Literal["a", "b"], "shape": tuple[int, int],
    }  # fmt: skip


def test_a_field_may_have_a_text_form_of_its_own() -> None:
    shape = next(field for field in fields(Sample) if field.name == "shape")
    assert reader(shape, tuple[int, int])("32x48") == (32, 48)
    assert written(shape, (32, 48)) == "32x48"


@pytest.mark.parametrize(
    ("hint", "text", "words"),
    [
        (int, "1.5", "'1.5' is not a whole number"),
        (float | None, "much", "'much' is not a number"),
        (int | float, "--5", "'--5' is not a number"),
        (bool, "maybe", "unknown answer 'maybe': "),
        (Literal["rank", "minmax"], "min-max", "unknown the field 'min-max': did you mean 'minmax'?"),
        (tuple[int, int], "1,2,3", "'1,2,3': give 2 values with commas between them"),
        (tuple[int, ...], "1,b", "'b' is not a whole number"),
        (dict[str, int], "a=1", "which has no text form: set it in Python"),
    ],
)
def test_a_text_without_meaning_is_refused_in_one_line(hint: Any, text: str, words: str) -> None:
    assert_refused_in_one_line(lambda: reader_of(hint, "the_field")(text), words)


def test_fractions_and_counts_are_told_apart() -> None:
    values = [reader_of(int | float, "m")(text) for text in ("59950", "0.3", "1", "1.0", "8/255", "-2")]
    assert values == [59950, 0.3, 1, 1.0, 8 / 255, -2]
    assert [type(value) for value in values] == [int, float, int, float, float, int]


def test_choices_are_those_of_a_literal_only() -> None:
    assert literal(Literal["a", "b"]) == ("a", "b")
    assert literal(str) == literal(str | None) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "c"}, "unknown kind 'c'"),
        ({"rate": 2.0}, "rate = 2.0: give 1 or less"),
        ({"rate": -1.0}, "rate = -1.0: give 0 or more"),
        ({"rate": float("nan")}, "rate = nan: give a finite number"),
        ({"count": 1.5}, "count = 1.5: give a whole number"),
        ({"count": 0}, "count = 0: give 1 or more"),
    ],
)
def test_values_out_of_their_type_or_range_are_refused(changes: dict[str, Any], words: str) -> None:
    check = check_choices if "kind" in changes else check_numbers
    assert_refused_in_one_line(lambda: check(Sample(**changes)), words)


def test_a_flag_is_a_field_with_dashes() -> None:
    assert flag("noise_rate") == "--noise-rate"


def test_options_and_numbers_need_no_torch() -> None:
    code = "import sys, orat.core.options, orat.training.text; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
