"""Refusals: one line with the value received and the remedy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orat.cli.main import main
from orat.core.errors import InputError


def assert_refused_in_one_line(build: Callable[[], object], words: str) -> None:
    """The call raises an InputError with these words and no line break."""
    with pytest.raises(InputError) as caught:
        build()
    assert words in str(caught.value), str(caught.value)
    assert "\n" not in str(caught.value)


def wrong(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line on standard error with which a command refuses its arguments."""
    code = main(list(arguments))
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.count("\n") == 1, captured.err
    return captured.err
