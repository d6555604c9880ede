"""`orat predict`: the table, the summary, broken images and refusals, from real processes and files."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from refusals import wrong

import orat
from orat.cli.main import main
from orat.cli.predict import certain_words


def test_the_line_about_certain_predictions_counts_all_and_none() -> None:
    assert certain_words(20, 20, "pgd20") == "all 20 predictions are certain: pgd20 changes none"
    assert certain_words(0, 20, "pgd20") == "0 of 20 predictions are certain: pgd20 changes all"
    assert certain_words(5, 20, "pgd20") == "5 of 20 predictions are certain: pgd20 changes the others"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of five gray images with a bright stripe, as in the training of `automatic`, and a text."""
    folder = tmp_path / "photos"
    (folder / "deep").mkdir(parents=True)
    generator = np.random.default_rng(7)
    for i in range(5):
        pixels = generator.integers(0, 120, (12, 12), dtype=np.uint8)
        pixels[4 * (i % 3) : 4 * (i % 3) + 4] += 100
        Image.fromarray(pixels).save(folder / ("deep" if i % 2 else ".") / f"{i}.png")
    (folder / "readme.md").write_text("no image")
    return folder


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def test_a_process_writes_the_table_in_its_folder_and_says_where(automatic: Path, photos: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "orat", "predict", automatic, "photos", "--certain", "pgd20", "--device", "cpu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    rows = rows_of(tmp_path / "predictions.csv")
    found = orat.predict(automatic, photos, certain="pgd20", device="cpu")
    assert [row["path"] for row in rows] == [str(Path(path).relative_to(tmp_path)) for path in found.paths or ()]
    assert [row["class"] for row in rows] == found.names
    assert found.certain is not None
    assert [row["certain"] for row in rows] == [str(value) for value in found.certain.tolist()]
    assert done.stderr == ""
    int(found.certain.sum())
    for words in (
        "predictions for 5 samples",
        certain_words(int(found.certain.sum()), 5, "pgd20 of radius 0.1 in linf"),
        "files that are no images, skipped: 1",
        "written to predictions.csv",
    ):
        assert words in done.stdout


def test_the_summary_as_json_counts_the_rows(
    automatic: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.parquet"
    assert main(["predict", str(automatic), str(photos), "--out", str(out), "--json", "--device", "cpu"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["samples"], content["skipped"], content["certain"], content["file"]) == (5, 1, None, str(out))
    assert sum(row["samples"] for row in content["classes"]) == 5
    assert out.is_file()


def test_broken_images_are_named_and_the_rest_is_written(
    automatic: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.png", "b.jpg"):
        (photos / name).write_bytes(b"no image")
    out = tmp_path / "found.csv"
    assert main(["predict", str(automatic), str(photos), "--out", str(out), "--device", "cpu"]) == 1
    captured = capsys.readouterr()
    assert len(rows_of(out)) == 5
    assert captured.err.count("\n") == 2
    assert all(f"cannot read the image {photos / name}" in captured.err for name in ("a.png", "b.jpg"))
    assert "images that cannot be read, without a row: 2" in captured.out


def test_a_table_is_replaced_only_where_asked(
    automatic: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.csv"
    out.write_text("mine")
    words = ["predict", str(automatic), str(photos / "0.png"), "--out", str(out), "--device", "cpu"]
    assert "exists already: give --out another file, or --again" in wrong(capsys, *words)
    assert out.read_text() == "mine"
    assert main([*words, "--again"]) == 0
    assert len(rows_of(out)) == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--out", "found.txt"], "a table is written as .csv or .parquet"),
        (["--out", "gone/found.csv"], "there is no folder gone"),
        (["--eps", "0.1"], "--eps is the radius of --certain"),
        (["--certain", "pgd-20"], "unknown attack 'pgd-20'"),
        (["--certain", "fgsm", "--eps", "small"], "'small' is not a number"),
        (["--weights", "best"], "unknown weights 'best'"),
        (["--device", "tpu0"], "device 'tpu0' cannot be used"),
        (["gone.png"], "there is no gone.png"),
        (["--epsilon", "1"], "unknown flag '--epsilon': did you mean '--eps'?"),
    ],
)
def test_flags_that_cannot_be_meant_write_nothing(
    automatic: Path,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in wrong(capsys, "predict", str(automatic), str(photos), *more)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_a_run_and_paths_are_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "PATH is missing: see orat predict --help" in wrong(capsys, "predict", str(tmp_path))
    assert "is not a run folder" in wrong(capsys, "predict", str(tmp_path), str(tmp_path))
