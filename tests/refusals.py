"""What every refusal must be: one line with the words that help."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orat.core.errors import InputError


def assert_refused_in_one_line(build: Callable[[], object], words: str) -> None:
    """Something that cannot be meant is an InputError with these words and no line break."""
    with pytest.raises(InputError) as caught:
        build()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
