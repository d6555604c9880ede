"""Whole commands on a GPU: every value lies where the network lies. `make test-gpu` runs all tests on a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from quick_runs import EVERY, NOISE, checkpoint, quick, train_until_stopped
from torch import nn

import orat
from orat.cli.main import main
from orat.core.console import SILENT
from orat.methods import AT
from orat.models.catalog import build, forward_operations
from orat.training import RunFolder

STEPS = 9  # of an epoch
gpu_only = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
as_torch_warns = pytest.mark.filterwarnings("default")


def test_operations_are_counted_on_the_device_of_the_network() -> None:
    model = build("small_cnn", (3, 32, 32), 10, seed=0)
    assert forward_operations(model.to("meta"), (3, 32, 32)) == forward_operations(
        build("small_cnn", (3, 32, 32), 10, seed=1), (3, 32, 32)
    )


@gpu_only
@as_torch_warns
@pytest.mark.parametrize("name", EVERY)
def test_gpu_run_of_each_method_stopped_in_the_middle_ends_with_finite_weights(
    name: str, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = quick(tiny, EVERY[name], **NOISE)
    train_until_stopped(run, tmp_path, STEPS + 4, monkeypatch, device="cuda")
    assert checkpoint(tmp_path)["stage"] == ("cross-fitting" if name == "orat automatic" else "training")
    orat.train(run, tmp_path, device="cuda", display=SILENT)
    assert len(RunFolder(tmp_path).history()) == run.epochs
    assert all(value.isfinite().all() for value in orat.load_model(tmp_path, device="cuda").state_dict().values())


@gpu_only
@as_torch_warns
@pytest.mark.parametrize("engine", ["auto", "plain", "recorded"])
@pytest.mark.parametrize("kind", ["Normal", "Viewed", "Functional", "free"])
def test_gpu_run_of_a_user_s_network_judges_labels_and_is_evaluated(
    kind: str, engine: str, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = quick(tiny, EVERY["orat automatic"], **NOISE | {"model": f"odd_networks:{kind}"})
    orat.train(run, tmp_path, device="cuda", display=SILENT, engine=engine)
    capsys.readouterr()
    attacks = ["pgd20", "autoattack"] if engine == "auto" else ["pgd20"]  # AutoAttack takes a minute
    words = ["--attacks", ",".join(attacks), "--examples", "40", "--trust", "--device", "cuda", "--json"]
    assert main(["evaluate", str(tmp_path), *words]) == 0
    accuracy = json.loads(capsys.readouterr().out)["accuracy"]
    found = [accuracy[name] for name in ("natural", *attacks)]
    assert 1 >= found[0] >= found[1] >= found[-1] >= 0
    issues = orat.find_label_issues(tmp_path, device="cuda", trust=True, display=SILENT)
    assert len(issues.verdict.labels) == 270


@gpu_only
@as_torch_warns
def test_gpu_labels_of_data_are_judged_by_patches_scouts_and_features(tiny: str, tmp_path: Path) -> None:
    features = nn.Sequential(nn.Flatten(), nn.Linear(144, 20))
    for number, more in enumerate(({}, {"features": features})):
        found = orat.find_label_issues(tiny, out=tmp_path / str(number), device="cuda", display=SILENT, **more)
        assert len(found.verdict.labels) == 300


@gpu_only
@as_torch_warns
def test_gpu_predictions_are_those_of_the_cpu(tiny: str, tmp_path: Path) -> None:
    orat.train(quick(tiny, AT()), tmp_path, device="cuda", display=SILENT)
    one, two = (orat.predict(tmp_path, tiny, device=device, display=SILENT).logits.cpu() for device in ("cuda", "cpu"))
    torch.testing.assert_close(one, two, rtol=0, atol=1e-3)
