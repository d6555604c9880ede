"""`orat evaluate` as a user meets it: what it prints, what it writes, and one line for what is wrong."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from quick_runs import quick
from safetensors.torch import save_file

import orat
from orat.attacks.suite import ATTACKS
from orat.cli.main import main
from orat.core.domain import Domain
from orat.data import catalog
from orat.data.source import Splits
from orat.training.run_folder import RunFolder

SCRIPT = """
import torch
from torch import nn
from orat.models.mlp import MLP
from orat.models.layers import Normalize

class Answer(nn.Module):
    def __init__(self, change, classes=3):
        super().__init__()
        self.inner = MLP(144, (16,), classes)
        self.change = change

    def forward(self, x):
        return self.change(self.inner(x))

def network():
    return nn.Sequential(Normalize([0.0], [1.0]), MLP(144, (16,), 3)).eval()

def seeded():
    torch.manual_seed(0)
    return network()

def training():
    return seeded().train()

class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, x):
        return self.inner(nn.functional.dropout(x, 0.3, training=True))

def noisy():
    return Noisy()

class Output(Answer):
    def forward(self, x):
        return {"logits": super().forward(x), "loss": None}

def wrapped():
    return Output(lambda z: z)

def triple():
    return Answer(lambda z: (z, z, z))

def probabilities():
    return Answer(lambda z: z.softmax(1)).eval()

def five():
    return Answer(lambda z: z, 5).eval()

def nothing():
    return Answer(lambda z: z * float("nan")).eval()

def cut():
    torch.manual_seed(0)
    return Answer(lambda z: z.detach()).eval()

def rooted():
    torch.manual_seed(0)
    return Answer(lambda z: z + (0 * z).sqrt()).eval()
