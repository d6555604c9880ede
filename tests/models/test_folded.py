"""The folded network against the network itself, and its layers against those of torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from orat.models.catalog import build
from orat.models.folded import Convolution, Folded
from orat.models.folded_patches import Gather, Patches
from orat.models.layers import Dropout

NETWORKS: list[tuple[str, tuple[int, ...], int]] = [
    ("lenet", (1, 17, 20), 10),
    ("lenet", (3, 16, 19), 2),
    ("small_cnn", (3, 9, 13), 10),
    ("small_cnn", (1, 8, 11), 100),
    ("quick_cnn", (3, 9, 13), 4),
    ("demo_cnn", (1, 11, 6), 2),
    ("demo_cnn", (3, 5, 7), 100),
    ("resnet18", (3, 8, 9), 100),
    ("resnet18", (1, 9, 8), 2),
    ("wrn-10-1", (3, 9, 11), 10),
    ("wrn-10-1", (1, 8, 10), 100),
    ("mlp-16", (3, 5, 7), 10),
    ("mlp-16", (2,), 3),
]
Kind = tuple[str, tuple[int, ...], int]


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Numbers in [0, 1], images laid out as those of a training."""
    values = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return values.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else values


def unsettle(model: nn.Module, seed: int = 0) -> None:
    """Other weights, and statistics of a few batches, so that no normalization is the identity."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            size = 0.3 * (parameter.std() if parameter.dim() > 1 else 1)
            parameter += size * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


def network(kind: Kind, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A network with a normalization inside that has been trained for some steps, still in training mode."""
    name, shape, classes = kind
    mean, std = ([0.3, 0.5, 0.6][: shape[0]], [0.2, 0.3, 0.25][: shape[0]])
    model = build(name, shape, classes, 0, mean, std).to(dtype).train()
    unsettle(model)
    for step in range(3):
        model(drawn(12, *shape, seed=step, dtype=dtype))
    return model


