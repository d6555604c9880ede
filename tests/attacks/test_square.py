"""Square attack against closed forms and pyautoattack's, also query by query on the same random numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from math import prod
from statistics import mean

import pytest
import torch
from pyautoattack.square import SquareAttack
from refusals import assert_refused_in_one_line
from torch import Tensor, nn
from torch.nn import functional

from orat.attacks import APGD, FAB
from orat.attacks.base import wrong
from orat.attacks.square import Square, ask, share
from orat.attacks.square_steps import SQUARES, mound, places, two_signs
from orat.attacks.threat import NORMS, Norm, Threat
from orat.core.losses import margin
from orat.core.random import Draws

NAMES = {"linf": "Linf", "l2": "L2", "l1": "L1"}
RADII = {"linf": 0.07, "l2": 0.5, "l1": 1.8}  # where about half of the digits below stand


def random_linear(shape: tuple[int, ...], classes: int = 3, seed: int = 0, lead: float = 0.0) -> nn.Module:
    """A linear model whose class 0 leads by so much more."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), classes))
    with torch.no_grad():
        model[1].weight.copy_(torch.randn((classes, prod(shape)), generator=generator))
        model[1].bias.zero_()[0] = lead
    return model.requires_grad_(False)


def test_the_share_of_a_square_is_the_references() -> None:
    attack = SquareAttack(None, resc_schedule=False)
    assert [share(query) for query in range(10_000)] == [attack.p_selection(query) for query in range(10_000)]


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_bumps_are_the_references(norm: Norm) -> None:
    attack = SquareAttack(None, norm=NAMES[norm], device="cpu")
    with torch.random.fork_rng():
        for side in range(2, 32):
            theirs, ours = attack.eta(side), two_signs(side, norm).float()
            assert torch.allclose(theirs, ours, atol=1e-6) or torch.allclose(theirs, ours.T, atol=1e-6)
    for height in range(1, 8):
        for width in range(1, 12):
            assert torch.allclose(attack.eta_rectangles(height, width), mound(height, width, norm).float(), atol=1e-6)


def test_places_are_all_those_where_a_square_fits_and_equally_likely() -> None:
    numbers = Draws.of(0, torch.arange(7000)).uniform(())
    for length, side in ((7, 1), (9, 3), (7, 7)):
        count = length - side + 1
        found = places(numbers, side, length).bincount()
        assert len(found) == count
        assert found.min() > 0.85 * 7000 / count
    assert places(torch.tensor([0.0, 1.0]), 3, 9).tolist() == [0, 6]  # float32 rounds the last of (0, 1) to 1


