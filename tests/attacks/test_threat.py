"""Threats against the definition of a ball, closed forms on linear models, and attacks in rescaled inputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import inf

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import assert_refused_in_one_line
from torch import Tensor, nn

from orat.attacks import APGD, PGD, Attack, Threat
from orat.attacks.threat import NORMS, Norm
from orat.core.random import Draws, uniform

# Five features: the first is frozen, the second has no lower and the third no upper bound.
LOW, HIGH, SCALE = (0.0, -inf, -1.0, 2.0, 10.0), (9.0, 0.5, inf, 2.3, 30.0), (0.0, 0.5, 2.0, 0.25, 30.0)
X = torch.tensor([[4.0, 0.2, 0.5, 2.1, 12.0], [9.0, 0.5, -1.0, 2.0, 30.0], [0.0, -7.0, 3.0, 2.3, 20.0]]).double()
WEIGHT = torch.tensor([5.0, 1.0, -0.3, 2.0, 0.1], dtype=torch.float64)
ZEROS = torch.zeros(3, dtype=torch.long)


def linear(weight: Tensor) -> nn.Module:
    """A two-class linear model whose loss against class 0 grows along `weight`; class 0 leads everywhere."""
    model = nn.Linear(len(weight), 2).to(weight.dtype)
    with torch.no_grad():
        model.weight.copy_(torch.stack([torch.zeros_like(weight), weight / 20]))
        model.bias.copy_(torch.tensor([9.0, 0.0]))
    return model


def of_five(eps: float, norm: Norm) -> Threat:
    """Bounds and a scale for five features."""
    return Threat(eps, norm, LOW, HIGH, SCALE)


def room(x: Tensor, weight: Tensor) -> Tensor:
    """How far each feature can go along the weight, in units of the scale."""
    low, high, scale = (torch.tensor(values, dtype=torch.float64) for values in (LOW, HIGH, SCALE))
    distance = torch.where(weight > 0, high - x, x - low)
    return torch.where(scale > 0, distance / scale.clamp(min=1e-9), 0)


# Closed forms.


@pytest.mark.parametrize("attack", [PGD(20), PGD(20, start="none"), APGD(steps=50)])
def test_linf_ends_at_the_corner_of_each_features_own_radius_and_bounds(attack: Attack) -> None:
    low, high, scale = (torch.tensor(values, dtype=torch.float64) for values in (LOW, HIGH, SCALE))
    adv = attack(linear(WEIGHT), X, ZEROS, of_five(0.3, "linf"))
    expected = torch.minimum(torch.maximum(X + 0.3 * scale * WEIGHT.sign(), low), high)
    assert torch.allclose(adv, expected, atol=1e-12)
    assert torch.equal(adv[:, 0], X[:, 0])


def filled(x: Tensor, eps: float) -> Tensor:
    """The most that l2 moves gain: every feature moves in proportion to its slope, until its bound, by bisection."""
    slope, most = WEIGHT.abs() * torch.tensor(SCALE, dtype=torch.float64), room(x, WEIGHT)
    low, high = torch.zeros(len(x), 1).double(), torch.full((len(x), 1), 1e6).double()
    for _ in range(200):
        middle = (low + high) / 2
        inside = torch.minimum(middle * slope, most).norm(dim=1, keepdim=True) <= eps
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
    return (torch.minimum(low * slope, most) * slope).sum(1)


def greedy(x: Tensor, eps: float) -> Tensor:
    """The most that l1 moves gain: the steepest feature goes to its bound, then the next, until eps is spent."""
    slope, most = WEIGHT.abs() * torch.tensor(SCALE, dtype=torch.float64), room(x, WEIGHT)
    gains = torch.zeros(len(x), dtype=torch.float64)
    for row in range(len(x)):
        left = eps
        for feature in slope.argsort(descending=True).tolist():
            spent = min(left, float(most[row, feature]))
            gains[row] += spent * slope[feature]
            left -= spent
    return gains


@pytest.mark.parametrize("eps", [0.1, 0.7, 3.0])
@pytest.mark.parametrize(("norm", "best"), [("l2", filled), ("l1", greedy)])
def test_l2_and_l1_gain_as_much_as_the_best_point(
    norm: Norm, best: Callable[[Tensor, float], Tensor], eps: float
) -> None:
    adv = PGD(400, step=0.02, start="none")(linear(WEIGHT), X, ZEROS, of_five(eps, norm))
    gains, most = (adv - X) @ WEIGHT, best(X, eps)
    assert bool((gains <= most * (1 + 1e-9) + 1e-9).all())
    assert torch.allclose(gains, most, rtol=0.02)
    assert torch.equal(adv[:, 0], X[:, 0])


MOVES, INPUTS, SCALES = st.floats(-3, 3, width=32), st.sampled_from([0.0, 0.2, 1.0]), st.sampled_from([0.0, 0.5, 4.0])


@given(st.lists(st.tuples(MOVES, INPUTS, SCALES), min_size=2, max_size=6), st.floats(0.05, 4))
@settings(max_examples=100, deadline=None)
def test_the_l1_projection_is_the_nearest_point_of_ball_and_bounds(
    rows: list[tuple[float, float, float]], eps: float
) -> None:
    """Against bisection on the threshold, which is subtracted from every change before it is clipped."""
    delta, x, scale = torch.tensor(rows, dtype=torch.float64).T[:, None]
    scale[:, 0] = 1.0
    move = delta / scale.clamp(min=1e-9) * (scale > 0)

    def after(threshold: float) -> Tensor:
        return (x + scale * move.sign() * (move.abs() - threshold).clamp(min=0)).clamp(0, 1)

    def size(adv: Tensor) -> Tensor:
        return ((adv - x) / scale.clamp(min=1e-9)).abs().sum()

    low, high = 0.0, move.abs().max().item()
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if size(after(middle)) > eps else (low, middle)
    expected = after(0.0) if size(after(0.0)) <= eps else after(high)
    threat = Threat(eps, "l1", scale=tuple(scale[0].tolist()))
    assert torch.allclose(threat.project(x + delta, x), expected, atol=1e-9)
    plain = Threat(eps, "l1").project(x + delta, x)
    assert torch.allclose(plain, Threat(eps, "l1", scale=(1.0,) * len(rows)).project(x + delta, x), atol=1e-12)


def test_the_l1_projection_is_exact_where_a_bound_holds_just_eps() -> None:
    """The bound of the second feature leaves eps to the rounding of a sum: the first one must not move."""
    x, moved = torch.tensor([[0.0, 0.2]], dtype=torch.float64), torch.tensor([[0.46875, -1.925]], dtype=torch.float64)
    assert Threat(0.05, "l1", scale=(1.0, 4.0)).project(moved, x).tolist() == [[0.0, 0.0]]


def test_the_l1_projection_is_exact_for_images_of_few_values() -> None:
    """Rooms of 0 and 1 and a whole eps: sizes that are constant at eps are no exception there."""
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand((400, 30), generator=generator) > 0.5).float()
    moved = x + 3 * torch.randn(x.shape, generator=generator)
    threat = Threat(6.0, "l1")
    adv, exact = threat.project(moved, x), threat.project(moved.double(), x.double())
    assert bool(threat.allows(adv, x).all())
    assert torch.allclose(adv.double(), exact, atol=1e-5)
    assert threat.size(exact - x.double()).max() <= 6 * (1 + 1e-12)


# The same attack, in other units.


def smooth(inputs: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, 4)).double()


class Scaled(nn.Module):
    """A network of inputs in other units."""

    def __init__(self, inner: nn.Module, scale: Tensor) -> None:
        super().__init__()
        self.inner, self.scale = inner, scale

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x * self.scale)


ATTACKS = [
    PGD(7), PGD(7, step=0.6, start="none"), PGD(5, start="gaussian"), PGD(3, restarts=3), APGD(steps=12),
    APGD("dlr-targeted", steps=12),
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
@pytest.mark.parametrize("norm", NORMS)
def test_a_scale_is_a_change_of_units(norm: Norm, attack: Attack) -> None:
    scale = torch.tensor([0.5, 2.0, 0.25, 30.0], dtype=torch.float64)
    model, x = smooth(4), torch.rand((9, 4), generator=torch.Generator().manual_seed(0)).double() * scale
    y = model(x).argmax(1)
    threat = Threat(0.15, norm, tuple((0 * scale).tolist()), tuple(scale.tolist()), tuple(scale.tolist()))
    adv = attack(model, x, y, threat, Draws.of(0, torch.arange(9)))
    in_units = attack(Scaled(model, scale), x / scale, y, Threat(0.15, norm), Draws.of(0, torch.arange(9)))
    assert torch.allclose(adv / scale, in_units, atol=1e-9)
    assert (adv - x).abs().max() > 0


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
@pytest.mark.parametrize("norm", NORMS)
def test_bounds_move_with_the_inputs(norm: Norm, attack: Attack) -> None:
    model, x = smooth(4), torch.rand((9, 4), generator=torch.Generator().manual_seed(0)).double()
    y = model(x).argmax(1)
    moved = nn.Sequential(Shifted(), model)
    expected = attack(model, x, y, Threat(0.15, norm), Draws.of(0, torch.arange(9)))
    adv = attack(moved, x - 2, y, Threat(0.15, norm, -2.0, -1.0), Draws.of(0, torch.arange(9)))
    assert torch.allclose(adv + 2, expected, atol=1e-9)


class Shifted(nn.Module):
    """Inputs in [-2, -1] -> inputs in [0, 1]."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 2


