"""A report against numbers worked out by hand, our AutoAttack against its authors', and a model that hides."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import torch
from safetensors.torch import save_file
from scipy.stats import binomtest
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from orat.attacks import Threat
from orat.cli.main import main
from orat.core.errors import InputError
from orat.data.catalog import load
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.evaluation import Plan, examine, report_folder
from orat.models.mlp import MLP

EPS = 0.1
ATTACKS = ("fgsm-plain", "pgd20", "apgd-ce")


def threshold_model() -> nn.Module:
    """Class 1 above 0.5 in the first coordinate, class 0 below."""
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-4.0, 0.0], [4.0, 0.0]]))
        model.bias.copy_(torch.tensor([2.0, -2.0]))
    return model.eval()


def points(n: int = 200) -> Dataset:
    """Points that lie neither near the border nor near the radius; one in ten has the wrong label."""
    x = torch.rand((n, 2), generator=torch.Generator().manual_seed(0))
    distance = (x[:, 0] - 0.5).abs()
    x = x[((distance - EPS).abs() > 0.01) & (distance > 0.01)]
    y = (x[:, 0] > 0.5).long()
    y[::10] = 1 - y[::10]
    return Dataset(x, y, ("low", "high"))


def natural_and_robust(data: Dataset) -> tuple[Tensor, Tensor]:
    """The closed form: right, and right farther than eps from the border."""
    natural = (data.images[:, 0] > 0.5).long() == data.labels
    return natural, natural & ((data.images[:, 0] - 0.5).abs() > EPS)


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """The report on the threshold model, and its folder with a table beside."""
    folder = tmp_path_factory.mktemp("examined")
    plan = Plan(Threat(EPS), ATTACKS, seed=3, table=folder / "table.parquet")
    return examine(threshold_model(), points(), plan, folder / "report"), folder


def test_accuracies_are_the_closed_form(examined: tuple[dict[str, Any], Path]) -> None:
    report, _ = examined
    natural, robust = (float(mask.double().mean()) for mask in natural_and_robust(points()))
    assert report["accuracy"] == pytest.approx(
        {"natural": natural} | dict.fromkeys([*ATTACKS, "worst-case"], robust), abs=1e-12
    )
    assert 0.1 < robust < natural - 0.1 < 1
    assert (report["eps"], report["norm"], report["examples"], report["seed"]) == (EPS, "linf", len(points()), 3)


def test_intervals_are_scipys(examined: tuple[dict[str, Any], Path]) -> None:
    report, _ = examined
    natural, robust = natural_and_robust(points())
    for name, mask in {"natural": natural, "pgd20": robust, "worst-case": robust}.items():
        expected = binomtest(int(mask.sum()), len(mask)).proportion_ci(method="wilson")
        assert report["intervals"][name] == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert report["intervals"].keys() == report["accuracy"].keys()


def test_classes_and_the_worst_of_them_are_counted_by_hand(examined: tuple[dict[str, Any], Path]) -> None:
    report, _ = examined
    natural, robust = (mask.tolist() for mask in natural_and_robust(points()))
    labels = points().labels.tolist()
    rows = []
    for number, name in enumerate(("low", "high")):
        members = [i for i, label in enumerate(labels) if label == number]
        shares = (sum(mask[i] for i in members) / len(members) for mask in (natural, robust))
        rows.append({"class": name, "examples": len(members)} | dict(zip(("natural", "robust"), shares, strict=True)))
    assert report["classes"] == [pytest.approx(row) for row in rows]
    assert report["worst_class"] == pytest.approx(min(rows, key=lambda row: row["robust"]))


def test_a_sound_model_raises_no_warning_and_has_no_parts_to_tell_of(examined: tuple[dict[str, Any], Path]) -> None:
    report, _ = examined
    assert (report["warnings"], report["after_part"], report["agreement"]) == ([], {}, None)
    assert report["device"] == "cpu"
    assert report["seconds"] >= 0


def test_the_folder_holds_the_report_and_the_samples(examined: tuple[dict[str, Any], Path]) -> None:
    report, folder = examined
    assert json.loads((folder / "report" / "report.json").read_text()) == json.loads(json.dumps(report))
    with (folder / "report" / "samples.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    data = points()
    natural, robust = natural_and_robust(data)
    assert [int(row["index"]) for row in rows] == list(range(len(data)))
    assert [row["label"] for row in rows] == [data.classes[label] for label in data.labels.tolist()]
    assert [row["predicted"] for row in rows] == ["high" if x > 0.5 else "low" for x in data.images[:, 0].tolist()]
    assert [row["natural"] == "1" for row in rows] == natural.tolist()
    for name in (*ATTACKS, "robust"):
        assert [row[name] == "1" for row in rows] == robust.tolist()
    pairs = zip(natural.tolist(), robust.tolist(), strict=True)
    expected = ["" if stands else "fgsm-plain" if right else "natural" for right, stands in pairs]
    assert [row["broken_by"] for row in rows] == expected


def test_a_parquet_table_says_the_same_as_the_csv(examined: tuple[dict[str, Any], Path]) -> None:
    _, folder = examined
    table = pyarrow.parquet.read_table(folder / "table.parquet").to_pylist()
    with (folder / "report" / "samples.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{name: str(value) for name, value in row.items()} for row in table] == rows


def test_a_csv_table_is_the_file_of_the_folder(tmp_path: Path) -> None:
    plan = Plan(Threat(EPS), attacks=("fgsm",), table=tmp_path / "table.csv")
    examine(threshold_model(), points(30), plan, tmp_path / "report")
    assert (tmp_path / "table.csv").read_bytes() == (tmp_path / "report" / "samples.csv").read_bytes()


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examine(threshold_model(), points(30), Plan(Threat(EPS), attacks=("fgsm",)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "changes",
    [{"threat": Threat(0.2)}, {"threat": Threat(EPS, "l2")}, {"seed": 1}, {"precision": "half"}],
)
def test_every_setting_has_its_own_folder_and_attacks_share_it(changes: dict[str, Any]) -> None:
    model, data, plan = threshold_model(), points(30), {"threat": Threat(EPS), "precision": "float32"}
    folder = report_folder(Path("a"), model, data, Plan(**plan))
    assert folder != report_folder(Path("a"), model, data, Plan(**(plan | changes)))
    assert folder == report_folder(Path("a"), model, data, Plan(**plan, attacks=("square",), batch_size=3))


def test_other_weights_or_images_have_another_folder() -> None:
    plan = Plan(Threat(EPS))
    other = threshold_model()
    with torch.no_grad():
        other.bias += 1e-6
    folders = {
        report_folder(Path("a"), model, data, plan)
        for model, data in ((threshold_model(), points(30)), (other, points(30)), (threshold_model(), points(40)))
    }
    assert len(folders) == 3
    assert report_folder(Path("a"), threshold_model(), points(30), plan) in folders


class Sharpened(nn.Module):
    """A model with something done to its input, which no weight and no layer tells."""

    def __init__(self, inner: nn.Module, levels: int) -> None:
        super().__init__()
        self.inner = inner
        self.levels = levels

    def forward(self, x: Tensor) -> Tensor:
        return self.inner((self.levels * x).round() / self.levels)


def test_other_code_with_the_same_weights_has_another_folder() -> None:
    folders = {
        report_folder(Path("a"), Sharpened(threshold_model(), levels), points(30), Plan(Threat(EPS)))
        for levels in (4, 5)
    }
    assert len(folders) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attacks": ("pgd20", "pdg20")}, "did you mean 'pgd20'"),
        ({"attacks": ("cw-l2",)}, "CW-L2"),
        ({"threat": Threat(0.1, low=-1.0), "attacks": ("autoattack",)}, "use pgd or apgd-ce"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"table": Path("a.xlsx")}, "as .csv or .parquet"),
        ({"table": Path("/nowhere/a.csv")}, "nowhere"),
    ],
)  # fmt: skip
def test_a_plan_of_nonsense_is_refused_before_anything_is_done(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Plan(**({"threat": Threat(EPS)} | changes))


def test_our_autoattack_and_the_reference_agree_on_nearly_every_image() -> None:
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(25, 4)).eval()
    with torch.no_grad():
        model[1].weight.copy_(torch.randn((4, 25), generator=generator))
        model[1].bias.zero_()
        images = torch.rand((16, 1, 5, 5), generator=generator)
        labels = model(images).argmax(1)
    data = Dataset(images, labels, ("a", "b", "c", "d"))
    attacks = ("autoattack", "autoattack-reference")
    report = examine(model, data, Plan(Threat(0.06), attacks, precision="float32"))
    assert report["agreement"] >= 15 / 16
    # On a linear model the radius of each image is known: the smallest lead over a class by the dual norm.
    weight, logits = model[1].weight.detach(), model(images).detach()
    lead = logits.gather(1, labels[:, None]) - logits
    radius = lead / (weight[labels][:, None] - weight[None]).abs().sum(2)
    radius[torch.arange(16), labels] = float("inf")
    robust = float((radius.amin(1) > 0.06).double().mean())
    assert report["accuracy"]["autoattack"] >= robust  # the border of [0, 1] may protect more
    assert report["accuracy"]["autoattack"] == pytest.approx(robust, abs=2 / 16)
    assert 0.2 < robust < 0.9


MASKED = """
import torch
from torch import nn
from orat.models.mlp import MLP

