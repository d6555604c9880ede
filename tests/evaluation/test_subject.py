"""Random networks are measured as their average, networks without gradients are refused, and any data are read."""

from __future__ import annotations

import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from quick_runs import Heard
from refusals import assert_refused_in_one_line
from threshold import points, threshold_model
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import TensorDataset

import orat
from orat.attacks import APGD, PGD, Square, Threat
from orat.attacks.suite import ATTACKS
from orat.core.errors import InputError
from orat.data.own import dataset_of
from orat.data.source import Dataset
from orat.evaluation import Plan, correct, curve, evaluate, examine, report_folder
from orat.evaluation.subject import DRAWS, Averaged, as_function, prepared

X, Y = points(60).images, points(60).labels


@pytest.fixture(autouse=True)
def quick_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """Square of few queries, which are enough in the plane."""
    monkeypatch.setitem(ATTACKS, "square", Square(60))


class Changed(nn.Module):
    """The threshold model with something done to its input and to its logits."""

    def __init__(self, before: Callable[[Tensor], Tensor] | None = None, after: Callable[[Tensor], Any] | None = None):
        super().__init__()
        self.inner = threshold_model()
        self.before, self.after = before or nn.Identity(), after or nn.Identity()

    def forward(self, x: Tensor) -> Any:
        return self.after(self.inner(self.before(x)))


class Silent(Changed):
    """A network whose forward is under no_grad."""

    @torch.no_grad()
    def forward(self, x: Tensor) -> Any:
        return super().forward(x)


NOISES: dict[str, Callable[[Tensor], Tensor]] = {
    "torch": lambda x: x + 0.3 * torch.randn_like(x),
    "dropout": lambda x: dropout(x, 0.3, training=True),
    "numpy": lambda x: x + 0.3 * float(np.random.normal()),
    "python": lambda x: x + 0.3 * random.gauss(0, 1),
    "unbatched": lambda x: x + 0.3 * torch.randn_like(x) * (x.max().item() >= 0),  # item() stops torch.func.vmap
}


def by_hand(noise: Callable[[Tensor], Tensor], x: Tensor, seed: int) -> Tensor:
    """The mean logits of each sample alone, with every generator seeded before each draw."""
    inner, rows = threshold_model(), []
    for row in x.split(1):
        logits = []
        for number in range(DRAWS):
            torch.manual_seed(DRAWS * seed + number)
            random.seed(DRAWS * seed + number)
            np.random.seed(DRAWS * seed + number)
            logits.append(inner(noise(row)))
        rows.append(sum(logits[1:], logits[0]) / DRAWS)
    return torch.cat(rows).detach()


@pytest.fixture
def states() -> Any:
    """Restores the global generators, and refuses a test that moves them in between."""
    kept = torch.get_rng_state(), np.random.get_state(), random.getstate()
    yield
    torch.set_rng_state(kept[0])
    np.random.set_state(kept[1])
    random.setstate(kept[2])


@pytest.mark.usefixtures("states")
@pytest.mark.parametrize("kind", NOISES)
def test_a_random_network_is_the_average_by_hand_in_any_batch_and_leaves_generators_alone(kind: str) -> None:
    expected, model = by_hand(NOISES[kind], X[:20], seed=5), Changed(NOISES[kind])
    states = torch.get_rng_state(), random.getstate()
    function = as_function(model, X[:16], seed=5)
    assert isinstance(function, Averaged)
    assert function.together == (kind != "unbatched")
    for size in (1, 7, 20):
        torch.testing.assert_close(torch.cat([function(part) for part in X[:20].split(size)]), expected)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    other = as_function(model, X[:16], seed=6)(X[:20]).detach()
    assert float((other - expected).abs().mean()) > 0.01