# The ball.


def any_threat(eps: float, norm: Norm, x: Tensor, seed: int) -> tuple[Threat, Tensor]:
    """Random bounds, none of either side in a third of all cases, a random scale, and inputs within the bounds."""
    random = np.random.default_rng(seed)
    n = x[0].numel()
    low = random.uniform(-3, 1, n).astype(np.float32)
    high = (low + random.uniform(0, 4, n)).astype(np.float32)
    scale = random.uniform(0, 2, n) * (random.uniform(size=n) > 0.3)
    scale[0] = 1.0
    lows, highs = [None, -3.0, tuple(low.tolist())], [None, 5.0, tuple(high.tolist())]
    scales = [None, tuple(scale.tolist())]
    chosen = lows[random.integers(3)], highs[random.integers(3)], scales[random.integers(2)]
    inside = torch.tensor(low + random.choice([0.0, 0.3, 1.0], (len(x), n)).astype(np.float32) * (high - low))
    return Threat(eps, norm, *chosen), torch.minimum(inside, torch.tensor(high)).to(x.dtype).reshape(x.shape)


@given(
    eps=st.sampled_from([0.0, 1 / 255, 0.03, 0.3, 1.0]),
    norm=st.sampled_from(NORMS),
    plain=st.booleans(),
    shape=st.sampled_from([(2,), (1, 5, 5), (3, 4, 6)]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    start=st.sampled_from(["uniform", "gaussian", "none"]),
    seed=st.integers(0, 9999),
)
@settings(max_examples=100, deadline=None)
def test_no_attack_leaves_the_ball_or_the_bounds_or_moves_a_frozen_feature(
    eps: float, norm: Norm, plain: bool, shape: tuple[int, ...], dtype: torch.dtype, start: str, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand((3, *shape), generator=generator, dtype=dtype)
    threat, x = (Threat(eps, norm), x) if plain else any_threat(eps, norm, x, seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 3)).to(dtype)
    for attack in (PGD(3, step=0.5, start=start), APGD(steps=4)):
        adv = attack(model, x, torch.tensor([0, 1, 2]), threat, generator)
        assert adv.dtype == x.dtype
        assert_inside(threat, adv, x)
        assert bool(threat.allows(adv, x).all())


def assert_inside(threat: Threat, adv: Tensor, x: Tensor) -> None:
    """The definition, in numpy."""
    one, other = adv.flatten(1).double().numpy(), x.flatten(1).double().numpy()
    scale = np.ones(one.shape[1]) if threat.scale is None else np.array(threat.scale)
    low, high = (np.float32(inf if bound is None else bound) for bound in (threat.low, threat.high))
    assert bool((one >= (-low if threat.low is None else low)).all())
    assert bool((one <= high).all())
    assert bool((one == other)[:, scale == 0].all())
    rounding = 3e-7 * np.maximum(np.abs(other), 1)
    units = (np.maximum(np.abs(one - other) - rounding, 0)[:, scale > 0]) / scale[scale > 0]
    sizes = {"linf": units.max(1), "l2": (units**2).sum(1) ** 0.5, "l1": units.sum(1)}[threat.norm]
    assert bool((sizes <= threat.eps * (1 + 1e-5) + 1e-9).all())


@pytest.mark.parametrize("scale", [None, (2.0, 0.0, 0.5, 3.0)])
@pytest.mark.parametrize("norm", NORMS)
def test_starts_fill_the_ball_and_not_only_its_center_or_rim(norm: Norm, scale: tuple[float, ...] | None) -> None:
    """The radius of a uniform point in a ball of three dimensions, cubed, is itself uniform, in any norm."""
    x = torch.zeros(4000, 3 if scale is None else 4, dtype=torch.float64)
    threat = Threat(1.0, norm, None, None, scale)
    noise = threat.start(x, torch.Generator().manual_seed(0))
    radii = threat.size(noise).sort().values
    assert (radii**3 - torch.linspace(0, 1, 4000, dtype=torch.float64)).abs().max() < 0.03
    assert noise.mean(0).abs().max() < 0.03 * max(scale or (1.0,))


def test_a_plain_threat_takes_no_detour() -> None:
    """In linf, x + eps is met exactly; nothing is divided by a scale of ones or compared with tensors of bounds."""
    x = torch.rand((5, 1, 4, 4), generator=torch.Generator().manual_seed(0))
    threat = Threat(8 / 255)
    assert threat.plain
    assert torch.equal(threat.project(x + 1, x), (x + 8 / 255).clamp(0, 1))
    assert threat.scaled(x) is x
    assert threat.units(x) is x
    assert threat.bounds(x) == (0.0, 1.0)
    assert not Threat(0.1, low=-1.0).plain
    assert not Threat(0.1, scale=(1.0,)).plain


@pytest.mark.parametrize("norm", NORMS)
def test_what_is_allowed_is_the_ball_the_bounds_and_no_frozen_feature(norm: Norm) -> None:
    threat = Threat(0.5, norm, (0.0, -1.0, None or 0.0), (1.0, 1.0, 9.0), (1.0, 2.0, 0.0))
    x = torch.tensor([[0.4, 0.5, 3.0]])
    moves = {(0.5, 0.0, 0.0): True, (0.6, 0.0, 0.0): False, (0.0, -1.0, 0.0): True, (0.0, -1.1, 0.0): False}
    moves |= {(-0.41, 0.0, 0.0): False, (0.0, 0.0, 1e-6): False, (0.0, 0.0, 0.0): True}
    moves |= {(0.5, -1.0, 0.0): norm == "linf", (0.2, 0.4, 0.0): True}
    for move, allowed in moves.items():
        assert threat.allows(x + torch.tensor([move]), x).tolist() == [allowed], move


# The value.


def test_a_radius_of_any_spelling_is_linf_on_inputs_from_0_to_1() -> None:
    assert Threat.of("8/255") == Threat.of(8 / 255) == Threat(8 / 255, "linf", 0.0, 1.0, None)
    assert Threat.of(Threat(0.5, "l2")) == Threat(0.5, "l2")


def test_threats_are_hashable_and_survive_json() -> None:
    for threat in (Threat(0.1), Threat(8 / 255, "l2"), of_five(0.3, "l1"), Threat(1.0, "linf", None, None)):
        record = json.loads(json.dumps(threat.record()))
        again = Threat(**{name: tuple(v) if isinstance(v, list) else v for name, v in record.items()})
        assert again == threat
        assert {threat: 1}[again] == 1
    assert Threat(0.1, "l2").record() == {"eps": 0.1, "norm": "l2"}


def test_draws_of_a_sample_do_not_depend_on_its_batch() -> None:
    x = torch.rand((6, 4), generator=torch.Generator().manual_seed(0))
    for norm in NORMS:
        threat = Threat(0.2, norm, -1.0, 2.0, (1.0, 0.0, 2.0, 3.0))
        whole = threat.start(x, Draws.of(0, torch.arange(6)))
        assert torch.equal(threat.start(x[2:4], Draws.of(0, torch.arange(2, 4))), whole[2:4])
    assert uniform(x, Draws.of(0, torch.arange(6))).min() > 0


def attacked(threat: Threat, x: Tensor) -> Tensor:
    return PGD()(nn.Linear(x.shape[1], 2), x, torch.zeros(len(x)).long(), threat)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Threat(8.0), "did you mean 8/255?"),
        (lambda: Threat.of("8"), "did you mean 8/255?"),
        (lambda: Threat.of("eight"), "'eight' is not a number"),
        (lambda: Threat(-0.1), "eps = -0.1"),
        (lambda: Threat(float("nan")), "eps = nan"),
        (lambda: Threat(inf, "l2"), "eps = inf"),
        (lambda: Threat(0.1, "l3"), "unknown norm 'l3'"),
        (lambda: Threat(0.1, low=0.5, high=0.2), "low = 0.5 and high = 0.2"),
        (lambda: Threat(0.1, low=(0.0, 0.7), high=0.5), "low = 0.7 and high = 0.5"),
        (lambda: Threat(0.1, low=float("nan")), "low = nan"),
        (lambda: Threat(0.1, low=(0.0, 0.0), high=(1.0, 1.0, 1.0)), "give one value per feature"),
        (lambda: Threat(0.1, scale=(1.0, -1.0)), "scale: give one finite number of 0 or more per feature"),
        (lambda: Threat(0.1, scale=(0.0, 0.0)), "at least one of them above 0"),
        (lambda: attacked(Threat(0.1), torch.full((1, 2), 255.0)), "divide pixels by 255"),
        (lambda: attacked(Threat(0.1, scale=(1.0, 1.0, 1.0)), torch.rand(1, 2)), "scale has 3 values for 2 features"),
        (lambda: attacked(Threat(0.1, high=(1.0, 5.0)), torch.tensor([[0.5, 7.0]])), "feature 1 of the inputs runs"),
        (lambda: attacked(Threat(0.1, low=None, high=1.0), torch.tensor([[0.5, float("nan")]])), "feature 1"),
    ],
)
def test_nonsense_is_refused_in_one_line(build: Callable[[], object], words: str) -> None:
    assert_refused_in_one_line(build, words)