class Levels(nn.Module):
    def forward(self, x):
        return (8 * x).round() / 8

def masked():
    return nn.Sequential(Levels(), MLP(784, (32,), 10)).eval()

def honest():
    return nn.Sequential(nn.Identity(), MLP(784, (32,), 10)).eval()
"""


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script that hides a network behind rounding, and the network's weights."""
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "network.py").write_text(MASKED)
    train = load("sample").train
    x, y = as_input(train.images), train.labels
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model = MLP(784, (32,), 10)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for index in torch.arange(2000).split(50):
        optimizer.zero_grad()
        cross_entropy(model(x[index]), y[index]).backward()
        optimizer.step()
    save_file({f"1.{name}": value for name, value in model.state_dict().items()}, folder / "weights.safetensors")
    return folder


@pytest.fixture
def clean_modules() -> Iterator[None]:
    """Python's own state is put back after a script was imported."""
    path = [*sys.path]
    yield
    sys.path[:] = path
    for name in [name for name in sys.modules if name.startswith("orat_external_")]:
        del sys.modules[name]


@pytest.mark.usefixtures("clean_modules")
def test_a_model_that_rounds_its_input_fools_pgd_but_not_the_report(
    hidden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = {}
    for name, attacks in (("masked", "pgd20,square"), ("honest", "pgd20")):
        command = ["evaluate", "--model", f"{hidden}/network.py:{name}", "--weights", f"{hidden}/weights.safetensors"]
        command += ["--data", "sample", "--examples", "40", "--eps", "0.1", "--attacks", attacks, "--json"]
        assert main([*command, "--out", str(tmp_path / name)]) == 0
        reports[name] = json.loads(capsys.readouterr().out)
    masked, honest = reports["masked"]["accuracy"], reports["honest"]["accuracy"]
    assert masked["natural"] - masked["pgd20"] < 0.1
    assert honest["natural"] - honest["pgd20"] > 0.4
    (warning,) = reports["masked"]["warnings"]
    assert "PGD is blind on 100 %" in warning
    assert "are 0 though its logits change, as behind rounding" in warning
    assert reports["honest"]["warnings"] == []
    assert masked["square"] < masked["pgd20"] - 0.4
    assert masked["worst-case"] == masked["square"]
