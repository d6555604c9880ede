"""Label issues of data, without a run: folders of images, arrays, features of a network, kills and refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from quick_runs import quick
from refusals import assert_refused_in_one_line, wrong
from torch import Tensor, nn

import orat
from orat.cli.main import main
from orat.core.console import SILENT
from orat.curation.of_data import is_run
from orat.curation.search import SETTINGS
from orat.noise.truth import area

TESTS = Path(__file__).parents[1]
SIZE, EACH, NAMES = 16, 60, ("dots", "stripes", "waves")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """A folder of three kinds of patterns, and the images that lie in the folder of another kind."""
    root, generator = tmp_path_factory.mktemp("data") / "photos", np.random.default_rng(0)
    moved = set()
    for number in range(EACH * len(NAMES)):
        kind = number % len(NAMES)
        given = (kind + 1) % len(NAMES) if number % 10 == 0 else kind
        path = Path(NAMES[given]) / f"{number}.png"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pattern(kind, generator)).save(root / path)
        moved |= {str(path)} if given != kind else set()
    return root, moved


def pattern(kind: int, generator: np.random.Generator) -> np.ndarray:
    """A noisy image of a kind, at a random place."""
    rows, columns = np.mgrid[:SIZE, :SIZE] + generator.integers(0, 8, 2)[:, None, None]
    values = ((rows % 4 < 2) & (columns % 4 < 2), columns % 4 < 2, (rows + columns) % 8 < 4)[kind]
    return (values * 120 + generator.integers(0, 80, (SIZE, SIZE, 3)).mean(2)).astype(np.uint8)[..., None].repeat(3, 2)


def scores(found: orat.curation.issues.LabelIssues, moved: set[str]) -> float:
    """The AUC of the ranking."""
    assert found.paths is not None
    score = area(found.verdict.score, torch.tensor([path in moved for path in found.paths]))
    assert score is not None
    return score


def test_the_moved_images_of_a_folder_come_first(
    photos: tuple[Path, set[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, moved = photos
    out = tmp_path / "found"
    assert main(["labels", "find", str(root), "--epochs", "2", "--out", str(out), "--json", "--device", "cpu"]) == 0
    captured = capsys.readouterr()
    content = json.loads(captured.out)
    assert (content["samples"], content["not_judged"]) == (EACH * len(NAMES), 0)
    assert {row["path"] for row in content["most_suspicious"]} <= moved
    assert "by patches: " in captured.err
    assert {SETTINGS, "label-issues.csv", "label-issues.html", "patches.safetensors", "predictions.safetensors"} <= {
        file.name for file in out.iterdir()
    }
    assert sorted(root.rglob("*")) == sorted(root / name for name in (*NAMES, *paths(root)))  # nothing was added


def paths(root: Path) -> list[Path]:
    """The images of a folder."""
    return [file.relative_to(root) for file in root.rglob("*.png")]


def test_a_finished_search_is_read_from_its_folder_and_another_one_is_refused(
    photos: tuple[Path, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, moved = photos
    first = orat.find_label_issues(root, device="cpu", epochs=2, out=tmp_path / "a")
    assert scores(first, moved) > 0.75
    monkeypatch.setattr("orat.training.features.Patches", None)
    monkeypatch.setattr("orat.training.loop.scout_learner", None)
    again = orat.find_label_issues(data=root, device="cpu", epochs=2, out=tmp_path / "a")
    assert torch.equal(first.verdict.p_wrong, again.verdict.p_wrong)
    words = r"a is of other data or settings (epochs: 2 there, 3 now): give --out a new folder"
    assert_refused_in_one_line(lambda: orat.find_label_issues(root, device="cpu", epochs=3, out=tmp_path / "a"), words)
    assert_refused_in_one_line(lambda: orat.find_label_issues(root, out=root.parent), "has other files in it")


KILLED = """
import sys
import orat
from quick_runs import kill_after
from orat.training.loop import Sitting
from orat.training.run_folder import Folder

