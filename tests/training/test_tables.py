"""Runs on tables and vectors: every method, the bounds of its attacks, scaling inside the network, and resuming."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from quick_runs import EVERY, assert_same, quick, train_until_stopped
from refusals import assert_refused_in_one_line, wrong
from torch import Tensor, nn

import orat
from orat.cli.main import main
from orat.core.console import SILENT
from orat.core.errors import TrainingError
from orat.core.types import Scalar
from orat.data import catalog
from orat.data.source import Dataset
from orat.methods.base import Method, Step
from orat.training.events import EpochDone
from orat.training.observers import Guard
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import build_model, prepare, with_noise
from orat.training.train import train

SCALES, MEANS = np.array([1e-4, 1.0, 1e4]), np.array([3.0, 0.0, -1e4])
TARGET: dict[str, Any] = {"target": "kind", "frozen": ("big",)}


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of two clusters in three columns of very different units, and a column of text."""
    random = np.random.default_rng(0)
    kind = np.arange(300) % 2
    x = MEANS + SCALES * (random.normal(size=(300, 3)) + 3 * kind[:, None])
    rows = [f"{a:.9g},{b:.9g},{c:.9g},{'xyz'[i % 3]},{'ab'[k]}" for i, ((a, b, c), k) in enumerate(zip(x, kind))]  # noqa: B905
    file = tmp_path_factory.mktemp("tables") / "clusters.csv"
    file.write_text("\n".join(["small,middle,big,letter,kind", *rows]) + "\n")
    return str(file)


def splits_of(run: Run) -> catalog.Splits:
    """The data of a run."""
    return catalog.load(run.data, target=run.target, bounds=run.bounds, frozen=run.frozen)


@pytest.mark.parametrize("name", EVERY)
def test_every_method_trains_and_is_tested_on_a_table(clusters: str, tmp_path: Path, name: str) -> None:
    result = train(quick(clusters, EVERY[name], **TARGET), tmp_path, device="cpu", display=SILENT)
    assert result["last"]["natural"] >= 0.7
    assert {"fgsm", "pgd20", "cw"} < result["last"].keys()


def test_a_data_frame_trains_as_its_file(clusters: str, tmp_path: Path) -> None:
    frame, run = pd.read_csv(clusters), quick(clusters, orat.methods.ST(), epochs=1, milestones=(), **TARGET)
    train(run, tmp_path / "file", device="cpu", display=SILENT)
    train(replace(run, data=frame), tmp_path / "frame", device="cpu", display=SILENT)
    weights = [RunFolder(tmp_path / name).load_tensors("model") for name in ("file", "frame")]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    found = orat.find_label_issues(tmp_path / "frame", data=frame, device="cpu")
    first = next(iter(found))
    assert frame["kind"][first["line"]] == first["given_label"]


@dataclass(frozen=True)
class Watching(Method):
    """Refuses attacked rows that leave the threat, or whose frozen columns changed."""

    def loss(self, step: Step) -> Scalar:
        """The adversarial loss."""
        x, threat = step.batch.x, step.adversary.threat
        adv = step.adversary(x, step.batch.y)
        assert threat.allows(adv, x).all()
        assert torch.equal(adv[:, 2:], x[:, 2:])
        assert (adv[:, :2] != x[:, :2]).any()
        return nn.functional.cross_entropy(step.model(adv), step.batch.y)


