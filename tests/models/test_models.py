"""The networks have the sizes that their papers give, and depend on nothing but their seed."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from orat.core.errors import InputError
from orat.data import catalog as data
from orat.models.catalog import CONVOLUTIONAL, NAMES, Differences, QuickCNN, build, cosines
from orat.models.layers import Normalize

SMALL = ("lenet", "small_cnn", "demo_cnn", "quick_cnn", "mlp-3", "mlp-20-20-20", "mlp-64", "wrn-10-1", "wrn-8-2")
GRAY, COLOR, WIDE = (1, 28, 28), (3, 32, 32), (3, 40, 24)


def parameters(name: str, shape: tuple[int, ...], classes: int) -> int:
    return sum(p.numel() for p in build(name, shape, classes, seed=0).parameters())


def images(n: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize(
    ("name", "shape", "classes", "count"),
    [
        ("resnet18", COLOR, 10, 11_173_962),
        ("resnet18", COLOR, 100, 11_220_132),
        ("resnet34", COLOR, 10, 21_282_122),
        ("wrn-28-10", COLOR, 10, 36_479_194),
        ("wrn-34-10", COLOR, 10, 46_160_474),
        ("wrn-32-10", COLOR, 10, 46_160_474),
        ("mlp-64", (2,), 2, 2 * 64 + 64 + 64 * 2 + 2),
        ("mlp-3", (2,), 2, 2 * 3 + 3 + 3 * 2 + 2),
        ("mlp-20-20-20", (2,), 2, 2 * 20 + 20 + 2 * (20 * 20 + 20) + 20 * 2 + 2),
    ],
)
def test_parameter_counts_are_the_published_ones(name, shape, classes, count):
    assert parameters(name, shape, classes) == count


def test_lenet_has_the_parameters_of_its_layers():
    # 28 -> 24 -> 12 -> 8 -> 4 pixels a side
    convolutions = (1 * 25 * 64 + 64) + (64 * 25 * 64 + 64)
    linear = (64 * 4 * 4 * 1024 + 1024) + (1024 * 10 + 10)
    assert parameters("lenet", GRAY, 10) == convolutions + linear


def test_small_cnn_has_the_parameters_of_its_layers():
    pairs = ((3, 64), (64, 64), (64, 128), (128, 128), (128, 196), (196, 196))
    convolutions = sum(old * 9 * new + new + 2 * new for old, new in pairs)  # weights, biases, batch norm
    linear = (196 * 4 * 4 * 256 + 256) + (256 * 10 + 10)
    assert parameters("small_cnn", COLOR, 10) == convolutions + linear


@pytest.mark.parametrize("shape", [GRAY, COLOR, WIDE])
@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("name", [*SMALL, "resnet18"])
def test_logits_have_one_column_a_class(name, classes, shape):
    model = build(name, shape, classes, seed=0).eval()
    with torch.no_grad():
        assert model(images(2, shape)).shape == (2, classes)


@pytest.mark.parametrize("name", ["resnet34", "wrn-28-2"])
def test_deep_networks_run(name):
    with torch.no_grad():
        assert build(name, WIDE, 10, seed=0).eval()(images(2, WIDE)).shape == (2, 10)


@pytest.mark.parametrize(("name", "least"), [(name, least) for name, (_, least) in CONVOLUTIONAL.items()])
def test_the_least_size_runs_and_a_smaller_one_is_refused(name, least):
    with torch.no_grad():
        assert build(name, (1, least, least), 2, seed=0).eval()(images(2, (1, least, least))).shape == (2, 2)
    with pytest.raises(
        InputError, match=rf"'{name}' needs .* at least {least}x{least} pixels, got {least}x{least - 1}"
    ):
        build(name, (1, least, least - 1), 2, seed=0)


@pytest.mark.parametrize("name", [*SMALL, "resnet18"])
def test_the_gradient_reaches_every_pixel(name):
    model = build(name, (3, 16, 16), 10, seed=0).double().eval()
    x = images(8, (3, 16, 16)).double().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x)[:, 0].sum(), x)
    assert gradient.isfinite().all()
    assert gradient.any(dim=0).all()


@pytest.mark.parametrize("name", [*SMALL, "resnet18"])
def test_in_evaluation_a_sample_does_not_see_its_batch(name):
    model = build(name, (3, 16, 16), 10, seed=0).double().eval()
    x = images(6, (3, 16, 16)).double()
    with torch.no_grad():
        torch.testing.assert_close(model(x)[2:3], model(x[2:3]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [*SMALL, "resnet18"])
def test_channels_last_gives_the_same_logits(name):
    model = build(name, (3, 16, 16), 10, seed=0).double().eval()
    x = images(4, (3, 16, 16)).double()
    with torch.no_grad():
        expected = model(x)
        actual = model.to(memory_format=torch.channels_last)(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


def test_normalize_equals_explicit_arithmetic():
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    x = images(5, (3, 4, 6))
    actual = Normalize(mean, std)(x)
    for channel in range(3):
        torch.testing.assert_close(actual[:, channel], (x[:, channel] - mean[channel]) / std[channel])
    points = images(5, (3,))
    torch.testing.assert_close(Normalize(mean, std)(points), (points - torch.tensor(mean)) / torch.tensor(std))


def test_normalization_sits_inside_the_model():
    x = images(4, GRAY)
    plain, inside = (build("demo_cnn", GRAY, 10, 0, mean, std) for mean, std in ((None, None), ((0.13,), (0.31,))))
    torch.testing.assert_close(inside(x), plain((x - 0.13) / 0.31))
    assert torch.equal(plain[0](x), x)
    assert {"0.mean", "0.std"} <= inside.state_dict().keys()


@pytest.mark.parametrize("name", [*SMALL, "resnet18"])
def test_equal_seeds_give_equal_weights_and_other_seeds_others(name):
    first, same, other = (build(name, (3, 16, 16), 10, seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[key], same[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


def test_building_neither_reads_nor_moves_the_global_random_state():
    torch.manual_seed(11)
    before = torch.get_rng_state()
    weights = build("demo_cnn", GRAY, 10, seed=0)[1][0].weight
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(12)
    assert torch.equal(weights, build("demo_cnn", GRAY, 10, seed=0)[1][0].weight)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lenett", "unknown model 'lenett': did you mean 'lenet'"),
        ("wrn-32", "unknown model 'wrn-32': did you mean 'wrn-32-10'"),
        ("mlp", "unknown model 'mlp'"),
        ("mlp-x", "unknown model 'mlp-x'"),
        ("wrn-30-10", r"depth 30 does not exist: take 6n\+4 \(28, 34, ...\) or 6n\+2 \(32, ...\)"),
        ("wrn-4-1", "depth 4 does not exist"),
        ("wrn-28-0", "'wrn-28-0' has a 0 in its name"),
        ("mlp-20-0", "'mlp-20-0' has a 0 in its name"),
    ],
)
def test_bad_names_are_refused_in_one_line(name, message):
    with pytest.raises(InputError, match=message) as caught:
        build(name, COLOR, 10, seed=0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [*CONVOLUTIONAL, "wrn-32-10"])
def test_points_need_a_perceptron(name):
    with pytest.raises(InputError, match=rf"'{name}' needs images, got inputs of shape \(2,\): use mlp-64"):
        build(name, (2,), 2, seed=0)


@pytest.mark.parametrize(
    ("shape", "classes", "mean", "std", "message"),
    [
        (COLOR, 1, None, None, "classes = 1: a classifier has at least 2"),
        ((), 2, None, None, r"inputs of shape \(\) hold no values"),
        ((3, 0, 32), 2, None, None, r"inputs of shape \(3, 0, 32\) hold no values"),
        (COLOR, 2, (0.5,), None, "mean has 1 values for 3 channels"),
        (COLOR, 2, None, (0.5, 0.5), "std has 2 values for 3 channels"),
        (COLOR, 2, None, (0.5, 0.0, 0.5), r"std is \(0.5, 0.0, 0.5\): every value must be above 0"),
    ],
)
def test_what_cannot_be_built_is_refused(shape, classes, mean, std, message):
    with pytest.raises(InputError, match=message):
        build("mlp-64", shape, classes, 0, mean, std)


def test_normalize_needs_as_many_means_as_deviations():
    with pytest.raises(InputError, match="mean has 2 values and std has 1"):
        Normalize((0.1, 0.2), (0.5,))


def test_every_offered_name_can_be_built():
    for name in NAMES:
        assert parameters(name, GRAY, 10) > 0


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_cosines_are_orthonormal_and_begin_with_the_mean(size: int) -> None:
    matrix = cosines(size)
    assert torch.allclose(matrix @ matrix.T, torch.eye(size), atol=1e-6)
    assert torch.allclose(matrix[0], torch.full((size,), size**-0.5))


def test_differences_of_neighbors_know_nothing_of_each_other_on_real_images() -> None:
    """They are about principal components: pixels of a patch go together, these values hardly do."""
    images = data.load("sample", None, None).train.images[:500].float() / 255
    values = functional.conv2d(images, Differences(1).filters).movedim(1, 0).flatten(1)
    pixels = functional.unfold(images, 2).movedim(1, 0).flatten(1)
    together, alone = ((torch.corrcoef(rows) - torch.eye(4)).abs().sum() / 12 for rows in (pixels, values))
    assert together > 0.5
    assert alone < 0.1


def test_the_quick_network_starts_as_images_go_through_it() -> None:
    """The first channels of every convolution are those that it is given."""
    network = QuickCNN((3, 32, 32), 10)
    x = torch.rand(2, 24, 9, 9)
    first = next(layer for layer in network if isinstance(layer, torch.nn.Conv2d))
    assert torch.equal(first(x)[:, :24], x)
    assert network(images(2, COLOR)).shape == (2, 10)