def test_the_gradient_of_the_average_is_the_average_of_the_gradients() -> None:
    function = as_function(Changed(NOISES["torch"], torch.tanh), X[:16], seed=0)
    x = X[:5].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(x)[:, 1].sum(), x)
    shifted = torch.stack([function(X[:5] + torch.tensor([move, 0.0]))[:, 1] for move in (-1e-3, 1e-3)])
    torch.testing.assert_close(gradient[:, 0], ((shifted[1] - shifted[0]) / 2e-3).detach(), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("model", [threshold_model(), nn.Sequential(nn.Linear(2, 2), nn.Dropout()).train()])
def test_a_network_that_is_not_random_in_eval_mode_stays_as_it_is(model: nn.Module) -> None:
    assert as_function(model, X[:16], 0) is model
    assert as_function(averaged := Averaged(model, 3), X[:16], 0) is averaged


@pytest.mark.usefixtures("states")
@pytest.mark.parametrize(("kind", "names"), [("torch", ["pgd3", "apgd"]), ("unbatched", ["pgd2"])])
def test_verdicts_on_a_random_network_depend_on_the_seed_alone(kind: str, names: list[str]) -> None:
    data, attacks = points(60), {"pgd2": PGD(2), "pgd3": PGD(3), "apgd": APGD(steps=15)}
    chosen = {name: attacks[name] for name in names}
    runs = [correct(Changed(NOISES[kind]), data, chosen, 0.1, seed=2, batch_size=size) for size in (23, 60, 60)]
    for name in ("natural", *names):
        assert torch.equal(runs[0][name], runs[1][name]), name
        assert torch.equal(runs[1][name], runs[2][name]), name
    expected = by_hand(NOISES[kind], X, seed=2).argmax(1) == Y
    assert torch.equal(runs[0]["natural"], expected)


def test_noise_of_the_input_moves_the_border_and_the_verdicts_are_those_of_the_moved_border() -> None:
    """The mean of a linear network over the noise is linear: its border lies at 0.5 less the mean noise."""
    moved = []
    with torch.random.fork_rng([]):
        for number in range(DRAWS):
            torch.manual_seed(number)
            moved.append(0.3 * torch.randn_like(X[:1])[0, 0].item())
    border = 0.5 - sum(moved) / DRAWS
    attacks = {"pgd": PGD(8), "apgd": APGD(steps=20), "square": Square(60)}
    right = correct(Changed(NOISES["torch"]), points(200), attacks, 0.1)
    x, y = points(200).images[:, 0], points(200).labels
    natural = (x > border).long() == y
    sure = ((x - border).abs() - 0.1).abs() > 1e-4
    for name in attacks:
        assert torch.equal(right[name][sure], (natural & ((x - border).abs() > 0.1))[sure]), name


def test_a_random_network_is_told_in_one_line_and_not_called_badly_normalized() -> None:
    plan = Plan(Threat(0.1), ("pgd5",), seed=4)
    report = examine(Changed(NOISES["torch"]).train(), points(200), plan)
    mode, note, *others = report["warnings"]
    assert "came in train mode" in mode
    assert note == (
        "the network is random: attacks and accuracies are those of the mean logits over 8 draws of its noise (seed 4)"
    )
    assert not any("normalization" in other for other in others)
    heard = Heard()
    evaluate(Changed(NOISES["torch"]), points(60), ["fgsm"], 0.1, seed=4, display=heard)
    assert heard.lines[0] == note


def test_a_random_network_is_told_by_a_warning_of_python_where_nothing_is_shown() -> None:
    model = Changed(NOISES["torch"])
    with pytest.warns(UserWarning, match=r"mean logits over 8 draws of its noise \(seed 4\)"):
        evaluate(model, points(20), ["pgd2"], 0.1, seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(Averaged(model, 4), points(20), ["pgd2"], 0.1, seed=4)


def test_a_random_network_is_searched_in_float32() -> None:
    seen: set[bool] = set()

    def noise(x: Tensor) -> Tensor:
        seen.add(torch.is_autocast_enabled("cpu"))
        return NOISES["torch"](x)

    correct(Changed(noise), points(20), ["apgd-ce"], 0.1, precision="half")
    assert seen == {False}


class Patient(Changed):
    """A random network that is interrupted after so many calls."""

    def __init__(self, patience: float = np.inf) -> None:
        super().__init__(NOISES["torch"])
        self.patience, self.calls = patience, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls > self.patience:
            raise KeyboardInterrupt
        return super().forward(x)


def test_a_stopped_evaluation_of_a_random_network_ends_like_one_that_was_never_stopped(tmp_path: Path) -> None:
    plan, data, model = Plan(Threat(0.1), ("pgd10", "pgd20"), batch_size=5), points(30), Patient().eval()
    whole = report_folder(tmp_path / "whole", Patient().eval(), data, plan)
    stopped = report_folder(tmp_path / "stopped", Patient().eval(), data, plan)
    assert whole.name == stopped.name
    examine(model, data, plan, whole)
    with pytest.raises(KeyboardInterrupt):
        examine(Patient(model.calls - 40 * DRAWS).eval(), data, plan, stopped)
    assert "?" in (stopped / "journal.json").read_text()
    again = Patient().eval()
    examine(again, data, plan, stopped)
    assert again.calls < model.calls / 2  # the checks of gradients and finished batches are in the journal
    for name in ("journal.json", "samples.csv"):
        assert (whole / name).read_bytes() == (stopped / name).read_bytes()


class Counter(Changed):
    """Logits that depend on the number of calls."""

    def __init__(self, buffered: bool = False) -> None:
        super().__init__()
        if buffered:
            self.register_buffer("calls", torch.tensor(0.0))
        else:
            self.calls = torch.tensor(0.0)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x) + self.calls * torch.arange(2.0)


OWN = torch.Generator().manual_seed(0)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Changed(lambda x: x + torch.rand(x.shape, generator=OWN)), "its logits differ after the same seed"),
        (Counter(), "the network changes calls whenever it is called, and its logits too: let eval() switch off what"),
        (Counter(buffered=True), "the network changes its buffers whenever it is called, and its logits too"),
        (nn.Sequential(Changed(), nn.Softmax(1)), "the network gives probabilities"),
        (Changed(lambda x: nn.BatchNorm1d(2)(NOISES["torch"](x))), "on a single sample fails with ValueError"),
    ],
)
def test_a_random_network_that_has_no_average_is_refused(model: nn.Module, words: str) -> None:
    assert_refused_in_one_line(lambda: evaluate(model, points(60), ["pgd5"], 0.1), words)


