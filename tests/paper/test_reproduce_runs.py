"""`orat paper reproduce` on tiny data: missing cells run, finished cells are skipped, a stop loses nothing."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import orat
from orat.cli.main import main
from orat.core.console import SILENT
from orat.core.errors import TrainingError
from orat.data.catalog import load
from orat.training import observers
from orat_paper.reproduce import artifacts, clothing, every_epoch, settings, trials
from orat_paper.reproduce.artifacts import Artifact
from orat_paper.reproduce.cells import Cell
from orat_paper.reproduce.settings import Places, trial_of
from orat_paper.reproduce.trials import Execution, run_trials

FIELDS: dict[str, Any] = {
    "epochs": 2, "milestones": (), "batch_size": 64, "attack_steps": 2, "warmup": 0.0, "lr": 0.1,
}  # fmt: skip
THEIRS = {"natural": 99.0, "fgsm": 98.0, "pgd20": 97.0, "cw": 96.0}
AT = Cell("mnist", "0.1", "symmetric", 20, "AT", theirs=THEIRS)
CELLS = (AT, Cell("mnist", "0.1", "symmetric", 20, "ORAT", 290, 60, theirs=THEIRS))
WITHOUT = Cell("mnist", "0.1", "symmetric", 20, "AT w/o", 290, 60, theirs=THEIRS)
KNOWN = {
    one.name: one
    for one in (
        Artifact("tiny", "a tiny table", CELLS),
        Artifact("without", "with a run before", (WITHOUT,)),
        Artifact("attacked", "under AutoAttack", (AT,), columns=("autoattack",), protocols=("ours",)),
        Artifact("curves", "against epochs", (AT,), every_epoch=True, curves=True),
    )
}


def assert_same(one: Path, two: Path) -> None:
    """Equal to the bit: weights and results."""
    for file in ("model.safetensors", "state.safetensors"):
        assert (one / file).read_bytes() == (two / file).read_bytes()
    results = [json.loads((folder / "result.json").read_text()) for folder in (one, two)]
    assert results[0] | {"seconds": 0} == results[1] | {"seconds": 0}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell of MNIST as a run of two epochs of an MLP."""
    monkeypatch.setitem(settings.MODELS, "mnist", "mlp-16")
    monkeypatch.setitem(settings.FIELDS, "ours", FIELDS)
    monkeypatch.setitem(settings.FIELDS, "authors", FIELDS | {"validation": 0.0})
    for name, one in KNOWN.items():
        monkeypatch.setitem(artifacts.artifacts(), name, one)


def reproduce(name: str, tiny: str, out: Path, *more: str) -> int:
    """The command on the tiny images."""
    places = ["--data", f"mnist={tiny}", "--out", str(out), "--device", "cpu"]
    return main(["paper", "reproduce", name, *places, *more])


