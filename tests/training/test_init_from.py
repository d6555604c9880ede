"""Fine-tuning: a run starts from given weights, reports their origin, and refuses weights that do not fit."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from quick_runs import quick, train_until_stopped
from refusals import assert_refused_in_one_line
from safetensors.torch import load_file, save_file
from torch import Tensor

from orat.cli.main import main
from orat.core.console import SILENT
from orat.methods import AT
from orat.models import catalog as models
from orat.training.first_weights import load_first
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import build_model, prepare
from orat.training.train import train

SHAPE = (1, 12, 12)


@pytest.fixture(scope="module")
def source(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run with a normalization in its network."""
    folder = tmp_path_factory.mktemp("source") / "run"
    train(quick(tiny, AT(), epochs=2, normalize=True), folder, display=SILENT)
    return folder


def tuned(tiny: str, path: Path, **changes: Any) -> Run:
    """A run of another seed that starts from these weights with a learning rate of 0."""
    frozen = {"lr": 0.0, "epochs": 1, "milestones": (), "seed": 7}
    return quick(tiny, AT(), **{**frozen, "init_from": str(path), **changes})


def trained(run: Run, out: Path) -> dict[str, Tensor]:
    """The weights at the end of a run."""
    train(run, out, display=SILENT)
    return load_file(out / "model.safetensors")


