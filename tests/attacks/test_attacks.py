"""PGD against closed forms and foolbox; the losses against their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import foolbox
import pytest
import torch
from refusals import assert_refused_in_one_line
from small_networks import fitted
from torch import Tensor, nn

from orat.attacks import PGD, Threat, suite
from orat.attacks.base import frozen, moved
from orat.attacks.suite import ATTACKS
from orat.attacks.threat import NORMS
from orat.core.losses import (
    boosted_cross_entropy,
    cross_entropy,
    cw,
    divergence,
    gradient_at,
    margin,
    mean_one,
    probability,
    probability_margin,
)

EPS = 0.2


def linear(weight: Tensor) -> nn.Module:
    """A two-class linear model whose loss against class 0 grows along `weight`."""
    model = nn.Linear(len(weight), 2, bias=False).to(weight.dtype)
    with torch.no_grad():
        model.weight.copy_(torch.stack([torch.zeros_like(weight), weight]))
    return model


WEIGHT = torch.tensor([0.5, -2.0, 1.0, 0.3], dtype=torch.float64)
CENTER = torch.full((3, 4), 0.5, dtype=torch.float64)
ZEROS = torch.zeros(3, dtype=torch.long)


@pytest.mark.parametrize("start", ["uniform", "gaussian", "none"])
def test_linf_pgd_on_a_linear_model_ends_at_the_corner(start: str) -> None:
    adv = PGD(20, start=start)(linear(WEIGHT), CENTER, ZEROS, EPS)
    assert torch.equal(adv, (CENTER + EPS * WEIGHT.sign()).clamp(0, 1))


@pytest.mark.parametrize("start", ["uniform", "none"])
def test_l2_pgd_on_a_linear_model_ends_along_the_weight(start: str) -> None:
    adv = PGD(200, start=start)(linear(WEIGHT), CENTER, ZEROS, Threat(EPS, "l2"))
    assert torch.allclose(adv, CENTER + EPS * WEIGHT / WEIGHT.norm(), atol=1e-5)


def test_l1_pgd_on_a_linear_model_spends_all_on_the_largest_weight() -> None:
    adv = PGD(50, start="none")(linear(WEIGHT), CENTER, ZEROS, Threat(EPS, "l1"))
    assert torch.allclose(adv, CENTER + EPS * torch.tensor([0.0, -1.0, 0.0, 0.0]), atol=1e-9)


def test_l1_pgd_moves_on_to_the_next_weight_at_the_border_of_the_images() -> None:
    adv = PGD(400, step_size=0.01, start="none")(linear(WEIGHT), CENTER, ZEROS, Threat(0.8, "l1"))
    best = CENTER + torch.tensor([0.0, -0.5, 0.3, 0.0])  # the second-largest weight takes what the border leaves
    assert ((best - adv) @ WEIGHT).abs().max() < 0.02


def test_pgd_in_a_corner_of_the_images_stays_in_them() -> None:
    for norm in NORMS:
        adv = PGD(20)(linear(WEIGHT), torch.zeros(2, 4, dtype=torch.float64), ZEROS[:2], Threat(EPS, norm))
        assert adv.min() >= 0
        assert adv[:, 1].max() == 0  # its weight is negative


def trained() -> tuple[nn.Module, Tensor, Tensor]:
    """A small network and the points it was fitted to, many of them near its border."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand((400, 6), generator=generator)
    y = (x.sum(1) > 3).long() + (x[:, 0] > 0.8).long()
    return fitted(x, y, 3), x, y


FOOLBOX = {
    "linf": foolbox.attacks.LinfPGD,
    "l2": foolbox.attacks.L2PGD,
}