"""


@pytest.fixture(scope="module")
def trained(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on the tiny data."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    orat.train(quick(tiny, orat.methods.AT(), epochs=6), folder)
    return folder


@pytest.mark.parametrize("share", [0.1, 0.0])
def test_data_without_a_test_part_are_evaluated_on_the_validation_part(
    share: float, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with np.load(tiny) as arrays:
        np.savez(tmp_path / "data.npz", x_train=arrays["x_train"], y_train=arrays["y_train"])
    run = quick(str(tmp_path / "data.npz"), orat.methods.AT(), epochs=1, milestones=(), validation=share)
    orat.train(run, tmp_path / "run", device="cpu")
    words = ["evaluate", str(tmp_path / "run"), "--attacks", "pgd10", "--device", "cpu", "--json"]
    capsys.readouterr()
    if not share:
        assert "has no test part, and the run held out no samples: add a folder test/" in wrong(capsys, *words[1:])
        return
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    (record,) = RunFolder(tmp_path / "run").history()
    assert {name: report["accuracy"][name] for name in record["validation"]} == record["validation"]
    assert (report["part"], report["examples"]) == ("validation", 30)
    assert report["warnings"][0].startswith("the data have no test part, so these are the validation samples")


@pytest.fixture
def here(tiny: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory, with a copy of the run, of the data and somebody's script; Python's state is put back."""
    (tmp_path / "run").mkdir()
    for file in trained.glob("*.*"):
        (tmp_path / "run" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "tiny.npz").write_bytes(Path(tiny).read_bytes())
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("orat_file_")]:
        del sys.modules[name]


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """What `orat evaluate --json` prints."""
    assert main(["evaluate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


TINY = ("--data", "tiny.npz", "--eps", "0.15")
MODES = ("seeded", "training")
FOREIGN = ("--model", "script.py:network", *TINY)


def test_the_json_is_fractions_with_radius_norm_images_and_warnings(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = evaluated(capsys, "run", "--attacks", "pgd5,fgsm", "--eps", "0.15")
    assert list(report["accuracy"]) == ["natural", "pgd5", "fgsm", "worst-case"]
    for value in report["accuracy"].values():
        assert 0 <= value <= 1
        assert value * 90 == pytest.approx(round(value * 90))
    assert report["accuracy"]["natural"] >= 0.9
    assert (report["eps"], report["norm"], report["examples"], report["warnings"]) == (0.15, "linf", 90, [])
    assert Path(report["folder"]).parent == Path("run/evaluations")
    assert {file.name for file in Path(report["folder"]).iterdir()} >= {"report.json", "samples.csv", "journal.json"}
    test = orat.load_data("tiny.npz").test
    assert test is not None
    expected = orat.evaluate(orat.load_model("run"), test, ["pgd5", "fgsm"], 0.15)
    assert {name: report["accuracy"][name] for name in expected} == expected


def test_the_runs_own_radius_norm_and_seed_are_the_default(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = evaluated(capsys, "run", "--attacks", "fgsm")
    run = json.loads((here / "run" / "run.json").read_text())
    assert (report["eps"], report["norm"], report["seed"]) == (run["eps"], run["norm"], run["seed"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--eps", "8/255"], {"eps": 8 / 255}),
        (["--norm", "l2", "--eps", "0.5"], {"norm": "l2", "eps": 0.5}),
        (["--norm", "l1", "--eps", "5"], {"norm": "l1", "eps": 5.0}),
        (["--examples", "20"], {"examples": 20}),
        (["--examples", "1"], {"examples": 1}),
        (["--examples", "1000"], {"examples": 90}),
        (["--seed", "7"], {"seed": 7}),
        (["--device", "cpu"], {"device": "cpu"}),
    ],
)
def test_flags_reach_the_report(
    arguments: list[str], expected: dict[str, Any], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = evaluated(capsys, "run", "--attacks", "pgd3", *arguments)
    assert {name: report[name] for name in expected} == expected


def test_batch_size_and_precision_change_no_answer(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attack = ("run", "--attacks", "apgd-ce", "--eps", "0.15", "--examples", "30")
    reports = [
        evaluated(capsys, *attack, "--batch-size", size, "--precision", precision, "--out", f"{size}-{precision}")
        for size, precision in (("250", "float32"), ("4", "float32"), ("250", "half"), ("250", "auto"))
    ]
    counts = [30 * report["accuracy"]["apgd-ce"] for report in reports]
    assert counts == pytest.approx([counts[0]] * 4, abs=1)
    assert counts[0] == pytest.approx(counts[1], abs=1e-9)


def test_out_and_table_are_where_they_were_wanted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = evaluated(capsys, "run", "--attacks", "pgd3", "--examples", "12", "--out", "a/b", "--table", "t.csv")
    assert report["folder"] == "a/b"
    assert json.loads(Path("a/b/report.json").read_text())["accuracy"] == report["accuracy"]
    assert not Path("run/evaluations").exists()
    with Path("t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert list(rows[0]) == ["index", "label", "predicted", "natural", "pgd3", "robust", "broken_by"]
    assert sum(int(row["pgd3"]) for row in rows) == round(12 * report["accuracy"]["pgd3"])


def test_a_table_may_be_parquet(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluated(capsys, "run", "--attacks", "fgsm", "--examples", "12", "--table", "t.parquet")
    assert Path("t.parquet").read_bytes()[:4] == b"PAR1"


def test_curves_are_drawn_written_and_printed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "run", "--attacks", "fgsm", "--examples", "10", "--curves", "--out", "c"]) == 0
    text = capsys.readouterr().out
    for against in ("eps", "steps"):
        assert f"accuracy in % against {against} (linf" in text
        with Image.open(f"c/curve-{against}.png") as image:
            assert image.format == "PNG"
            assert np.asarray(image).std() > 0
        record = json.loads(Path(f"c/curve-{against}.json").read_text())
        with Path(f"c/curve-{against}.csv").open(newline="") as file:
            rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
        assert rows == record["points"]
    assert "report, samples and curves: c\n" in text


def test_one_curve_alone_can_be_wanted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = evaluated(capsys, "run", "--attacks", "fgsm", "--examples", "10", "--curves", "eps", "--out", "c")
    assert [curve["against"] for curve in report["curves"]] == ["eps"]
    assert report["curves"][0]["points"][0]["accuracy"] == report["accuracy"]["natural"]
    assert {file.name for file in Path("c").glob("curve*")} == {"curve-eps.png", "curve-eps.csv", "curve-eps.json"}


def test_the_same_command_again_says_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (evaluated(capsys, "run", "--eps", "0.15") for _ in range(2))
    assert first | {"seconds": 0} == second | {"seconds": 0}


def test_again_starts_over_instead_of_believing_the_journal(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attack = ("run", "--attacks", "pgd3", "--out", "a")
    first = evaluated(capsys, *attack)
    forged = json.loads(Path("a/journal.json").read_text())
    forged["verdicts"]["pgd3"] = "0" * 90
    Path("a/journal.json").write_text(json.dumps(forged))
    assert evaluated(capsys, *attack, "--again")["accuracy"] == first["accuracy"]


def test_a_folder_of_another_evaluation_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attack = ("run", "--attacks", "pgd3", "--out", "a")
    evaluated(capsys, *attack)
    line = wrong(capsys, *attack, "--eps", "0.3")
    assert "eps" in line
    assert "--out" in line
    assert evaluated(capsys, *attack, "--eps", "0.3", "--again")["eps"] == 0.3


@pytest.mark.parametrize("file", ["weights.safetensors", "weights.pt"])
def test_anybodys_network_is_evaluated_like_a_run_of_ours(
    file: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = orat.load_model("run").state_dict()
    if file.endswith(".pt"):
        torch.save(tensors, file)
    else:
        save_file(tensors, file)
    own = evaluated(capsys, "run", "--attacks", "pgd5", "--eps", "0.15")
    theirs = evaluated(capsys, *FOREIGN, "--weights", file, "--attacks", "pgd5")
    assert theirs["accuracy"] == own["accuracy"]
    assert theirs["warnings"] == []
    assert Path(theirs["folder"]).parent == Path("runs/evaluations")


def test_a_builder_that_does_not_call_eval_gives_the_same_report_without_a_warning_of_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = [evaluated(capsys, "--model", f"script.py:{name}", *TINY, "--attacks", "fgsm") for name in MODES]
    assert reports[0]["warnings"] == reports[1]["warnings"]
    assert not any("train mode" in warning for warning in reports[1]["warnings"])
    assert reports[0]["accuracy"] == reports[1]["accuracy"]


def test_the_table_for_people_is_aligned_and_says_norm_radius_interval_and_worst_class(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "run", "--attacks", "pgd20,pgd5x2", "--eps", "40/255"]) == 0
    captured = capsys.readouterr()
    report = json.loads(next(Path("run/evaluations").glob("*/report.json")).read_text())
    lines = captured.out.splitlines()
    assert lines[0] == "run: accuracy in % on 90 samples"
    head = next(i for i, line in enumerate(lines) if "95 % interval" in line)
    assert lines[head].split() == ["attack", "norm", "eps", "accuracy", "95", "%", "interval"]
    rows = lines[head + 2 : head + 6]
    for (name, title), row in zip(
        {"natural": "Natural", "pgd20": "PGD-20", "pgd5x2": "pgd5x2", "worst-case": "worst case"}.items(),
        rows,
        strict=True,
    ):
        low, high = (f"{100 * end:.2f}" for end in report["intervals"][name])
        attacked = [] if name == "natural" else ["linf", "40/255", "(0.1569)"]
        assert row.split() == [
            *title.split(), *attacked, f"{100 * report['accuracy'][name]:.2f}", low, "-", high,
        ]  # fmt: skip
    assert len({len(line) for line in lines[head : head + 6]}) == 1
    right = lines[head].index("accuracy") + len("accuracy")
    assert all(row[right - 3] == "." and row[right] == " " for row in rows)
    worst = min(report["classes"], key=lambda row: (row["robust"], row["natural"]))
    assert f"worst class: {worst['class']}, worst-case accuracy {worst['robust']:.2%}" in lines
    assert lines[-1].startswith("report, samples: run/evaluations/")
    assert captured.err == "".join(f"{name}: accuracy {report['accuracy'][name]:.2%}\n" for name in ("pgd20", "pgd5x2"))


def test_a_folder_with_brackets_in_its_name_is_shown_as_it_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = (here / "run").rename(here / "[b]run[]")
    assert main(["evaluate", folder.name, "--attacks", "fgsm", "--examples", "10"]) == 0
    assert capsys.readouterr().out.startswith("[b]run[]: accuracy in % on 10 samples\n")


def wrong(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that nonsense is answered with."""
    code = main(["evaluate", *arguments])
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.startswith("orat: ")
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--attacks", "autoatack"], "unknown attack 'autoatack': did you mean 'autoattack'?"),
        (["run", "--attacks", "pgd20,pgd"], "unknown attack 'pgd'"),
        (["run", "--attacks", "pgd0"], "unknown attack 'pgd0'"),
        (["run", "--norm", "l3"], "unknown norm 'l3'"),
        ([], "give a run's folder, or --model package.module:function with --data"),
        (["run", *FOREIGN], "the model of the run is mlp-16: leave --model script.py:network out"),
        (["--model", "script.py:network"], "--model without --data"),
        (["--data", "tiny.npz"], "give a run's folder, or --model"),
        (["run", "--data", "cifar10"], "the data of the run is "),
        (["--model", "script.py:network", "--data", "tiny.npz"], "--eps is missing: "),
        (["--model", "script.py:network", "--data", "mnist"], "such as --eps 0.1 for mnist"),
        (["--model", "script.py:network", "--data", "cifar10"], "such as --eps 8/255 for cifar10"),
        (["--model", "script.py:network", "--data", "cifar100"], "such as --eps 8/255 for cifar100"),
        (["--model", "script.py:probabilities", *TINY], "remove the last softmax"),
        (["--model", "script.py:five", *TINY], "(90, 5) for 90 samples of 3 classes"),
        (["--model", "script.py:nothing", *TINY], "NaN or infinite logits for 90 of 90"),
        (["--model", "script.py:cut", *TINY], "no gradient of the network reaches its input"),
        (["--model", "script.py:triple", *TINY], "tuple"),
        (["--model", "script.py:netwrk", *TINY], "did you mean 'network'"),
        (["--model", "script", *TINY], "package.module:function"),
        ([*FOREIGN, "--weights", "no.pt"], "there is no weights file no.pt"),
        (["run", "--weights", "best"], "known are chosen, last"),
        (["run", "--examples", "0"], "examples = 0: give 1 or more"),
        (["run", "--examples", "many"], "'many' is not a whole number"),
        (["run", "--precision", "int8"], "unknown precision 'int8'"),
        (["run", "--curves", "foo"], "unknown curve 'foo': known are eps, steps"),
        (["run", "--table", "x.txt"], "x.txt: a table is written as .csv or .parquet"),
        (["run", "--attacks", "pgd3,cw-l2"], "CW-L2 minimizes the l2 distance; in an linf ball use cw"),
        (["run", "--batch-size", "0"], "batch_size = 0"),
        (["run", "--eps", "8"], "did you mean 8/255?"),
        (["run", "--eps", "-0.1"], "eps = -0.1"),
        (["run", "--eps", "eight"], "'eight' is not a number"),
        (["run", "--device", "gpu9"], "gpu9"),
        (["run", "--sede", "1"], "did you mean '--seed'?"),
        (["nowhere"], "nowhere is not a run folder: there is no run.json in it"),
        (["."], "is not a run folder"),
        (["tiny.npz"], "is not a run folder"),
        (["run", "other"], "'other'"),
        (["run", "--attacks", "pgd3,autoattack-reference"], "needs 4 classes or more"),
        (["run", "--attacks", "pgd3", "--table", "no/x.csv"], "no/"),
        (["run", "--attacks", "pgd3", "--eps", "0", "--curves"], "eps = 0: a curve"),
        (["run", "--attacks", "pgd3", "--seed", "1" * 30], "1" * 30),
        (["run", "--norm", "l2", "--eps", "inf"], "eps = inf"),
        (["run", "--image-size", "8"], "--image-size"),
    ],
)
def test_nonsense_is_answered_in_one_line_before_anything_is_attacked(
    arguments: list[str], words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file for file in here.rglob("*") if "__pycache__" not in file.parts}
    assert words in wrong(capsys, *arguments)
    assert {file for file in here.rglob("*") if "__pycache__" not in file.parts} == before


def test_the_reference_refuses_points_before_anything_is_attacked(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "plane.py").write_text("from torch import nn\n\ndef network():\n    return nn.Linear(2, 2).eval()\n")
    model = ("--model", "plane.py:network", "--data", "toy-balanced", "--eps", "0.01")
    assert "images" in wrong(capsys, *model, "--attacks", "pgd3,autoattack-reference")
    assert not Path("runs").exists()


def test_a_network_that_cuts_the_graph_is_attacked_without_gradients_only(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = evaluated(capsys, "--model", "script.py:cut", *TINY, "--attacks", "square", "--examples", "9")
    assert list(report["accuracy"]) == ["natural", "square", "worst-case"]


def test_a_network_whose_gradients_are_nan_is_told_of_and_not_a_traceback(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = evaluated(capsys, "--model", "script.py:rooted", *TINY, "--attacks", "pgd3", "--norm", "L2")
    assert report["norm"] == "l2"
    assert report["accuracy"]["pgd3"] <= report["accuracy"]["natural"]


def test_a_dict_with_logits_is_evaluated_like_its_logits(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = {
        f"inner.{name[2:]}": value for name, value in orat.load_model("run").state_dict().items() if name[0] == "1"
    }
    save_file(tensors, "weights.safetensors")
    own = evaluated(capsys, "run", "--attacks", "pgd5", "--eps", "0.15")
    model = ("--model", "script.py:wrapped", "--weights", "weights.safetensors")
    assert evaluated(capsys, *model, *TINY, "--attacks", "pgd5")["accuracy"] == own["accuracy"]


def test_a_network_is_built_by_the_rule_of_the_training(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "from torch import nn\n\ndef wide(num_classes, channels):\n    return nn.Sequential("
    (here / "nets.py").write_text(f"{text}nn.Conv2d(channels, 2, 3), nn.Flatten(), nn.LazyLinear(num_classes))\n")
    command = ("--model", "nets.py:wide", "--eps", "0.1", "--attacks", "fgsm")
    assert evaluated(capsys, *command, *TINY)["examples"] > 0
    line = wrong(capsys, "--model", "nets.py:narrow", *TINY, "--eps", "0.1")
    assert "unknown name in nets.py: 'narrow'" in line
    (here / "fixed.py").write_text("from torch import nn\n\ndef make():\n    return nn.Conv2d(3, 2, 3)\n")
    line = wrong(capsys, "--model", "fixed.py:make", *TINY, "--eps", "0.1")
    assert "fixed.py:make on inputs of shape (2, 1, 12, 12) fails with RuntimeError: Given groups=1" in line


def test_a_random_network_is_told_once_and_the_same_command_says_the_same(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = {f"inner.{name}": value for name, value in orat.load_model("run").state_dict().items()}
    save_file(tensors, "weights.safetensors")
    command = ("--model", "script.py:noisy", "--weights", "weights.safetensors", *TINY, "--attacks", "pgd3,apgd-ce")
    first, second = evaluated(capsys, *command), evaluated(capsys, *command, "--again")
    assert first | {"seconds": 0} == second | {"seconds": 0}
    assert first["warnings"][0] == (
        "the network is random: attacks and accuracies are those of the mean logits over 8 draws of its noise (seed 0)"
    )
    assert not any("normalization" in warning for warning in first["warnings"])
    assert first["accuracy"]["natural"] > 0.5


def rewritten(**changes: str) -> None:
    """The run as a training with these parts would have recorded it."""
    for name in ("run.json", "config.json"):
        record = json.loads(Path("run", name).read_text())
        Path("run", name).write_text(json.dumps(record | {key: changes[key] for key in changes if key in record}))


CODE, MEMORY = "script.py:network", "in memory: Net"


def test_the_code_of_a_run_is_named_now_or_trusted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = evaluated(capsys, "run", "--attacks", "pgd3")["accuracy"]
    rewritten(model=CODE)
    line = (
        "model script.py:network is code that a file names: give --model script.py:network in this command, or --trust"
    )
    assert wrong(capsys, "run", "--attacks", "pgd3") == f"orat: {line}\n"
    for flags in (("--model", CODE), ("--trust",)):
        assert evaluated(capsys, "run", *flags, "--attacks", "pgd3")["accuracy"] == expected
    rewritten(model=MEMORY)
    assert "the model of the run was in memory: Net: name it" in wrong(capsys, "run", "--trust")
    assert evaluated(capsys, "run", "--model", CODE, "--attacks", "pgd3")["accuracy"] == expected


def test_the_data_of_a_run_in_memory_are_named_now(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = evaluated(capsys, "run", "--attacks", "pgd3")["accuracy"]
    rewritten(data="in memory: Pairs")
    assert "the data of the run was in memory: Pairs: name it" in wrong(capsys, "run")
    assert evaluated(capsys, "run", "--data", "tiny.npz", "--attacks", "pgd3")["accuracy"] == expected
    rewritten(data="script.py:pairs")
    assert "data script.py:pairs is code that a file names: give --data" in wrong(capsys, "run")


def test_bounds_and_units_of_the_data_stay_under_flags_and_in_curves(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = Domain(low=(0.0,) * 144, high=None, scale=(0.5, *(0.0,) * 143))
    read = catalog.load

    def with_domain(*arguments: Any, **settings: Any) -> Splits:
        splits = read(*arguments, **settings)
        return replace(splits, test=replace(splits.test, domain=domain))

    monkeypatch.setattr(catalog, "load", with_domain)
    for given in (("run", "--eps", "0.2"), (*FOREIGN[:-1], "0.2")):
        report = evaluated(capsys, *given, "--attacks", "pgd3", "--examples", "9", "--norm", "l2", "--curves", "eps")
        for record in (report, report["curves"][0]):
            assert (record["eps"], record["norm"], record["high"]) == (0.2, "l2", None)
            assert (record["low"], record["scale"]) == (list(domain.low), list(domain.scale))
        assert "without a scale" in wrong(capsys, *given, "--attacks", "square")


def test_help_lists_every_attack(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    names = set(re.sub(r"(?<=-)\n\s*", "", capsys.readouterr().out).replace(",", " ").replace("(", " ").split())
    assert {name for name in ATTACKS if not re.fullmatch(r"pgd\d+", name)} <= names
    assert {"pgdN", "pgdNxR", "linf", "l2", "l1"} <= names