def answers(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """The logits, and the gradient of an objective by the input that weighs every logit differently."""
    x = x.clone().requires_grad_()
    logits = model(x)
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    (gradient,) = torch.autograd.grad((logits * weights.to(logits.dtype)).sum(), x)
    return logits.detach(), gradient


def assert_equal_answers(folded: nn.Module, model: nn.Module, x: Tensor) -> None:
    """Both give the same logits and gradients, up to rounding in float64."""
    training = model.training
    expected = answers(model.eval(), x)
    model.train(training)
    for got, wanted in zip(answers(folded, x), expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10 * float(wanted.abs().max()))


def tensors(module: nn.Module) -> dict[str, Tensor]:
    """All tensors of a module, those that are not saved too."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


# The whole network.


@pytest.mark.parametrize("kind", NETWORKS, ids=str)
def test_a_folded_network_gives_the_logits_and_gradients_of_the_network_in_evaluation_mode(kind: Kind) -> None:
    model = network(kind)
    assert_equal_answers(Folded(model, torch.float64), model, drawn(5, *kind[1], seed=9))


@pytest.mark.parametrize("kind", NETWORKS, ids=str)
def test_in_bfloat16_a_folded_network_gives_nearly_those(kind: Kind) -> None:
    """A bfloat16 has 8 bits: 0.4 % an operation, a few percent after all layers, and more where a ReLU changes sides.

    Measured over these networks: logits off by at most 3.1 % of their spread, gradients with a cosine of 0.979 or more.
    """
    model, x = network(kind, torch.float32), drawn(16, *kind[1], seed=9, dtype=torch.float32)
    logits, gradient = answers(Folded(model, torch.bfloat16), x)
    exact, slope = answers(model.eval(), x)
    assert logits.dtype == gradient.dtype == torch.float32
    assert (logits - exact).abs().max() < 0.06 * exact.std()
    assert functional.cosine_similarity(gradient.flatten(), slope.flatten(), 0) > 0.95


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", NETWORKS[::2], ids=str)
def test_a_folded_network_never_changes_the_network(kind: Kind, dtype: torch.dtype) -> None:
    model = network(kind, torch.float32)
    before = {name: value.detach().clone() for name, value in tensors(model).items()}
    modes = [module.training for module in model.modules()]
    folded = Folded(model, dtype)
    for _ in range(2):
        answers(folded, drawn(4, *kind[1], dtype=torch.float32))
        folded.refresh()
    assert before.keys() == tensors(model).keys()
    assert all(torch.equal(before[name], value) for name, value in tensors(model).items())
    assert [module.training for module in model.modules()] == modes
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("kind", NETWORKS, ids=str)
def test_a_folded_network_has_nothing_to_learn_nor_to_drop_and_shares_no_memory_with_the_network(kind: Kind) -> None:
    model = network(kind)
    folded = Folded(model, torch.float64)
    assert not any(value.requires_grad for value in tensors(folded).values())
    assert not any(module.training or isinstance(module, Dropout) for module in folded.modules())
    own = {value.untyped_storage().data_ptr() for value in tensors(folded).values()}
    assert not own & {value.untyped_storage().data_ptr() for value in tensors(model).values()}


def trained(model: nn.Module, x: Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(x).square().mean().backward()
    optimizer.step()


def seen(model: nn.Module, x: Tensor) -> None:
    """Statistics move, weights do not."""
    with torch.no_grad():
        model(x)


@pytest.mark.parametrize("learn", [trained, seen])
@pytest.mark.parametrize("kind", [kind for kind in NETWORKS if kind[0] in ("small_cnn", "wrn-10-1")], ids=str)
def test_refresh_follows_changed_weights_and_changed_statistics(
    kind: Kind, learn: Callable[[nn.Module, Tensor], None]
) -> None:
    model, x = network(kind), drawn(5, *kind[1], seed=9)
    folded = Folded(model, torch.float64)
    before = answers(folded, x)
    learn(model, drawn(12, *kind[1], seed=4))
    assert torch.equal(answers(folded, x)[0], before[0])
    folded.refresh()
    assert not torch.allclose(answers(folded, x)[0], before[0])
    assert_equal_answers(folded, model, x)


def test_refresh_writes_where_the_tensors_are() -> None:
    """So that a recorded step, which knows addresses, sees the new ones."""
    model = network(NETWORKS[2])
    folded = Folded(model, torch.float64)
    before = {name: value.data_ptr() for name, value in tensors(folded).items()}
    unsettle(model, seed=1)
    folded.refresh()
    assert {name: value.data_ptr() for name, value in tensors(folded).items()} == before


# Layers that the networks here do not have.


class Doubled(nn.Conv2d):
    """A convolution that computes something else."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Backwards(nn.Sequential):
    """A chain with a way of its own through its modules."""

    def forward(self, x: Tensor) -> Tensor:
        for module in reversed(self):
            x = module(x)
        return x


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "no bias": lambda: nn.Conv2d(3, 6, 3, bias=False),
    "padding by name": lambda: nn.Conv2d(3, 6, 3, padding="same"),
    "no padding by name": lambda: nn.Conv2d(3, 6, (3, 2), padding="valid"),
    "groups": lambda: nn.Conv2d(4, 6, 3, padding=1, groups=2),
    "stride": lambda: nn.Conv2d(3, 6, 3, stride=2, padding=1),
    "stride of one side": lambda: nn.Conv2d(3, 6, 3, stride=(1, 2)),
    "dilation": lambda: nn.Conv2d(3, 6, 3, padding=2, dilation=2),
    "uneven kernel and padding": lambda: nn.Conv2d(2, 5, (2, 5), padding=(1, 0)),
    "one pixel": lambda: nn.Conv2d(3, 7, 1),
    "many channels": lambda: nn.Conv2d(9, 3, 3, padding=1),
    "reflected borders": lambda: nn.Conv2d(3, 6, 3, padding=1, padding_mode="reflect"),
    "round borders": lambda: nn.Conv2d(3, 6, 3, padding=1, padding_mode="circular"),
}
NORMS: dict[str, Callable[[int], nn.Module]] = {
    "alone": lambda channels: nn.Identity(),
    "normalized": nn.BatchNorm2d,
    "normalized, not scaled": lambda channels: nn.BatchNorm2d(channels, affine=False),
    "normalized by the batch": lambda channels: nn.BatchNorm2d(channels, track_running_stats=False),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("layer", LAYERS)
def test_every_kind_of_convolution_is_folded_with_and_without_its_normalization(layer: str, norm: str) -> None:
    first = LAYERS[layer]()
    model = nn.Sequential(first, NORMS[norm](first.out_channels), nn.ReLU(), nn.Flatten()).double()
    model = model.to(memory_format=torch.channels_last)
    unsettle(model)
    for step in range(3):
        model(drawn(8, first.in_channels, 7, 6, seed=step))
    assert_equal_answers(Folded(model, torch.float64), model, drawn(4, first.in_channels, 7, 6, seed=9))


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 3), nn.Flatten()), (3, 5, 6)),
        (nn.Sequential(nn.Conv2d(2, 3, 3), nn.Dropout(0.5), nn.BatchNorm2d(3), nn.Flatten()), (2, 5, 6)),
        (nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3, bias=False)), (5,)),
        (nn.Linear(5, 3), (4, 5)),  # of each row
        (Backwards(nn.Tanh(), nn.Linear(5, 7)), (5,)),
        (nn.Sequential(Doubled(3, 3, 2), Doubled(3, 9, 2), nn.BatchNorm2d(9), nn.Flatten()), (3, 5, 6)),
    ],
    ids=["norm before", "dropout between", "no bias", "rows", "own way", "own convolution"],
)
def test_modules_in_any_order_are_folded(model: nn.Module, shape: tuple[int, ...]) -> None:
    model = model.double().train()
    unsettle(model)
    model(drawn(8, *shape))
    assert_equal_answers(Folded(model, torch.float64), model, drawn(4, *shape, seed=9))


