"""Auto-PGD against closed forms on linear models and against pyautoattack, step by step and as a whole."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from pyautoattack import autopgd_base
from pyautoattack.autopgd_base import APGDAttack, APGDAttack_targeted, L1_projection
from refusals import assert_refused_in_one_line
from small_networks import linear
from torch import Tensor, nn

from orat.attacks import Threat
from orat.attacks.apgd import APGD, L1_STAGES, LOSSES
from orat.attacks.apgd_steps import Climb, Halving, Sparse
from orat.attacks.base import wrong
from orat.attacks.threat import NORMS, Norm
from orat.core.losses import dlr, dlr_targeted, margin
from orat.core.random import Draws, Randomness

NAMES = {"linf": "Linf", "l2": "L2", "l1": "L1"}
DUALS = {"linf": 1, "l2": 2, "l1": float("inf")}
RADII = {"linf": 0.05, "l2": 0.33, "l1": 1.1}  # where about half of the digits below stand

WEIGHT = torch.tensor([0.5, -2.0, 1.0, 0.3], dtype=torch.float64)
CENTER = torch.full((3, 4), 0.5, dtype=torch.float64)
ZEROS = torch.zeros(3, dtype=torch.long)


KINDS = [("ce", 2), ("ce", 5), ("dlr", 2), ("dlr", 3), ("dlr", 5), *(("dlr-targeted", n) for n in (2, 3, 4, 5))]


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize(("loss", "classes"), KINDS)
def test_apgd_on_a_linear_model_ends_at_the_best_point_of_the_ball(norm: Norm, loss: str, classes: int) -> None:
    direction = {"linf": WEIGHT.sign(), "l2": WEIGHT / WEIGHT.norm()}[norm]
    adv = APGD(loss, targets=1)(linear(WEIGHT, -9.0, classes), CENTER, ZEROS, Threat(0.2, norm))
    assert torch.allclose(adv, CENTER + 0.2 * direction, atol=1e-4)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_linf_apgd_at_the_border_of_the_images_goes_as_far_as_they_do(loss: str) -> None:
    x = torch.tensor([[0.9, 0.05, 0.5, 1.0], [0.0, 1.0, 0.95, 0.0]], dtype=torch.float64)
    adv = APGD(loss, targets=1)(linear(WEIGHT, -9.0, 4), x, ZEROS[:2], 0.2)
    assert torch.equal(adv, (x + 0.2 * WEIGHT.sign()).clamp(0, 1))


@pytest.mark.parametrize(("loss", "classes"), [("ce", 2), ("dlr", 3), ("dlr-targeted", 4)])
def test_l1_apgd_on_a_linear_model_comes_as_near_to_the_best_point_as_the_reference(loss: str, classes: int) -> None:
    """Not all the way, either of them: two coordinates that move by equal shares never become one."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(50, generator=generator)
    x = 0.3 + 0.4 * torch.rand((60, 50), generator=generator)
    y = torch.zeros(60, dtype=torch.long)
    model = linear(weight, -8.0, classes)
    best = 0.2 * weight.abs().max()
    gains = (APGD(loss, restarts=1, targets=1)(model, x, y, Threat(0.2, "l1")) - x) @ weight
    assert gains.max() <= best + 1e-5
    assert gains.mean() > 0.8 * best
    if classes == 3:
        attack = reference(model, "l1", 0.2, loss, 100)
        with torch.random.fork_rng():
            attack.init_hyperparam(x)
            theirs = attack.decr_eps_pgd(x, y, [0.6, 0.4, 0.2], [30, 30, 40])[0]
        assert gains.mean() == pytest.approx(float(((theirs - x) @ weight).mean()), rel=0.03)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_point_is_broken_exactly_when_the_border_is_within_eps(norm: Norm, classes: int, loss: str) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(8, generator=generator, dtype=torch.float64)
    x = 0.35 + 0.3 * torch.rand((80, 8), generator=generator, dtype=torch.float64)
    model = linear(weight, -float(x.mean(0) @ weight) - 0.4, classes)
    y = ZEROS[:1].expand(80)
    distance = -margin(model(x), y) / weight.norm(DUALS[norm])
    eps = float(distance.median())
    assert 0.01 < eps < 0.3
    broken = wrong(model, APGD(loss, restarts=1, targets=9)(model, x, y, Threat(eps, norm)), y)
    reach = 0.7 if norm == "l1" else 0.998  # in l1 the attack does not find the best point itself
    assert bool(broken[distance < reach * eps].all())
    assert not bool(broken[distance > 1.001 * eps].any())


def test_dlr_is_the_references() -> None:
    generator = torch.Generator().manual_seed(0)
    for classes in (3, 4, 5, 10):
        logits = 5 * torch.randn((300, classes), generator=generator, dtype=torch.float64)
        labels, shift = (torch.randint(low, classes, (300,), generator=generator) for low in (0, 1))
        targets = (labels + shift) % classes
        assert torch.allclose(dlr(logits, labels), APGDAttack.dlr_loss(None, logits, labels))
        if classes >= 4:
            theirs = APGDAttack_targeted.dlr_loss_targeted(SimpleNamespace(y_target=targets), logits, labels)
            assert torch.allclose(dlr_targeted(logits, labels, targets), theirs)