@pytest.mark.parametrize("shape", [(6,), (1, 1, 6), (1, 2, 3)])
def test_linf_on_a_linear_model_breaks_exactly_what_can_be_broken(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    model = random_linear(shape, classes=2, lead=1.0).double()
    x = torch.rand((200, *shape), generator=generator, dtype=torch.float64)
    y = model(x).argmax(1)
    weight = (model[1].weight[1] - model[1].weight[0]) * torch.where(y == 0, 1, -1)[:, None]
    low, high = (x - 0.15).clamp(0, 1).flatten(1), (x + 0.15).clamp(0, 1).flatten(1)
    best = margin(model(x), y) + (torch.maximum(weight * low, weight * high) - weight * x.flatten(1)).sum(1)
    assert 0.2 < (best > 0).double().mean() < 0.8
    broken = wrong(model, Square(queries=400)(model, x, y, 0.15), y)
    assert torch.equal(broken, best > 0)


class Scripted(Draws):
    """Gives back, in its order, what it was given."""

    def __init__(self, numbers: Tensor) -> None:
        super().__init__(torch.zeros(len(numbers), dtype=torch.long))
        self.numbers = numbers

    def uniform(self, shape: tuple[int, ...]) -> Tensor:
        count = prod(shape)
        now, self.numbers = self.numbers[:, :count], self.numbers[:, count:]
        return functional.pad(now, (0, count - now.shape[1])).reshape(-1, *shape)


class Recorded(SquareAttack):
    """Writes down its random choices as the uniform numbers that make ours choose the same."""

    def begin(self, n: int) -> Recorded:
        self.n, self.log, self.chance = n, [], torch.Generator().manual_seed(0)
        return self

    def random_choice(self, shape: list[int]) -> Tensor:
        up = torch.rand(shape, generator=self.chance) > 0.5
        rows = up if len(shape) == 4 else up[None].expand(self.n, -1, -1, -1)
        self.log.append(torch.where(rows, 0.75, 0.25).flatten(1))
        return torch.where(up, 1.0, -1.0)

    def random_int(self, low: int = 0, high: int = 1, shape: tuple[int, ...] = (1,)) -> Tensor:
        place = int(torch.randint(low, max(high, low + 1), (1,), generator=self.chance))
        self.log.append(torch.full((self.n, 1), (place + 0.5) / (high + 1)))
        return torch.tensor(place)

    def eta(self, s: int) -> Tensor:
        lying = bool(torch.rand(1, generator=self.chance) > 0.5)
        self.log.append(torch.full((self.n, 1), 0.75 if lying else 0.25))
        bump = two_signs(s, self.norm.lower()).float()
        return bump.T if lying else bump


def ask_all(model: nn.Module, images: Tensor, best: Tensor, shape: tuple[int, ...], y: Tensor) -> tuple[Tensor, Tensor]:
    """Asks also where a square changed nothing, as the reference does."""
    return ask(model, images, shape, y)


@pytest.mark.parametrize("norm", NORMS)
def test_squares_that_change_nothing_are_not_asked_about_and_the_answer_is_the_same(
    digits: tuple[nn.Module, Tensor, Tensor], norm: Norm, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x, y = digits[0], digits[1][:20].double(), digits[2][:20]
    model = copy.deepcopy(model).double()  # so that no verdict hangs on the order of a sum
    asked: list[int] = []
    model.register_forward_hook(lambda _module, _given, logits: asked.append(len(logits)))
    threat = Threat(RADII[norm], norm)
    adv, fewer = Square(300)(model, x, y, threat), sum(asked)
    asked.clear()
    monkeypatch.setattr("orat.attacks.square.ask_changed", ask_all)
    assert torch.allclose(Square(300)(model, x, y, threat), adv, atol=1e-9)
    assert fewer < sum(asked) if norm == "linf" else fewer <= sum(asked)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", [(1, 15, 15), (3, 10, 10)])
def test_every_query_is_the_references_on_the_same_random_numbers(
    norm: Norm, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orat.attacks.square.ask_changed", ask_all)
    n, queries, eps = 4, 60, {"linf": 0.1, "l2": 1.0, "l1": 5.0}[norm]
    model = random_linear(shape, lead=1000.0)
    x = torch.rand((n, *shape), generator=torch.Generator().manual_seed(1))
    y = torch.zeros(n, dtype=torch.long)
    asked: list[Tensor] = []
    model.register_forward_pre_hook(lambda _module, given: asked.append(given[0].clone()))
    attack = Recorded(model, NAMES[norm], queries, eps, resc_schedule=False, device="cpu").begin(n)
    attack.init_hyperparam(x)
    attack.attack_single_run(x, y)
    theirs = torch.stack(asked)
    asked.clear()
    Square(queries)(model, x, y, Threat(eps, norm), Scripted(torch.cat(attack.log, 1)))
    assert len(asked) == 1 + queries
    same = [
        torch.allclose(*pair, atol=2e-5) for pair in zip(torch.stack(asked, 1), theirs.transpose(0, 1), strict=True)
    ]
    # In l1 the reference's (x + a) - a is not quite x, and an empty window's rounding is scaled up to a whole bump.
    assert sum(same) >= (n - 1 if norm == "l1" else n)


class Everywhere(SquareAttack):
    """The reference, whose squares never touch the last row and column, with those."""

    def random_int(self, low: int = 0, high: int = 1, shape: tuple[int, ...] = (1,)) -> Tensor:
        return super().random_int(low, high + 1, shape)


@pytest.mark.parametrize("norm", NORMS)
def test_robust_accuracy_equals_that_of_a_reference_that_reaches_the_last_row(
    digits: tuple[nn.Module, Tensor, Tensor], norm: Norm
) -> None:
    model, x, y = digits
    x, y = x[:60], y[:60]
    rates: dict[str, list[float]] = {"ours": [], "everywhere": [], "reference": []}
    for seed in range(3):
        draws = Draws.of(seed, torch.arange(len(x)))
        advs = {"ours": Square(200)(model, x, y, Threat(RADII[norm], norm), draws)}
        for name, kind in (("everywhere", Everywhere), ("reference", SquareAttack)):
            attack = kind(model, NAMES[norm], 200, RADII[norm], seed=seed, resc_schedule=False, device="cpu")
            with torch.random.fork_rng():
                advs[name] = attack.perturb(x, y)
        for name, adv in advs.items():
            rates[name].append(wrong(model, adv, y).float().mean().item())
    ours, everywhere, theirs = (mean(rate) for rate in rates.values())
    assert 0.2 < ours < 0.8
    assert ours == pytest.approx(everywhere, abs=0.05)
    assert ours > theirs - 0.03


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", [(2,), (7,), (1, 1, 6), (1, 6, 1), (1, 3, 4), (2, 5, 5), (3, 4, 11), (1, 1, 1)])
def test_every_shape_is_attacked_and_grows_worse(norm: Norm, shape: tuple[int, ...]) -> None:
    model = random_linear(shape, lead=100.0)
    x = 0.3 + 0.4 * torch.rand((30, *shape), generator=torch.Generator().manual_seed(2))
    y = torch.zeros(30, dtype=torch.long)
    threat = Threat(0.2, norm)
    adv = Square(60)(model, x, y, threat)
    assert adv.shape == x.shape
    assert threat.size(adv - x).max() <= 0.2 * (1 + 1e-5)
    gain = margin(model(adv), y) - margin(model(x), y)
    assert gain.mean() > 0
    assert (gain >= 0).float().mean() > 0.9


@pytest.mark.parametrize("norm", NORMS)
def test_every_proposal_uses_the_whole_ball(norm: Norm) -> None:
    x = torch.full((6, 2, 15, 15), 0.5, dtype=torch.float64)
    squares = SQUARES[norm](x, 0.1)
    source = Draws.of(0, torch.arange(6))
    best = squares.start(source.uniform((squares.start_count,)))
    for query in range(0, 400, 10):
        assert torch.allclose(Threat(0.1, norm).size(best - x), torch.full((6,), 0.1, dtype=torch.float64), rtol=1e-5)
        best = squares.propose(best, share(query), source.uniform((squares.square_count,)))


@pytest.mark.parametrize("norm", NORMS)
def test_no_gradient_is_asked_for(norm: Norm) -> None:
    class Opaque(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            assert not torch.is_grad_enabled()
            assert not x.requires_grad
            return torch.stack([0.6 - x.flatten(1)[:, 0], torch.zeros(len(x))], 1)

    x = torch.full((4, 1, 5, 5), 0.5)
    y = torch.zeros(4, dtype=torch.long)
    with torch.enable_grad():
        adv = Square(50)(Opaque(), x, y, Threat(0.3, norm))
    assert not adv.requires_grad
    assert bool((adv[:, 0, 0, 0] > 0.5).all())


@pytest.mark.parametrize("norm", NORMS)
def test_a_sample_is_asked_about_until_it_breaks_and_no_more_than_so_many_times(
    norm: Norm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orat.attacks.square.ask_changed", ask_all)
    x = torch.rand((5, 1, 6, 6), generator=torch.Generator().manual_seed(0))
    y = torch.zeros(5, dtype=torch.long)
    for lead, expected in ((1000.0, 5 * (1 + 130)), (-1000.0, 5)):
        model, asked = random_linear((1, 6, 6), lead=lead), []
        model.register_forward_hook(lambda _module, _given, logits, asked=asked: asked.append(len(logits)))
        Square(130)(model, x, y, Threat(0.1, norm))
        assert sum(asked) == expected


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Square(queries=0), "queries = 0"),
        (lambda: Square()(nn.Linear(2, 2), torch.full((1, 2), 255.0), torch.zeros(1).long(), 0.1), "by 255"),
    ],
)
def test_nonsense_is_refused_in_one_line(build: Callable[[], object], words: str) -> None:
    assert_refused_in_one_line(build, words)


class Tied(nn.Module):
    """Equal logits of the label 2 and a higher class on the left, of the label and a lower class on the right."""

    def forward(self, x: Tensor) -> Tensor:
        right = x.flatten(1)[:, :1] > 0.5
        left_logits, right_logits = torch.tensor([[-1.0, -1, 0, 0]]), torch.tensor([[-1.0, 0, 0, -1]])
        return torch.where(right, right_logits, left_logits) + 0 * x.flatten(1).sum(1, keepdim=True)


def test_a_tie_that_the_network_decides_for_another_class_is_found_though_no_margin_grows() -> None:
    x, y = torch.full((30, 1, 5, 5), 0.45), torch.full((30,), 2)
    assert not wrong(Tied(), x, y).any()
    assert bool(wrong(Tied(), x + 0.1, y).all())
    assert bool(wrong(Tied(), Square(queries=100)(Tied(), x, y, 0.1), y).all())


@pytest.mark.parametrize("logits", [[0.0, 0, 0, 0], [1.0, 0, 0, 0], [0.0, 0, 0, 1]])
def test_constant_logits_break_no_sample_that_is_right_as_for_the_reference(logits: list[float]) -> None:
    """No point of the ball is misclassified; on equal logits, pyautoattack's Square in linf stops at a margin of 0."""

    class Constant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tensor(logits) + 0 * x.flatten(1).sum(1, keepdim=True)

    x, y = torch.rand((2, 1, 5, 5), generator=torch.Generator().manual_seed(0)), torch.tensor(logits).argmax().repeat(2)
    for attack in (Square(queries=50), APGD(steps=5), FAB(steps=5)):
        assert not wrong(Constant(), attack(Constant(), x, y, 0.3), y).any()
    reference = SquareAttack(Constant(), norm="Linf", eps=0.3, n_queries=50, device="cpu", seed=0, verbose=False)
    with torch.random.fork_rng():
        assert not wrong(Constant(), reference.perturb(x, y), y).any()
