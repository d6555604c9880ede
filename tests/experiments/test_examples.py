"""The examples are short, use public names, and the quickest one runs."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path

import pytest

import orat

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_short_and_its_names_exist(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") <= 40
    for owner, names in re.findall(r"^from (orat[\w.]*) import (.+)$", text, re.MULTILINE):
        assert all(hasattr(importlib.import_module(owner), name) for name in names.split(", "))
    for name in re.findall(r"\borat\.(\w+)", text):
        assert hasattr(orat, name), name


def test_arrays_of_your_own_are_trained_and_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES[-1]), run_name="__main__")
    assert "Linear(in_features=256, out_features=32, bias=True)" in capsys.readouterr().out


def test_a_table_of_your_own_is_trained_and_attacked(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES[0].with_name("own_table.py")), run_name="__main__")
    accuracy = [
        float(value) for value in re.findall(r"^eps .* 'pgd20': ([\d.]+)", capsys.readouterr().out, re.MULTILINE)
    ]
    assert len(accuracy) == 3
    assert accuracy[0] > 0.8
    assert accuracy == sorted(accuracy, reverse=True)