def test_with_few_classes_the_ratios_fall_back_as_documented() -> None:
    logits = torch.tensor([[1.0, 4.0, -2.0], [3.0, 2.5, 2.0]], dtype=torch.float64)
    labels, targets = torch.tensor([0, 0]), torch.tensor([2, 1])
    assert torch.allclose(dlr_targeted(logits, labels, targets), torch.tensor([-3 / 6, -0.5 / 1]).double())
    assert torch.equal(dlr(logits[:, :2], labels), torch.tensor([3.0, -0.5]).double())
    assert torch.equal(dlr_targeted(logits[:, :2], labels, 1 - labels), torch.tensor([3.0, -0.5]).double())


def test_both_ratios_match_finite_differences() -> None:
    generator = torch.Generator().manual_seed(0)
    labels, targets = torch.tensor([0, 1, 0, 1]), torch.tensor([1, 0, 1, 0])
    for classes in (2, 3, 4, 6):
        logits = torch.randn((4, classes), generator=generator, dtype=torch.float64).requires_grad_()
        assert torch.autograd.gradcheck(lambda z: dlr(z, labels), logits)
        assert torch.autograd.gradcheck(lambda z: dlr_targeted(z, labels, targets), logits)


def reference(model: nn.Module, norm: Norm, eps: float, loss: str, steps: int) -> APGDAttack:
    """pyautoattack's attack of the same loss."""
    given = {"n_iter": steps, "norm": NAMES[norm], "eps": eps, "device": "cpu", "use_largereps": norm == "l1"}
    if loss == "dlr-targeted":
        return APGDAttack_targeted(model, **given)
    return APGDAttack(model, loss=loss, **given)