# The parts.

SIZES = [(1, 1), (3, 3), (2, 5), (4, 1)]


@pytest.mark.parametrize("size", SIZES)
def test_gathered_patches_are_those_of_unfold(size: tuple[int, int]) -> None:
    x = drawn(2, 3, 6, 7)
    rows, columns = 7 - size[0], 8 - size[1]
    by_channel = functional.unfold(x, size).view(2, 3, size[0] * size[1], rows, columns)
    expected = by_channel.permute(0, 3, 4, 2, 1).flatten(3)  # ours have the channel last
    patches = Gather.apply(x, size, 1, 5)
    assert torch.equal(patches[..., :-5], expected)
    assert torch.equal(patches[..., -5:], torch.zeros(2, rows, columns, 5, dtype=torch.float64))


@pytest.mark.parametrize("size", SIZES)
def test_the_gradient_of_gathering_is_that_of_finite_differences(size: tuple[int, int]) -> None:
    x = drawn(2, 2, 4, 5).requires_grad_()
    torch.autograd.gradcheck(lambda x: Gather.apply(x, size, 1, 3), x)


@pytest.mark.parametrize("channels", [1, 2, 3, 7])
@pytest.mark.parametrize("padding", [0, 1, (2, 0)])
@pytest.mark.parametrize("size", SIZES)
def test_patches_times_a_matrix_are_conv2d_in_value_gradient_and_memory_format(
    size: tuple[int, int], padding: int | tuple[int, int], channels: int
) -> None:
    """Images of one channel and kernels of one pixel have no format of their own: there, conv2d may choose."""
    layer = nn.Conv2d(channels, 5, size, padding=padding).double().to(memory_format=torch.channels_last)
    patches = Patches(layer, torch.float64)
    patches.update(layer.weight.detach(), layer.bias.detach())
    x = drawn(3, channels, 6, 7)
    assert_equal_answers(patches, layer, x)
    assert patches(x).is_contiguous(memory_format=torch.channels_last)
    assert layer(x).is_contiguous(memory_format=torch.channels_last) or (channels == 1 and size == (1, 1))


@pytest.mark.parametrize("channels", [1, 3, 7, 8, 16])
def test_few_channels_become_patches_and_many_stay_a_convolution(channels: int) -> None:
    folded = Folded(nn.Conv2d(channels, 4, 3), torch.float32)
    assert isinstance(folded.network, Patches) == (channels < 8)


# Pooling inside a convolution of few channels, as on a GPU.

