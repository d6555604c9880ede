"""Words of errors: a near name only where it is near, and numbers with their nouns."""

from __future__ import annotations

import pytest

from orat.core.errors import counted, unknown
from orat.methods import METHODS


@pytest.mark.parametrize(("name", "near"), [("traeds", "trades"), ("orta", "orat"), ("Focal", None), ("mixup", None)])
def test_a_name_is_suggested_only_where_it_is_near(name: str, near: str | None) -> None:
    text = str(unknown("method", name, METHODS))
    assert ("did you mean" in text) == (near is not None)
    assert near is None or f"did you mean {near!r}?" in text
    assert (f"one of yours is path/file.py:{name}" in text) == (near is None)


def test_one_of_a_thing_is_no_plural() -> None:
    assert [counted(number, "epoch") for number in (0, 1, 2000)] == ["0 epochs", "1 epoch", "2,000 epochs"]
