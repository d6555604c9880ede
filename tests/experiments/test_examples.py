"""The examples are short, use public names, and the quickest one runs."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path

import pytest

import orat
from orat.cli.main import main

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_short_and_its_names_exist(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") <= 40
    for owner, names in re.findall(r"^from (orat[\w.]*) import (.+)$", text, re.MULTILINE):
        assert all(hasattr(importlib.import_module(owner), name) for name in names.split(", "))
    for name in re.findall(r"\borat\.(\w+)", text):
        assert hasattr(orat, name), name


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The output of an example."""
    runpy.run_path(str(EXAMPLES[0].with_name(name)), run_name="__main__")
    return capsys.readouterr().out


def test_new_pictures_are_classified_by_a_finished_model(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed("use_a_model.py", capsys).splitlines()
    rows = [re.fullmatch(r"\d+\.png: \d \(\d+%\), certain: (True|False)", line) for line in lines]
    assert len(rows) == 12
    assert {row[1] for row in rows if row} == {"True", "False"}


def test_wrong_labels_are_found_by_predictions_of_another_model(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed("own_predictions.py", capsys)
    assert "taken as logits" in text
    rates = re.search(r"precision ([\d.]+)%, recall ([\d.]+)%", text)
    assert rates is not None
    assert min(map(float, rates.groups())) > 65


DOORS = {
    "own_network.py": "--model",
    "own_method.py": "--method",
    "own_attack.py": "--attack",
    "own_data.py": "--data",
    "own_predictions.py": "predictions",
    "own_table.py": "target",
    "use_a_model.py": "predict",
    "settings.toml": "--config",
}


@pytest.mark.parametrize("name", DOORS)
def test_every_door_has_an_example_of_less_than_30_lines(name: str) -> None:
    text = EXAMPLES[0].with_name(name).read_text()
    assert text.count("\n") < 30
    assert DOORS[name] in text


@pytest.mark.parametrize("name", ["own_network.py", "own_method.py", "own_attack.py", "own_data.py"])
def test_an_example_that_the_command_line_names_trains_nothing_when_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES[0].with_name(name)), run_name="read")
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_a_network_of_your_own_trains_and_its_weights_load_in_plain_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert printed("own_network.py", capsys).splitlines()[-1] == "True"
    assert (tmp_path / "runs" / "own-network" / "result.json").is_file()


def test_data_of_your_own_are_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert printed("own_data.py", capsys).splitlines()[-1] == "{'natural': 1.0, 'pgd20': 1.0}"


@pytest.mark.parametrize(("door", "name"), [("--model", "own_network.py:make"), ("--data", "own_data.py:Squares")])
def test_a_network_and_data_of_the_examples_train_by_the_command_line(door: str, name: str, tmp_path: Path) -> None:
    few = ["--epochs", "1", "--attack-steps", "1", "--quiet", "--device", "cpu", "--out", str(tmp_path / "run")]
    example = str(EXAMPLES[0].with_name(name))
    assert main(["train", "--method", "at", door, example, *few]) == 0
    assert (tmp_path / "run" / "result.json").is_file()


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
    assert "Linear(in_features=256, out_features=32, bias=True)" in printed("two_classes_from_arrays.py", capsys)


def test_a_table_of_your_own_is_trained_and_attacked(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES[0].with_name("own_table.py")), run_name="__main__")
    accuracy = [
        float(value) for value in re.findall(r"^eps .* 'pgd20': ([\d.]+)", capsys.readouterr().out, re.MULTILINE)
    ]
    assert len(accuracy) == 3
    assert accuracy[0] > 0.8
    assert accuracy == sorted(accuracy, reverse=True)
