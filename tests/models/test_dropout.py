"""Dropout that owns its randomness: what it drops, on what that depends, and that a checkpoint holds it."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from quick_runs import assert_same, checkpoint, position, quick, train_until_stopped
from torch import Tensor, nn

import orat
from orat.core.console import SILENT
from orat.models.catalog import build
from orat.models.layers import Dropout, dropouts, seed_dropout
from orat.training.run_folder import RunFolder

N = 1 << 18
SIGMAS = 5  # that a share of so many coins may be off by chance


def layers(p: float, seed: int = 0, count: int = 1) -> list[Dropout]:
    """The dropouts of one network in training mode."""
    model = nn.Sequential(*(Dropout(p) for _ in range(count))).train()
    seed_dropout(model, seed)
    return dropouts(model)


def kept(layer: Dropout, n: int = N) -> Tensor:
    """Which of n values the next call keeps."""
    return layer(torch.ones(n)) > 0


def assert_independent(one: Tensor, two: Tensor, p: float) -> None:
    """What one says is kept is kept by the other as often as anything else."""
    both, expected = (one & two).float().mean().item(), (1 - p) ** 2
    assert abs(both - expected) < SIGMAS * (expected * (1 - expected) / len(one)) ** 0.5


@pytest.mark.parametrize("p", [0.0, 0.2, 0.5, 0.9])
def test_a_share_p_becomes_zero_and_the_rest_grows_so_that_the_mean_stays(p: float) -> None:
    values = layers(p)[0](torch.full((N,), 3.0, dtype=torch.float64))
    assert set(values.unique().tolist()) <= {0.0, 3 / (1 - p)}
    deviation = 3 * (p / (1 - p)) ** 0.5  # of one value
    assert abs(values.mean().item() - 3) <= SIGMAS * deviation / N**0.5
    assert values.std().item() == pytest.approx(deviation, rel=0.03)


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_calls_layers_seeds_and_places_are_independent(p: float) -> None:
    here, there = layers(p, seed=3, count=2)
    other = layers(p, seed=4)[0]
    masks = [kept(here), kept(here), kept(here), kept(there), kept(there), kept(other), kept(other)]
    for one, two in combinations(masks, 2):
        assert_independent(one, two, p)
    for shift in (1, 2, 7, 64, 1024):  # neighbors in a row, in a column, and from one call to the next
        assert_independent(masks[0][shift:], masks[0][:-shift], p)
        assert_independent(masks[0][shift:], masks[1][:-shift], p)


def test_every_place_is_dropped_in_half_of_the_calls() -> None:
    (layer,) = layers(0.5)
    shares = torch.stack([kept(layer, 500) for _ in range(400)]).float().mean(0)
    assert shares.min() > 0.5 - SIGMAS * 0.025
    assert shares.max() < 0.5 + SIGMAS * 0.025
    assert shares.std().item() == pytest.approx(0.025, rel=0.2)  # as of coins, not more even


def test_the_same_seed_drops_the_same_and_another_seed_another() -> None:
    first, again, other = (layers(0.5, seed)[0] for seed in (7, 7, 8))
    masks = [[kept(layer) for _ in range(3)] for layer in (first, again, other)]
    assert all(torch.equal(*pair) for pair in zip(masks[0], masks[1], strict=True))
    assert not any(torch.equal(*pair) for pair in zip(masks[0], masks[2], strict=True))


@pytest.mark.parametrize("seed", [2**23, 20_240_101, 2**31, 2**32 + 5, 2**63])
def test_any_seed_that_torch_takes_will_do(seed: int) -> None:
    assert 0.45 < kept(layers(0.5, seed)[0], 10_000).float().mean() < 0.55


def test_what_is_dropped_depends_neither_on_the_type_nor_on_the_layout_in_memory() -> None:
    x = torch.rand(3, 4, 5, 6) + 0.1
    forms = (x, x.double(), x.bfloat16(), x.contiguous(memory_format=torch.channels_last))
    results = [layers(0.5)[0](form) for form in forms]
    assert all(torch.equal(result > 0, results[0] > 0) for result in results)
    assert [result.dtype for result in results] == [form.dtype for form in forms]


def test_in_evaluation_mode_it_does_nothing_and_counts_nothing() -> None:
    (layer,) = layers(0.5)
    expected = [kept(layer), kept(layer)]
    (layer,) = layers(0.5)
    x = torch.rand(20)
    masks = [kept(layer)]
    assert layer.eval()(x) is x
    masks += [kept(layer.train())]
    assert all(torch.equal(*pair) for pair in zip(masks, expected, strict=True))


def test_its_gradient_is_what_it_multiplied_with() -> None:
    x = torch.rand(1000, dtype=torch.float64, requires_grad=True)
    out = layers(0.2)[0](x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(gradient, (out / x).detach())
    assert set(gradient.tolist()) == {0.0, 1.25}


def test_it_neither_reads_nor_moves_the_global_generator() -> None:
    masks = []
    for seed in (0, 1):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            masks.append(kept(layers(0.5)[0]))
            assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(*masks)


def test_the_weights_of_a_network_hold_nothing_of_it() -> None:
    model = build("lenet", (1, 16, 16), 2, 0).train()
    model(torch.rand(2, 1, 16, 16))
    assert model[1][-2].asked > 0
    learned = {name for name, _ in model.named_parameters()}
    assert model.state_dict().keys() == learned | {"0.mean", "0.std"}


@pytest.fixture(scope="module")
def larger(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A few of the tiny images with a border: 16x16, the least that LeNet takes."""
    with np.load(tiny) as full:
        some = {name: full[name][: 90 if "train" in name else 9] for name in full}
    bordered = {name: np.pad(some[name], ((0, 0), (2, 2), (2, 2))) for name in ("x_train", "x_test")}
    file = tmp_path_factory.mktemp("data") / "larger.npz"
    np.savez(file, **some | bordered)
    return str(file)


def test_a_lenet_stopped_in_the_middle_of_an_epoch_goes_on_dropping_where_it_was(
    larger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = quick(
        larger, orat.methods.AT(), model="lenet", epochs=2, validation=0.0, attack_steps=1, batch_size=20, seed=5
    )
    before = torch.get_rng_state()
    orat.train(run, tmp_path / "whole", display=SILENT)
    assert torch.equal(before, torch.get_rng_state())
    train_until_stopped(run, tmp_path / "broken", 8, monkeypatch)
    assert position(tmp_path / "broken") == ("training", 2, 3)
    (asked,) = checkpoint(tmp_path / "broken")["learner"]["dropout"]
    assert int(asked) == (5 << 40) + 8  # once a step: the attack does not drop
    torch.rand(3)
    orat.train(run, tmp_path / "broken", display=SILENT)
    assert_same(tmp_path / "whole", tmp_path / "broken")
    assert not any("asked" in name for name in RunFolder(tmp_path / "whole").load_tensors("model"))