@pytest.mark.parametrize("engine", ["plain", "folded"])
@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("bounds", ["data", "none", (-1e6, 1e6)])
def test_no_attack_of_a_training_leaves_the_bounds_or_moves_a_frozen_column(
    clusters: str, tmp_path: Path, engine: str, norm: Any, bounds: Any
) -> None:
    run = quick(clusters, Watching(), **TARGET, norm=norm, bounds=bounds, epochs=1, milestones=())
    train(run, tmp_path, device="cpu", display=SILENT, engine=engine)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_a_linear_model_attacks_end_at_the_corner_of_bounds_and_units(clusters: str, dtype: torch.dtype) -> None:
    run = Run(data=clusters, method=orat.methods.AT(), eps=0.7, **TARGET)
    data = splits_of(run).train
    threat, x, domain = run.threat_in(data.domain), data.images.to(dtype), data.domain
    weights = torch.tensor([2e4, -1.0, 1e-3, 5.0, 5.0, 5.0], dtype=dtype)
    reach = 0.7 * torch.tensor(domain.scale, dtype=dtype) * weights.sign()
    low, high = torch.tensor(domain.low, dtype=dtype), torch.tensor(domain.high, dtype=dtype)

    def linear(x: Tensor) -> Tensor:
        score = x @ weights
        return torch.stack([score, -score], 1)

    model = nn.Module()
    model.forward = linear  # type: ignore[method-assign]
    adv = orat.PGD(steps=20)(model, x, torch.ones(len(x), dtype=torch.long), threat)
    assert torch.equal(adv[:, 2:], x[:, 2:])
    expected = torch.minimum(torch.maximum(x + reach, low), high)
    assert torch.equal(adv, expected)


def test_without_bounds_an_l2_attack_on_a_linear_model_follows_the_scaled_weights(clusters: str) -> None:
    run = Run(data=clusters, method=orat.methods.AT(), eps=0.5, norm="l2", bounds="none", **TARGET)
    data = splits_of(run).train
    x, scale = data.images.double(), torch.tensor(data.domain.scale, dtype=torch.float64)
    torch.manual_seed(0)
    layer = nn.Linear(6, 2).double().requires_grad_(False)
    layer.bias[0] = 1e6  # all rows are of the class 0 for the network, where the loss is linear
    slope = layer.weight[0] - layer.weight[1]  # the way from the label 1 to the class 0
    expected = x + 0.5 * scale * (scale * slope) / (scale * slope).norm()
    adv = orat.PGD(steps=5, start="none")(layer, x, torch.ones(len(x), dtype=torch.long), run.threat_in(data.domain))
    moves = scale > 0
    assert ((adv - expected)[:, moves] / scale[moves]).abs().max() < 1e-9
    assert torch.equal(adv[:, ~moves], x[:, ~moves])


def test_features_are_scaled_inside_of_the_network_with_or_without_normalize(clusters: str, tmp_path: Path) -> None:
    run = quick(clusters, orat.methods.ST(), **TARGET)
    train(run, tmp_path, device="cpu", display=SILENT)
    x = prepare(run).train.images.double()
    model = orat.load_model(tmp_path)
    state = model.state_dict()
    assert state["0.mean"].tolist() == x.numpy().mean(0).astype(np.float32).tolist()
    assert state["0.std"].tolist() == pytest.approx(x.numpy().std(0, ddof=1).tolist())
    rows = splits_of(run).test.images[:5]  # type: ignore[union-attr]
    by_hand = model[1](((rows - x.mean(0)) / x.std(0)).float())  # type: ignore[operator,index]
    assert torch.allclose(model(rows), by_hand, atol=1e-3)
    both = [build_model(replace(run, normalize=yes), prepare(run).train).state_dict() for yes in (False, True)]
    assert all(torch.equal(value, both[1][name]) for name, value in both[0].items())


