"""A search in half precision is only a search: what counts is what the model says in float32."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from orat.attacks import APGD, FAB, PGD, Square
from orat.core.console import Display
from orat.core.errors import InputError
from orat.data.catalog import load
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.evaluation import correct
from orat.evaluation.searchers import Quick, quick
from orat.models.folded import Folded
from orat.models.mlp import MLP

CPU = torch.device("cpu")
EPS = 0.1


class Threshold(nn.Module):
    """Class 1 above 0.5 in the first coordinate.

    With a large offset bfloat16 cannot tell the two logits apart; a large scale is infinite in float16.
    """

    def __init__(self, offset: float = 0.0, scale: float = 1.0) -> None:
        super().__init__()
        self.last = nn.Linear(2, 2)
        with torch.no_grad():
            self.last.weight.copy_(scale * torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
            self.last.bias.copy_(scale * torch.tensor([0.5, -0.5]) + offset)
        self.asked: dict[torch.dtype, list[int]] = {}  # samples in each call
        self.gradients: dict[torch.dtype, list[int]] = {}

    def forward(self, x: Tensor) -> Tensor:
        half = torch.is_autocast_enabled("cpu")
        dtype = torch.get_autocast_dtype("cpu") if half else torch.float32
        self.asked.setdefault(dtype, []).append(len(x))
        if x.requires_grad:
            self.gradients.setdefault(dtype, []).append(len(x))
        return self.last(x)


def points() -> Dataset:
    """Points at distances of 0.01 to 0.48 from the border, but none at the radius itself; one in ten is wrong."""
    distances = torch.arange(0.01, 0.49, 0.01)
    distances = distances[(distances - EPS).abs() > 0.005]
    x0 = torch.cat([0.5 - distances, 0.5 + distances])
    y = (x0 > 0.5).long()
    y[::10] = 1 - y[::10]
    return Dataset(torch.stack([x0, torch.full_like(x0, 0.3)], 1), y, ("low", "high"))


def robust(data: Dataset) -> Tensor:
    """The closed form: right, and farther than eps from the border."""
    x0 = data.images[:, 0]
    return ((x0 > 0.5).long() == data.labels) & ((x0 - 0.5).abs() > EPS)


@pytest.mark.parametrize("attack", [APGD(), Square()])
def test_large_offsets_and_scales_hide_the_classes_from_a_half_and_not_from_float32(attack: APGD | Square) -> None:
    model, data = (Threshold(offset=1000) if isinstance(attack, APGD) else Threshold(scale=1e7)), points()
    searcher = quick(model, attack, "half", CPU)
    assert searcher is not None
    with torch.no_grad():
        logits = searcher(data.images)
        assert torch.equal(model(data.images).argmax(1), (data.images[:, 0] > 0.5).long())
    assert logits.dtype == torch.float32
    assert torch.equal(logits[:, 0], logits[:, 1]) if isinstance(attack, APGD) else not logits.isfinite().any()


# Not the cross-entropy at the large scale, where it is saturated in float32 too.
CASES = [(APGD(), 0, 1), (APGD(), 1000, 1)]
CASES += [(APGD("dlr"), 0, 1), (APGD("dlr"), 1000, 1), (APGD("dlr"), 0, 1e7)]
CASES += [(Square(queries=300), 0, 1), (Square(queries=300), 1000, 1), (Square(queries=300), 0, 1e7)]


@pytest.mark.parametrize(("attack", "offset", "scale"), CASES)
def test_verdicts_are_those_of_float32_even_where_a_half_is_blind(
    attack: APGD | Square, offset: float, scale: float
) -> None:
    data = points()
    right = correct(Threshold(offset, scale), data, {"attack": attack}, EPS, precision="half")
    assert torch.equal(right["attack"], robust(data))


def test_what_a_half_cannot_tell_is_attacked_in_float32() -> None:
    model, data = Threshold(offset=1000), points()
    correct(model, data, {"apgd": APGD()}, EPS, precision="half")
    assert max(model.gradients[torch.float32]) >= int(robust(data).sum())
    model = Threshold(scale=1e7)
    correct(model, data, {"square": Square(queries=20)}, EPS, precision="half")
    # Two looks, without attack, where the half ended, in float32, where that ended.
    _, _, _, _, *again, _ = model.asked[torch.float32]
    assert len(again) == 21
    assert max(again) >= int(robust(data).sum())


def test_what_is_far_from_the_border_is_searched_in_halves_alone() -> None:
    data = points()
    far = data.take(((data.images[:, 0] - 0.5).abs() > EPS + 0.05).nonzero().squeeze(1))
    model = Threshold()
    correct(model, far, {"apgd": APGD()}, EPS, precision="half")
    assert model.gradients.pop(torch.float32) == [16]  # the look whether gradients reach the input
    assert {dtype: len(sizes) for dtype, sizes in model.gradients.items()} == {torch.bfloat16: 101}
    model = Threshold()
    correct(model, far, {"square": Square(queries=20)}, EPS, precision="half")
    assert len(model.asked[torch.float16]) >= 22  # its start, its queries, and the error where it ended
    assert len(model.asked[torch.float32]) == 2 + 3  # two looks; without attack, twice, and where it ended


@pytest.mark.parametrize("attack", [PGD(3), FAB(steps=3)])
def test_attacks_that_need_every_digit_are_made_in_float32(attack: PGD | FAB) -> None:
    model = Threshold()
    correct(model, points(), {"attack": attack}, EPS, precision="half")
    assert list(model.asked) == [torch.float32]


class Liar(Threshold):
    """Right on the images themselves, and wrong about all that is a step away."""

    def __init__(self, images: Tensor) -> None:
        super().__init__()
        self.known = images

    def forward(self, x: Tensor) -> Tensor:
        logits = super().forward(x)
        moved = (x[:, None] - self.known).abs().sum(2).amin(1, keepdim=True) > 1e-6
        return torch.where(moved, -logits, logits)


@pytest.mark.parametrize("kind", ["folded", "blind", "liar"])
def test_any_attack_may_search_on_another_network_and_the_model_has_the_last_word(kind: str) -> None:
    model, data = Threshold(), points()
    searcher = {"folded": Folded(model.last, torch.float32), "blind": Threshold(scale=0), "liar": Liar(data.images)}
    right = correct(model, data, {"pgd": PGD(20)}, EPS, searchers=lambda attack: searcher[kind])
    assert torch.equal(right["pgd"], robust(data))
    assert (model.gradients[torch.float32] != [16]) == (kind != "folded")  # after the first look, nothing to do again


class HalfBlind(Threshold):
    """Sees nothing where the second coordinate is large."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (x[:, 1:] < 0.5)