def single_run(
    attack: APGDAttack, x: Tensor, y: Tensor, start: Tensor, target: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The reference's best points, broken samples and best losses from this start."""
    attack.y_target = target
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attack.init_hyperparam(x)
        best, standing, best_loss, _ = attack.attack_single_run(x, y, x_init=start)
    return best.detach(), ~standing, best_loss


def changed(delta: Tensor) -> Tensor:
    """The coordinates that differ, without those that the reference counts because (x + a) - a is not quite x."""
    return (delta.abs() > 1e-6).flatten(1).sum(1)


def runner_up(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return model(x).scatter(1, y[:, None], float("-inf")).argmax(1)


def assert_same_steps(
    climb: Climb, best: Tensor, broken: Tensor, theirs: Tensor, their_broken: Tensor, their_loss: Tensor
) -> None:
    """Broken samples have ratios of nearly 0 below, where rounding grows: they may part company, others hardly."""
    close = (climb.best_loss - their_loss).abs() < 1e-4
    assert close[~broken].float().mean() >= 0.9
    assert close.float().mean() >= 0.75
    assert Threat(1.0).size(best - theirs).median() < 1e-5
    assert (broken != their_broken).sum() <= 1


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("steps", [1, 8, 100])
def test_steps_are_the_references_from_the_same_start(
    digits: tuple[nn.Module, Tensor, Tensor], norm: Norm, loss: str, steps: int
) -> None:
    model, x, y = digits
    eps, target, sample = RADII[norm], runner_up(model, x, y), torch.arange(len(x))
    attack, threat = APGD(loss, steps), Threat(eps, norm)
    start = attack.begin(x, threat, Draws.of(1, sample))
    climb = Climb.at(start, x, y, target, sample)
    best, broken = attack.ascend(model, climb, Halving(threat, steps), steps, leave=False)
    theirs, their_broken, their_loss = single_run(reference(model, norm, eps, loss, steps), x, y, start, target)
    assert_same_steps(climb, best, broken, theirs, their_broken, their_loss)


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_l1_stages_are_the_references_from_the_same_start(
    digits: tuple[nn.Module, Tensor, Tensor], loss: str, stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autopgd_base, "L0_norm", changed)
    model, x, y = digits
    eps, steps = L1_STAGES[stage][0] * RADII["l1"] / 2, round(100 * L1_STAGES[stage][1])
    target, sample = runner_up(model, x, y), torch.arange(len(x))
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    threat = Threat(eps, "l1")
    start = threat.project(x + noise, x)
    assert torch.allclose(start, x + noise + L1_projection(x, noise, eps), atol=1e-5)
    climb = Climb.at(start, x, y, target, sample)
    best, broken = APGD(loss).ascend(model, climb, Sparse(threat, steps), steps, leave=False)
    theirs, their_broken, their_loss = single_run(reference(model, "l1", eps, loss, steps), x, y, start, target)
    assert_same_steps(climb, best, broken, theirs, their_broken, their_loss)


def perturbed(attack: APGDAttack, x: Tensor, y: Tensor, seed: int) -> Tensor:
    attack.seed = seed
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attack.perturb(x, y)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_the_same_samples_break_as_with_the_reference_from_the_same_random_numbers(
    digits: tuple[nn.Module, Tensor, Tensor], norm: Norm, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autopgd_base, "L0_norm", changed)
    model, x, y = digits
    attack = reference(model, norm, RADII[norm], loss, 100)
    attack.n_target_classes = 1
    for seed in range(2):
        threat, generator = Threat(RADII[norm], norm), torch.Generator().manual_seed(seed)
        adv = APGD(loss, restarts=1, targets=1)(model, x, y, threat, generator)
        broken = wrong(model, adv, y)
        assert 0.2 < broken.float().mean() < 0.8
        assert (broken != wrong(model, perturbed(attack, x, y, seed), y)).sum() <= (norm != "linf")


@pytest.mark.parametrize("norm", NORMS)
def test_robust_accuracy_over_all_targets_equals_the_references(
    digits: tuple[nn.Module, Tensor, Tensor], norm: Norm
) -> None:
    """From other random numbers, with which both vary by a sample or two."""
    model, x, y = digits[0], digits[1][:50], digits[2][:50]
    broken = wrong(model, APGD("dlr-targeted", targets=9)(model, x, y, Threat(RADII[norm], norm)), y).sum()
    attack = reference(model, norm, RADII[norm], "dlr-targeted", 100)
    assert abs(broken - wrong(model, perturbed(attack, x, y, 0), y).sum()) <= 2


@dataclass(frozen=True)
class Watched(APGD):
    """Remembers its attempts and where they began."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "seen", [])
        object.__setattr__(self, "starts", [])

    def search(
        self, model: nn.Module, x: Tensor, y: Tensor, target: Tensor, sample: Tensor, threat: Threat, draws: Randomness
    ) -> tuple[Tensor, Tensor]:
        self.seen.extend(zip(sample.tolist(), target.tolist(), strict=True))
        return super().search(model, x, y, target, sample, threat, draws)

    def begin(self, x: Tensor, threat: Threat, randomness: Randomness) -> Tensor:
        self.starts.append(super().begin(x, threat, randomness))
        return self.starts[-1]


def test_every_restart_aims_once_at_each_of_the_likeliest_wrong_classes() -> None:
    generator = torch.Generator().manual_seed(0)
    model = nn.Linear(4, 6)
    x = torch.rand((5, 4), generator=generator)
    y = model(x).argmax(1)
    attack = Watched("dlr-targeted", steps=2, restarts=3, targets=4)
    attack(model, x, y, 0.0)
    ranked = model(x).argsort(1, descending=True)[:, 1:5]
    assert sorted(attack.seen) == sorted(
        (sample, int(target)) for sample in range(5) for target in ranked[sample] for _ in range(3)
    )


@pytest.mark.parametrize(("loss", "targets", "attempts"), [("ce", 9, 3), ("dlr", 9, 3), ("dlr-targeted", 9, 6)])
def test_a_sample_that_stands_is_asked_about_in_every_step_of_every_attempt(
    loss: str, targets: int, attempts: int
) -> None:
    model = linear(WEIGHT, -9.0, 3)
    asked: list[int] = []
    model.register_forward_hook(lambda _module, _given, logits: asked.append(len(logits)))
    APGD(loss, steps=7, restarts=3, targets=targets)(model, CENTER, ZEROS, 0.1)
    assert sum(asked) == 3 + 3 * attempts * (1 + 7)
    asked.clear()
    APGD(loss, steps=10, restarts=3, targets=targets)(model, CENTER, ZEROS, Threat(0.1, "l1"))
    assert sum(asked) == 3 + 3 * attempts * (3 + 10)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_restarts_begin_elsewhere_on_the_surface_of_the_ball(norm: Norm) -> None:
    attack, threat = Watched(steps=1, restarts=4), Threat(0.2, norm)
    attack(linear(WEIGHT, -9.0, 2), CENTER, ZEROS, threat)
    starts = torch.cat(attack.starts)
    assert len(starts.unique(dim=0)) == 4 * len(CENTER)
    assert torch.allclose(threat.size(starts - 0.5), torch.full((12,), 0.2, dtype=torch.float64))


def test_a_broken_sample_ends_its_other_attempts() -> None:
    model = linear(WEIGHT, 5.0, 3)
    attack = Watched("ce", restarts=200)
    asked: list[int] = []
    model.register_forward_hook(lambda _module, _given, logits: asked.append(len(logits)))
    adv = attack(model, CENTER, ZEROS, 0.1)
    assert bool(wrong(model, adv, ZEROS).all())
    assert sum(asked[:-1]) < 3 + 3 * 200  # without a single step


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: APGD(loss="dlr-t"), "did you mean 'dlr"),
        (lambda: APGD(steps=0), "steps, restarts and targets are 1 or more"),
        (lambda: APGD(restarts=0), "steps, restarts and targets are 1 or more"),
        (lambda: APGD(targets=0), "steps, restarts and targets are 1 or more"),
        (lambda: APGD()(nn.Linear(2, 2), torch.full((1, 2), 255.0), torch.zeros(1).long(), 0.1), "by 255"),
    ],
)
def test_nonsense_is_refused_in_one_line(build: Callable[[], object], words: str) -> None:
    assert_refused_in_one_line(build, words)