def test_large_radii_are_fine_where_inputs_are_no_pixels() -> None:
    assert Threat(8.0, low=0.0, high=255.0).eps == 8
    assert Threat(8.0, "l2").eps == 8
    assert replace(Threat(0.1), eps=0.2) == Threat(0.2)


@pytest.mark.parametrize(
    ("given", "norm"),
    [
        (float("inf"), "linf"), (torch.inf, "linf"), ("inf", "linf"), ("Linf", "linf"), ("l_inf", "linf"),
        ("L-Inf", "linf"), ("infinity", "linf"), (2, "l2"), (2.0, "l2"), ("2", "l2"), ("L2", "l2"), ("l_2", "l2"),
        (1, "l1"), ("L1", "l1"),
    ],
)  # fmt: skip
def test_norms_have_their_usual_spellings(given: str | float, norm: str) -> None:
    threat = Threat(0.1, given)
    assert threat == Threat(0.1, norm)
    assert threat.record()["norm"] == norm


@pytest.mark.parametrize("given", ["l3", 3, 0, "linfty2", "euclid", float("nan"), -2.5, ""])
def test_other_norms_are_refused_with_the_known_ones(given: str | float) -> None:
    assert_refused_in_one_line(lambda: Threat(0.1, given), f"unknown norm {str(given)!r}: ")
    assert_refused_in_one_line(lambda: Threat(0.1, given), "known are l1, l2, linf")
