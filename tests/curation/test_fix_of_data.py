"""Labels of data fixed without a run: from the folder of a search, from the data, and refusals."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from refusals import assert_refused_in_one_line

import orat
from orat.cli.main import main
from orat.curation.search import SETTINGS
from orat.curation.undo import undo_fix

NAMES = ("gray", "ramps", "bars")
EACH = 50


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """A folder of three kinds of images, and the paths of those in the folder of another kind."""
    root, generator, moved = tmp_path_factory.mktemp("data") / "photos", np.random.default_rng(0), set()
    columns = np.broadcast_to(np.arange(16), (16, 16))
    shapes = (np.full((16, 16), 60), 8 * columns, 120 * (columns % 4 < 2))
    for number in range(EACH * len(NAMES)):
        kind = number % len(NAMES)
        given = (kind + 1) % len(NAMES) if number % 10 == 0 else kind
        path = Path(NAMES[given]) / f"{number}.png"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        pixels = shapes[kind] + generator.integers(0, 60, (16, 16))
        Image.fromarray(pixels.astype(np.uint8)).convert("RGB").save(root / path)
        moved |= {str(path)} if given != kind else set()
    return root, moved


@pytest.fixture(scope="module")
def found(photos: tuple[Path, set[str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished search."""
    out = tmp_path_factory.mktemp("search") / "found"
    orat.find_label_issues(photos[0], device="cpu", epochs=2, out=out)
    return out


def labels_in(folder: Path) -> dict[str, str]:
    with (folder / "labels.csv").open(newline="") as file:
        return {row["path"]: row["label"] for row in csv.DictReader(file)}


def test_the_folder_of_a_search_is_fixed_without_training_again(
    photos: tuple[Path, set[str]], found: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("orat.training.features.Patches", None)
    monkeypatch.setattr("orat.training.loop.scout_learner", None)
    command = ["labels", "fix", str(found), "--out", str(tmp_path / "fixed"), "--fix", "relabel"]
    assert main(command) == 0
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert last[:6] == ["orat", "train", "--data", str(photos[0]), "--method", "orat"]
    assert set(last[6::2]) == {"--labels"}
    labels = labels_in(tmp_path / "fixed")
    changed = {path for path, label in labels.items() if label != Path(path).parts[0]}
    wrong = {path: NAMES[int(Path(path).stem) % len(NAMES)] for path in photos[1]}
    assert len(changed & set(wrong)) > 0.8 * len(wrong)
    assert sum(labels[path] == label for path, label in wrong.items()) > 0.8 * len(wrong)
    assert len(changed - set(wrong)) <= 5


def test_a_copy_of_the_images_is_written_and_undone(photos: tuple[Path, set[str]], found: Path, tmp_path: Path) -> None:
    before = {file.relative_to(photos[0]): file.read_bytes() for file in photos[0].rglob("*.png")}
    result = orat.fix_labels(found, tmp_path / "copy", how="folder")
    assert 0 < result["dropped"] <= len(photos[1]) + 5
    assert len([*(tmp_path / "copy").rglob("*.png")]) == len(before) - result["dropped"]
    undo_fix(tmp_path / "copy")
    after = {
        file.relative_to(tmp_path / "copy" / "train"): file.read_bytes() for file in (tmp_path / "copy").rglob("*.png")
    }
    assert after == before == {file.relative_to(photos[0]): file.read_bytes() for file in photos[0].rglob("*.png")}


def test_data_are_searched_first_and_a_search_of_before_is_used(
    photos: tuple[Path, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["labels", "find", str(photos[0]), "--epochs", "2", "--device", "cpu", "--json"]
    assert main(command) == 0
    flagged = json.loads(capsys.readouterr().out)["issues"]
    monkeypatch.setattr("orat.training.loop.scout_learner", None)
    assert main(["labels", "fix", str(photos[0]), "--epochs", "2", "--device", "cpu", "--out", "fixed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dropped"] == flagged > 0


def test_arrays_in_memory_are_searched_and_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = np.random.default_rng(0).random((90, 4)).astype(np.float32), np.arange(90) % 3
    x[:, 0] = y / 2
    result = orat.fix_labels(
        (x, np.where(np.arange(90) == 4, (y + 1) % 3, y)), tmp_path / "fixed", device="cpu", epochs=60
    )
    assert result["of"] == 90
    assert (tmp_path / "fixed" / "labels.csv").is_file()


def test_unfinished_searches_and_changed_data_are_refused(
    photos: tuple[Path, set[str]], found: Path, tmp_path: Path
) -> None:
    settings = json.loads((found / SETTINGS).read_text())
    for name, changes, words in (
        ("a", {"judged_by": None}, "not finished: run `orat labels find` again"),
        ("b", {"fingerprint": "another"}, "of other images or labels than are there now"),
        ("c", {"data": "in memory: a tuple"}, "give the data in place of the folder"),
        ("d", {"data": "mine.py:data"}, "give the data in place of the folder"),  # code runs only if it is named
    ):
        (tmp_path / name).mkdir()
        for file in found.iterdir():
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
        changed = {key: value for key, value in (settings | changes).items() if value is not None or key != "judged_by"}
        (tmp_path / name / SETTINGS).write_text(json.dumps(changed))
        assert_refused_in_one_line(lambda name=name: orat.fix_labels(tmp_path / name, tmp_path / "out"), words)
    (tmp_path / "a" / SETTINGS).write_text("{")
    assert_refused_in_one_line(lambda: orat.fix_labels(tmp_path / "a", tmp_path / "out"), "is damaged")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--held-out"], "--held-out is for a run: leave it out"),
        (["--trust"], "--trust is for a run: leave it out"),
        (["--epochs", "3"], "--epochs is for data: leave it out"),
    ],
)
def test_flags_of_runs_and_of_searches_are_refused_for_a_finished_search(
    found: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], words: str
) -> None:
    assert main(["labels", "fix", str(found), "--out", str(tmp_path / "a"), *flags]) == 2
    assert words in capsys.readouterr().err
