"""Accuracy sample by sample, against a model whose robust samples are known in closed form."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from threshold import points, threshold_model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import orat
from orat.attacks import APGD, PGD, Attack, Square, Threat
from orat.attacks.threat import Norm
from orat.core.errors import InputError
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.evaluation import correct, evaluate, predict
from orat.evaluation.accuracy import Examination
from orat.models.mlp import MLP

expect = Examination.expect


@pytest.mark.parametrize("eps", [0.0, 0.05, 0.2])
def test_robust_are_exactly_the_right_samples_farther_than_eps_from_the_border(eps: float) -> None:
    data = points()
    right = correct(threshold_model(), data, orat.attacks.suite(), eps)
    natural = (data.images[:, 0] > 0.5).long() == data.labels
    assert torch.equal(right["natural"], natural)
    expected = natural & ((data.images[:, 0] - 0.5).abs() > eps)
    assert torch.equal(right["pgd20"], expected)
    assert torch.equal(right["cw"], expected)


def test_a_wrong_sample_stays_wrong_under_attack() -> None:
    right = correct(threshold_model(), points(), ["fgsm", "fgsm-plain", "pgd20-madry"], 0.3)
    for name in ("fgsm", "fgsm-plain", "pgd20-madry"):
        assert not (right[name] & ~right["natural"]).any()


def test_evaluate_is_the_share_of_the_right_ones_and_repeats_itself() -> None:
    data, model = points(), threshold_model()
    accuracy = evaluate(model, data, ["fgsm", "pgd20", "cw"], "0.1")
    right = correct(model, data, orat.attacks.suite(), 0.1)
    assert accuracy == {name: pytest.approx(mask.double().mean().item()) for name, mask in right.items()}
    assert evaluate(model, data, orat.attacks.suite(), Threat(0.1)) == accuracy
    assert evaluate(model, data, "pgd20", 0.1) == {name: accuracy[name] for name in ("natural", "pgd20")}
    assert evaluate(model, data, [], 0.1) == {"natural": accuracy["natural"]}


def test_what_is_no_attack_is_refused_by_its_name() -> None:
    with pytest.raises(InputError, match="mine is a value of type int, no attack: give a class derived from orat"):
        evaluate(threshold_model(), points(), {"mine": 7}, 0.1)
    with pytest.raises(InputError, match="without a scale: .* use pgd"):
        evaluate(threshold_model(), points(), ["pgd20", "square"], Threat(0.1, scale=(1.0, 0.0)))


def test_a_frozen_feature_protects_what_only_this_feature_breaks() -> None:
    data, model = points(), threshold_model()
    natural = correct(model, data, {}, 0.2)["natural"]
    right = correct(model, data, ["pgd20", "apgd-ce"], Threat(0.2, scale=(0.0, 1.0)))
    assert torch.equal(right["pgd20"], natural)
    assert torch.equal(right["apgd-ce"], natural)
    wide = correct(model, data, ["pgd20"], Threat(0.1, low=-1.0, high=2.0, scale=(2.0, 0.0)))
    assert torch.equal(wide["pgd20"], natural & ((data.images[:, 0] - 0.5).abs() > 0.2))


def test_evaluation_restores_the_mode_of_the_model() -> None:
    model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).train()
    evaluate(model, points(), orat.attacks.suite(), 0.1)
    assert model.training
    assert model[1].num_batches_tracked == 0


def test_a_model_with_the_wrong_number_of_classes_is_refused() -> None:
    with pytest.raises(InputError, match="5.* numbers per sample for 2 classes"):
        predict(nn.Linear(2, 5), points())


def test_logits_that_are_no_numbers_are_refused() -> None:
    model = threshold_model()
    with torch.no_grad():
        model.bias.fill_(float("nan"))
    with pytest.raises(InputError, match="NaN"):
        predict(model, points())


def test_values_outside_the_unit_interval_are_refused_at_the_door() -> None:
    with pytest.raises(InputError, match=r"from 0 to 255, but must lie in \[0, 1\]"):
        Dataset(torch.tensor([[0.0, 255.0]]), torch.tensor([0]), ("a", "b"))


@pytest.mark.parametrize(
    ("labels", "words"),
    [(torch.tensor([0, 2]), "from 0 to 2"), (torch.tensor([-1, 0]), "from -1"), (torch.tensor([0]), "2 samples")],
)
def test_labels_that_do_not_fit_are_refused(labels: torch.Tensor, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Dataset(torch.rand(2, 3), labels, ("a", "b"))


class Precise(nn.Module):
    """A network in float64, so that no verdict hangs on how a batch of another size is summed."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            self.inner = MLP(64, (16,), 4).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.double()).float()