places = {"step": (Sitting, "save"), "tensors": (Folder, "save_tensors")}
kill_after(int(sys.argv[4]), *places[sys.argv[3]])
orat.find_label_issues(sys.argv[1], device="cpu", epochs=3, out=sys.argv[2])
"""


def test_a_search_that_is_killed_anywhere_goes_on_and_ends_as_if_never_killed(
    photos: tuple[Path, set[str]], tmp_path: Path
) -> None:
    root, _ = photos
    whole = orat.find_label_issues(root, device="cpu", epochs=3)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent))), "OMP_NUM_THREADS": "1"}
    for name, count in (("tensors", 1), ("step", 2), ("step", 3), ("tensors", 1)):  # patches, scouts, predictions
        command = [sys.executable, "-c", KILLED, str(root), str(tmp_path / "a"), name, str(count)]
        process = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert process.returncode == -signal.SIGKILL, process.stderr
    again = orat.find_label_issues(root, device="cpu", epochs=3, out=tmp_path / "a")
    assert torch.equal(whole.log_probs, again.log_probs)
    assert torch.equal(whole.verdict.p_wrong, again.verdict.p_wrong)


class Means(nn.Module):
    """Features of a user: horizontal and vertical differences, in a map."""

    def forward(self, x: Tensor) -> Tensor:
        down, right = x.diff(dim=2).abs(), x.diff(dim=3).abs()
        across = (x[:, :, 1:, 1:] - x[:, :, :-1, :-1]).abs()
        return torch.cat([down[..., 1:], right[:, :, 1:], across], 1)


def test_features_of_a_network_take_the_place_of_the_scout_networks(
    photos: tuple[Path, set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, moved = photos
    monkeypatch.setattr("orat.curation.of_data.cross_fit", None)
    found = orat.find_label_issues(root, device="cpu", features=Means())
    assert found.judged_by == "features"
    assert scores(found, moved) > 0.95
    assert "was not trained on these labels" in found.notes()[0]


def test_features_are_named_as_code_with_weights(
    photos: tuple[Path, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, moved = photos
    code = "from torch import nn\n\ndef net():\n    return nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU())\n"
    (tmp_path / "net.py").write_text(code)
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU())
    torch.save(made.state_dict(), tmp_path / "f.pt")
    found = orat.find_label_issues(root, device="cpu", features=f"{tmp_path}/net.py:net", weights=tmp_path / "f.pt")
    same = orat.find_label_issues(root, device="cpu", features=made)
    assert torch.equal(found.verdict.p_wrong, same.verdict.p_wrong)
    assert scores(found, moved) > 0.75


def test_data_in_memory_and_settings_of_a_run_are_taken(tiny: str) -> None:
    arrays = np.load(tiny)
    run = orat.Run(data=tiny, method=orat.methods.ORAT(), noise="symmetric", noise_rate=0.2)
    for data in ((arrays["x_train"], arrays["y_train"]), run):
        found = orat.find_label_issues(data, device="cpu", epochs=2)
        assert len(found) == found.total == 300
    truth = found.truth()
    assert truth is not None
    assert truth["wrong"] == 60


def test_runs_and_data_are_told_apart(automatic: Path, photos: tuple[Path, set[str]], tmp_path: Path) -> None:
    root, _ = photos
    assert is_run(automatic)
    assert not is_run(root)
    assert not is_run("sample")
    assert not is_run("mine.py:data")
    (root / "run.json").write_text("{}")
    try:
        assert_refused_in_one_line(lambda: is_run(root), f"give --data {root} for the images")
        assert len(orat.find_label_issues(data=root, device="cpu", features=Means())) == EACH * len(NAMES)
    finally:
        (root / "run.json").unlink()
    (tmp_path / "resume.pt").touch()
    assert_refused_in_one_line(lambda: is_run(tmp_path), "is the folder of a run that lost its run.json")
    assert_refused_in_one_line(lambda: is_run("runs/gone"), "there is no runs/gone: give the folder of a run")
    (tmp_path / SETTINGS).touch()
    assert_refused_in_one_line(lambda: is_run(tmp_path), "holds the result of a search")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--held-out"], "--held-out is not for data: leave it out"),
        (["--classes", "a,b"], "--classes is not for data"),
        (["--weights", "f.pt"], "--weights f.pt without a network: give --features module:function"),
        (["--data", "sample"], "both photos and --data sample: leave one of them out"),
        (["--features", "gone.py:net"], "there is no file gone.py"),
        (["--features", "resnet"], "names no function"),
        (["--folds", "2"], "folds = 2: give 3 to 20"),
        (["--noise-rate", "many"], "--noise-rate: 'many' is not a number"),
    ],
)
def test_flags_that_are_not_for_data_are_refused(
    photos: tuple[Path, set[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(photos[0].parent)
    line = wrong(capsys, "labels", "find", "photos", "--out", str(tmp_path / "a"), "--device", "cpu", *more)
    assert words in line.replace("'photos'", "photos")


@pytest.mark.parametrize("more", [["--noise", "symmetric"], ["--features", "a:b"], ["--labels", "x.csv"]])
def test_flags_for_data_are_refused_for_a_run(
    automatic: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    assert f"{more[0]} is not for a run" in wrong(capsys, "labels", "find", str(automatic), *more)


def test_points_are_judged_by_scout_networks_alone() -> None:
    found = orat.find_label_issues("toy-balanced", device="cpu", epochs=2)
    assert found.judged_by == "held-out networks"


def judged(**more: Any) -> Any:
    """A run whose folder is no place for a search."""
    return quick("sample", orat.methods.AT(), **more)


def test_an_unfinished_run_is_no_data(tmp_path: Path) -> None:
    run = judged()
    (tmp_path / "run.json").write_text(json.dumps(run.record()))
    assert_refused_in_one_line(lambda: orat.find_label_issues(tmp_path, display=SILENT), "is not finished")
