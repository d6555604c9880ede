"""`orat data`: what it prints and writes, and that no file of a data set starts another program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from quick_runs import Heard, quick
from refusals import wrong

import orat
from orat.cli.main import main


@pytest.fixture
def pets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of eight images of two classes, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for part, seed in (("train", 0), ("test", 100)):
        for label in ("cat", "dog"):
            (tmp_path / "pets" / part / label).mkdir(parents=True)
            for i in range(8):
                pixels = np.random.default_rng([seed + i, label == "dog"]).integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "pets" / part / label / f"{i}.png")
    return Path("pets")


def test_data_lists_what_is_there(capsys: pytest.CaptureFixture[str], mnist_dir: Path) -> None:
    assert main(["data", "--data-dir", str(mnist_dir.parent), "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["mnist"]["status"], rows["mnist"]["train"], rows["mnist"]["shape"]) == ("found", 60_000, [1, 28, 28])
    assert rows["cifar100"]["status"] == "missing"
    assert rows["sample"]["train"] == 6_000
    assert main(["list", "data", "--data-dir", str(mnist_dir.parent)]) == 0
    captured = capsys.readouterr()
    assert "60,000" in captured.out
    assert "toy-imbalanced-2" in captured.out
    assert captured.err == "orat list data is now orat data\n"


def test_data_without_a_path_names_missing_data_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "--data-dir", str(tmp_path)]) == 0
    assert "run `orat data --download mnist`" in capsys.readouterr().out


def test_data_shows_a_folder_and_writes_its_contact_sheet(pets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(pets / "train/cat/0.png", pets / "train/dog/copy.png")
    (pets / "README.txt").write_text("x")
    assert main(["data", "pets/"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = [line.split() for line in printed.out.splitlines()]
    assert ["cat", "8", "8"] in lines
    assert ["dog", "9", "8"] in lines
    assert ["all", "2", "17", "16"] in lines
    for words in (
        "size 8x8 (height x width); in a training 3x8x8", "1 file skipped: README.txt",
        "the same image under two labels (identical files): train/cat/0.png, train/dog/copy.png",
        "contact sheet: pets-contact-sheet.html",
    ):  # fmt: skip
        assert words in printed.out.splitlines()
    assert Path("pets-contact-sheet.html").read_text().startswith("<!DOCTYPE html>")
    assert main(["data", "pets/"]) == 0  # a page of its own is replaced


def test_data_as_json_holds_every_finding(pets: Path, tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(pets / "train/cat/0.png", pets / "test/cat/copy.png")
    (pets / "train/cat/x.png").write_bytes(b"x")
    assert main(["data", "pets", "--json", "--out", "sheet.html"]) == 1
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["classes"] == [{"class": "cat", "train": 9, "test": 9}, {"class": "dog", "train": 8, "test": 8}]
    assert [one["path"] for one in found["broken"]] == ["train/cat/x.png"]
    assert captured.err == f"orat: {found['broken'][0]['reason']}\n"
    (repeat,) = found["repeats"]
    assert (repeat["kinds"], repeat["identical_files"]) == (["in two parts"], True)
    assert found["contact_sheet"] == "sheet.html"
    assert main(["data", tiny, "--json"]) == 0
    assert (json.loads(capsys.readouterr().out)["shape"]) == [1, 12, 12]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "there is no nowhere, nor a data set of this name"),
        (["pets", "--out", "mine.html"], "mine.html exists already and is no contact sheet: give --out another file"),
        (["pets", "--out", "no/where.html"], "there is no folder no"),
        (["pets", "--class-depth", "2"], "has no class folders at a depth of 2"),
        (["pets", "--target", "y"], "the target y is for tables"),
        (["pets", "--download", "mnist"], "--download mnist with pets: give one of them"),
        (["--class-depth", "2"], "--class-depth is for one data set: give its path too"),
    ],
)
def test_nonsense_is_refused_and_nothing_is_written(
    pets: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.html").write_text("mine")
    assert words in wrong(capsys, "data", *arguments)
    assert {path.name for path in Path().iterdir()} == {"pets", "mine.html"}
    assert Path("mine.html").read_text() == "mine"


def test_an_eps_file_named_jpg_does_not_start_ghostscript(pets: Path) -> None:
    gs = Path("bin/gs").absolute()
    gs.parent.mkdir()
    gs.write_text(f'#!/bin/sh\necho "$@" >> {gs.parent}/started\necho 10.0\n')
    gs.chmod(0o755)
    started = gs.with_name("started")
    environment = os.environ | {"PATH": f"{gs.parent}:{os.environ['PATH']}"}
    eps = pets / "train" / "cat" / "x.jpg"
    Image.new("RGB", (8, 8), "red").save(eps, "EPS")
    assert eps.read_bytes().startswith(b"%!PS-Adobe")

    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words], env=environment, capture_output=True, text=True, check=False, timeout=100
        )

    ran("-c", f"from PIL import Image; Image.open({str(eps)!r}).load()")
    assert "-sDEVICE=" in started.read_text()  # without a list of formats, Pillow starts the program
    started.unlink()
    for words, code in ((["data", "pets"], 1), (["train", "--data", "pets", "--method", "st", "--out", "run"], 2)):
        done = ran("-m", "orat", *words)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1)
        assert "cannot read the image pets/train/cat/x.jpg (no image)" in done.stderr
    assert not started.exists()
    assert not Path("run").exists()


def test_a_broken_image_is_one_line_without_warnings_of_pillow(pets: Path) -> None:
    tif = pets / "train" / "cat" / "x.tif"
    Image.new("RGB", (90, 90)).save(tif)
    tif.write_bytes(tif.read_bytes()[:60])
    done = subprocess.run([sys.executable, "-m", "orat", "data", "pets"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr


def test_a_training_says_once_that_images_stand_under_two_labels_or_in_two_parts(pets: Path) -> None:
    def lines(out: str, **changes: object) -> list[str]:
        display = Heard()
        run = quick("pets", orat.methods.ST(), **{"epochs": 1, **changes})
        orat.train(run, out, device="cpu", display=display)
        return [line for line in display.lines if "orat data" in line]

    assert lines("clean") == []
    assert lines("noisy", noise="symmetric", noise_rate=0.3) == []
    shutil.copy(pets / "train/cat/0.png", pets / "train/cat/again.png")
    assert lines("twice") == []
    shutil.copy(pets / "train/cat/0.png", pets / "train/dog/copy.png")
    with Image.open(pets / "train/cat/1.png") as image:
        image.save(pets / "test/cat/copy.bmp")
    assert lines("both") == [
        "pets holds 1 image under two labels (train/cat/0.png, train/cat/again.png, train/dog/copy.png) "
        "and 1 image in two parts (train/cat/1.png, test/cat/copy.bmp): `orat data pets` lists all"
    ]
    paths = orat.load_data("pets").train.paths or ()
    labels = {path: "" if path.endswith("copy.png") else path.split("/")[1] for path in paths}
    rows = [f"{path},{label}" for path, label in labels.items()]
    Path("labels.csv").write_text("\n".join(["path,label", *rows]))
    (line,) = lines("fixed", labels="labels.csv")
    assert "labels" not in line


def test_a_name_that_is_not_utf_8_is_shown_with_its_bytes(pets: Path) -> None:
    shutil.copy(pets / "train/cat/0.png", pets / "train/cat" / os.fsdecode(b"\xe9.png"))
    done = subprocess.run([sys.executable, "-m", "orat", "data", "pets"], capture_output=True, text=True, check=True)
    assert "train/cat/0.png, train/cat/\\udce9.png" in done.stdout