def test_what_a_quick_search_leaves_open_in_many_batches_is_attacked_in_few() -> None:
    data, model, searcher = points(), Threshold(), HalfBlind()
    data.images[::4, 1] = 0.9
    natural = (data.images[:, 0] > 0.5).long() == data.labels
    right = correct(model, data, {"pgd": PGD(20)}, EPS, batch_size=8, searchers=lambda attack: searcher)
    assert torch.equal(right["pgd"], robust(data))
    seen, unseen = int((natural & (data.images[:, 1] < 0.5)).sum()), int((natural & (data.images[:, 1] > 0.5)).sum())
    assert len(searcher.gradients[torch.float32]) == 20 * -(-int(natural.sum()) // 8)
    assert sum(searcher.gradients[torch.float32]) == 20 * seen
    assert model.gradients[torch.float32][1::20] == [8] * (unseen // 8) + [unseen % 8]


def test_float32_asks_nothing_in_a_half() -> None:
    model = Threshold()
    correct(model, points(), {"apgd": APGD(), "square": Square(queries=5)}, EPS, precision="float32")
    assert list(model.asked) == [torch.float32]


def test_accuracy_on_a_trained_network_is_within_one_sample_of_float32() -> None:
    splits = load("sample")
    assert splits.test is not None
    x, y = as_input(splits.train.images), splits.train.labels
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model = MLP(784, (32,), 10)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for index in torch.arange(2000).split(100):
        optimizer.zero_grad()
        cross_entropy(model(x[index]), y[index]).backward()
        optimizer.step()
    data = splits.test.take(torch.arange(0, 1000, 5))
    attacks = {"apgd-ce": APGD(steps=20), "apgd-t": APGD("dlr-targeted", steps=10, targets=3)}
    exact = correct(model, data, attacks, 0.04, precision="float32")
    searched = correct(model, data, attacks, 0.04, precision="half")
    for name in attacks:
        count = int(exact[name].sum())
        assert abs(int(searched[name].sum()) - count) <= 1
        assert 0.2 * len(data) < count < 0.8 * len(data)


@pytest.mark.parametrize("precision", ["int8", "", "bfloat16"])
@pytest.mark.parametrize("attack", [APGD(), PGD()])
def test_an_unknown_precision_is_refused(precision: str, attack: APGD | PGD) -> None:
    with pytest.raises(InputError, match=f"unknown precision '{precision}': .*known are auto, float32, half"):
        quick(Threshold(), attack, precision, CPU)


@pytest.mark.parametrize(
    ("attack", "names"), [(APGD(), {"avx512_bf16", "amx_bf16"}), (Square(), {"avx512_fp16", "amx_fp16"})]
)
def test_auto_is_a_half_where_the_processor_has_it_by_the_word_of_the_kernel(
    attack: APGD | Square, names: set[str]
) -> None:
    file = Path("/proc/cpuinfo")
    if not file.is_file() or not (flags := re.search(r"^flags\s*:(.*)$", file.read_text(), re.MULTILINE)):
        pytest.skip("no /proc/cpuinfo with flags here")
    assert isinstance(quick(Threshold(), attack, "auto", CPU), Quick) == bool(names & set(flags[1].split()))


@pytest.mark.parametrize(
    ("capabilities", "apgd", "square"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, True, False),
        ({"avx512_bf16": False, "amx_bf16": True}, True, False),
        ({"avx512_fp16": True}, False, True),
        ({"avx512_bf16": True, "amx_fp16": True}, True, True),
        ({"avx512_bf16": False, "amx_bf16": False, "avx2": True}, False, False),
        ({}, False, False),
    ],
)
def test_auto_follows_torchs_list_of_what_the_processor_can_do(
    capabilities: dict[str, bool], apgd: bool, square: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    for attack, expected in ((APGD(), apgd), (Square(), square)):
        assert (quick(Threshold(), attack, "auto", CPU) is not None) == expected
        assert quick(Threshold(), attack, "float32", CPU) is None
        assert quick(Threshold(), attack, "half", CPU) is not None


class Scattering(Threshold):
    """A model whose own code insists on float32."""

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(2).repeat(len(x), 1)
        return torch.zeros(len(x), 2).scatter(1, places, super().forward(x))


def test_a_model_that_does_not_run_in_a_half_is_searched_in_float32_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    data = points()
    right = correct(Scattering(), data, {"apgd": APGD()}, EPS, display=Display(), precision="auto", batch_size=30)
    assert torch.equal(right["apgd"], robust(data))
    assert capsys.readouterr().err.count("apgd: searches on the network itself, since a faster form fails (") == 1


class NeverAlone(Threshold):
    """A model that takes no batch of one, as those do that squeeze."""

    def forward(self, x: Tensor) -> Tensor:
        assert len(x) > 1
        return super().forward(x)


def test_a_searcher_is_tried_on_a_batch_as_it_comes_not_on_one_sample() -> None:
    data = points()
    searcher = NeverAlone()
    right = correct(NeverAlone(), data, {"pgd": PGD(20)}, EPS, searchers=lambda attack: searcher)
    assert torch.equal(right["pgd"], robust(data))
    assert searcher.gradients
