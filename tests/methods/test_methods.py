"""Every training method against the formula of its paper: values, gradients, limits, counts and cost of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from one_step import (
    beyond_first_epoch,
    loss_of,
    network,
    played,
    real_attack,
    samples,
    second_step,
    setting,
    without_input_checks,
)
from quick_runs import EVERY, ONE_OF_EACH, quick
from threshold import threshold_model
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from orat.cli.cards import cards
from orat.core.console import SILENT
from orat.core.losses import mean_one
from orat.core.types import Batch
from orat.methods import AT, GAIRAT, MAIL, ORAT, RAA, ST, TRADES, WMMR, AoRR, Method
from orat.methods.ranked_range import Ranked
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.train import train


def at_once(method: Method) -> Method:
    """The method without a ramp, so that all of m is dropped after the first epoch."""
    return replace(method, ramp=0) if isinstance(method, Ranked) and method.m is not None else method


ALL = {name: at_once(method.filled("cifar10")) for name, method in EVERY.items()}
TRIED = {name: ALL[name] for name in ONE_OF_EACH}  # those with a formula in a paper
Floats = np.ndarray[Any, np.dtype[np.float64]]


# The formulas of the papers, in NumPy.


def softmax(logits: Floats) -> Floats:
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


def labeled(values: Floats, y: Floats) -> Floats:
    return values[np.arange(len(y)), y]


def best_other(values: Floats, y: Floats) -> Floats:
    return np.array([np.delete(row, label).max() for row, label in zip(values, y, strict=True)])


def cross_entropy(logits: Floats, y: Floats) -> Floats:
    return -np.log(labeled(softmax(logits), y))


def divergence(p: Floats, q: Floats) -> Floats:
    return (p * np.log(p / q)).sum(1)


def margin(logits: Floats, y: Floats) -> Floats:
    probabilities = softmax(logits)
    return labeled(probabilities, y) - best_other(probabilities, y)


def sigmoid(z: Floats) -> Floats:
    return 1 / (1 + np.exp(-z))


def forward(parameters: list[Floats], x: Floats) -> Floats:
    """The logits of the network of these tests."""
    first, shift, second, last = parameters
    return np.tanh(x @ first.T + shift) @ second.T + last


@dataclass
class View:
    """The inputs of a formula: logits that move with the parameters, logits held fixed, and labels."""

    natural: Floats
    attacked: Floats
    fixed: Floats  # the attacked logits before the parameters move
    iterates: Floats  # of this attack
    first_attacked: Floats  # in the epoch before
    first_iterates: Floats
    y: Floats


def ranked(losses: Floats) -> float:
    """The mean of the losses ranked 4 to 13 of 14: m = 0.2 and k = 0.95."""
    return float(np.sort(losses)[::-1][3:13].mean())


def min_max(v: View) -> float:
    """Theorem 1 at the optimum for the losses of the epoch before: l_[13], and l_[3] - l_[13]."""
    start = np.sort(cross_entropy(v.first_attacked, v.y))[::-1]
    lower, width = start[12], start[2] - start[12]
    clipped = np.maximum(width - np.maximum(cross_entropy(v.attacked, v.y) - lower, 0), 0)
    return 10 / 14 * lower + 11 / 14 * width - clipped.mean()


def mart(v: View) -> float:
    p, q = softmax(v.natural), softmax(v.attacked)
    boosted = -np.log(labeled(q, v.y)) - np.log(1.0001 - best_other(q, v.y) + 1e-12)
    return (boosted + 5 * divergence(p, q) * (1.0000001 - labeled(p, v.y))).mean()


def trades(v: View, beta: float, weights: Floats | float = 1.0) -> float:
    distance = divergence(softmax(v.natural), softmax(v.attacked))
    return cross_entropy(v.natural, v.y).mean() + beta * (weights * distance).mean()


def weighted(v: View, weights: Floats) -> float:
    return (weights * cross_entropy(v.attacked, v.y)).mean()


def normalized(weights: Floats) -> Floats:
    return weights * len(weights) / weights.sum()


def withstood(iterates: Floats, y: Floats) -> Floats:
    return (iterates.argmax(2) == y).sum(0)


def geometric(kappa: Floats) -> Floats:
    """The weights of GAIRAT for lambda = -1 and 4 steps."""
    return normalized((1 + np.tanh(-1 + 5 * (2 - kappa) / 2)) / 2)


def corrected(v: View) -> float:
    seen = v.first_iterates[0].argmax(1)
    doubted = (withstood(v.first_iterates, v.y) <= 1) & (seen != v.y)
    return cross_entropy(v.attacked, np.where(doubted, seen, v.y)).mean()


FORMULAS: dict[str, Callable[[View], float]] = {
    "st": lambda v: cross_entropy(v.natural, v.y).mean(),
    "at": lambda v: cross_entropy(v.attacked, v.y).mean(),
    "trades": lambda v: trades(v, 6),
    "mart": mart,
    "gairat": lambda v: weighted(v, geometric(withstood(v.iterates, v.y))),
    "gairat discrete": lambda v: weighted(v, normalized((5 - withstood(v.iterates, v.y)) / 5)),
    "mail": lambda v: weighted(v, 3 * sigmoid(-10 * (margin(v.fixed, v.y) + 0.5))),
    "mail trades": lambda v: trades(v, 5, normalized(sigmoid(-2 * margin(v.fixed, v.y)))),
    "wmmr": lambda v: weighted(v, np.exp(-0.5 * margin(v.attacked, v.y))),
    "wmmr detached": lambda v: weighted(v, np.exp(-0.5 * margin(v.fixed, v.y))),
    "raa": corrected,
    "raa persistent": corrected,  # with nothing corrected before
    "aorr": lambda v: ranked(cross_entropy(v.natural, v.y)),
    "orat": lambda v: ranked(cross_entropy(v.attacked, v.y)),
    "orat by scalars": min_max,
}


def finite_differences(function: Callable[[list[Floats]], float], at: list[Floats], step: float = 1e-6) -> list[Floats]:
    """The gradient by central differences."""
    gradient = [np.zeros_like(part) for part in at]
    for part, slope in zip(at, gradient, strict=True):
        for place in np.ndindex(part.shape):
            here = part[place]
            values = []
            for there in (here + step, here - step):
                part[place] = there
                values.append(function(at))
            part[place] = here
            slope[place] = (values[0] - values[1]) / (2 * step)
    return gradient


@pytest.mark.parametrize("name", TRIED)
def test_loss_and_gradient_equal_the_formula_of_the_paper(name: str) -> None:
    """Detached factors are held fixed in the differences, too."""
    first, attack = played(seed=3), played(seed=4)
    loss, ours = second_step(TRIED[name], attack, first)
    parameters = [parameter.detach().numpy().copy() for parameter in network().parameters()]
    x, y, adv = samples().x.numpy(), samples().y.numpy(), attack.adv.numpy()
    fixed, before = (forward(parameters, images.adv.numpy()) for images in (attack, first))
    iterates = attack.iterates.numpy(), first.iterates.numpy()
    assert [set(withstood(trace, y)) for trace in iterates] == [{0, 1, 2, 3, 4}] * 2

    def formula(parameters: list[Floats]) -> float:
        now = forward(parameters, x), forward(parameters, adv)
        return FORMULAS[name](View(*now, fixed, iterates[0], before, iterates[1], y))

    assert loss.item() == pytest.approx(formula(parameters), rel=1e-6)  # scalars and ranks are kept in single precision
    for mine, theirs in zip(ours, finite_differences(formula, parameters), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-5, atol=1e-7)


def test_the_gradient_through_the_weights_of_wmmr_is_a_large_part() -> None:
    (_, attached), (_, detached) = (second_step(TRIED[name], played()) for name in ("wmmr", "wmmr detached"))
    apart = sum((one - two).norm() ** 2 for one, two in zip(attached, detached, strict=True)) ** 0.5
    assert apart > 0.1 * sum(one.norm() ** 2 for one in attached) ** 0.5


def test_the_attack_of_trades_ascends_the_divergence_from_the_natural_logits() -> None:
    for name in ("trades", "mail trades"):
        batch, attack = samples(), played()
        second_step(TRIED[name], attack)
        natural = network()(batch.x).detach()
        logits = attack.iterates[0]
        expected = divergence(softmax(natural.numpy()), softmax(logits.numpy()))
        np.testing.assert_allclose(attack.objectives[-1](logits).numpy(), expected, rtol=1e-9)


def test_the_attack_of_wmmr_ascends_the_weighted_loss_with_the_gradient_through_the_weight() -> None:
    batch, attack = samples(), played()
    second_step(TRIED["wmmr"], attack)
    logits = attack.iterates[0].clone().requires_grad_()
    objective = attack.objectives[-1](logits)
    (gradient,) = torch.autograd.grad(objective.sum(), logits)

    def formula(parts: list[Floats]) -> float:
        y = batch.y.numpy()
        return (np.exp(-0.5 * margin(parts[0], y)) * cross_entropy(parts[0], y)).sum()

    parts = [logits.detach().numpy().copy()]
    assert objective.sum().item() == pytest.approx(formula(parts))
    np.testing.assert_allclose(gradient.numpy(), finite_differences(formula, parts)[0], rtol=1e-5, atol=1e-7)
    plain = played()
    second_step(TRIED["wmmr detached"], plain)
    assert plain.objectives == []
    assert torch.equal(plain.labels[-1], batch.y)  # without weights: the cross-entropy


# Limits in which one method equals another.

LAST_PLAIN = 2  # the epoch of the compared step
LIMITS: dict[str, tuple[Method, Method]] = {
    "gairat of a huge shift": (GAIRAT(shift=50, burn_in=0), AT()),
    "gairat of sigmoids of a huge shift": (GAIRAT(weight="sigmoid", shift=50, burn_in=0), AT()),
    "gairat before its weights": (GAIRAT(burn_in=LAST_PLAIN), AT()),
    "mail of mean 1 and slope 0": (MAIL(scale="batch", slope=0, bias=-0.5, burn_in=0), AT()),
    "mail before its weights": (MAIL(burn_in=LAST_PLAIN), AT()),
    "mail on trades, of mean 1 and slope 0": (
        MAIL(form="trades", scale="batch", slope=0, bias=0, burn_in=0, beta=3),
        TRADES(beta=3),
    ),
    "mail on trades before its weights": (MAIL(form="trades", burn_in=LAST_PLAIN, beta=3), TRADES(beta=3)),
    "wmmr of alpha 0": (WMMR(alpha=0), AT()),
    "wmmr of alpha 0, plain attack": (WMMR(alpha=0, weighted_attack=False), AT()),
    "wmmr of alpha 0, detached": (WMMR(alpha=0, detach_weights=True), AT()),
    "raa before its corrections": (RAA(burn_in=LAST_PLAIN), AT()),
    "trades of beta 0": (TRADES(beta=0), ST()),
    "aorr that drops nothing": (AoRR(m=0), ST()),
    "orat that drops nothing": (ORAT(m=0), AT()),
}
ROUNDED = [name for name in LIMITS if "huge" in name or "slope 0" in name]  # weights are 1 up to a rounding
CONSTANT_WEIGHTS = MAIL(slope=0, bias=-0.5, burn_in=0)  # 3 times half


def assert_equal_steps(one: Method, two: Method, times: float = 1.0) -> None:
    """A step with a real attack has the loss and the gradient of another method, times a number."""
    (loss, gradients), (other_loss, other_gradients) = (second_step(method, real_attack()) for method in (one, two))
    assert loss.item() == pytest.approx(times * other_loss.item(), rel=1e-12)
    for mine, other in zip(gradients, other_gradients, strict=True):
        torch.testing.assert_close(mine, times * other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LIMITS)
def test_in_a_limit_a_method_has_the_loss_and_the_gradient_of_another(name: str) -> None:
    assert_equal_steps(*LIMITS[name])


def test_mail_with_slope_0_has_one_and_a_half_times_the_loss_and_the_gradient_of_at() -> None:
    assert_equal_steps(CONSTANT_WEIGHTS, AT(), 1.5)


@pytest.mark.parametrize("name", sorted(TRIED.keys() - {"st", "at"}))
def test_away_from_the_limits_no_method_equals_at_or_st(name: str) -> None:
    loss, _ = second_step(TRIED[name], real_attack())
    for other in (AT(), ST()):
        assert abs(loss - second_step(other, real_attack())[0]) > 1e-3


@pytest.fixture(scope="module")
def weights_of(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Tensor]]:
    """The weights after two epochs; every run is trained once."""
    done: dict[str, dict[str, Tensor]] = {}

    def trained(method: Method, **changes: Any) -> dict[str, Tensor]:
        run = quick(tiny, method, **{"epochs": 2, "validation": 0.0, "attack_start": "uniform", **changes})
        if run.id not in done:
            folder = tmp_path_factory.mktemp("run")
            train(run, folder / "a", display=SILENT)
            done[run.id] = RunFolder(folder / "a").load_tensors("model")
        return done[run.id]

    return trained


@pytest.mark.parametrize("name", LIMITS)
def test_in_a_limit_a_method_trains_the_same_weights_as_another(
    name: str, weights_of: Callable[..., dict[str, Tensor]]
) -> None:
    """To the bit where all weights of losses are exactly 1."""
    one, two = (weights_of(method) for method in LIMITS[name])
    tolerance = 1e-5 if name in ROUNDED else 0.0
    for key in two:
        torch.testing.assert_close(one[key], two[key], rtol=tolerance, atol=tolerance)


def test_mail_with_slope_0_trains_as_at_with_one_and_a_half_times_the_rate(
    weights_of: Callable[..., dict[str, Tensor]],
) -> None:
    one = weights_of(CONSTANT_WEIGHTS, lr=0.04, weight_decay=0.0)
    two = weights_of(AT(), lr=0.06, weight_decay=0.0)
    other = weights_of(AT(), lr=0.04, weight_decay=0.0)
    for key in two:
        torch.testing.assert_close(one[key], two[key], rtol=1e-5, atol=1e-5)
    assert any((one[key] - other[key]).abs().max() > 1e-3 for key in one)


# Weights computed by hand.


@pytest.mark.parametrize(
    ("method", "steps", "expected"),
    [
        (GAIRAT(), 10, {0: "0.9997", 5: "0.119", 10: "6.1e-06"}),
        (GAIRAT(), 7, {0: "0.9997", 3: "0.119", 7: "2.2e-07"}),  # floor(7/2) = 3; -1 + 5(3-7)/3 = -7.667
        (GAIRAT(), 1, {0: "0.9997", 1: "0.119"}),
        (GAIRAT(weight="sigmoid"), 10, {0: "0.9820", 5: "0.269", 10: "0.0025"}),  # of 4, -1 and -6
        (GAIRAT(weight="sigmoid", shift=0.0), 7, {3: "0.500", 6: "0.0067"}),  # of 0 and -5
        (GAIRAT(weight="discrete"), 10, {0: "1.0", 4: "0.6364", 10: "0.0909"}),  # elevenths: 11, 7, 1
        (GAIRAT(weight="discrete"), 3, {0: "1.0", 1: "0.75", 3: "0.25"}),
    ],
)
def test_weights_of_gairat_are_those_computed_by_hand(method: GAIRAT, steps: int, expected: dict[int, str]) -> None:
    weights = method.log_weights(torch.tensor(list(expected)), steps).exp()
    for weight, digits in zip(weights.tolist(), expected.values(), strict=True):
        assert weight == pytest.approx(float(digits), abs=half_of_last_digit(digits))


def half_of_last_digit(digits: str) -> float:
    """The rounding error of a printed number."""
    mantissa, _, exponent = digits.partition("e")
    return 0.51 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def test_weights_of_gairat_have_mean_1_where_a_float_would_round_all_of_them_to_0() -> None:
    method, all_withstood = GAIRAT(shift=-10.0), torch.full((32,), 10)
    assert ((1 + torch.tanh(torch.tensor(-15.0))) / 2).item() == 0  # every weight in single precision
    assert mean_one(method.log_weights(all_withstood, 10)).tolist() == [1.0] * 32
    all_withstood[3] = 0
    one_owns_all = [32.0 if place == 3 else 0.0 for place in range(32)]
    assert mean_one(method.log_weights(all_withstood, 10)).tolist() == pytest.approx(one_owns_all, abs=1e-6)
    all_withstood[3] = 5
    weights = mean_one(method.log_weights(all_withstood, 10))
    assert (weights[3] / weights[4]).item() == pytest.approx(np.exp(10), rel=1e-4)  # sigmoid(-20) to sigmoid(-30)


def logits_of_margin(margin: float) -> list[float]:
    """Logits of two classes whose probabilities have this margin; -1 up to a rounding."""
    labeled = max((1 + margin) / 2, 1e-12)
    return [float(np.log(labeled)), float(np.log(1 - labeled))]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (MAIL().filled("mnist"), {-1: "2.98", -0.75: "2.77", -0.5: "1.50", 0: "0.020", 0.5: "1.4e-04"}),
        (
            MAIL(form="trades").filled("mnist"),
            {-1: "2.642", -0.5: "2.193", 0: "1.50", 0.5: "0.807"},
        ),  # 3 sigmoid(2, 1, 0, -1)
        (MAIL(slope=1.0, bias=-1.5), {-0.5: "0.807", -1: "1.133"}),  # 3 sigmoid(-1, -0.5)
    ],
)
def test_weights_of_mail_are_those_computed_by_hand(method: MAIL, expected: dict[float, str]) -> None:
    logits = torch.tensor([logits_of_margin(margin) for margin in expected], dtype=torch.float64, requires_grad=True)
    zeros = torch.zeros(len(expected), dtype=torch.long)
    weights = method.weights(logits, zeros)
    assert not weights.requires_grad
    for weight, digits in zip(weights.tolist(), expected.values(), strict=True):
        assert weight == pytest.approx(float(digits), abs=half_of_last_digit(digits))


def test_gairat_counts_the_points_before_each_step_that_keep_the_label() -> None:
    """The border of the model is at 0.5; 4 steps of 0.05 lead from x straight down to x - 0.2."""
    first = torch.tensor([0.49, 0.51, 0.56, 0.61, 0.66, 0.9])
    kappa = np.array([0, 1, 2, 3, 4, 4])  # 0.66 falls in the last step only, which is not counted
    x = torch.stack([first, torch.full_like(first, 0.5)], 1)
    batch = Batch(x, torch.ones(6, dtype=torch.long), torch.arange(6))
    method = GAIRAT(burn_in=0)
    state = method.start(setting(batch, 2))
    loss = loss_of(method, threshold_model(), batch, real_attack(4, "none"), state, 1)
    lead = 2 * (first.double().numpy() - 0.2 - 0.5)  # of class 1, at the end of the attack
    assert loss.item() == pytest.approx((geometric(kappa) * np.log(1 + np.exp(-lead))).mean(), rel=1e-4)


def test_gairat_counts_points_and_not_the_first_crossing_of_the_border() -> None:
    """Right, wrong, right, wrong counts 2, as right, right, wrong, wrong does."""
    attack, shuffled = played(), played()
    shuffled.iterates = attack.iterates[[0, 3, 1, 2]]
    assert second_step(TRIED["gairat"], attack)[0] == second_step(TRIED["gairat"], shuffled)[0]


@pytest.mark.parametrize("start", ["none", "gaussian", "uniform"])
def test_the_traced_attack_is_pgd_with_the_logits_before_each_step(start: str) -> None:
    model, batch = network(), samples()
    adv, iterates = real_attack(3, start).on(model).traced(batch.x, batch.y)
    generator = torch.Generator().manual_seed(0)
    noise = {
        "none": 0.0,
        "gaussian": 0.001 * torch.empty_like(batch.x).normal_(generator=generator),
        "uniform": 0.2 * (2 * torch.empty_like(batch.x).uniform_(generator=generator.manual_seed(0)) - 1),
    }[start]
    point = (batch.x + noise).clamp(0, 1)
    for logits in iterates:
        point.requires_grad_()
        expected = model(point)
        assert torch.equal(logits, expected)
        (slope,) = torch.autograd.grad(nn.functional.cross_entropy(expected, batch.y), point)
        moved = point.detach() + 0.05 * slope.sign()
        point = torch.minimum(torch.maximum(moved, batch.x - 0.2), batch.x + 0.2).clamp(0, 1)
    torch.testing.assert_close(adv, point)
    assert len(iterates) == 3
    assert not iterates.requires_grad
    assert not adv.requires_grad


# The effects and the cost of a step.


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("name", ALL)
def test_every_method_learns_with_any_number_of_classes(name: str, classes: int) -> None:
    method, model, batch, attack = ALL[name], network(classes).float(), samples(classes), real_attack()
    batch = Batch(batch.x.float(), batch.y, batch.id)
    state = beyond_first_epoch(method, model, batch, attack, classes)
    optimizer = torch.optim.SGD([{"params": model.parameters()}, *state.param_groups(0.01)], lr=0.01)
    for epoch in (2, 3, 4):
        optimizer.zero_grad()
        loss = loss_of(method, model, batch, attack, state, epoch)
        loss.backward()
        assert loss.isfinite()
        for parameter in model.parameters():
            assert parameter.grad.isfinite().all()
            assert parameter.grad.abs().max() > 0
        optimizer.step()
        state.end_epoch()


def passes(method: Method, steps: int) -> tuple[int, int]:
    """The forward and backward passes through the last layer in one step after the burn-in."""
    model, batch, attack = network(), samples(), real_attack(steps)
    state = beyond_first_epoch(method, model, batch, attack)
    seen = {"forward": 0, "backward": 0}

    def count(which: str) -> Callable[..., None]:
        return lambda *_: seen.update({which: seen[which] + 1})

    model[-1].register_forward_hook(count("forward"))
    model[-1].register_full_backward_hook(count("backward"))
    loss_of(method, model, batch, attack, state, 2).backward()
    return seen["forward"], seen["backward"]


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("name", ALL)
def test_a_step_costs_as_many_passes_as_the_card_says(name: str, steps: int) -> None:
    """Counts, weights and corrections add no pass through the network."""
    card = "trades" if name == "mail trades" else Run(method=ALL[name]).method_name
    assert passes(ALL[name], steps) == cards()[card].cost(steps)


@pytest.mark.parametrize("name", ALL)
def test_attacks_use_running_statistics_and_losses_the_statistics_of_the_batch(name: str) -> None:
    """Batch norm counts the passes in training mode: only the passes that are learned from."""
    method, batch, attack = ALL[name], samples(), real_attack()
    model = nn.Sequential(nn.BatchNorm1d(6).double(), *network()).train()
    state = beyond_first_epoch(method, model, batch, attack)
    model[0].reset_running_stats()
    loss_of(method, model, batch, attack, state, 2)
    assert model[0].num_batches_tracked == {"trades": 2, "mail trades": 2, "mart": 2}.get(name, 1)
    assert all(module.training for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())


WAITING = {
    "_local_scalar_dense", "item", "nonzero", "nonzero_static", "is_nonzero", "masked_select", "equal", "allclose",
    "_unique2", "unique_dim", "unique_consecutive", "repeat_interleave", "bincount", "argwhere",
}  # fmt: skip


class NothingWaits(TorchDispatchMode):
    """Refuses every operator at which the host would wait for the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masks = [one for one in args[1] if one is not None] if name in ("index", "index_put", "index_put_") else []
        if name in WAITING or any(mask.dtype in (torch.bool, torch.uint8) for mask in masks):
            raise AssertionError(f"aten.{name} waits for the device")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ALL)