def test_a_constant_column_is_only_shifted(tmp_path: Path) -> None:
    rows = [f"{i % 7 / 10},0.1,{i % 2}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["x,same,y", *rows]))
    run = quick(str(tmp_path / "t.csv"), orat.methods.AT(), target="y")
    state = build_model(run, prepare(run).train).state_dict()
    assert (state["0.mean"][1], state["0.std"][1]) == (pytest.approx(0.1), 1)


@pytest.mark.parametrize("name", ["at", "orat automatic"])
def test_a_killed_run_goes_on_to_the_bit(
    clusters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run = quick(clusters, EVERY[name], **TARGET, noise="symmetric", noise_rate=0.1)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(run, whole, device="cpu", display=SILENT)
    train_until_stopped(run, parts, 5, monkeypatch, device="cpu")
    train(run, parts, device="cpu", display=SILENT)
    assert_same(whole, parts)


def test_a_run_does_not_go_on_where_only_the_bounds_changed(
    clusters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "t.csv"
    rows = Path(clusters).read_text().split()[1:]
    rows = [f"{row},{'train' if i % 5 else 'test'}" for i, row in enumerate(rows)]
    header = "small,middle,big,letter,kind,split"
    file.write_text("\n".join([header, *rows]))
    run = quick(str(file), orat.methods.AT(), **TARGET)
    train_until_stopped(run, tmp_path / "run", 3, monkeypatch, device="cpu")
    file.write_text("\n".join([header, *rows, "99,99,99,x,a,test"]))
    again: Callable[[], Any] = lambda: train(run, tmp_path / "run", device="cpu", display=SILENT)  # noqa: E731
    assert_refused_in_one_line(again, "changed since it was stopped")


@pytest.fixture(scope="session")
def noisy(clusters: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of automatic ORAT on the clusters, with a tenth of the labels flipped, by the command line."""
    folder = tmp_path_factory.mktemp("noisy") / "run"
    words = f"--data {clusters} --target kind --frozen big --method orat --noise symmetric --noise-rate 0.1 --epochs 10"
    assert main(["train", *words.split(), "--quiet", "--device", "cpu", "--out", str(folder)]) == 0
    return folder


def test_one_command_finds_the_flipped_labels_of_a_table(noisy: Path) -> None:
    result = json.loads((noisy / "result.json").read_text())
    assert result["outliers"]["flipped"] > 10
    assert result["outliers"]["precision"] >= 0.9
    assert result["outliers"]["recall"] >= 0.9
    assert result["last"]["pgd20"] >= 0.9


def test_label_issues_name_the_lines_of_the_table(noisy: Path, clusters: str) -> None:
    rows = Path(clusters).read_text().splitlines()
    found = orat.find_label_issues(noisy)
    for row in list(found)[:10]:
        assert row["is_label_issue"]
        right = rows[row["line"] - 1].rpartition(",")[2]
        assert row["given_label"] != right == row["predicted_label"]


@pytest.mark.parametrize("titles", ["line,label", "path,label"])
def test_labels_of_a_file_belong_to_lines_of_the_table(clusters: str, tmp_path: Path, titles: str) -> None:
    before = splits_of(Run(data=clusters, method=orat.methods.AT(), **TARGET)).train
    assert before.lines is not None
    assert before.lines[0] >= 2
    assert before.paths == tuple(f"line {line}" for line in before.lines)
    keys = before.lines if titles.startswith("line") else before.paths
    flipped = [f"{key},{'ab'[1 - label]}" for key, label in zip(keys, before.labels.tolist(), strict=True)]
    file = tmp_path / "labels.csv"
    file.write_text("\n".join([titles, *reversed(flipped)]))
    train = prepare(quick(clusters, orat.methods.AT(), labels=str(file), **TARGET)).train
    rows = Path(clusters).read_text().splitlines()
    assert train.lines is not None
    for line, label in zip(train.lines, train.labels.tolist(), strict=True):
        assert rows[line - 1].rpartition(",")[2] != "ab"[label]


@pytest.mark.parametrize("settings", [{}, {"frozen": ("big",), "bounds": "none"}, {"frozen": ("small",)}])
def test_data_read_with_other_bounds_or_frozen_columns_have_no_threat_of_the_run(
    clusters: str, settings: dict[str, Any]
) -> None:
    run = Run(data=clusters, method=orat.methods.AT(), eps=0.2, target="kind", frozen=("big", "letter"))
    other = orat.load_data(clusters, target="kind", **settings).test
    again = "read them as the run does, by orat.load_data(..., bounds='data', frozen=('big', 'letter'))"
    assert_refused_in_one_line(lambda: run.threat_in(other.domain), again)
    same = orat.load_data(clusters, target="kind", frozen=("letter", "big")).test
    assert run.threat_in(same.domain).scale == same.domain.scale


def test_a_radius_of_a_table_is_printed_with_its_unit(
    noisy: Path, clusters: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"train --data {clusters} --target kind --frozen big --method at --epochs 1 --device cpu --out {tmp_path}/a"
    assert main(words.split()) == 0
    printed = capsys.readouterr()
    assert "linf eps 0.1 standard deviations, 1 epoch" in printed.err
    assert "on 60 test samples; attacks: linf, eps 0.1 standard deviations\n" in printed.out
    assert main(["evaluate", str(noisy), "--attacks", "fgsm", "--device", "cpu"]) == 0
    assert "eps in standard deviations" in capsys.readouterr().out
    assert str(orat.predict(noisy, clusters, certain="fgsm").attack) == "fgsm of radius 0.1 standard deviations in linf"


def test_vectors_in_0_to_1_say_that_they_are_taken_as_pixels(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((40, 3), np.float32)
    notes = orat.load_data((x, np.arange(40) % 2)).notes
    assert [note for note in notes if "taken as pixels" in note and "give bounds 0,1" in note]
    domain = orat.load_data((x, np.arange(40) % 2), bounds=(0.0, 1.0)).train.domain
    assert domain.unit == " standard deviations"


def test_the_page_of_a_table_lists_rows_with_their_values(noisy: Path, clusters: str, tmp_path: Path) -> None:
    out = ["labels", "find", str(noisy), "--out", str(tmp_path), "--top", "5"]
    assert main(out) == 0
    first = next(iter(orat.find_label_issues(noisy)))
    small, middle, big, letter, kind = Path(clusters).read_text().splitlines()[first["line"] - 1].split(",")
    text = (tmp_path / "label-issues.html").read_text()
    row = next(line for line in text.splitlines() if line.startswith(f"<tr><th>1</th><td>{first['line']}</td>"))
    cells = row.replace("</td></tr>", "").split("</td><td>")[1:]
    assert cells[:2] == [first["given_label"], kind]
    assert [float(cell) for cell in cells[4:7]] == pytest.approx([float(small), float(middle), float(big)], rel=1e-4)
    assert cells[7:] == [letter]
    assert text.count("<tr><th>") == 5 + 2 + 2 + 3


def test_a_finished_run_is_evaluated_in_its_own_bounds_and_units(
    noisy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(noisy), "--json", "--device", "cpu"]) == 0
    report, result = json.loads(capsys.readouterr().out), json.loads((noisy / "result.json").read_text())
    assert report["accuracy"].items() >= {name: result["last"][name] for name in ("natural", "pgd20", "cw")}.items()
    domain = splits_of(Run(data=report_data(noisy), method=orat.methods.ST(), **TARGET)).train.domain
    threat = orat.Threat(result["eps"], "linf", domain.low, domain.high, domain.scale)
    assert report.items() >= json.loads(json.dumps(threat.record())).items()
    assert threat_in_config(noisy) == threat
    line = wrong(capsys, "evaluate", str(noisy), "--attacks", "autoattack", "--device", "cpu")
    assert "AutoAttack attacks inputs in [0, 1] without a scale" in line


def report_data(folder: Path) -> str:
    """The data set of a run folder."""
    return str(json.loads((folder / "run.json").read_text())["data"])


def threat_in_config(folder: Path) -> orat.Threat:
    """The threat that a run folder tells to users of its network."""
    record = json.loads((folder / "config.json").read_text())["threat"]
    return orat.Threat(**{name: tuple(value) if isinstance(value, list) else value for name, value in record.items()})


def test_config_json_has_the_names_of_features_and_classes(noisy: Path) -> None:
    config = json.loads((noisy / "config.json").read_text())
    assert config["inputs"] == ["small", "middle", "big", "letter=x", "letter=y", "letter=z"]
    assert config["classes"] == ["a", "b"]


def test_embeddings_without_bounds_are_trained_from_arrays(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = np.arange(400) % 2
    vectors = 50 * (random.normal(size=(400, 32)) + labels[:, None]).astype(np.float32)
    arrays = {"x_train": vectors[:300], "y_train": labels[:300], "x_test": vectors[300:], "y_test": labels[300:]}
    np.savez(tmp_path / "e.npz", **arrays)
    run = quick(str(tmp_path / "e.npz"), orat.methods.AT(), bounds="none")
    result = train(run, tmp_path / "run", device="cpu", display=SILENT)
    assert result["last"]["pgd20"] >= 0.9
    assert threat_in_config(tmp_path / "run").low is None


def test_noise_of_the_instance_ignores_the_units_of_the_columns(clusters: str) -> None:
    data = splits_of(Run(data=clusters, method=orat.methods.ST(), **TARGET)).train
    units = torch.tensor([10.0, 1e-3, 1.0, 1.0, 1.0, 1.0])
    other = replace(data, images=data.images * units)
    ours, theirs = (with_noise(one, "instance", 0.3, 0).labels for one in (data, other))
    assert (ours != data.labels).float().mean() > 0.2
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--target kin", "unknown column of"),
        ("", "for a table of numbers, give --target COLUMN"),
        ("--target kind --frozen bog", "unknown column of frozen: 'bog': did you mean 'big'?"),
        ("--target kind --bounds 0,1", "out of the bounds 0 to 1: give wider bounds, or freeze the column"),
        ("--target kind --bounds all", "--bounds: 'all' is no range: give data, none, or two numbers LOW,HIGH"),
        ("--target kind --bounds 1,1", "bounds = (1.0, 1.0): give data, none, or two numbers LOW,HIGH"),
        ("--target kind --augment crop", "augment = 'crop' is for images: leave it out for samples of shape (6,)"),
        ("--target kind --model lenet", "model 'lenet' needs images, got inputs of shape (6,): use mlp-64"),
        ("--target kind --image-size 32", "the image size 32x32 is for folders of images"),
    ],
)
def test_flags_that_do_not_fit_a_table_are_refused_and_nothing_is_written(
    clusters: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: str, words: str
) -> None:
    out = tmp_path / "run"
    command = ["train", "--data", clusters, "--method", "at", "--quiet", "--out", str(out), *flags.split()]
    assert words in wrong(capsys, *command)
    assert not out.exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"data": "t.csv", "bounds": "dta"}, "bounds = dta: give data, none, or two numbers LOW,HIGH"),
        ({"data": "t.csv", "frozen": "age"}, "frozen = 'age': give a tuple of names"),
    ],
)
def test_a_run_refuses_columns_without_a_meaning(more: dict[str, Any], words: str) -> None:
    assert_refused_in_one_line(lambda: Run(method=orat.methods.AT(), **more), words)


def test_a_run_on_a_table_comes_back_from_its_record_and_its_flags(clusters: str) -> None:
    run = quick(clusters, orat.methods.AT(), target="kind", frozen=("small", "big"), bounds=(-1e5, 1e5))
    assert Run.from_record(json.loads(json.dumps(run.record()))) == run
    from orat.training.text import run_from, texts_of

    assert run_from(texts_of(run)) == run


def test_columns_of_images_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    run = Run(data="sample", method=orat.methods.AT(), frozen=("1",))
    assert_refused_in_one_line(lambda: train(run, tmp_path / "run", display=SILENT), "for tables and vectors: leave")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("share", "collapses"), [(0.7, True), (0.9, False)])
def test_a_class_that_most_samples_have_may_be_predicted_for_all(share: float, collapses: bool) -> None:
    data = Dataset(torch.zeros(100, 2), (torch.arange(100) >= 100 * share).long(), ("common", "rare"))
    constant = nn.Linear(2, 2)
    constant.bias.data = torch.tensor([1.0, 0.0])
    guard = Guard(quick("t.csv", orat.methods.AT()), constant, data, data, steps=100)
    with pytest.raises(TrainingError, match="collapsed") if collapses else nullcontext():
        for epoch in range(2, 12):
            guard.epoch_done(EpochDone(epoch, {}))