POOLINGS = [(3, 2, (0, 0), (8, 9)), (5, 2, (2, 2), (7, 6)), (4, 3, (0, 1), (9, 10)), (1, 2, (0, 0), (5, 4))]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("kernel", "side", "padding", "image"), POOLINGS)
def test_a_pooling_taken_in_gives_the_values_and_gradients_of_both(
    kernel: int, side: int, padding: tuple[int, int], image: tuple[int, int], channels: int
) -> None:
    """Pixels at the border that fall out of every square are there, too, and get no gradient."""
    layer = nn.Conv2d(channels, 5, kernel, padding=padding).double()
    patches = Patches(layer, torch.float64, side)
    patches.update(layer.weight.detach(), layer.bias.detach())
    assert_equal_answers(patches, nn.Sequential(layer, nn.MaxPool2d(side)), drawn(3, channels, *image))


def test_of_equal_values_in_a_square_the_first_has_the_gradient_as_torch_does_it() -> None:
    layer = nn.Conv2d(1, 2, 3, padding=1).double()
    patches = Patches(layer, torch.float64, 2)
    patches.update(layer.weight.detach(), layer.bias.detach())
    flat = torch.full((2, 1, 6, 6), 0.5, dtype=torch.float64)
    assert_equal_answers(patches, nn.Sequential(layer, nn.MaxPool2d(2)), flat)


@pytest.mark.parametrize(
    ("pooling", "taken_in"),
    [
        (nn.MaxPool2d(2), True),
        (nn.MaxPool2d(2, stride=1), False),
        (nn.MaxPool2d(2, padding=1), False),
        (nn.MaxPool2d(2, dilation=2), False),
        (nn.MaxPool2d(2, ceil_mode=True), False),
        (nn.MaxPool2d((2, 2)), False),
        (nn.MaxPool2d(3), False),  # not a divisor of what the kernel adds
        (nn.AvgPool2d(2), False),
    ],
    ids=str,
)
def test_only_a_plain_pooling_is_taken_in(pooling: nn.Module, taken_in: bool) -> None:
    model = nn.Sequential(nn.Conv2d(2, 16, 3), nn.BatchNorm2d(16), pooling, nn.ReLU(), nn.Flatten()).double()
    unsettle(model)
    model(drawn(8, 2, 9, 8))
    assert not any(getattr(module, "pool", 1) > 1 for module in Folded(model, torch.float64).modules())
    folded = Folded(model, torch.float64, pools=True)
    assert any(getattr(module, "pool", 1) > 1 for module in folded.modules()) == taken_in
    assert_equal_answers(folded, model, drawn(4, 2, 9, 8, seed=9))


@pytest.mark.parametrize("kind", [kind for kind in NETWORKS if kind[0] == "lenet"], ids=str)
def test_the_form_to_compile_gives_the_same(kind: Kind) -> None:
    model = network(kind)
    assert_equal_answers(Folded(model, torch.float64, pools=True), model, drawn(5, *kind[1], seed=9))


# Channels for tensor cores.


@pytest.mark.parametrize(
    "between",
    [
        (),
        (nn.ReLU(), nn.MaxPool2d(2)),
        (nn.Sigmoid(),),  # makes 0.5 of the zeros
        (nn.BatchNorm2d(13, track_running_stats=False),),
        (nn.Conv2d(13, 13, 3, padding=1, groups=13),),
    ],
    ids=str,
)
def test_channels_more_than_the_networks_are_never_seen(between: tuple[nn.Module, ...]) -> None:
    model = nn.Sequential(
        nn.Conv2d(9, 13, 3, padding=1), nn.BatchNorm2d(13), *between, nn.Conv2d(13, 11, 3), nn.ReLU(), nn.Flatten()
    ).double()
    unsettle(model)
    model(drawn(8, 9, 8, 9))
    folded = Folded(model, torch.float64)
    first = next(module for module in folded.modules() if isinstance(module, Convolution))
    assert first.weight.shape[0] == 16
    assert_equal_answers(folded, model, drawn(4, 9, 8, 9, seed=9))
    unsettle(model, seed=3)
    folded.refresh()
    assert_equal_answers(folded, model, drawn(4, 9, 8, 9, seed=9))