def test_no_step_waits_for_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_input_checks(monkeypatch)
    method, model, batch, attack = ALL[name], network(), samples(), real_attack()
    state = beyond_first_epoch(method, model, batch, attack)
    with NothingWaits():
        for epoch in (1, 2):
            loss_of(method, model, batch, attack, state, epoch).backward()


@pytest.mark.parametrize(
    "wait",
    [lambda x: x.sum().item(), lambda x: bool(x[0] > 0), lambda x: x[x > 0], lambda x: x.nonzero(), torch.unique],
)
def test_the_guard_of_these_tests_sees_every_wait(wait: Callable[[Tensor], object]) -> None:
    with NothingWaits(), pytest.raises(AssertionError, match="waits for the device"):
        wait(torch.arange(4.0))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("name", ALL)
def test_no_step_waits_for_a_real_gpu(name: str) -> None:
    method, model, here = ALL[name], network().to("cuda"), samples()
    batch = Batch(here.x.to("cuda"), here.y.to("cuda"), here.id.to("cuda"))
    attack = real_attack(device="cuda")
    state = beyond_first_epoch(method, model, batch, attack)
    losses = []
    torch.cuda.set_sync_debug_mode("error")  # raises at every wait
    try:
        for epoch in (1, 2):
            losses.append(loss_of(method, model, batch, attack, state, epoch))
            losses[-1].backward()
        with pytest.raises(RuntimeError, match="synchroniz"):
            losses[0].item()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.stack(losses).isfinite().all()