def stripes(n: int) -> Dataset:
    """Images of 8x8: one of four bright stripes says the class."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % 4
    images = torch.randint(0, 130, (n, 1, 8, 8), generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[:, 2 * label : 2 * label + 2] += 90
    return Dataset(images.to(torch.uint8), labels, ("first", "second", "third", "fourth"))


@pytest.fixture(scope="module")
def network() -> nn.Module:
    """A network that has learned the stripes."""
    model, data = Precise(), stripes(200)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(model(as_input(data.images)), data.labels).backward()
        optimizer.step()
    return model.eval()


RANDOM: dict[str, tuple[Attack, Threat]] = {  # each at a radius where it breaks some but not all
    "pgd": (PGD(2), Threat(0.3)),
    "pgd-restarts": (PGD(2, restarts=3), Threat(0.3)),
    "apgd": (APGD(steps=3), Threat(0.15)),
    "apgd-targeted": (APGD("dlr-targeted", steps=3), Threat(0.15)),
    "square": (Square(40), Threat(0.19)),
    "pgd-l2": (PGD(2), Threat(1.7, "l2")),
    "square-l2": (Square(40), Threat(1.4, "l2")),
}


def random_verdicts(model: nn.Module, data: Dataset, seed: int, **more: int) -> dict[str, Tensor]:
    """The verdicts of all random attacks, each at its radius."""
    right = {}
    for name, (attack, threat) in RANDOM.items():
        right |= correct(model, data, {name: attack}, threat, seed=seed, **more)
    return right


@pytest.fixture(scope="module")
def in_large_batches(network: nn.Module) -> dict[str, Tensor]:
    return random_verdicts(network, stripes(260), 3, batch_size=250)


@pytest.mark.parametrize("batch_size", [1, 7])
def test_the_batch_size_changes_no_verdict_of_an_attack_that_draws(
    batch_size: int, network: nn.Module, in_large_batches: dict[str, Tensor]
) -> None:
    few = torch.arange(3 + 3 * batch_size)
    right = random_verdicts(network, stripes(260).take(few), 3, batch_size=batch_size)
    for name, mask in in_large_batches.items():
        assert torch.equal(right[name], mask[few]), name


def test_another_seed_draws_otherwise(network: nn.Module, in_large_batches: dict[str, Tensor]) -> None:
    other = random_verdicts(network, stripes(260), 4)
    for name in RANDOM:
        assert 0.1 < float(in_large_batches[name].double().mean()) < 0.9, name
        assert not torch.equal(in_large_batches[name], other[name]), name


def test_a_part_of_autoattack_breaks_what_it_breaks_alone_of_what_the_former_left(network: nn.Module) -> None:
    parts = ["apgd-ce", "apgd-t", "fab-t"]  # square alone would ask 5000 times once more
    right = correct(network, stripes(16), [*parts, "autoattack"], 0.14, seed=5)
    assert [name for name in right if ":" in name] == [f"autoattack:{part}" for part in (*parts, "square")]
    assert torch.equal(right["autoattack:apgd-ce"], right["apgd-ce"])
    before = right["natural"]
    for part in parts:
        assert torch.equal(right[f"autoattack:{part}"], before & right[part]), part
        before = right[f"autoattack:{part}"]
    assert torch.equal(right["autoattack"], right["autoattack:square"])
    assert not (right["autoattack"] & ~before).any()
    assert 0 < int(before.sum()) < int(right["natural"].sum())


class Crowded(nn.Module):
    """A model on a device that has room for the gradients of a few samples only."""

    def __init__(self, inner: nn.Module, room: int, gradients_only: bool = True) -> None:
        super().__init__()
        self.inner = inner
        self.room = room
        self.gradients_only = gradients_only
        self.sizes: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad or not self.gradients_only:
            if len(x) > self.room:
                raise torch.OutOfMemoryError("CUDA out of memory")
            self.sizes.append(len(x))
        return self.inner(x)


@pytest.mark.parametrize("name", ["pgd", "apgd"])
def test_what_has_no_room_is_attacked_in_halves_with_the_same_result(
    name: str, network: nn.Module, in_large_batches: dict[str, Tensor]
) -> None:
    model = Crowded(network, room=40)
    attack, threat = RANDOM[name]
    right = correct(model, stripes(260), {name: attack}, threat, seed=3, batch_size=250)
    assert torch.equal(right[name], in_large_batches[name])
    assert 20 < max(model.sizes) <= 40


def test_a_device_without_room_for_250_samples_can_be_used(
    network: nn.Module, in_large_batches: dict[str, Tensor]
) -> None:
    model = Crowded(network, room=40, gradients_only=False)
    right = correct(model, stripes(260), {"pgd": PGD(2)}, 0.3, seed=3, batch_size=40)
    assert torch.equal(right["pgd"], in_large_batches["pgd"])


def test_no_room_for_a_single_sample_is_one_clear_line(network: nn.Module) -> None:
    with pytest.raises(InputError, match="^the device has no room to attack a single sample: use --device cpu$"):
        correct(Crowded(network, room=0), stripes(20), {"pgd": PGD(2)}, 0.3)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_network_in_torchscript_is_evaluated_too() -> None:
    data = points(100)
    names = ["pgd5", "apgd-ce"]
    expected = evaluate(threshold_model(), data, names, 0.1)
    assert evaluate(torch.jit.script(threshold_model()), data, names, 0.1) == expected


@dataclass(frozen=True)
class Runaway(Attack):
    """Moves the first value of every image by a fixed amount."""

    by: float

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, threat: Threat, draws: object = None) -> Tensor:
        adv = x.clone()
        adv[:, 0] += self.by
        return adv


def middle() -> Dataset:
    """Points that can move by 0.4 in every direction, all right."""
    return Dataset(torch.tensor([[0.4, 0.5], [0.45, 0.5]]), torch.tensor([0, 0]), ("low", "high"))


@pytest.mark.parametrize(
    ("by", "eps", "norm"), [(0.11, 0.1, "linf"), (0.11, 0.1, "l2"), (0.11, 0.1, "l1"), (-0.45, 0.5, "linf")]
)
def test_an_attack_that_leaves_its_ball_or_the_image_is_a_bug_not_a_result(by: float, eps: float, norm: Norm) -> None:
    far = f"went {by:g} far in {norm}, and the radius is {eps:g}: return"
    words = far if by > 0 else "left the bounds of the inputs, [0, 1], with values from -0.05 to 0.5: return"
    with pytest.raises(InputError, match=f"^the attack runaway {re.escape(words)} threat.project"):
        correct(threshold_model(), middle(), {"runaway": Runaway(by)}, Threat(eps, norm))


def test_an_attack_on_the_surface_of_its_ball_is_inside() -> None:
    right = correct(threshold_model(), middle(), {"runaway": Runaway(0.1)}, 0.1)
    assert right["runaway"].tolist() == [True, False]


def test_evaluation_neither_reads_nor_moves_the_global_random_state(
    network: nn.Module, in_large_batches: dict[str, Tensor]
) -> None:
    with torch.random.fork_rng([]):
        torch.manual_seed(11)
        before, numpys = torch.get_rng_state(), np.random.get_state()[1].tolist()
        right = random_verdicts(network, stripes(260), 3)
        assert torch.equal(torch.get_rng_state(), before)
        assert np.random.get_state()[1].tolist() == numpys
    for name, mask in in_large_batches.items():
        assert torch.equal(right[name], mask), name


def test_a_model_that_is_always_wrong_needs_no_attack() -> None:
    data = points()
    wrong = Dataset(data.images, 1 - (data.images[:, 0] > 0.5).long(), data.classes)
    model = Crowded(threshold_model(), room=0)
    right = correct(model, wrong, ["pgd20", "autoattack"], 0.1)
    assert not any(mask.any() for mask in right.values())


def test_autoattack_stops_where_nothing_stands() -> None:
    right = correct(threshold_model(), points(20), ["autoattack"], 0.9)
    assert not right["autoattack"].any()
    assert not right["autoattack:square"].any()


def test_the_bar_ends_at_its_total(network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[tuple[str, float, float]] = []
    monkeypatch.setattr(
        "orat.core.console.Bar.set", lambda bar, label, done, total: places.append((label, done, total))
    )
    examinations: list[Examination] = []
    monkeypatch.setattr(Examination, "expect", lambda self, *given: (examinations.append(self), expect(self, *given)))
    correct(network, stripes(24), ["pgd20", "autoattack"], 0.3)
    (examination,) = examinations
    assert examination.done == examination.total
    assert all(done < total for _, done, total in places)
