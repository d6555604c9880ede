"""Compiled forms of a network say what it says, whatever the size of a batch, and are made once for all of a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from orat.attacks import APGD, FAB, PGD, AutoAttack, Square
from orat.attacks.base import frozen
from orat.core.losses import cross_entropy, gradient_at
from orat.data.catalog import load
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.evaluation.accuracy import correct
from orat.models import folded as compiled
from orat.models.catalog import build
from orat.models.folded import Folded, OneSize
from orat_paper.reproduce.trials import CompiledSearchers

SIZE = 8
gpu_only = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
as_torch_warns = pytest.mark.filterwarnings("default")


def network(seed: int = 0) -> nn.Module:
    """A convolution of one channel, whose folded form includes the pooling after it, and a linear layer."""
    return build("lenet", (1, 16, 16), 3, seed).eval()


def images(count: int) -> tuple[Tensor, Tensor]:
    """Random ones with random labels."""
    generator = torch.Generator().manual_seed(count)
    return torch.rand(count, 1, 16, 16, generator=generator), torch.randint(3, (count,), generator=generator)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches that were seen, instead of compiling for them."""
    seen = []

    def counting(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def called(x: Tensor) -> Tensor:
            seen.append(len(x))
            return function(x)

        return called

    monkeypatch.setattr(compiled, "quickened", counting)
    return seen


@pytest.mark.parametrize("count", [1, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE])
def test_batches_of_any_size_are_seen_in_one_and_answered_alike(count: int, sizes: list[int]) -> None:
    model, (x, y) = network(), images(count)
    one = OneSize(Folded(model, torch.float32, pools=True), SIZE)
    gradients = []
    for form in (model, one):
        with frozen(form):
            gradients.append(gradient_at(lambda adv, form=form: cross_entropy(form(adv), y), x))
    assert torch.allclose(*gradients, atol=1e-6)
    assert gradients[0].abs().max() > 1e-4
    with torch.no_grad():
        assert torch.allclose(one(x), model(x), atol=1e-5)
    assert sizes == 2 * -(-count // SIZE) * [SIZE]


def test_every_attack_searches_in_the_precision_that_it_needs_and_copies_are_made_once(sizes: list[int]) -> None:
    searchers = CompiledSearchers(network(), SIZE)
    found = {type(attack): searchers(attack) for attack in (APGD(), APGD(steps=2), FAB(), Square(), PGD())}
    types = {kind: dict(one.named_buffers())["folded.network.1.0.weight"].dtype for kind, one in found.items()}
    assert types == {APGD: torch.bfloat16, FAB: torch.float32, Square: torch.float16, PGD: torch.float32}
    assert found[FAB] is found[PGD]
    x, _ = images(3)
    assert found[APGD](x).dtype == torch.float32


@as_torch_warns
def test_networks_of_one_kind_share_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = []

    def backend(graph: Any, _: Any) -> Any:  # traced as it would be compiled, but executed as it is
        graphs.append(graph)
        return graph

    monkeypatch.setattr(compiled, "quickened", lambda function: torch.compile(function, dynamic=False, backend=backend))
    torch.compiler.reset()
    for seed in range(3):
        model = network(seed)
        one = OneSize(Folded(model, torch.float32, pools=True), SIZE)
        for count in (5, 3):
            x, _ = images(count)
            with torch.no_grad():
                assert torch.allclose(one(x), model(x), atol=1e-5)
    assert len(graphs) == 1


def learned(model: nn.Module, data: Dataset, steps: int) -> nn.Module:
    """The model after so many steps on batches of a hundred."""
    device = next(model.parameters()).device
    x, y = as_input(data.images).to(device), data.labels.to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(steps):
        index = torch.arange(100 * step, 100 * step + 100) % len(x)
        optimizer.zero_grad()
        cross_entropy(model(x[index]), y[index]).mean().backward()
        optimizer.step()
    return model


@pytest.mark.usefixtures("sizes")
def test_attacks_on_folded_copies_break_what_they_break_on_the_network(tiny: str) -> None:
    splits = load(tiny)
    assert splits.test is not None
    model, eps = learned(build("mlp-16", (1, 12, 12), 3, seed=0), splits.train, 60), 0.15
    targeted = APGD("dlr-targeted", steps=20)
    attacks = {"apgd": targeted, "fab": FAB(steps=20), "square": Square(queries=200)}
    plain = correct(model, splits.test, attacks, eps, precision="float32")
    found = correct(model, splits.test, attacks, eps, searchers=CompiledSearchers(model, 100))
    for name in attacks:
        assert 0.1 < plain[name].double().mean() < 0.9
        assert int((plain[name] != found[name]).sum()) <= 1


@gpu_only
@as_torch_warns
def test_gpu_autoattack_on_compiled_copies_breaks_what_it_breaks_on_the_network() -> None:
    splits = load("sample")
    assert splits.test is not None
    model = learned(build("lenet", (1, 28, 28), 10, seed=0).to("cuda"), splits.train, 60)
    data, attacks = splits.test.first(300).to(torch.device("cuda")), {"autoattack": AutoAttack()}
    plain = correct(model, data, attacks, 0.1, precision="float32")["autoattack"]
    found = correct(model, data, attacks, 0.1, searchers=CompiledSearchers(model, 512))["autoattack"]
    assert 0.2 < plain.double().mean() < 0.8
    assert int((plain != found).sum()) <= 2
