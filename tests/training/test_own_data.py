"""Data of one's own in a training: objects, code, folders of mixed sizes; resumed, recorded, and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from quick_runs import Heard, assert_same, quick, train_until_stopped
from refusals import assert_refused_in_one_line, wrong
from torch.utils.data import TensorDataset

import orat
from orat.core.console import SILENT
from orat.methods import AT
from orat.training.run import Run, read_run
from orat.training.setup import prepare, read, read_data

FEW: dict[str, Any] = {"epochs": 2, "milestones": (), "attack_steps": 1}


def noise(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Small gray images of noise and labels."""
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (n, 6, 6), dtype=np.uint8), np.arange(n) % 2


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Images of mixed sizes: 40 to train on, 10 to choose by and 10 to test on."""
    generator = np.random.default_rng(0)
    for part, n in (("train", 40), ("val", 10), ("test", 10)):
        for i in range(n):
            file = tmp_path / "photos" / part / f"class{i % 2}" / f"{i}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(generator.integers(0, 256, (60 + i, 90, 3), dtype=np.uint8)).save(file)
    return tmp_path / "photos"


def test_the_chosen_size_is_said_recorded_and_taken_again(photos: Path, tmp_path: Path) -> None:
    heard = Heard()
    run = quick(str(photos), AT(), **FEW, validation=0.3)
    orat.train(run, tmp_path / "run", device="cpu", display=heard)
    assert any(
        line.startswith("images of different sizes, 60x90 to 99x90, are resized to 42x48 (height x width)")
        for line in heard.lines
    )
    there = read_run(tmp_path / "run")
    assert there.image_size == (42, 48)
    parts = prepare(there)
    assert parts.validation is not None
    assert (len(parts.train), len(parts.validation), parts.train.shape) == (40, 10, (3, 42, 48))
    assert parts.validation.paths == tuple(f"val/class{i % 2}/{i}.png" for i in (0, 2, 4, 6, 8, 1, 3, 5, 7, 9))
    orat.train(run, tmp_path / "run", device="cpu", display=heard)
    assert heard.lines[-1].endswith("is finished already")


def test_the_largest_side_depends_on_the_device(photos: Path) -> None:
    run = quick(str(photos), AT(), **FEW)
    assert read_data(run, None, torch.device("cuda"))[0].image_size == (79, 90)
    assert read_data(run, None, torch.device("cpu"))[0].image_size == (42, 48)


def test_a_training_on_a_folder_of_mixed_sizes_resumes_to_the_bit(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = quick(str(photos), AT(), **FEW)
    train_until_stopped(run, tmp_path / "stopped", 3, monkeypatch, device="cpu")
    for name in ("stopped", "whole"):
        orat.train(run, tmp_path / name, device="cpu", display=SILENT)
    assert_same(tmp_path / "stopped", tmp_path / "whole")


def test_objects_train_as_the_same_file_does_and_resume_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (x, y), (x_test, y_test) = noise(90), noise(20, 1)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=y, x_test=x_test, y_test=y_test)
    tensors = [
        TensorDataset(torch.from_numpy(one)[:, None] / 255, torch.from_numpy(label))
        for one, label in ((x, y), (x_test, y_test))
    ]
    forms = {"file": str(tmp_path / "a.npz"), "arrays": ((x, y), (x_test, y_test)), "tensors": tuple(tensors)}
    for name, data in forms.items():
        run = quick(data, AT(), **FEW)  # type: ignore[arg-type]
        if name == "arrays":
            train_until_stopped(run, tmp_path / name, 3, monkeypatch, device="cpu")
        orat.train(run, tmp_path / name, device="cpu", display=SILENT)
    files = ["model.safetensors", "chosen.safetensors"]
    for name in ("arrays", "tensors"):
        for file in files:
            assert (tmp_path / name / file).read_bytes() == (tmp_path / "file" / file).read_bytes()
    assert json.loads((tmp_path / "arrays" / "run.json").read_text())["data"] == "in memory: tuple"
    assert orat.load_model(tmp_path / "arrays")(torch.rand(2, 1, 6, 6)).shape == (2, 2)


def test_other_objects_in_a_folder_of_a_finished_or_stopped_run_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = (quick(noise(60, seed), AT(), **FEW) for seed in (0, 1))  # type: ignore[arg-type]
    assert first.id == other.id
    train_until_stopped(first, tmp_path / "run", 3, monkeypatch, device="cpu")
    again = lambda: orat.train(other, tmp_path / "run", device="cpu", display=SILENT)  # noqa: E731
    assert_refused_in_one_line(again, "changed since it was stopped")
    orat.train(first, tmp_path / "run", device="cpu", display=SILENT)
    assert_refused_in_one_line(again, "is finished with other data than those given: give --out a new folder")
    heard = Heard()
    orat.train(first, tmp_path / "run", device="cpu", display=heard)
    assert heard.lines == [f"{tmp_path / 'run'} is finished already"]


def test_a_run_on_objects_that_are_gone_asks_for_them(tmp_path: Path) -> None:
    there = Run.from_record(quick(noise(60), AT()).record())  # type: ignore[arg-type]
    assert_refused_in_one_line(lambda: read(there, None), "in memory: tuple): hand the object in again")


def test_a_path_is_a_name_and_an_array_alone_is_refused(photos: Path) -> None:
    assert Run(data=photos, method=AT()).record()["data"] == str(photos)
    assert_refused_in_one_line(lambda: Run(data=noise(9)[0], method=AT()), "data = ndarray: an array has no labels")


CODE = """
import numpy as np
x = np.zeros((40, 6, 6), np.uint8)
x[::2] += 9

def two():
    return x, np.arange(40) % 2

def one():
    return x, np.zeros(40, int)

def nan():
    return np.full((40, 6, 6), np.nan), np.arange(40) % 2
"""


def case(folder: Path, name: str) -> str:
    """The name of data that make no sense, after they were made in this folder."""
    if name == "an empty folder":
        (folder / "empty").mkdir()
        return "empty"
    if name == "a folder of one class":
        (folder / "one" / "cat").mkdir(parents=True)
        Image.new("RGB", (9, 9)).save(folder / "one" / "cat" / "1.png")
        return "one"
    if name == "a listing without labels":
        (folder / "a.csv").write_text("path\nb.png\n")
        return "a.csv"
    (folder / "own_sets.py").write_text(CODE)
    return f"own_sets.py:{name.partition(' ')[0]}"


REFUSED = {
    "an empty folder": "empty has no class folders: an image folder holds train/<class>/*.png",
    "a folder of one class": "one has one class, 'cat': give two or more",
    "a listing without labels": "a.csv has no column of labels",
    "one class": "own_sets.py:one has one class, '0': give two or more",
    "nan as pixels": "x_train in own_sets.py:nan holds NaN or infinity",
    "three as a name": "unknown name in own_sets.py: 'three'",
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_data_end_in_one_line_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    data = case(tmp_path, name)
    before = sorted(tmp_path.rglob("[!_]*"))
    line = wrong(capsys, "train", "--data", data, "--method", "at", "--model", "mlp-4", "--epochs", "1")
    assert REFUSED[name] in line
    assert [path for path in sorted(tmp_path.rglob("[!_]*")) if "__pycache__" not in path.parts] == before


def test_data_by_code_are_trained_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from orat.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_sets_two.py").write_text(CODE)
    words = "train --data own_sets_two.py:two --method at --model mlp-4 --epochs 1 --attack-steps 1 --device cpu"
    assert main(words.split()) == 0
    assert "has no test part" in capsys.readouterr().out