CUT = {
    "detached": Changed(Tensor.detach),
    "logits detached": Changed(after=Tensor.detach),
    "no_grad": Silent(),
    "numpy": Changed(lambda x: torch.from_numpy(x.detach().numpy())),
}
GRADIENTS = [name for name, attack in ATTACKS.items() if attack.follows_gradients and name != "autoattack-reference"]


@pytest.mark.parametrize("kind", CUT)
def test_a_network_that_cuts_the_graph_is_refused_before_anything_is_written(kind: str, tmp_path: Path) -> None:
    model, data, words = CUT[kind], points(60), "no gradient of the network reaches its input"
    for names in (["pgd20"], ["square", "pgd20"], ["autoattack"], ["autoattack-reference"]):
        assert_refused_in_one_line(lambda names=names: evaluate(model, data, names, 0.1), words)
    assert_refused_in_one_line(lambda: correct(model, data, {"mine": PGD(3)}, 0.1), words)
    plan = Plan(Threat(0.1), ("square", "pgd5"))
    assert_refused_in_one_line(lambda: examine(model, data, plan, tmp_path / "report"), words)
    assert_refused_in_one_line(lambda: curve(model, data, "eps", 0.1), words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", CUT)
def test_square_needs_no_gradient_and_the_report_says_that_pgd_would_be_blind(kind: str) -> None:
    data = points(60)
    natural = (data.images[:, 0] > 0.5).long() == data.labels
    report = examine(CUT[kind].eval(), data, Plan(Threat(0.1), ("square",)))
    standing = natural & ((data.images[:, 0] - 0.5).abs() > 0.1)
    assert report["accuracy"]["square"] == pytest.approx(standing.double().mean().item())
    assert any("PGD is blind on 100 %" in warning for warning in report["warnings"])


def test_a_constant_network_that_cuts_the_graph_has_its_checks_too() -> None:
    model = Changed(after=lambda z: torch.tensor([[1.0, 3.0]]).expand(len(z), 2))
    (warning,) = examine(model.eval(), (X, torch.ones_like(Y)), Plan(Threat(0.1), ("square",)))["warnings"]
    assert "PGD is blind on 100 %" in warning


def test_inference_mode_is_refused_and_no_grad_changes_nothing(tmp_path: Path) -> None:
    model, data = threshold_model(), points()
    expected = evaluate(model, data, ["pgd20", "square"], 0.1)
    assert expected["pgd20"] < expected["natural"] - 0.1
    with torch.no_grad():
        assert evaluate(model, data, ["pgd20", "square"], 0.1) == expected
    with torch.inference_mode():
        words = "torch.inference_mode() hides gradients from attacks"
        for names in (["pgd20"], ["square", "autoattack"]):
            assert_refused_in_one_line(lambda names=names: evaluate(model, data, names, 0.1), words)
        plan = Plan(Threat(0.1), ("square",))
        assert_refused_in_one_line(lambda: examine(model, data, plan, tmp_path / "report"), words)
        assert evaluate(model, data, ["square"], 0.1)["square"] == expected["square"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", GRADIENTS)
def test_an_attack_called_directly_raises_instead_of_returning_the_clean_input(name: str) -> None:
    threat = Threat(0.1, "l2")
    y = threshold_model()(X).argmax(1)
    for model in CUT.values():
        words = "no gradient of the network reaches its input"
        assert_refused_in_one_line(lambda model=model: ATTACKS[name](model, X, y, threat), words)
    with torch.inference_mode():
        assert_refused_in_one_line(lambda: ATTACKS[name](threshold_model(), X, y, threat), "torch.inference_mode()")


OUTPUTS: dict[str, Callable[[Tensor], Any]] = {
    "attribute": lambda z: SimpleNamespace(logits=z, loss=None),
    "dict": lambda z: {"features": z[:, :1], "logits": z},
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_an_output_with_logits_is_evaluated_by_its_logits(kind: str) -> None:
    model, data, plan = Changed(after=OUTPUTS[kind]).eval(), points(60), Plan(Threat(0.1), ("pgd5", "square"))
    expected = evaluate(threshold_model(), data, ["pgd5", "square"], 0.1)
    assert evaluate(model, data, ["pgd5", "square"], 0.1) == expected
    assert {name: examine(model, data, plan)["accuracy"][name] for name in expected} == expected


class Pairs(TorchDataset[tuple[Tensor, int]]):
    """A torch data set of pairs."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return X[place], int(Y[place])


DATA = {
    "arrays": (X.numpy(), Y.numpy()),
    "tensors": [X, Y],
    "small integers": (X.double(), Y.to(torch.uint8)),
    "whole floats": (X, Y.float()),
    "a column": (X, Y[:, None]),
    "lists": (X.tolist(), Y.tolist()),
    "TensorDataset": TensorDataset(X, Y),
    "Dataset": Pairs(),
}


@pytest.mark.parametrize("kind", DATA)
def test_arrays_tensors_and_torch_data_sets_give_the_same_numbers(kind: str) -> None:
    expected = evaluate(threshold_model(), points(60), ["pgd5"], 0.1)
    assert evaluate(threshold_model(), DATA[kind], ["pgd5"], 0.1) == expected


def test_images_of_bytes_with_channels_last_are_read(digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    model, x, y = digits
    pixels = (255 * x).round().to(torch.uint8)
    expected = evaluate(model, Dataset(pixels, y, tuple("0123456789")), ["pgd5"], 0.1)
    for images in (pixels.numpy(), pixels.movedim(1, 3).numpy(), pixels[:, 0], pixels.float() / 255):
        assert evaluate(model, (images, y), ["pgd5"], 0.1) == expected


def test_the_classes_of_arrays_are_those_of_the_network() -> None:
    _, data = prepared(threshold_model(), (X, torch.zeros_like(Y)), {}, 0)
    assert data.classes == ("0", "1")
    assert dataset_of(points()).classes == points().classes


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((X, torch.full((len(X), 2), 0.5)), "one-hot"),
        ((X, Y + 0.5), "fractions"),
        ((X, Y * torch.nan), "fractions or NaN"),
        ((X, Y - 1), "integers from 0 on"),
        ((X, Y[:-1]), "give one label a sample"),
        ((X, 5 * Y), "for 6 classes: give a network with one logit per class"),
        ((X * torch.nan, Y), "NaN"),
        ((255 * X, Y), "divide pixels by 255"),
        ((X - 1, Y), "the bounds of the threat are [0, 1]"),
        ((X[:0], Y[:0]), "empty"),
        ((X, Y, Y), "3 values: give (x, y)"),
        (5, "int"),
        (X, "Tensor: give (x, y)"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_measured_are_refused_in_one_line(data: Any, words: str) -> None:
    assert_refused_in_one_line(lambda: orat.evaluate(threshold_model(), data, ["pgd5"], 0.1), words)


def test_a_network_that_came_in_train_mode_is_told_only_in_python() -> None:
    for training in (False, True):
        report = examine(threshold_model().train(training), points(60), Plan(Threat(0.1), ("fgsm",)))
        assert any("came in train mode" in warning for warning in report["warnings"]) == training


def test_an_error_of_the_network_is_one_line_with_the_shape_and_keeps_its_cause() -> None:
    with pytest.raises(InputError, match=r"inputs of shape \(16, 2\) fails with RuntimeError: mat1 and mat2") as caught:
        evaluate(nn.Linear(3, 2), points(60), ["pgd5"], 0.1)
    assert type(caught.value.__cause__) is RuntimeError


def test_a_function_in_place_of_a_network_is_refused() -> None:
    code = "import orat, torch; orat.evaluate(torch.sin, orat.load_data('sample'), ['fgsm'], 0.1)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.splitlines()[-1]
    assert told.endswith("InputError: the network is a value of type builtin_function_or_method: give an nn.Module")
    with pytest.raises(InputError, match="no attack"):
        evaluate(threshold_model(), points(60), {"mine": 5}, 0.1)
