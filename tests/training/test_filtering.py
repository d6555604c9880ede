"""Training without the outliers of a finished run: which are left out, what is said of them, what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quick_runs import quick, train_until_stopped
from refusals import assert_refused_in_one_line
from torch import Tensor

import orat
from orat.cli.main import main
from orat.core.console import SILENT
from orat.methods import Method
from orat.noise.inject import symmetric
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare

NOISE = {"noise": "symmetric", "noise_rate": 0.3}
STAGES: dict[str, tuple[Method, str, int]] = {  # method, network, and what is left out of 300
    "a fraction": (orat.AoRR(m=0.25), "mlp-16", 75),
    "a count": (orat.ORAT(m=41, k=290), "mlp-16", 41),
    "a network that behaves otherwise in training": (orat.AoRR(m=0.25), "small_cnn", 75),
}


@pytest.fixture(scope="module")
def stage(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished AoRR run on labels of which 30 % are wrong."""
    folder = tmp_path_factory.mktemp("stage") / "aorr"
    orat.train(quick(tiny, orat.AoRR(m=0.25), **NOISE, epochs=8, milestones=(), lr=0.1), folder, display=SILENT)
    return folder


def second(tiny: str, folder: Path | str, **changes: Any) -> Run:
    """Adversarial training on what the finished run left."""
    return quick(tiny, orat.AT(), **{**NOISE, "epochs": 2, "without_outliers_of": str(folder), **changes})


def as_read(tiny: str) -> tuple[Tensor, Tensor, Tensor]:
    """Images in [0, 1], noisy labels and true labels of the whole training set, by numpy."""
    arrays = np.load(tiny)
    true = torch.from_numpy(arrays["y_train"])
    images = torch.from_numpy(arrays["x_train"])[:, None].float() / 255
    return images, symmetric(true, 3, 0.3, 0), true


def hardest(tiny: str, folder: Path, size: int) -> set[int]:
    """The samples with the largest losses, by the definition of cross-entropy and a sort in Python."""
    images, labels, _ = as_read(tiny)
    with torch.no_grad():
        logits = orat.load_model(folder)(images).double()
    losses = (logits.exp().sum(1).log() - logits[torch.arange(len(labels)), labels]).tolist()
    return set(sorted(range(len(losses)), key=lambda i: -losses[i])[:size])


@pytest.mark.parametrize("name", STAGES)
def test_the_m_largest_natural_losses_of_the_whole_training_set_are_left_out(
    name: str, tiny: str, tmp_path: Path
) -> None:
    method, model, size = STAGES[name]
    orat.train(quick(tiny, method, **NOISE, model=model, epochs=1, seed=3), tmp_path / "a", display=SILENT)
    parts = prepare(second(tiny, tmp_path / "a", validation=0.0))
    assert set(range(300)) - set(parts.index.tolist()) == hardest(tiny, tmp_path / "a", size)
    assert len(parts.index) == 300 - size


def test_what_is_held_out_comes_from_what_is_left_and_places_are_those_of_the_set_as_read(
    tiny: str, stage: Path
) -> None:
    images, labels, _ = as_read(tiny)
    parts = prepare(second(tiny, stage))
    assert parts.validation is not None
    assert (len(parts.train), len(parts.validation), parts.total) == (203, 22, 225)
    assert torch.equal(parts.train.images.float() / 255, images[parts.index])
    assert torch.equal(parts.train.labels, labels[parts.index])
    used = {image.numpy().tobytes() for image in torch.cat([parts.train.images, parts.validation.images])}
    left_out = {(images[i] * 255).to(torch.uint8).numpy().tobytes() for i in hardest(tiny, stage, 75)}
    assert (len(used), len(left_out)) == (225, 75)
    assert not used & left_out


def test_ranks_count_what_is_left(tiny: str, stage: Path) -> None:
    run = second(tiny, stage)
    with pytest.raises(orat.InputError, match="226 among 225 training samples"):
        orat.train(replace(run, method=orat.ORAT(m=3, k=226)), stage.parent / "none", display=SILENT)


