"""Sound networks raise no warning, and each way of hiding the gradient raises its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from orat.attacks import PGD, Threat
from orat.attacks.threat import Norm
from orat.core.console import SILENT
from orat.core.errors import InputError
from orat.data.catalog import load
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.evaluation.checks import check_gradients, check_model, check_results
from orat.models.layers import Normalize
from orat.models.mlp import MLP

EPS = 0.1


class Around(nn.Module):
    """A network with something done to its input and to its logits."""

    def __init__(
        self,
        inner: nn.Module,
        before: Callable[[Tensor], Tensor] | None = None,
        after: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.inner = inner
        self.before = before or nn.Identity()
        self.after = after or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.inner(self.before(x)))


class Stubborn(nn.BatchNorm1d):
    """Batch statistics whatever the mode."""

    def train(self, mode: bool = True) -> Stubborn:
        return super().train(True)


class Reversed(torch.autograd.Function):
    """The identity, with a gradient that points backward."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return -gradient


class Ridge(nn.Module):
    """Class 1 farther than `border` from the middle, behind a ridge of the loss at 0.03 where small steps end."""

    def __init__(self, border: float) -> None:
        super().__init__()
        self.border = border

    def forward(self, x: Tensor) -> Tensor:
        distance = (x[:, 0] - 0.5).abs()
        ridge = 0.5 * torch.exp(-(((distance - 0.03) / 0.01) ** 2))
        lead = ridge - 1 + 200 * (distance - self.border).relu()
        return torch.stack([torch.zeros_like(lead), lead], 1)