def test_a_table_is_run_reported_and_then_found_done(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, table = tmp_path / "out", tmp_path / "tiny.csv"
    assert reproduce("tiny", tiny, out, "--seeds", "0,1", "--csv", str(table)) == 0
    first = capsys.readouterr()
    assert "4 of 4 cells: data mnist, eps 0.1, noise symmetric, rate 20, method ORAT, k 290, m 60, ours" in first.err
    assert "0:00:00 left" in first.err
    folders = sorted(out.glob("mnist-*"))
    assert len(folders) == 4
    content = json.loads((out / "tiny.json").read_text())
    for run in content["runs"]:
        result = json.loads((out / run["folder"] / "result.json").read_text())
        for part in ("last", "chosen"):
            assert run["accuracy"][part] == {name: result[part][name] for name in THEIRS}
        assert run["made_with"]["device"].startswith("cpu")
        assert run["origin"].keys() >= {"commit", "device", "threads"}
        assert run["run"]["data"] == "tiny.npz"
    lines = list(csv.DictReader(table.read_text().splitlines()))
    assert len(lines) == 2 * 2 * 4
    values = [100 * run["accuracy"]["last"]["natural"] for run in content["runs"] if run["method"] == "AT"]
    line = next(line for line in lines if line["method"] == "AT")
    assert (line["epoch"], line["column"], line["seeds"], line["protocol"]) == ("last", "natural", "2", "ours")
    assert float(line["ours"]) == pytest.approx(sum(values) / 2)
    assert float(line["sd"]) == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert float(line["difference"]) == pytest.approx(sum(values) / 2 - 99.0)
    monkeypatch.setattr(trials, "turn_of", None)  # nothing may be opened any more
    assert reproduce("tiny", tiny, out, "--seeds", "0,1") == 0
    again = capsys.readouterr()
    assert "4 of 4 cells are finished" in again.err
    assert again.out == first.out
    assert reproduce("tiny", tiny, out, "--report", "--json") == 0
    assert {row["seeds"] for row in json.loads(capsys.readouterr().out)["rows"]} == {2}  # all that are there


def test_only_what_is_missing_of_what_is_chosen_is_run(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("tiny", tiny, tmp_path, "--only", "method=at", "--quiet", "--json") == 0
    capsys.readouterr()
    assert len(list(tmp_path.glob("mnist-*"))) == 1
    assert reproduce("tiny", tiny, tmp_path, "--report") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if " ours " in line]
    assert lines[2] == ["mnist", "0.1", "symmetric", "20", "ORAT", "290", "60", "ours", "last", "0", "-", "99.00", "-",
                        "-", "98.00", "-", "-", "97.00", "-", "-", "96.00", "-"]  # fmt: skip
    assert lines[0][5:10] == ["-", "-", "ours", "last", "1"]


def test_what_a_report_from_another_machine_has_is_not_run_again(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    assert reproduce("tiny", tiny, there, "--only", "method=AT", "--seeds", "1", "--quiet") == 0
    known = ["--known", str(there / "tiny.json")]
    assert reproduce("tiny", tiny, here, *known, "--seeds", "1", "--quiet", "--json") == 0
    assert [folder.name.split("-")[4] for folder in here.glob("mnist-*")] == ["ORAT"]
    capsys.readouterr()
    assert reproduce("tiny", tiny, here, *known, "--report", "--json") == 0  # with the seed that is known
    both = json.loads(capsys.readouterr().out)
    assert [(run["method"], run["seed"]) for run in both["runs"]] == [("AT", 1), ("ORAT", 1)]
    assert both["runs"][0] == json.loads((there / "tiny.json").read_text())["runs"][0]
    assert all(row["ours"] is not None for row in both["rows"])


def test_a_report_is_not_replaced_by_what_is_read_from_it(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("tiny", tiny, tmp_path, "--only", "method=AT", "--quiet") == 0
    file = tmp_path / "tiny.json"
    before = file.read_text()
    assert reproduce("tiny", tiny, tmp_path, "--known", str(file), "--only", "method=ORAT", "--report") == 2
    assert "is the file of the new report: move it" in capsys.readouterr().err
    assert file.read_text() == before


@pytest.mark.parametrize("text", ["no JSON", "[1]", '{"rows": []}', '{"runs": [1]}', '{"runs": [{"folder": "a"}]}'])
def test_what_is_no_report_is_refused_in_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    assert main(["paper", "reproduce", "tiny", "--known", str(file), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == (
        f"orat: --known {file} is no report: give a file of orat paper reproduce, such as DIR/table1.json\n"
    )


def test_authors_are_tested_after_every_epoch_and_report_each_columns_best(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("tiny", tiny, tmp_path, "--protocol", "authors", "--only", "method=AT", "--quiet", "--json") == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    lines = every_epoch.tested(tmp_path / run["folder"])
    assert [line["epoch"] for line in lines] == [1, 2]
    assert run["accuracy"] == {"best": {name: max(line[name] for line in lines) for name in THEIRS}}
    last = json.loads((tmp_path / run["folder"] / "result.json").read_text())["last"]
    assert {**lines[-1]} == last


def test_best_is_of_each_column_apart() -> None:
    records = [{"epoch": 1, "natural": 0.5, "cw": 0.4}, {"epoch": 2, "natural": 0.9, "cw": 0.1}]
    assert every_epoch.best(records) == {"natural": 0.9, "cw": 0.4}


def test_tests_between_epochs_change_nothing_of_the_training(tiny: str, tmp_path: Path) -> None:
    execution = Execution(Places(tmp_path, {"mnist": tiny}), device="cpu")
    trial = trial_of(KNOWN["curves"], AT, "ours", 0, execution.places)
    assert run_trials([trial], ("natural",), execution) == {}
    orat.train(trial.run, tmp_path / "alone", device="cpu", display=SILENT)
    assert_same(trial.folder, tmp_path / "alone")


def test_curves_have_loss_and_accuracy_of_every_epoch(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("curves", tiny, tmp_path, "--quiet", "--json") == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert [point.keys() for point in run["curve"]] == [{"epoch", "loss", *THEIRS}] * 2


def test_at_without_outliers_trains_the_filter_first(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("without", tiny, tmp_path, "--quiet", "--json") == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["left_out"]["cut"] == 60
    (source,) = tmp_path.glob("*-AoRR-*")
    assert run["run"]["labels"] == source.name


def test_autoattack_is_run_on_the_trained_networks_once(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def examine(model: Any, test: Any, plan: Any, folder: Path, display: Any, searchers: Any) -> None:
        asked.append((folder.name, plan.attacks, plan.threat.eps, len(test)))
        folder.mkdir()
        (folder / "report.json").write_text(json.dumps({"accuracy": {"natural": 0.9, "autoattack": 0.5}}))

    monkeypatch.setattr(trials, "examine", examine)
    for _ in range(2):
        assert reproduce("attacked", tiny, tmp_path, "--quiet", "--json") == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert {(row["epoch"], row["column"], row["ours"]) for row in rows} == {
            ("last", "autoattack", 50.0), ("chosen", "autoattack", 50.0),
        }  # fmt: skip
    assert asked[0] == ("autoattack-last", ("autoattack",), 0.1, 90)
    assert len(asked) <= 2


def test_autoattack_comes_to_all_last_epochs_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execution, asked = Execution(Places(tmp_path), device="cpu"), []
    waiting = [trial_of(KNOWN["tiny"], cell, "ours", 0, execution.places) for cell in CELLS]
    for trial in waiting:
        trial.folder.mkdir()
        (trial.folder / "result.json").write_text(json.dumps({"last": {"epoch": 2}, "chosen": {"epoch": 1}}))
    monkeypatch.setattr(trials, "load_model", lambda *_: None)
    monkeypatch.setattr(trials, "first_test_images", lambda *_: None)
    monkeypatch.setattr(trials, "examine", lambda _, __, ___, folder, *____, **_____: asked.append(folder))
    trials.attack(waiting, execution)
    wanted = [(trial.folder.name, f"autoattack-{part}") for part in ("last", "chosen") for trial in waiting]
    assert [(folder.parent.name, folder.name) for folder in asked] == wanted


def test_a_cell_that_breaks_is_a_hole_with_its_reason_and_is_not_trained_again(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any) -> Any:
        raise TrainingError("it collapsed")

    with monkeypatch.context() as patch:
        patch.setattr(observers.Guard, "epoch_done", breaks)
        assert reproduce("tiny", tiny, tmp_path, "--only", "method=AT", "--quiet") == 1
    assert "it collapsed" in capsys.readouterr().out
    assert reproduce("tiny", tiny, tmp_path, "--quiet") == 1
    text = capsys.readouterr().out
    assert "it collapsed (remove" in text
    assert len(list(tmp_path.glob("*/result.json"))) == 1  # the other cell


@pytest.mark.parametrize("data", ["toy-imbalanced", "mnist"])
def test_toy_sets_are_trained_to_the_end_where_others_are_given_up_as_collapsed(
    data: str, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observers, "predict", lambda _, samples: torch.zeros(len(samples)))
    monkeypatch.setattr(observers, "COLLAPSED_STEPS", 1)
    monkeypatch.setitem(settings.FIELDS, "ours", FIELDS | {"epochs": 5, "batch_size": 200, "lr": 0.01})
    execution = Execution(Places(tmp_path, {"mnist": tiny}), device="cpu")
    trial = trial_of(KNOWN["tiny"], Cell(data, "0.01", "none", 0, "AT"), "ours", 0, execution.places)
    errors = run_trials([trial], ("natural",), execution)
    assert (trial in errors) == (data == "mnist")


LONGER = FIELDS | {"validation": 0.0, "epochs": 4, "lr": 0.01, "batch_size": 8}
SCRIPT = f"""
import sys
from orat.cli.main import main
from orat.training import observers
from orat_paper.reproduce import artifacts, settings
settings.MODELS["mnist"] = "mlp-16"
settings.FIELDS["authors"] = {LONGER}
artifacts.artifacts()["tiny"] = artifacts.Artifact("tiny", "", (artifacts.{CELLS[1]},))
observers.SAVE_AT_MOST_EVERY = 0.0
sys.exit(main(["paper", "reproduce", "tiny", *sys.argv[1:]]))
"""


def test_kill_9_and_the_same_command_again_equal_an_unbroken_run(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--protocol", "authors", "--only", "method=ORAT", "--quiet"]
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    command = ["--data", f"mnist={tiny}", "--out", str(broken), "--device", "cpu", *flags]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-c", SCRIPT, *command], env=environment) as process:
        while process.poll() is None and not list(broken.glob("*/resume.pt")):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    (folder,) = broken.glob("mnist-*")
    assert not (folder / "result.json").exists()
    assert 1 <= len(every_epoch.tested(folder)) < 4
    monkeypatch.setitem(settings.FIELDS, "authors", LONGER)
    for out in (broken, whole):
        assert reproduce("tiny", tiny, out, *flags) == 0
    assert_same(folder, whole / folder.name)
    assert every_epoch.tested(folder) == every_epoch.tested(whole / folder.name)
    assert [line["epoch"] for line in every_epoch.tested(folder)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tiny", "--only", "method=ST"], "in tiny there are AT, ORAT"),
        (["tini"], "did you mean 'tiny'"),
        ([], "or --list"),
        (["tiny", "--list"], "or --list"),
        (["--list", "--only", "data=mnist"], "leave --list out"),
        (["tiny", "--protocol", "their"], "known are authors, authors-right, ours"),
        (["attacked", "--protocol", "authors"], "has no protocol 'authors'"),
        (["tiny", "--seeds", "-1"], "give whole numbers of 0 or more"),
        (["tiny", "--seeds", "x"], "is not a whole number"),
        (["tiny", "--data", "mnst=x"], "did you mean 'mnist'"),
        (["tiny", "--data", "mnist"], "names no place"),
        (["tiny", "--data", "mnist=nowhere.npz"], "there is no nowhere.npz"),
        (["tiny", "--data-dir", "nowhere"], "no files of mnist"),
        (["tiny", "--known", "nowhere.json"], "--known nowhere.json cannot be read: No such file"),
        (["tiny", "--engine", "steam"], "unknown engine"),
        (["tiny", "--at-once", "0"], "give 1 or more"),
        (["tiny", "--csv", "table.txt"], "a table is written as .csv"),
    ],
)
def test_nonsense_is_refused_in_one_line(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", "reproduce", *arguments, "--out", str(tmp_path / "out"), "--device", "cpu", "--quiet"]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_clothing_is_read_as_its_owners_give_it_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in (("TRAIN", 10), ("TEST", 3), ("NOISY", 2)):
        monkeypatch.setattr(clothing, name, number)
    folder = tmp_path / "clothing"
    (folder / "images").mkdir(parents=True)
    (folder / "category_names_eng.txt").write_text("shirt\ncoat\n")
    for keys, labels, count in (("clean_train", 0, 12), ("clean_test", 1, 4), ("noisy_train", 1, 5)):
        names = [f"images/{keys}{i}.jpg" for i in range(count)]
        (folder / f"{keys}_key_list.txt").write_text("\n".join(names))
        kind = keys.partition("_")[0]
        with (folder / f"{kind}_label_kv.txt").open("a") as file:
            file.writelines(f"{name} {labels}\n" for name in names)
        for name in names:
            Image.fromarray(np.full((40, 30, 3), 200, dtype=np.uint8)).save(folder / name)
    places = Places(tmp_path / "out", {"clothing1m": str(folder)})
    clothing.make_clothing(places, SILENT)
    clean, noisy = (load(str(places.clothing(kind))) for kind in ("clean", "noisy"))
    assert torch.bincount(clean.train.labels, minlength=2).tolist() == [10, 0]
    assert torch.bincount(noisy.train.labels, minlength=2).tolist() == [8, 2]
    assert (clean.train.shape, clean.train.classes, len(clean.test or ())) == ((3, 32, 32), ("shirt", "coat"), 3)
    (folder / "noisy_label_kv.txt").unlink()
    places.clothing("noisy").unlink()
    with pytest.raises(orat.InputError, match="there is no .*noisy_label_kv.txt"):
        clothing.make_clothing(places, SILENT)