def bare(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the network alone, without the normalization before it."""
    return {name.removeprefix("1."): value for name, value in tensors.items() if name.startswith("1.")}


def parallel(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights with the names of DataParallel."""
    return {f"module.{name}": value for name, value in tensors.items()}


def network(classes: int, **changes: Any) -> dict[str, Tensor]:
    """Weights of an untrained network."""
    return models.build(**{"name": "mlp-16", "shape": SHAPE, "classes": classes, "seed": 3, **changes}).state_dict()


def saved(folder: Path, content: object) -> Path:
    """A file written by torch.save."""
    torch.save(content, folder / "weights.pt")
    return folder / "weights.pt"


FORMS: dict[str, Callable[[dict[str, Tensor]], object]] = {
    "whole": lambda tensors: tensors,
    "in a checkpoint": lambda tensors: {"epoch": 3, "state_dict": tensors},
    "parallel": parallel,
    "bare": bare,
    "bare and parallel in a checkpoint": lambda tensors: {"state_dict": parallel(bare(tensors))},
}


def test_a_run_without_steps_ends_with_the_weights_of_the_run_it_starts_from(
    tiny: str, source: Path, tmp_path: Path
) -> None:
    there = load_file(source / "model.safetensors")
    here = trained(tuned(tiny, source), tmp_path / "a")
    assert here.keys() == there.keys()
    assert all(torch.equal(here[name], there[name]) for name in there)
    assert there["0.std"].item() != 1  # the normalization is among the weights


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_file_gives_the_same_weights(form: str, tiny: str, source: Path, tmp_path: Path) -> None:
    there = load_file(source / "model.safetensors")
    here = trained(tuned(tiny, saved(tmp_path, FORMS[form](there))), tmp_path / "a")
    assert all(torch.equal(here[name], there[name]) for name in there if name.startswith("1."))
    expected = torch.ones(1) if "bare" in form else there["0.std"]
    assert torch.equal(here["0.std"], expected)


def test_safetensors_of_the_bare_network_load_too(tiny: str, source: Path, tmp_path: Path) -> None:
    there = bare(load_file(source / "model.safetensors"))
    save_file(there, tmp_path / "net.safetensors")
    here = bare(trained(tuned(tiny, tmp_path / "net.safetensors"), tmp_path / "a"))
    assert all(torch.equal(here[name], there[name]) for name in there)


def test_statistics_of_batch_norm_are_loaded(tiny: str, tmp_path: Path) -> None:
    there = network(3, name="small_cnn")
    there["1.0.1.running_mean"] += 0.5
    run = tuned(tiny, saved(tmp_path, there), model="small_cnn")
    model = build_model(run, prepare(run).train)
    load_first(model, run, str(run.init_from), 3)
    assert all(torch.equal(model.state_dict()[name], there[name]) for name in there)


@pytest.mark.parametrize("form", ["whole", "bare"])
def test_a_last_layer_of_another_size_starts_afresh_which_a_line_says(
    form: str, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = network(10)
    run = tuned(tiny, saved(tmp_path, FORMS[form](there)))
    result = train(run, tmp_path / "a")
    here = load_file(tmp_path / "a" / "model.safetensors")
    fresh = build_model(run, prepare(run).train).state_dict()
    assert all(torch.equal(here[name], fresh[name]) for name in ("1.3.weight", "1.3.bias"))
    assert all(torch.equal(here[name], there[name]) for name in ("0.mean", "0.std", "1.1.weight", "1.1.bias"))
    assert not torch.equal(fresh["1.1.weight"], there["1.1.weight"])
    assert result["init_from"]["classes"] == 10
    second_line = capsys.readouterr().err.splitlines()[1]
    assert second_line.endswith("; the last layer (10 classes there, 3 here) starts afresh")


def test_the_origin_of_the_weights_is_printed_and_recorded_with_its_hash(
    tiny: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = hashlib.sha256((source / "model.safetensors").read_bytes()).hexdigest()[:16]
    result = train(tuned(tiny, source), tmp_path / "a")
    assert result["init_from"] == {"path": str(source), "sha256": digest, "classes": 3}
    assert json.loads((tmp_path / "a" / "result.json").read_text())["init_from"] == result["init_from"]
    assert capsys.readouterr().err.splitlines()[1] == f"starts from {source} (sha256 {digest})"
    assert train(quick(tiny, AT(), epochs=1), tmp_path / "b", display=SILENT)["init_from"] is None


def test_training_goes_on_from_the_weights(tiny: str, source: Path, tmp_path: Path) -> None:
    here = trained(tuned(tiny, source, lr=0.05), tmp_path / "a")
    there = load_file(source / "model.safetensors")
    moved = (here["1.1.weight"] - there["1.1.weight"]).norm() / there["1.1.weight"].norm()
    assert 0 < moved < 0.5


def test_a_stopped_run_is_resumed_to_the_same_end_without_the_file(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = saved(tmp_path, network(10))
    run = tuned(tiny, file, lr=0.05, epochs=2)
    whole = train(run, tmp_path / "whole", display=SILENT)
    train_until_stopped(run, tmp_path / "broken", 4, monkeypatch)
    file.unlink()
    assert_refused_in_one_line(lambda: train(run, tmp_path / "new", display=SILENT), f"there is no {file}")
    broken = train(run, tmp_path / "broken", display=SILENT)
    one, other = (RunFolder(tmp_path / name).load_tensors("model") for name in ("whole", "broken"))
    assert all(torch.equal(one[key], other[key]) for key in one)
    assert broken | {"seconds": 0} == whole | {"seconds": 0}


@pytest.mark.parametrize("form", ["whole", "bare"])
def test_the_normalization_of_the_run_stays_before_weights_without_one(form: str, tiny: str, tmp_path: Path) -> None:
    there = network(3)
    run = tuned(tiny, saved(tmp_path, FORMS[form](there)), normalize=True)
    here = trained(run, tmp_path / "a")
    own = build_model(run, prepare(run).train).state_dict()
    assert torch.equal(here["0.mean"], own["0.mean"])
    assert torch.equal(here["0.std"], own["0.std"])
    assert own["0.std"].item() != 1
    assert torch.equal(here["1.1.weight"], there["1.1.weight"])


def test_two_normalizations_are_refused(tiny: str, source: Path, tmp_path: Path) -> None:
    run = tuned(tiny, source, normalize=True)
    assert_refused_in_one_line(lambda: train(run, tmp_path / "a", display=SILENT), "leave --normalize out")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (network(3, name="mlp-8"), "size mismatch for 1.1.weight (8x144 there, 16x144 here), 1.1.bias (8 there, 16"),
        (network(3, name="mlp-8-8-8-8"), "there, 16x144 here), 1.1.bias (8 there, 16 here), 1.3.weight (8x8 th"),
        (network(3, shape=(1, 8, 8)), "size mismatch for 1.1.weight (16x64 there, 16x144 here)"),
        (network(3, shape=(3, 12, 12)), "size mismatch for 0.mean (3 there, 1 here), 0.std (3 there, 1 here)"),
        (
            network(3, name="mlp-16-16"),
            "does not fit mlp-16 on this data: missing none; unexpected 1.5.weight, 1.5.bias",
        ),
        ({"body": torch.zeros(2)}, "missing 1.weight, 1.bias, 3.weight and 1 more; unexpected body; give the weights"),
        ({**network(3), "1.3.bias": torch.zeros(10)}, "size mismatch for 1.3.bias (10 there, 3 here)"),
        ({**network(3), "1.3.bias": torch.zeros(())}, "size mismatch for 1.3.bias"),
        ({**network(3), "epoch": 3}, "holds a int as 'epoch', not a tensor"),
        ([torch.zeros(2)], "holds a list, no tensors by name"),
        ({}, "missing 1.weight, 1.bias, 3.weight and 1 more"),
    ],
)
def test_weights_of_another_network_are_refused_in_one_line(
    content: object, words: str, tiny: str, tmp_path: Path
) -> None:
    run = tuned(tiny, saved(tmp_path, content))
    assert_refused_in_one_line(lambda: train(run, tmp_path / "a", display=SILENT), words)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ("run.json", "is not a run folder: there is no run.json in it"),
        ("result.json", "is not finished: there is no result.json in it; give its train command again"),
        ("model.safetensors", "there is no weights file"),
        (".", "there is no"),
    ],
)
def test_a_folder_without_a_finished_run_is_refused_in_one_line(
    lost: str, words: str, tiny: str, source: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    if lost == ".":
        shutil.rmtree(copy)
    else:
        (copy / lost).unlink()
    run = tuned(tiny, copy)
    assert_refused_in_one_line(lambda: train(run, tmp_path / "a", display=SILENT), words)
    assert not (tmp_path / "a").exists()


def test_fine_tuning_by_command(tiny: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = ["train", "--data", tiny, "--method", "at", "--model", "mlp-16", "--epochs", "1", "--lr", "0", "--eps"]
    train += ["0.1", "--augment", "none", "--json", "--out", str(tmp_path / "a"), "--init-from"]
    assert main([*train, str(source / "chosen.safetensors")]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["init_from"]["path"] == str(source / "chosen.safetensors")
    here, there = load_file(tmp_path / "a" / "model.safetensors"), load_file(source / "chosen.safetensors")
    assert all(torch.equal(here[name], there[name]) for name in there)
    assert main([*train, str(tmp_path / "nowhere.pt")]) == 2