def trained(model: nn.Module, x: Tensor, y: Tensor, eps: float | None = None, rate: float = 2e-3) -> nn.Module:
    """The model after 200 steps of Adam, on attacked images where a radius is given."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    for _ in range(200):
        index = torch.randint(len(x), (100,), generator=generator)
        images = x[index] if eps is None else PGD(5)(model, x[index], y[index], eps, generator)
        optimizer.zero_grad()
        cross_entropy(model(images), y[index]).backward()
        optimizer.step()
    return model.eval()


def network(inputs: int = 784, classes: int = 10) -> nn.Module:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return MLP(inputs, (64,), classes)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    test = load("sample").test
    assert test is not None
    return test


@pytest.fixture(scope="module")
def standard() -> nn.Module:
    train = load("sample").train
    return trained(network(), as_input(train.images), train.labels)


@pytest.fixture(scope="module")
def robust() -> nn.Module:
    train = load("sample").train
    return trained(network(), as_input(train.images), train.labels, EPS)


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return (model(x).argmax(1) == y).double().mean().item()


def middle_points() -> Dataset:
    """Points on the line x0 = 0.5, class 0, and a few far from it, class 1."""
    x = torch.rand((300, 2), generator=torch.Generator().manual_seed(0))
    x[:280, 0], x[280:, 0] = 0.5, 0.62
    return Dataset(x, (torch.arange(300) >= 280).long(), ("near", "far"))


def probe(model: nn.Module, data: Dataset, eps: float = EPS, norm: Norm = "linf") -> list[str]:
    return check_gradients(model, data, Threat(eps, norm), 0, SILENT)


@pytest.mark.parametrize("kind", ["standard", "robust"])
@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.1), ("linf", 0.3), ("l2", 1.5), ("l1", 10.0)])
def test_sound_networks_raise_no_warning(
    kind: str, norm: Norm, eps: float, digits: Dataset, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(kind)
    assert check_model(model, digits, False) == []
    assert probe(model, digits, eps, norm) == []


@pytest.mark.parametrize("eps", [None, 0.01])
def test_sound_networks_on_points_of_the_plane_raise_no_warning(eps: float | None) -> None:
    splits = load("toy-balanced")
    assert splits.test is not None
    model = trained(network(2, 2), splits.train.images, splits.train.labels, eps, rate=0.02)
    assert check_model(model, splits.test, False) == []
    assert probe(model, splits.test, 0.01) == []


def test_the_checks_leave_modes_gradient_flags_and_random_state_alone(standard: nn.Module, digits: Dataset) -> None:
    model = Around(nn.Sequential(standard, nn.Dropout()), after=lambda z: z + torch.randn_like(z)).train()
    standard.eval()
    fixed = next(model.parameters()).requires_grad_(False)
    before = [module.training for module in model.modules()], [p.requires_grad for p in model.parameters()]
    state = torch.random.get_rng_state()
    check_model(model, digits, True)
    probe(model, digits)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert ([module.training for module in model.modules()], [p.requires_grad for p in model.parameters()]) == before
    fixed.requires_grad_(True)


def test_train_mode_is_told(standard: nn.Module, digits: Dataset) -> None:
    (warning,) = check_model(standard, digits, True)
    assert "came in train mode" in warning


def test_a_module_that_stays_in_train_mode_is_named(standard: nn.Module, digits: Dataset) -> None:
    model = nn.Sequential(standard, nn.Identity(), Stubborn(10))
    (warning,) = check_model(model, digits, False)
    assert warning.startswith("train mode stays on after eval() in 2,")


def test_noise_at_inference_is_told_with_its_size(standard: nn.Module, digits: Dataset) -> None:
    (warning,) = check_model(Around(standard, after=lambda z: z + 0.1 * torch.randn_like(z)), digits, False)
    assert "random" in warning
    assert "overestimated" in warning
    largest = float(warning.split("up to ")[1].split(",")[0])
    assert 0.4 < largest < 0.9  # of 2000 differences of two normal numbers, deviation 0.14: about 3.5 deviations


@pytest.mark.parametrize(
    ("name", "mean", "std", "words"),
    [
        ("sample", [0.5], [0.5], "200 inputs scaled to [-1, 1] (mean 0.5, std 0.5) is "),
        ("sample", [0.0], [1 / 255], "200 inputs scaled to [0, 255] (mean 0, std 1/255) is "),
        ("toy-balanced", [0.45, 0.5], [0.2, 0.05], "standardized by the data's own mean and std is "),
    ],
)
def test_normalization_outside_is_told_and_gone_once_inside(
    name: str, mean: list[float], std: list[float], words: str
) -> None:
    splits, normalize = load(name), Normalize(mean, std)
    assert splits.test is not None
    x, inputs = as_input(splits.train.images), splits.train.images[0].numel()
    model = trained(network(inputs, len(splits.train.classes)), normalize(x), splits.train.labels, rate=0.01)
    (warning,) = check_model(model, splits.test, False)
    assert words in warning
    assert "nn.Sequential(Normalize(mean, std), model)" in warning
    assert check_model(nn.Sequential(normalize, model), splits.test, False) == []


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (lambda z: z.softmax(1), "probabilities.*remove the last softmax"),
        (lambda z: z[:, :7], r"\(200, 7\) for 200 samples of 10 classes"),
        (lambda z: z.flatten(), r"\(2000,\) for 200 samples of 10 classes"),
        (lambda z: (z, z), "tuple for 200 samples"),
        (lambda z: z.masked_fill(torch.arange(len(z))[:, None] < 3, float("nan")), "NaN.*3 of 200 samples"),
        (lambda z: z / torch.zeros(1), "infinite logits for 200 of 200 samples"),
    ],
)
def test_outputs_that_are_no_logits_are_refused(
    standard: nn.Module, digits: Dataset, after: Callable[[Tensor], Tensor], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        check_model(Around(standard, after=after), digits, False)


def test_log_probabilities_are_as_good_as_logits(standard: nn.Module, digits: Dataset) -> None:
    model = Around(standard, after=lambda z: z.log_softmax(1))
    assert check_model(model, digits, False) + probe(model, digits) == []


def test_without_bounds_the_probe_at_the_largest_radius_is_left_out(standard: nn.Module, digits: Dataset) -> None:
    for threat in (Threat(EPS, low=None, high=None), Threat(EPS, low=-1.0, scale=(1.0,) * 784)):
        assert check_gradients(standard, digits, threat, 0, SILENT) == []
        warnings = check_gradients(Around(standard, before=Reversed.apply), digits, threat, 0, SILENT)
        assert not any("nowhere" in warning for warning in warnings)


def test_rounded_inputs_look_robust_to_pgd_but_not_to_random_search_and_are_told(
    standard: nn.Module, digits: Dataset
) -> None:
    model = Around(standard, before=lambda x: (8 * x).round() / 8)
    x, y = as_input(digits.images[::10]), digits.labels[::10]
    assert accuracy(model, PGD(20)(model, x, y, EPS, torch.Generator().manual_seed(0)), y) > 0.8
    assert accuracy(model, random_search(model, x, y, 500), y) < 0.5
    (warning,) = probe(model, digits)
    assert "blind on 100 % of 100 correctly classified samples" in warning
    assert "are 0 though its logits change" in warning


def random_search(model: nn.Module, x: Tensor, y: Tensor, queries: int) -> Tensor:
    """Columns and rows of the image moved by eps, one of a random sign at a time, kept where the margin shrinks."""
    generator = torch.Generator().manual_seed(0)
    best, least = x, torch.full((len(x),), float("inf"))
    for _ in range(queries):
        top, left = torch.randint(0, 22, (2,), generator=generator).tolist()
        sign = 1.0 - 2.0 * float(torch.randint(0, 2, (1,), generator=generator))
        moved = best.clone()
        moved[:, :, top : top + 6, left : left + 6] = x[:, :, top : top + 6, left : left + 6] + sign * EPS
        moved = moved.clamp(0, 1)
        with torch.no_grad():
            logits = model(moved)
        lead = logits.gather(1, y[:, None]).squeeze(1) - logits.scatter(1, y[:, None], -1e9).amax(1)
        better = lead < least
        best = torch.where(better[:, None, None, None], moved, best)
        least = torch.where(better, lead, least)
    return best


def test_saturated_logits_are_told_apart_from_a_model_without_gradients(standard: nn.Module, digits: Dataset) -> None:
    (warning,) = probe(Around(standard, after=lambda z: 1e4 * z), digits)
    assert "cross-entropy is saturated" in warning


def test_a_cut_graph_is_told_instead_of_an_error_of_autograd(standard: nn.Module, digits: Dataset) -> None:
    (warning,) = probe(Around(standard, before=Tensor.detach), digits)
    assert "blind on 100 %" in warning
    assert "detach()" in warning


def test_gradients_that_are_no_numbers_are_told(standard: nn.Module, digits: Dataset) -> None:
    (warning,) = probe(Around(standard, before=lambda x: x + 0 * (x * 0).sqrt()), digits)
    assert "NaN or infinite" in warning


def test_a_network_that_is_truly_flat_around_the_samples_is_not_suspected() -> None:
    model, data = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2)), middle_points()
    values = ([[1.0, 0.0]], [-0.61], [[0.0], [100.0]], [0.5, 0.0])  # class 1 right of 0.615, constant left of 0.61
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter.copy_(torch.tensor(value))
    assert accuracy(model, data.images, data.labels) == 1
    assert probe(model, data) == []


def test_a_model_that_only_guesses_is_told_instead_of_called_robust(standard: nn.Module, digits: Dataset) -> None:
    (warning,) = probe(Around(standard, after=lambda z: z + 1e3 * torch.eye(10)[3]), digits)
    assert "hardly better than guessing" in warning


def test_a_gradient_that_points_backward_leads_nowhere_even_at_the_largest_radius(
    standard: nn.Module, digits: Dataset
) -> None:
    warnings = probe(Around(standard, before=Reversed.apply), digits)
    assert any("nowhere: 100 % of 100 samples withstand 50 steps at linf eps 1," in warning for warning in warnings)


def test_a_ridge_that_stops_small_steps_is_told_because_one_large_step_crosses_it() -> None:
    warnings = probe(Ridge(border=0.09), middle_points())
    assert any("withstand 1 step at linf eps 0.1" in warning for warning in warnings)


def test_a_ridge_that_stops_ever_smaller_steps_is_told_because_more_steps_break_less() -> None:
    warnings = probe(Ridge(border=0.04), middle_points())
    assert any("withstand 100 steps at linf eps 0.1 but" in warning for warning in warnings)


def masks(n: int = 500, **broken: int) -> dict[str, Tensor]:
    """Masks in which each attack breaks the first so many of the samples."""
    return {name: torch.arange(n) >= count for name, count in broken.items()}


def test_attacks_that_agree_raise_no_warning() -> None:
    right = masks(natural=20, fgsm=150, pgd20=200, square=180, autoattack=215) | {"apgd-ce": torch.arange(500) >= 204}
    assert check_results(right) == []


@pytest.mark.parametrize(("only", "told"), [(4, False), (5, True)])
def test_square_may_break_less_than_one_percent_that_gradients_do_not(only: int, told: bool) -> None:
    right = masks(natural=0, pgd20=90) | {"apgd-t": torch.arange(500) >= 100, "square": torch.arange(500) >= 100 + only}
    warnings = check_results(right)
    assert [f"breaks {only} of 500 samples that withstand pgd20, apgd-t" in warning for warning in warnings] == [
        True
    ] * told


def test_square_is_not_compared_with_one_step() -> None:
    assert check_results(masks(natural=0, fgsm=10, square=200)) == []


@pytest.mark.parametrize(("only", "told"), [(1, False), (2, True)])
def test_square_inside_autoattack_is_compared_with_the_parts_before_it(only: int, told: bool) -> None:
    counts = {"apgd-ce": 20, "apgd-t": 25, "fab-t": 26, "square": 26 + only}
    warnings = check_results({f"autoattack:{part}": torch.arange(100) >= count for part, count in counts.items()})
    assert len(warnings) == told
    assert all(f"breaks {only} of 100" in warning for warning in warnings)


@pytest.mark.parametrize("composite", ["autoattack", "autoattack-reference"])
def test_pgd_far_above_autoattack_must_not_be_reported(composite: str) -> None:
    right = masks(natural=20, pgd10=190, pgd100=200) | {composite: torch.arange(500) >= 300}
    (warning,) = check_results(right)
    assert "must not be reported: 60 % of 500 samples withstand pgd100 but only 40 %" in warning


def test_a_gap_on_few_samples_may_be_chance() -> None:
    assert check_results(masks(10, pgd20=2, autoattack=3)) == []