def test_a_run_that_cuts_nothing_leaves_everything_to_the_bit(tiny: str, tmp_path: Path) -> None:
    orat.train(quick(tiny, orat.AoRR(m=0), epochs=1), tmp_path / "aorr", display=SILENT)
    filtered = second(tiny, tmp_path / "aorr", noise="none", noise_rate=0.0)
    for name, run in {"with": filtered, "without": replace(filtered, without_outliers_of=None)}.items():
        result = orat.train(run, tmp_path / name, display=SILENT)
        assert (result["left_out"] or {"cut": 0})["cut"] == 0
    one, other = (RunFolder(tmp_path / name).load_tensors("model") for name in ("with", "without"))
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_the_result_and_the_first_line_say_how_many_were_left_out_and_how_rightly(
    tiny: str, stage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, labels, true = as_read(tiny)
    hits = sum(int(labels[i] != true[i]) for i in hardest(tiny, stage, 75))
    result = orat.train(second(tiny, stage), tmp_path / "a")
    assert result["left_out"] == {
        "run": str(stage), "cut": 75, "of": 300, "flipped": 90, "flipped_and_cut": hits, "precision": hits / 75,
        "recall": hits / 90,
    }  # fmt: skip
    assert hits > 60  # of the 22 that chance would find
    assert json.loads((tmp_path / "a" / "result.json").read_text())["left_out"] == result["left_out"]
    first = capsys.readouterr().err.splitlines()[0]
    assert f"203 train, 22 validation, 90 test, 75 left out by {stage}, {hits} of them with a wrong label)" in first


def test_where_the_truth_is_not_known_nothing_is_said_of_it(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orat.train(quick(tiny, orat.AoRR(m=9), epochs=1), tmp_path / "aorr", display=SILENT)
    run = second(tiny, tmp_path / "aorr", noise="none", noise_rate=0.0)
    assert orat.train(run, tmp_path / "a")["left_out"] == {"run": str(tmp_path / "aorr"), "cut": 9, "of": 300}
    assert f"9 left out by {tmp_path / 'aorr'})" in capsys.readouterr().err.splitlines()[0]


def test_a_stopped_run_goes_on_to_the_same_end(
    tiny: str, stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = second(tiny, stage)
    whole = orat.train(run, tmp_path / "whole", display=SILENT)
    train_until_stopped(run, tmp_path / "broken", 10, monkeypatch)
    broken = orat.train(run, tmp_path / "broken", display=SILENT)
    for name in ("model", "state"):
        one, other = (RunFolder(tmp_path / folder).load_tensors(name) for folder in ("whole", "broken"))
        assert all(torch.equal(one[key], other[key]) for key in one)
    assert broken | {"seconds": 0} == whole | {"seconds": 0}


def no_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def unfinished(folder: Path) -> None:
    (folder / "result.json").unlink()


def other_method(folder: Path) -> None:
    change_record(folder, method={"name": "at"})


def filtered_itself(folder: Path) -> None:
    change_record(folder, without_outliers_of="runs/a")


def change_record(folder: Path, **changes: Any) -> None:
    """A run.json that says something else."""
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | changes))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (no_folder, "is not a run folder: there is no run.json in it; give the folder of a run"),
        (unfinished, "is not finished: there is no result.json in it; give its train command again"),
        (other_method, "is a run of at, which has no m: give one of aorr or orat"),
        (filtered_itself, "was itself trained without the outliers of runs/a: give a run on the whole training set"),
    ],
)
def test_a_folder_that_cannot_filter_is_refused_in_one_line(
    spoil: Callable[[Path], None], words: str, tiny: str, stage: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(stage, copy)
    spoil(copy)
    run = second(tiny, copy)
    assert_refused_in_one_line(lambda: orat.train(run, tmp_path / "a", display=SILENT), f"{copy} {words}")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": "sample", "image_size": None}, "(data: "),
        ({"image_size": (8, 8)}, "(image_size: None there, [8, 8] here)"),
        ({"labels": "l.csv", "noise": "none", "noise_rate": 0.0}, "(labels: None there, l.csv here)"),
        ({"noise": "asymmetric"}, "(noise: symmetric there, asymmetric here)"),
        ({"noise_rate": 0.2}, "(noise_rate: 0.3 there, 0.2 here)"),
        ({"noise_seed": 1, "seed": 5}, "(noise_seed: 0 there, 1 here)"),
    ],
)
def test_a_run_on_other_data_or_labels_is_refused_with_the_first_field_that_differs(
    changes: dict[str, Any], words: str, tiny: str, stage: Path
) -> None:
    run = replace(second(tiny, stage), **changes)
    assert_refused_in_one_line(lambda: prepare(run), words)


@pytest.mark.parametrize("change", ["labels", "images", "fewer"])
def test_a_data_file_that_changed_since_is_refused(change: str, tiny: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.npz"
    shutil.copy(tiny, file)
    orat.train(quick(str(file), orat.AoRR(m=9), epochs=1), tmp_path / "aorr", display=SILENT)
    run = second(str(file), tmp_path / "aorr", noise="none", noise_rate=0.0)
    assert prepare(run).total == 291
    arrays = dict(np.load(file))
    if change == "labels":
        arrays["y_train"] = arrays["y_train"][::-1]
    if change == "images":
        arrays["x_train"] = 255 - arrays["x_train"]
    if change == "fewer":
        arrays |= {"x_train": arrays["x_train"][:150], "y_train": arrays["y_train"][:150]}
    np.savez(file, **arrays)
    assert_refused_in_one_line(lambda: prepare(run), "trained on other images or labels than are there now")


def test_both_stages_by_command(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = ["train", "--data", tiny, "--model", "mlp-16", "--epochs", "1", "--eps", "0.1", "--noise", "symmetric"]
    shared += ["--noise-rate", "0.3", "--augment", "none", "--quiet", "--json"]
    assert main([*shared, "--method", "aorr", "--m", "30", "--out", str(tmp_path / "aorr")]) == 0
    second_stage = ["--method", "at", "--without-outliers-of", str(tmp_path / "aorr"), "--out", str(tmp_path / "at")]
    capsys.readouterr()
    assert main([*shared, *second_stage]) == 0
    left_out = json.loads(capsys.readouterr().out)["left_out"]
    assert (left_out["run"], left_out["cut"], left_out["of"]) == (str(tmp_path / "aorr"), 30, 300)
    assert json.loads((tmp_path / "at" / "run.json").read_text())["without_outliers_of"] == str(tmp_path / "aorr")
    assert main([*shared, *second_stage[:2], "--without-outliers-of", str(tmp_path / "at")]) == 2
    assert "is a run of at, which has no m" in capsys.readouterr().err