@pytest.mark.parametrize("norm", sorted(FOOLBOX))
@pytest.mark.parametrize("eps", [0.03, 0.06])
def test_robust_accuracy_equals_foolboxs_on_the_same_model_and_start(norm: str, eps: float) -> None:
    model, x, y = trained()
    ours = PGD(20, start="none")(model, x, y, Threat(eps, norm))
    theirs_attack = FOOLBOX[norm](abs_stepsize=eps / 4, steps=20, random_start=False)
    theirs, _, _ = theirs_attack(foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu"), x, y, epsilons=eps)
    accuracy = [(model(adv).argmax(1) == y).float().mean().item() for adv in (ours, theirs)]
    assert 0.2 < accuracy[0] < 0.95
    assert accuracy[0] == pytest.approx(accuracy[1], abs=0.005)


TEXTBOOK = {  # the attack of this name, and what foolbox has for it
    "fgsm-plain": (ATTACKS["fgsm-plain"], foolbox.attacks.L2FastGradientAttack),
    "pgd20-madry": (
        replace(ATTACKS["pgd20-madry"], start="none"),
        lambda: foolbox.attacks.L2PGD(rel_stepsize=2.5 / 20, steps=20, random_start=False),
    ),
}


@pytest.mark.parametrize("name", TEXTBOOK)
@pytest.mark.parametrize("eps", [0.3, 1.0, 3.0])
def test_in_l2_the_textbook_attacks_are_foolboxs_to_the_pixel(
    name: str, eps: float, digits: tuple[nn.Module, Tensor, Tensor]
) -> None:
    model, x, y = digits
    ours, theirs = TEXTBOOK[name]
    assert ((x == 0) | (x == 1)).any(), "no pixel at its bound"
    adv = ours(model, x, y, Threat(eps, "l2"))
    expected, _, _ = theirs()(foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu"), x, y, epsilons=eps)
    assert (adv - expected).abs().max() < 1e-5
    seen = replace(ours, inward=True)(model, x, y, Threat(eps, "l2"))
    assert (seen - expected).abs().max() > 1e-3


def test_the_papers_attacks_see_the_bounds_and_in_other_norms_the_textbooks_do_too(
    digits: tuple[nn.Module, Tensor, Tensor],
) -> None:
    model, x, y = digits
    assert all(attack.inward for attack in suite().values())
    for name in ("fgsm-plain", "pgd20-madry", "cw-margin"):
        assert not ATTACKS[name].inward
        for threat in (Threat(0.1), Threat(3.0, "l1")):
            plain = ATTACKS[name](model, x[:20], y[:20], threat)
            assert torch.equal(plain, replace(ATTACKS[name], inward=True)(model, x[:20], y[:20], threat))


def test_a_faster_form_of_a_step_is_for_steps_that_see_the_bounds(digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    model, x, y = digits
    threat, calls = Threat(1.0, "l2"), []

    def move(*values: Any) -> Tensor:
        calls.append(1)
        return moved(*values)

    for attack in (PGD(4), PGD(4, inward=False)):
        draws, uphill = torch.Generator().manual_seed(0), partial(gradient_at, lambda adv: cross_entropy(model(adv), y))
        adv = attack.climb(uphill, x, threat, draws, move)
        assert torch.equal(adv, attack(model, x, y, threat, torch.Generator().manual_seed(0)))
    assert len(calls) == 4


def test_the_l1_attack_is_no_weaker_than_foolboxs() -> None:
    model, x, y = trained()
    ours = PGD(50, start="none")(model, x, y, Threat(0.2, "l1"))
    attack = foolbox.attacks.L1PGD(abs_stepsize=0.05, steps=50, random_start=False)
    theirs, _, _ = attack(foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu"), x, y, epsilons=0.2)
    accuracy = [(model(adv).argmax(1) == y).float().mean().item() for adv in (ours, theirs)]
    assert accuracy[0] <= accuracy[1] + 0.005


def test_an_attack_leaves_no_gradient_no_mode_and_no_flag_behind() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2)).train()
    model[0].weight.requires_grad_(False)
    model[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    PGD()(model, torch.rand(5, 4), torch.zeros(5, dtype=torch.long), 0.1)
    assert [module.training for module in model] == [True, False, True, True]
    assert [p.requires_grad for p in model.parameters()] == [False, True, True, True, True, True]
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_an_attack_works_where_the_caller_wants_no_gradients() -> None:
    with torch.no_grad():
        adv = PGD(20)(linear(WEIGHT), CENTER, ZEROS, EPS)
    assert torch.equal(adv, CENTER + EPS * WEIGHT.sign())
    assert not adv.requires_grad


def test_train_mode_during_the_attack_is_a_choice() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).eval()
    PGD(mode="train")(model, torch.rand(5, 4), torch.zeros(5, dtype=torch.long), 0.1)
    assert model[1].num_batches_tracked == 11 - 1
    assert not model[1].training


def test_an_attack_that_breaks_restores_the_model_all_the_same() -> None:
    model = nn.Linear(4, 2).train()
    with pytest.raises(RuntimeError, match="on purpose"), frozen(model):
        raise RuntimeError("on purpose")
    assert model.training
    assert model.weight.requires_grad


def test_the_same_generator_gives_the_same_attack_and_the_global_one_is_left_alone() -> None:
    model, x, y = trained()
    before = torch.get_rng_state()
    one, two = (PGD(3)(model, x, y, 0.05, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(before, torch.get_rng_state())


def test_cw_is_the_authors_margin_up_to_a_constant() -> None:
    logits, labels = torch.randn(6, 5, dtype=torch.float64) * 30, torch.tensor([0, 1, 2, 3, 4, 0])
    one_hot = nn.functional.one_hot(labels, 5)
    real = (one_hot * logits).sum(1)
    other = (logits - one_hot * 1e6).amax(1)
    assert torch.allclose(cw(logits, labels) - 50, -(real - other + 50).clamp(min=0))
    assert torch.allclose(margin(logits, labels), other - real)


def test_losses_match_finite_differences() -> None:
    logits, labels = torch.randn(4, 5, dtype=torch.float64, requires_grad=True), torch.tensor([0, 1, 2, 3])
    for loss in (cross_entropy, margin, cw, probability, probability_margin, boosted_cross_entropy):
        assert torch.autograd.gradcheck(lambda z, loss=loss: loss(z, labels), logits)
    others = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(divergence, (logits, others))  # by both of them


def test_losses_of_known_probabilities() -> None:
    """Of 0.5, 0.3, 0.2: the label's is 0.5 in the first row, 0.2 in the second."""
    p = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], dtype=torch.float64)
    logits, labels = p.log() + torch.tensor([[3.0], [-70.0]]), torch.tensor([0, 2])  # which no probability sees
    assert probability(logits, labels).tolist() == pytest.approx([0.5, 0.2])
    assert probability_margin(logits, labels).tolist() == pytest.approx([0.2, -0.3])
    boosted = [-math.log(0.5) - math.log(1.0001 - 0.3), -math.log(0.2) - math.log(1.0001 - 0.5)]
    assert boosted_cross_entropy(logits, labels).tolist() == pytest.approx(boosted)
    uniform = torch.zeros(2, 3, dtype=torch.float64)
    entropy = -sum(share * math.log(share) for share in (0.5, 0.3, 0.2))
    assert divergence(logits, uniform).tolist() == pytest.approx([math.log(3) - entropy] * 2)
    reverse = -math.log(3) - sum(math.log(share) for share in (0.5, 0.3, 0.2)) / 3
    assert divergence(uniform, logits).tolist() == pytest.approx([reverse] * 2)


def test_divergence_is_torchs_and_0_between_equals() -> None:
    logits, others = torch.randn(2, 6, 5, dtype=torch.float64) * 5
    distributions = [torch.distributions.Categorical(logits=z) for z in (logits, others)]
    expected = torch.distributions.kl_divergence(*distributions)
    torch.testing.assert_close(divergence(logits, others), expected)
    assert divergence(logits, logits).abs().max() < 1e-12


def test_losses_and_their_gradients_stay_finite_where_the_network_is_sure() -> None:
    """Sure of the label, sure of another class, and of two at once; in single precision."""
    logits = torch.tensor([[500.0, 0.0, -500.0], [-500.0, 500.0, 0.0], [0.0, 300.0, 300.0]], requires_grad=True)
    labels, turned = torch.zeros(3, dtype=torch.long), logits.flip(1)
    for losses in (boosted_cross_entropy(logits, labels), divergence(logits, turned), divergence(turned, logits)):
        (gradient,) = torch.autograd.grad(losses.sum(), logits, retain_graph=True)
        assert losses.isfinite().all()
        assert gradient.isfinite().all()
    sure_of_another = boosted_cross_entropy(logits, labels)[1].item()
    assert sure_of_another == pytest.approx(1000 - math.log(1e-4), rel=1e-4)


def test_mean_one_keeps_ratios_and_has_mean_1_however_small_the_weights() -> None:
    for offset in (0.0, -1000.0, 500.0):
        weights = mean_one(torch.tensor([0.0, math.log(2.0), math.log(5.0)]) + offset)
        assert weights.tolist() == pytest.approx([3 / 8, 6 / 8, 15 / 8], rel=1e-4)


def test_the_suite_is_the_papers_by_default() -> None:
    attacks = suite()
    assert list(attacks) == ["fgsm", "pgd20", "cw"]
    assert (attacks["fgsm"].steps, attacks["fgsm"].step, attacks["fgsm"].start) == (1, 1.0, "uniform")
    assert (attacks["pgd20"].steps, attacks["pgd20"].step) == (20, 0.25)
    assert (attacks["cw"].steps, attacks["cw"].loss) == (30, cw)


def test_madrys_steps_are_those_of_the_absolute_formula_in_single_precision() -> None:
    for eps in [k / 255 for k in range(1, 256)] + [k / 100 for k in range(1, 101)]:
        for steps in (20, 30):
            sizes = torch.tensor([eps * (2.5 / steps), 2.5 * eps / steps])
            assert sizes[0] == sizes[1]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: PGD(steps=-1), "steps = -1"),
        (lambda: PGD(step=-1.0), "step = -1"),
        (lambda: PGD(step_size=-1.0), "step_size = -1"),
        (lambda: PGD(start="unifrm"), "did you mean 'uniform'"),
        (lambda: PGD(mode="test"), "unknown attack mode"),
        (lambda: suite(["pdg20"]), "did you mean 'pgd20'"),
        (lambda: PGD()(nn.Linear(2, 2), torch.full((1, 2), 255.0), torch.zeros(1).long(), 0.1), "divide pixels by 255"),
        (lambda: PGD()(nn.Linear(2, 2), torch.full((1, 2), -1.0), torch.zeros(1).long(), 0.1), "inside the model"),
        (lambda: PGD()(nn.Linear(2, 2), torch.rand(1, 2), torch.zeros(1).long(), "eight"), "'eight' is not a number"),
    ],
)
def test_nonsense_is_refused_in_one_line(build: Callable[[], object], words: str) -> None:
    assert_refused_in_one_line(build, words)
