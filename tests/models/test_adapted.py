"""What is changed in a user's network, and that nothing else is."""

from __future__ import annotations

import copy
from collections import OrderedDict

import odd_networks as odd
import pytest
import torch
from refusals import assert_refused_in_one_line
from torch import Tensor, nn

from orat.models.adapted import Adapted, adapt, logits_of, register_hidden, replace_dropout, undisturbed
from orat.models.external import build_network
from orat.models.folded import Folded
from orat.models.layers import Dropout, Normalize

SHAPE = (2, 12, 12)


class Box(nn.Module):
    """A network with one attribute."""

    def __init__(self, content: object) -> None:
        super().__init__()
        self.content = content


def test_modules_in_plain_containers_get_their_natural_names() -> None:
    inner = Box([nn.Linear(3, 3)])
    outer = Box({"a": nn.Linear(1, 1), "b": [inner, (nn.ReLU(), nn.Linear(2, 2))]})
    assert register_hidden(outer) == ["content", "content.b.0.content"]
    assert [name for name, _ in outer.named_parameters() if name.endswith("weight")] == [
        "content.a.weight", "content.b.0.content.0.weight", "content.b.1.1.weight",
    ]  # fmt: skip
    assert register_hidden(outer) == []


def test_modules_that_torch_sees_stay_in_their_plain_list() -> None:
    model = Box(None)
    model.layer = nn.Linear(1, 1)
    model.content = [model.layer]
    assert register_hidden(model) == []
    assert list(model.state_dict()) == ["layer.weight", "layer.bias"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([nn.ReLU(), torch.zeros(1)], "content[1] is a Tensor beside modules"),
        ([nn.ReLU(), None], "content[1] is a NoneType beside modules"),
        ({1: nn.ReLU()}, "registering content fails with TypeError"),
        ({"a.b": nn.ReLU()}, "registering content fails with KeyError"),
    ],
)
def test_containers_that_cannot_be_registered_are_refused(content: object, words: str) -> None:
    assert_refused_in_one_line(lambda: register_hidden(Box(content)), words)


class Derived(nn.Dropout):
    """A dropout with more to it."""


def test_only_torchs_own_dropout_is_replaced_and_a_shared_one_once() -> None:
    shared = nn.Dropout(0.2)
    model = nn.Sequential(
        shared, nn.Sequential(shared), Derived(0.2), nn.Dropout2d(0.2), nn.Dropout(0.0), nn.Dropout(1.0)
    )
    replace_dropout(model.eval())
    kinds = [type(module) for module in (model[0], model[1][0], *model[2:])]
    assert kinds == [Dropout, Dropout, Derived, nn.Dropout2d, nn.Dropout, nn.Dropout]
    assert model[0] is model[1][0]
    assert (model[0].p, model[0].training) == (0.2, False)


def test_an_adapter_has_the_names_of_its_network_wherever_it_is() -> None:
    net = odd.WithLogits(3, 2)
    adapter = build_network(net, SHAPE, 3)
    assert isinstance(adapter, Adapted)
    assert list(adapter.state_dict()) == list(net.state_dict())
    whole = nn.Sequential(Normalize([0.0, 0.0], [1.0, 1.0]), adapter)
    assert set(whole.state_dict()) == {"0.mean", "0.std", *(f"1.{name}" for name in net.state_dict())}
    twin = copy.deepcopy(whole)
    with torch.no_grad():
        net.head.weight += 1
    twin.load_state_dict(whole.state_dict())
    adapter.load_state_dict(net.state_dict())
    assert torch.equal(twin(torch.ones(2, *SHAPE)), whole(torch.ones(2, *SHAPE)))


@pytest.mark.parametrize(
    "output",
    [
        torch.ones(1), odd.Output(torch.ones(1), torch.zeros(1)), {"logits": torch.ones(1), "x": torch.zeros(1)},
        OrderedDict(scores=torch.ones(1), name="a"), (torch.ones(1), None),
    ],
)  # fmt: skip
def test_the_logits_are_found(output: object) -> None:
    assert torch.equal(logits_of(output), torch.ones(1))


@pytest.mark.parametrize("output", [None, {}, {"a": torch.ones(1), "b": torch.ones(1)}, "logits", [torch.ones(1)] * 2])
def test_an_output_without_one_tensor_is_refused(output: object) -> None:
    assert_refused_in_one_line(lambda: logits_of(output), f"returns a {type(output).__name__} with ")


@pytest.mark.parametrize("channels", [1, 3])
def test_a_network_that_needs_contiguous_images_gets_them(channels: int) -> None:
    net = odd.Viewed(3, channels)
    x = torch.rand(4, channels, 12, 12)
    expected = net.eval()(x)
    adapted = adapt(net, (channels, 12, 12), "it", lambda line: None).eval()
    torch.testing.assert_close(adapted(x.contiguous(memory_format=torch.channels_last)), expected)
    plain = adapt(odd.Normal(3, channels), (channels, 12, 12), "it", lambda line: None)
    assert isinstance(adapted, Adapted)
    assert isinstance(plain, odd.Normal)


def test_a_trial_leaves_modes_statistics_and_random_states_as_they_were() -> None:
    net = odd.Functional(3, 2)
    net.body.eval()
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    with undisturbed(net, training=True):
        net(torch.rand(4, *SHAPE))
        assert not torch.equal(net.body[1].running_mean, before["body.1.running_mean"])
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert (net.training, net.body.training, net.body[1].training) == (True, False, False)
    assert torch.equal(torch.get_rng_state(), state)


def test_parameters_are_filled_by_their_names() -> None:
    found = {}

    def make(shape: tuple[int, ...], in_channels: int, num_classes: int = 1000, width: int = 4) -> nn.Module:
        found.update(shape=shape, in_channels=in_channels, num_classes=num_classes, width=width)
        return odd.Normal(num_classes, in_channels)

    build_network(make, SHAPE, 7)
    assert found == {"shape": SHAPE, "in_channels": 2, "num_classes": 7, "width": 4}


# Folded.


def answers(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.clone().requires_grad_()
    logits = model(x)
    return logits.detach(), torch.autograd.grad(logits.square().sum(), x)[0]


def test_modules_at_several_places_are_folded_at_each() -> None:
    relu = nn.ReLU()
    chain = nn.Sequential(nn.Flatten(), nn.Linear(288, 16), relu, nn.Linear(16, 16), relu, nn.Linear(16, 3))
    tied = build_network(odd.Tied(3), SHAPE, 3).eval()
    for model in (chain, tied):
        x = torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(0))
        for got, wanted in zip(answers(Folded(model, torch.float32), x), answers(model, x), strict=True):
            torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("kind", ["Normal", "group_norm", "Attention"])
def test_a_network_without_normalization_folds_into_bfloat16(kind: str) -> None:
    model = build_network(f"odd_networks:{kind}", SHAPE, 3).eval()
    x = torch.rand(16, *SHAPE, generator=torch.Generator().manual_seed(0))
    half, whole = Folded(model, torch.bfloat16)(x), model(x)
    assert half.dtype == torch.float32
    assert (half - whole).abs().max() < 0.06 * whole.abs().max()
