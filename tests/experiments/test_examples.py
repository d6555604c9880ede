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


@pytest.mark.parametrize(("name", "folder"), [("own_method", "focal"), ("own_attack", "mine")])
def test_a_method_and_an_attack_of_your_own_train_and_are_evaluated(
    name: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES[0].with_name(f"{name}.py")), run_name="__main__")
    *_, accuracy = capsys.readouterr().out.splitlines()
    assert accuracy.startswith("{'natural': 0.")
    assert (tmp_path / "runs" / folder / "result.json").is_file()
    assert (EXAMPLES[0].with_name(f"{name}.py")).read_text().count("\n") < 30


def test_arrays_of_your_own_are_trained_and_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES[-1]), run_name="__main__")
    assert "Linear(in_features=256, out_features=32, bias=True)" in capsys.readouterr().out
