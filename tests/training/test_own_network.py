"""A user's network: trained as by torch's own loop, resumed to the bit, loaded, and refused in one line."""

from __future__ import annotations

import copy
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import odd_networks as odd
import pytest
import torch
from foreign_networks import ResNet
from quick_runs import Heard, assert_same, position, quick, train_until_stopped
from refusals import assert_refused_in_one_line, wrong
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.functional import cross_entropy

import orat
from orat.cli.main import main
from orat.core.console import SILENT
from orat.data.loader import as_input, divided, shuffled
from orat.methods import AT, ORAT, ST
from orat.training.cross_fit import cross_fit
from orat.training.plan import cheaper
from orat.training.run import Run
from orat.training.setup import build_model, prepare

KINDS = (
    "Normal", "group_norm", "Viewed", "Dropped", "Functional", "Depth", "Attention", "Encoder", "Tied", "Listed",
    "WithLogits", "InDict", "AuxiliaryInTraining", "Captured", "free",
)  # fmt: skip
DRAW = ("Functional", "Depth", "Attention", "Encoder")  # from global generators
UNFOLDED = {"Viewed": "RuntimeError: view size is not compatible", "Captured": "other logits or gradients"}
STEPS = 5  # in an epoch


@pytest.fixture(scope="module")
def small(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The first 150 images of the tiny data, without a test part."""
    arrays = np.load(tiny)
    file = tmp_path_factory.mktemp("data") / "small.npz"
    np.savez(file, x_train=arrays["x_train"][:150], y_train=arrays["y_train"][:150])
    return str(file)


def own(data: str, model: Any, **changes: Any) -> Run:
    """A run of two epochs with a user's network."""
    few = {"epochs": 2, "milestones": (), "attack_steps": 2, "method": AT()}
    return quick(data, **{**few, "model": model, **changes})


def disturb(seed: int) -> None:
    """Puts the global generators into another state, as other code of a process does."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


# To the bit.


@pytest.mark.parametrize("kind", KINDS)
def test_any_network_stopped_within_an_epoch_ends_as_if_never_stopped(
    kind: str, small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, heard = own(small, f"odd_networks:{kind}"), Heard()
    disturb(1)
    orat.train(run, tmp_path / "whole", display=heard)
    disturb(2)
    train_until_stopped(run, tmp_path / "broken", STEPS + 2, monkeypatch)
    assert position(tmp_path / "broken") == ("training", 2, 2)
    disturb(3)
    orat.train(run, tmp_path / "broken", display=SILENT)
    assert_same(tmp_path / "whole", tmp_path / "broken")
    assert any("draws random numbers" in line for line in heard.lines) == (kind in DRAW)
    assert any("which takes longer" in line for line in heard.lines) == (kind in UNFOLDED)
    assert all(words in "".join(heard.lines) for name, words in UNFOLDED.items() if name == kind)
    assert any("registered blocks, ends" in line for line in heard.lines) == (kind == "Listed")


@pytest.mark.parametrize("kind", ["Functional", "Depth", "Dropped"])
def test_a_training_leaves_the_global_generators_alone(kind: str, small: str, tmp_path: Path) -> None:
    disturb(5)
    expected = torch.rand(3), np.random.rand()  # beartype, in the tests, draws from Python's
    disturb(5)
    orat.train(own(small, f"odd_networks:{kind}", epochs=1), tmp_path, display=SILENT)
    assert torch.equal(torch.rand(3), expected[0])
    assert np.random.rand() == expected[1]


def test_what_a_network_draws_differs_by_seed_and_epoch(small: str, tmp_path: Path) -> None:
    """With a rate of 0, only the draws change the loss."""
    for seed in (0, 1):
        run = own(small, "odd_networks:Functional", lr=0.0, eps=0.0, seed=seed, init_from=None, batch_size=135)
        orat.train(run, tmp_path / str(seed), display=SILENT)
    losses = [one["loss"] for seed in (0, 1) for one in orat.training.RunFolder(tmp_path / str(seed)).history()]
    assert len(set(losses)) == 4


def test_a_killed_command_resumes_to_the_bit(small: str, tmp_path: Path) -> None:
    file = Path(odd.__file__)
    words = [
        "train",
        "--data",
        small,
        "--method",
        "at",
        "--model",
        f"{file}:Functional",
        "--epochs",
        "2",
        "--eps",
        "0.1",
    ]
    words += ["--batch-size", "32", "--attack-steps", "2", "--augment", "none", "--quiet", "--out"]
    script = (
        "import os, signal, sys, pytest\nfrom quick_runs import save_after_every_step\n"
        "from orat.training.train import Session\nfrom orat.cli.main import main\n"
        "save_after_every_step(pytest.MonkeyPatch())\nsave, left = Session.save, iter(range(5))\n"
        "def kill(*arguments):\n    save(*arguments)\n"
        "    if next(left, None) is None: os.kill(os.getpid(), signal.SIGKILL)\n"
        "Session.save = kill\nmain(sys.argv[1:])"
    )
    killed = subprocess.run([sys.executable, "-c", script, *words, str(tmp_path / "killed")], env=environment())
    assert killed.returncode == -signal.SIGKILL
    assert position(tmp_path / "killed") == ("training", 2, 2)
    for name in ("killed", "whole"):
        assert main([*words, str(tmp_path / name)]) == 0
    assert_same(tmp_path / "whole", tmp_path / "killed")


def environment() -> dict[str, str]:
    """The environment of a process that imports what this one can."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}


# As torch's own loop.


def test_a_network_in_memory_learns_in_place_as_by_a_loop_of_torch(small: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = ResNet(num_classes=3, in_channels=1)
    twin = copy.deepcopy(net)
    run = own(small, None, method=ST(), validation=0.0, warmup=0.0, weight_decay=1e-3, lr=0.02)
    orat.train(run, tmp_path, display=SILENT, engine="plain", model=net)
    train = prepare(run).train
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    for epoch in (1, 2):
        for ids in divided(shuffled(len(train), 0, epoch), 32):
            optimizer.zero_grad()
            cross_entropy(twin.train()(as_input(train.images[ids])), train.labels[ids]).backward()
            optimizer.step()
    for (name, mine), other in zip(net.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5, msg=name)
    assert not net.training


# Weights.


@pytest.mark.parametrize("kind", ["WithLogits", "Tied", "Viewed", "Dropped", "AuxiliaryInTraining"])
def test_saved_weights_have_the_names_of_the_users_network(kind: str, small: str, tmp_path: Path) -> None:
    orat.train(own(small, f"odd_networks:{kind}"), tmp_path, display=SILENT)
    facts = {"Tied": (3,)}.get(kind, (3, 1))
    net, x = getattr(odd, kind)(*facts).eval(), torch.rand(4, 1, 12, 12)
    net(x)
    net.load_state_dict(load_file(tmp_path / "model.safetensors"))
    net.load_state_dict(load_file(tmp_path / "chosen.safetensors"))
    logits = getattr(net(x), "logits", net(x))
    loaded = orat.load_model(tmp_path, "chosen", trust=True)
    torch.testing.assert_close(loaded(x), logits)
    if kind == "Tied":
        assert net.other.weight is net.block[0].weight


def test_weights_of_a_function_depend_on_the_seed_alone(small: str) -> None:
    run = own(small, "odd_networks:Normal", seed=3)
    train = prepare(run).train
    disturb(1)
    one = build_model(run, train).state_dict()
    disturb(2)
    two = build_model(run, train).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    torch.manual_seed(3)
    assert torch.equal(odd.Normal(3, 1).state_dict()["head.weight"], one["head.weight"])


@pytest.mark.parametrize("kind", ["Normal", "WithLogits"])
def test_normalize_stands_before_the_network_and_is_saved_with_it(kind: str, small: str, tmp_path: Path) -> None:
    run = own(small, f"odd_networks:{kind}", normalize=True)
    orat.train(run, tmp_path / "a", display=SILENT)
    tensors, images = load_file(tmp_path / "a" / "model.safetensors"), prepare(run).train.images / 255
    assert tensors["0.mean"].item() == pytest.approx(images.mean().item(), abs=1e-5)
    assert {"1.head.weight", "1.body.0.weight"} <= tensors.keys()
    loaded = orat.load_model(tmp_path / "a", trust=True)
    assert torch.equal(loaded.state_dict()["0.std"], tensors["0.std"])
    again = {"init_from": str(tmp_path / "a"), "lr": 0.0, "epochs": 1}
    orat.train(own(small, f"odd_networks:{kind}", normalize=True, **again), tmp_path / "b", display=SILENT)
    tuned = load_file(tmp_path / "b" / "model.safetensors")
    assert torch.equal(tuned["1.head.weight"], tensors["1.head.weight"])
    assert_refused_in_one_line(
        lambda: orat.train(own(small, f"odd_networks:{kind}", **again), tmp_path / "c", display=SILENT),
        "behind a normalization: add --normalize",
    )


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod."])
@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
@pytest.mark.parametrize("make", [odd.Normal, odd.LastConvolution])
def test_pretrained_weights_of_another_number_of_classes_keep_the_networks_last_layer(
    make: Any, ending: str, prefix: str, small: str, tmp_path: Path
) -> None:
    there = {prefix + name: value for name, value in make(10, 1).state_dict().items()}
    file = tmp_path / f"weights{ending}"
    if ending == ".pth":
        torch.save({"state_dict": there}, file)
    else:
        save_file(there, file)
    run, heard = own(small, make, init_from=str(file), lr=0.0, epochs=1), Heard()
    orat.train(run, tmp_path / "a", display=heard)
    here, fresh = load_file(tmp_path / "a" / "model.safetensors"), build_model(run, prepare(run).train).state_dict()
    head = next(name for name in here if name.startswith("head") and name.endswith("weight"))
    assert torch.equal(here[head], fresh[head])
    assert torch.equal(here["body.0.weight"], there[prefix + "body.0.weight"])
    assert any("the last layer (10 classes there, 3 here) starts afresh" in line for line in heard.lines)


# Networks in memory.


def test_a_network_in_memory_is_handed_in_again_to_be_loaded(small: str, tmp_path: Path) -> None:
    net = odd.WithLogits(3, 1)
    run = own(small, net, epochs=3, validation=0.3)
    orat.train(run, tmp_path, display=SILENT)
    last = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(value, last[name]) for name, value in net.state_dict().items())
    assert '"model": "in memory: WithLogits"' in (tmp_path / "run.json").read_text()
    assert_refused_in_one_line(lambda: orat.load_model(tmp_path), "a network in memory: WithLogits: hand it in")
    assert_refused_in_one_line(
        lambda: orat.load_model(tmp_path, model=odd.Attention(3, (1, 12, 12))), "do not fit in memory: Attention: size"
    )
    other = odd.WithLogits(3, 1)
    orat.load_model(tmp_path, model=other)
    orat.train(own(small, (fresh := odd.WithLogits(3, 1)), epochs=3, validation=0.3), tmp_path, display=SILENT)
    for one in (other, fresh):
        assert all(torch.equal(value, last[name]) for name, value in one.state_dict().items())


def test_a_loaded_network_has_the_accuracies_of_the_result(tiny: str, tmp_path: Path) -> None:
    result = orat.train(own(tiny, "odd_networks:Attention"), tmp_path, display=SILENT)
    model = orat.load_model(tmp_path, model="odd_networks:Attention")
    found = orat.evaluate(model, orat.load_data(tiny).test, ["fgsm", "pgd20"], 0.1)
    assert found == {name: result["last"][name] for name in ("natural", "fgsm", "pgd20")}


def test_another_network_does_not_go_on_from_a_checkpoint(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_until_stopped(own(small, odd.Normal(3, 1)), tmp_path, 3, monkeypatch)
    other = odd.Normal(3, 1)
    other.head = nn.Sequential(nn.Linear(54, 3))  # type: ignore[assignment]
    assert_refused_in_one_line(
        lambda: orat.train(own(small, other), tmp_path, display=SILENT), "is not that of the checkpoint: missing"
    )


# Trust.


def test_a_record_never_runs_code(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train_until_stopped(own(small, "odd_networks:Normal"), tmp_path / "a", 3, monkeypatch)
    without = own(small, None, epochs=2)
    line = "model odd_networks:Normal is code that a file names: give model='odd_networks:Normal', or trust=True"
    again = "trains the model odd_networks:Normal: give the same command or call again"
    assert_refused_in_one_line(lambda: orat.train(without, tmp_path / "a", display=SILENT), again)
    orat.train(own(small, "odd_networks:Normal"), tmp_path / "a", display=SILENT)
    assert_refused_in_one_line(lambda: orat.load_model(tmp_path / "a"), line)
    out = ("--out", str(tmp_path / "new.csv"))
    flags = "give --model odd_networks:Normal in this command, or --trust"
    assert flags in wrong(capsys, "predict", str(tmp_path / "a"), small, *out)
    for given in ({"trust": True}, {"model": "odd_networks:Normal"}, {"model": odd.Normal}):
        assert not orat.load_model(tmp_path / "a", **given).training


def test_cross_fitting_of_a_recorded_run_builds_no_network_of_the_user(small: str) -> None:
    run = own(small, "not_there.nets:make", method=ORAT())
    assert cross_fit(run, prepare(run), folds=3, epochs=1).shape == (2, 135, 3)


# Scout networks, several runs.


@pytest.mark.parametrize(("side", "expected"), [(9, "quick_cnn"), (8, "mlp-64")])
def test_scouts_are_never_the_users_network(side: int, expected: str) -> None:
    images = torch.zeros(4, 1, side, side)
    train = orat.data.Dataset(images, torch.arange(4) % 2, ("a", "b"))
    for model in ("nets:make", odd.Normal, odd.Normal(2, 1)):
        assert cheaper(Run(data="mine.npz", method=ORAT(), model=model, eps=0.1), train) == expected


def test_automatic_orat_trains_a_users_network(small: str, tmp_path: Path) -> None:
    run = own(small, "odd_networks:Dropped", method=ORAT(scout_epochs=2))
    result = orat.train(run, tmp_path, display=SILENT)
    assert result["outliers"] is not None


def test_networks_can_be_varied_and_searched(small: str, tmp_path: Path) -> None:
    words = ["--data", small, "--method", "at", "--epochs", "1", "--eps", "0.1", "--attack-steps", "1"]
    words += ["--augment", "none", "--validation", "0.2", "--quiet", "--out"]
    names = ["odd_networks:Normal", "odd_networks:Tied"]
    assert main(["train", *words, str(tmp_path / "a"), "--vary", f"model={','.join(names)}"]) == 0
    assert len(list((tmp_path / "a").glob("*/result.json"))) == 2
    rows = orat.search(
        own(small, names[0], epochs=1, validation=0.2), {"model": [*names, "odd_networks:OfColor"]}, tmp_path / "b",
        display=SILENT,
    )  # fmt: skip
    assert {row["setting"]["model"] for row in rows if row["validation"]} == set(names)
    assert "OfColor on inputs of shape (2, 1, 12, 12) fails" in rows[-1]["error"]
    assert_refused_in_one_line(
        lambda: orat.search(own(small, odd.Normal(3, 1)), {"lr": [0.1]}, tmp_path / "c", display=SILENT),
        "a search builds its networks anew, not in memory: Normal: give a function that returns one as model",
    )
    run = own(small, None, epochs=1)
    (row,) = orat.search(run, {"lr": [0.1]}, tmp_path / "d", model=odd.Normal, display=SILENT)
    assert row["error"] is None
    assert row["validation"]


# Refusals.

REFUSED = {
    "with_outputs": "the network gives (2, 5) for 2 samples of 3 classes: let it give (2, 3)",
    "Softmax": "the network gives probabilities",
    "NotFinite": "NaN or infinite logits",
    "Labels": "torch.int64 for inputs of shape (2, 1, 12, 12): give floating-point",
    "Detached": "no gradient of the network reaches its inputs",
    "WithoutGradient": "no gradient of the network reaches its inputs",
    "Unregistered": "uses weights of shape (54,) that it does not register",
    "Counts": "the network changes calls whenever it is called, which no checkpoint has: make it a buffer",
    "CountsInTraining": "the network changes rate whenever it is called",
    "Mixed": "pairs[0][0] is a str beside modules in a plain container",
    "TwoTensors": "returns a tuple with 2 tensors",
    "Fixed": "no parameter that learns",
    "OfColor": "odd_networks:OfColor on inputs of shape (2, 1, 12, 12) fails with RuntimeError: Given groups=1",
    "asks": "odd_networks:asks needs depth: give a default to each parameter other than classes, shape, channels",
    "Nromal": "unknown name in odd_networks: 'Nromal': did you mean 'Normal'?",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_network_that_cannot_be_trained_is_refused_before_anything_is_written(
    kind: str, small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data", small, "--method", "at", "--eps", "0.1", "--augment", "none", "--out", str(tmp_path / "run")]
    assert REFUSED[kind] in wrong(capsys, "train", "--model", f"odd_networks:{kind}", *words)
    assert not (tmp_path / "run").exists()


def test_a_training_without_gradients_is_refused_before_anything_is_written(small: str, tmp_path: Path) -> None:
    run = own(small, "mlp-4")
    for mode, name in ((torch.no_grad, "no_grad"), (torch.inference_mode, "inference_mode")):
        with mode():
            words = f"torch.{name}() hides gradients from the training: call it outside of torch.{name}()"
            assert_refused_in_one_line(lambda: orat.train(run, tmp_path / "run", display=SILENT), words)
    assert not (tmp_path / "run").exists()


def test_a_cache_in_forward_is_no_memory(small: str, tmp_path: Path) -> None:
    orat.train(own(small, "odd_networks:Caches"), tmp_path / "run", display=SILENT)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("mypkg.nets", "'mypkg.nets' names no function"),
        ("nets.py", "names no function"),
        (5, "is a int, not a function"),
    ],
)
def test_a_model_that_is_none_is_refused(model: Any, words: str, small: str, tmp_path: Path) -> None:
    assert_refused_in_one_line(lambda: orat.train(own(small, model), tmp_path / "run", display=SILENT), words)
    assert not (tmp_path / "run").exists()
