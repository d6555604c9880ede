"""An attack of a user, in a file outside of the package: in training and in evaluation, and refusals in one line."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quick_runs import ONE_OF_EACH, QUICK, assert_same, train_until_stopped
from refusals import assert_refused_in_one_line, wrong
from torch import Tensor, nn

import orat
from orat.attacks import Adversary, Ascent, Threat
from orat.attacks.base import FoldedSight
from orat.attacks.own import as_attack
from orat.cli.main import main
from orat.core.console import SILENT
from orat.core.losses import cross_entropy
from orat.core.random import Randomness
from orat.core.registry import resolve
from orat.methods import AT, MART, TRADES, Method
from orat.models.folded import as_it_is
from orat.training.run import Run, read_run
from orat.training.run_folder import RunFolder

CODE = '''
from dataclasses import dataclass
import torch
import orat
from torch.nn.functional import cross_entropy

SEEN = []

def noise(model, x, y, threat, draws):
    """A random point."""
    SEEN.append((model.training, any(p.requires_grad for p in model.parameters()), torch.is_grad_enabled()))
    return threat.start(x, draws)

def careless(model, x, y, threat, draws):
    return threat.project(x + threat.eps * torch.randn_like(x).sign(), x)

MINE = orat.PGD(steps=2, loss=lambda logits, y: -logits.gather(1, y[:, None]).squeeze(1))

@dataclass(frozen=True)
class Sign(orat.attacks.Ascent):
    share: float = 1.0

    def climb(self, uphill, x, threat, draws, move=None):
        return threat.project(x + self.share * threat.eps * uphill(x).sign(), x)

class Blind(orat.attacks.Ascent):
    def climb(self, uphill, x, threat, draws, move=None):
        return threat.start(x, draws)

@dataclass(frozen=True)
class Needs(orat.Attack):
    share: float

class MIM(orat.Attack):
    def __call__(self, model, x, y, threat, draws=None):
        adv = threat.start(x, draws).requires_grad_()
        (gradient,) = torch.autograd.grad(cross_entropy(model(adv), y, reduction="sum"), adv)
        return threat.project(adv.detach() + threat.eps * gradient.sign(), x)

class LeavesTrain(MIM):
    def __call__(self, model, x, y, threat, draws=None):
        model.train()
        return x

class NoCall(orat.Attack):
    pass

class NoClimb(orat.attacks.Ascent):
    pass

class Other:
    pass

def nothing(model, x, y, threat, draws):
    pass

def flat(model, x, y, threat, draws):
    return x.flatten(1)

def double(model, x, y, threat, draws):
    return x.double()

def far(model, x, y, threat, draws):
    return (x + 0.5).clamp(0, 1)

def in_place(model, x, y, threat, draws):
    return x.copy_(torch.rand_like(x))

def relabels(model, x, y, threat, draws):
    y.fill_(0)
    return x

def teaches(model, x, y, threat, draws):
    with torch.no_grad():
        next(model.parameters()).mul_(1.5)
    return x

def teaches_unseen(model, x, y, threat, draws):
    next(model.parameters()).data.mul_(1.5)
    return x

def below(model, x, y, threat, draws):
    return x - threat.eps

def lost(model, x, y, threat, draws):
    return x / 0 * 0

def two(model, x):
    return x

def breaks(model, x, y, threat, draws):
    return model(x)[:, 99]

REDUCED = orat.PGD(2, loss=cross_entropy)
WORDLESS = orat.PGD(2, loss=lambda logits, y: None)
'''


pytestmark = pytest.mark.usefixtures("folder")


def quick(tiny: str, attack: Any, method: Method | None = None, **more: Any) -> Run:
    """A quick run with an attack."""
    fields = QUICK | {"attack": attack, "attack_steps": None, "epochs": 2, "milestones": ()} | more
    return Run(data=tiny, method=method or AT(), **fields)


def words(tiny: str, attack: str, method: str = "at") -> list[str]:
    """The words of a quick training."""
    flags = ["--model", "mlp-4", "--epochs", "1", "--eps", "0.1", "--augment", "none", "--quiet", "--out", "a"]
    return ["train", "--data", tiny, "--method", method, "--attack", attack, *flags]


def linear() -> nn.Module:
    """Two logits of three features; the first rises with x, the second does not move."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(3, 2))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[1.0, -2.0, 3.0], [0.0, 0.0, 0.0]]))
        model[1].bias.zero_()
    return model


# In training.


def test_pgd_as_an_attack_of_ones_own_trains_as_the_pgd_of_the_fields(tiny: str) -> None:
    for out, run in {"a": quick(tiny, None, attack_steps=3), "b": quick(tiny, orat.PGD(3, step_size=0.025))}.items():
        orat.train(run, out, display=SILENT)
    ours, theirs = (RunFolder(Path(out)).load_tensors("model") for out in ("a", "b"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("sees", [None, "folded"])
def test_a_loss_of_ones_own_is_climbed_not_the_cross_entropy(sees: str | None) -> None:
    """On a linear network the steepest step is known: along the gradient of the loss, eps in every feature."""
    model, x, y = linear(), torch.full((4, 3), 0.5), torch.zeros(4, dtype=torch.long)
    sight = FoldedSight(model, torch.float32, as_it_is) if sees else None
    step = 0.1 * torch.tensor([1.0, -1.0, 1.0])
    for loss, sign in ((cross_entropy, -1), (lambda logits, y: -cross_entropy(logits, y), 1)):
        attack = orat.PGD(4, start="none", loss=loss)
        adversary = Adversary(attack, Threat(0.1), model, torch.Generator(), sight)
        assert torch.allclose(adversary(x, y), x + sign * step)


class Rough(Ascent):
    """One step of the sign, on any objective."""

    def climb(self, uphill: Any, x: Tensor, threat: Threat, randomness: Randomness, move: Any = None) -> Tensor:
        return threat.project(x + threat.eps * uphill(x).sign(), x)


@pytest.mark.parametrize(
    ("name", "engine"), [*((name, "folded") for name in ONE_OF_EACH), ("trades", "plain"), ("raa", "plain")]
)
def test_an_ascent_works_with_every_method(name: str, engine: str, tiny: str) -> None:
    run = quick(tiny, Rough(), ONE_OF_EACH[name])
    assert orat.train(run, "a", display=SILENT, engine=engine)["last"]["epoch"] == 2


def test_an_ascent_has_a_call_that_climbs_the_cross_entropy() -> None:
    model, x, y = linear(), torch.full((4, 3), 0.5), torch.ones(4, dtype=torch.long)
    assert torch.allclose(Rough()(model, x, y, 0.1), x + 0.1 * torch.tensor([1.0, -1.0, 1.0]))


@pytest.mark.parametrize("name", ["trades", "wmmr", "gairat", "raa"])
def test_an_attack_on_labels_is_refused_by_methods_that_ascend_an_objective(
    name: str, tiny: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "the method ascends an objective of its own, and the attack own.py:noise attacks labels only: derive"
    assert line in wrong(capsys, *words(tiny, "own.py:noise", name))
    assert not (folder / "a").exists()
    assert main(words(tiny, "own.py:noise", "mart")) == 0


def test_a_function_sees_the_frozen_network_in_evaluation_mode_and_the_threat_warms_up(tiny: str) -> None:
    seen = resolve("own.py:SEEN")
    seen.clear()
    orat.train(quick(tiny, resolve("own.py:noise"), attack_warmup=1.0), "a", display=SILENT)
    assert set(seen) == {(False, False, True)}


@pytest.mark.parametrize("name", ["own.py:careless", "own.py:noise", "own.py:Sign", "own.py:MINE"])
def test_a_stopped_training_resumes_to_the_bit(
    name: str, tiny: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = quick(tiny, name, MART() if name == "own.py:careless" else TRADES() if name == "own.py:Sign" else AT())
    state = torch.get_rng_state()
    train_until_stopped(run, folder / "b", 7, monkeypatch)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    for out in ("a", "b"):
        orat.train(run, folder / out, display=SILENT)
    assert_same(folder / "a", folder / "b")


def test_each_step_has_its_own_random_numbers(tiny: str) -> None:
    drawn: list[float] = []

    def draws_globally(model: nn.Module, x: Tensor, y: Tensor, threat: Threat, draws: Any) -> Tensor:
        drawn.append(torch.rand(()).item())
        return x

    steps: set[float] = set()
    for seed in (0, 1):
        drawn.clear()
        orat.train(quick(tiny, draws_globally, seed=seed), f"{seed}", display=SILENT)
        steps |= set(drawn[1:])  # after the rehearsal
    assert len(steps) == 2 * 2 * 9  # seeds, epochs, steps


def test_the_record_names_the_attack_and_no_record_runs_code(tiny: str, folder: Path) -> None:
    run = quick(tiny, "own.py:MINE", epochs=1)
    record = run.record()
    assert [record[name] for name in ("attack", "attack_steps", "attack_step_size", "attack_start")] == [
        "own.py:MINE", None, None, None,
    ]  # fmt: skip
    orat.train(run, "a", display=SILENT)
    (folder / "own.py").unlink()
    there = read_run(folder / "a")
    assert there == run
    orat.load_model("a")
    words = "the attack own.py:MINE is known from a record alone, which runs no code: give --attack"
    assert_refused_in_one_line(lambda: orat.train(there, "b", display=SILENT), words)
    held = Run.from_record(json.loads(json.dumps(quick(tiny, Rough()).record())))
    assert held.attack == "in memory: Rough"
    assert_refused_in_one_line(lambda: orat.train(held, "b", display=SILENT), "in memory: Rough is known from a record")
    assert not (folder / "b").exists()
    other = quick(tiny, None, attack_steps=1, epochs=1)
    assert_refused_in_one_line(lambda: orat.train(other, "a", display=SILENT), "belongs to another run (attack")


def test_a_class_says_whether_it_keeps_to_other_bounds() -> None:
    x, y, threat = torch.full((4, 3), 5.0), torch.ones(4, dtype=torch.long), Threat(0.1, high=9.0)
    words = "set any_bounds = True in the class, and return threat.project(adv, x)"
    assert_refused_in_one_line(lambda: Rough()(linear(), x, y, threat), words)
    adv = as_attack(lambda model, x, y, threat, draws: threat.start(x, draws), "start")(linear(), x, y, threat)
    assert threat.allows(adv, x).all()


def test_attacks_of_the_suite_train_by_their_names(tiny: str) -> None:
    orat.train(quick(tiny, "pgd2"), "a", display=SILENT)
    orat.train(quick(tiny, None, attack_steps=2), "b", display=SILENT)
    ours, theirs = (RunFolder(Path(out)).load_tensors("model") for out in ("a", "b"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("own.py:nothing", "the attack own.py:nothing gives NoneType: return the attacked inputs"),
        ("own.py:flat", "the attack own.py:flat gives inputs of (16, 144): return inputs of (16, 1, 12, 12)"),
        ("own.py:double", "the attack own.py:double gives inputs of torch.float64: return inputs of torch.float32"),
        (
            "own.py:far",
            "the attack own.py:far went 0.5 far in linf, and the radius is 0.1: return threat.project(adv, x)",
        ),
        ("own.py:below", "own.py:below left the bounds of the inputs, [0, 1], with values from -0.1 to "),
        ("own.py:in_place", "the attack own.py:in_place went "),
        ("own.py:teaches", "the attack own.py:teaches changes 1.1.weight of the network: work on a copy of it"),
        ("own.py:teaches_unseen", "the attack own.py:teaches_unseen changes 1.1.weight of the network"),
        ("own.py:LeavesTrain", "own.py:LeavesTrain leaves the network in another mode: leave train() and eval() out"),
        ("own.py:lost", "the attack own.py:lost gives NaN for "),
        ("own.py:two", "TypeError: two() takes 2 positional arguments but 5 were given"),
        ("own.py:breaks", "is out of bounds for dimension 1 with size 3 (own.py, line "),
        ("own.py:REDUCED", "the loss of the attack gives () for 16 samples: give one number per sample"),
        ("own.py:WORDLESS", "the loss of the attack gives NoneType for 16 samples"),
        ("own.py:Needs", "missing 1 required positional argument: 'share'; give its fields defaults, or name a value"),
        ("own.py:NoCall", "NoCall has no __call__: define __call__(self, model, x, y, threat, draws=None)"),
        ("own.py:NoClimb", "NoClimb has no climb: define climb(self, uphill, x, threat, draws, move=None)"),
        ("own.py:Other", "own.py:Other is a class Other, no attack: give a class derived from orat.Attack"),
        ("own.py:SEEN", "own.py:SEEN is a value of type list, no attack"),
        ("own.py:MIEN", "unknown name in own.py: 'MIEN': did you mean 'MINE'?"),
        ("pdg20", "unknown attack 'pdg20': did you mean 'pgd20'?"),
    ],
)
def test_an_attack_that_cannot_train_is_refused_in_one_line_and_nothing_is_written(
    name: str, line: str, tiny: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert line in wrong(capsys, *words(tiny, name))
    assert not (folder / "a").exists()


def test_an_attack_that_keeps_to_the_full_radius_alone_is_refused_before_the_radius_warms_up(
    tiny: str, folder: Path
) -> None:
    def fixed(model: nn.Module, x: Tensor, y: Tensor, threat: Threat, draws: Any) -> Tensor:
        return (x + 0.1).clamp(0, 1)

    words = "far in linf, and the radius is 0.00555556: return threat.project(adv, x)"
    assert_refused_in_one_line(lambda: orat.train(quick(tiny, fixed, attack_warmup=2.0), "a", display=SILENT), words)
    assert not (folder / "a").exists()
    orat.train(quick(tiny, fixed), "a", display=SILENT)


def test_settings_of_pgd_and_blind_climbs_are_refused(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    for flag, value in (("--attack-steps", "3"), ("--attack-start", "none"), ("--attack-step-size", "0.1")):
        name = flag[2:].replace("-", "_")
        line = wrong(capsys, *words(tiny, "own.py:MINE"), flag, value)
        assert f"both {name} = {value} and attack = own.py:MINE: {name} is for the PGD of the run" in line
    assert "set the mode of the attack" in wrong(capsys, *words(tiny, "own.py:MINE"), "--attack-mode", "train")
    assert "counts the steps of the attack" in wrong(capsys, *words(tiny, "own.py:Blind", "gairat"))


# In evaluation.


def test_attacks_are_evaluated_under_the_name_that_was_given(
    tiny: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orat.train(quick(tiny, None, attack_steps=1, epochs=1), "a", display=SILENT)
    names = "fgsm,own.py:Sign,own.py:noise,own.py:MINE"
    reports = []
    for _ in range(2):
        capsys.readouterr()
        assert main(["evaluate", "a", "--attacks", names, "--json"]) == 0
        reports.append(json.loads(capsys.readouterr().out))
        (folder / "own.py").write_text(CODE + "\n# changed code is another evaluation")
        for name in [name for name in sys.modules if name.startswith("orat_file_own_")]:
            del sys.modules[name]  # as in a new process
    accuracy = reports[0]["accuracy"]
    assert list(accuracy) == ["natural", *names.split(","), "worst-case"]
    assert accuracy["own.py:noise"] >= accuracy["own.py:Sign"]
    assert reports[0]["folder"] != reports[1]["folder"]
    model, test = orat.load_model("a"), orat.load_data(tiny).test
    assert test is not None
    mine = {"noise": resolve("own.py:noise"), "sign": resolve("own.py:Sign"), "mine": resolve("own.py:MINE")}
    found = orat.evaluate(model, test, mine, 0.1)
    assert found == pytest.approx({"natural": accuracy["natural"]} | {n: found[n] for n in mine})
    assert found["sign"] == accuracy["own.py:Sign"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("own.py:nothing", "the attack own.py:nothing gives NoneType"),
        ("own.py:far", "the attack own.py:far went 0.5 far in linf"),
        ("own.py:REDUCED", "the loss of the attack gives () for "),
        ("own.py:breaks", "the attack own.py:breaks fails with IndexError"),
        ("own.py:MIEN", "did you mean 'MINE'?"),
        ("own.py:in_place", "the attack own.py:in_place went "),
        ("own.py:teaches_unseen", "the attack own.py:teaches_unseen changes 1.1.weight of the network"),
        ("own.py:LeavesTrain", "own.py:LeavesTrain leaves the network in another mode"),
        ("own.py:far,own.py:MIM,own.py:lost", "and the radius is 0.1: return threat.project(adv, x); the attack own.p"),
    ],
)
def test_an_attack_that_fails_is_refused_before_anything_is_written(
    name: str, line: str, tiny: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orat.train(quick(tiny, None, attack_steps=1, epochs=1), "a", display=SILENT)
    assert line in wrong(capsys, "evaluate", "a", "--attacks", f"fgsm,{name}")
    assert not (folder / "a" / "evaluations").exists()


def test_a_class_gets_random_numbers_in_evaluation_and_in_a_call_without_them(
    tiny: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orat.train(quick(tiny, "own.py:MIM", epochs=1), "a", display=SILENT)
    assert main(["evaluate", "a", "--attacks", "own.py:MIM"]) == 0
    x, y = torch.full((4, 3), 0.5), torch.zeros(4, dtype=torch.long)
    for threat in (0.1, "1/10", Threat(0.1)):
        adv = resolve("own.py:MIM")()(linear(), x, y, threat)
        assert torch.equal(adv, resolve("own.py:MIM")()(linear(), x, y, Threat(0.1)))
        assert Threat(0.1).allows(adv, x).all()


def test_what_an_attack_writes_into_its_inputs_changes_no_number(tiny: str) -> None:
    model, test = nn.Sequential(nn.Flatten(), nn.Linear(144, 3)), orat.load_data(tiny).test
    natural = orat.evaluate(model, test, [], 0.1)["natural"]
    assert orat.evaluate(model, test, {"relabels": resolve("own.py:relabels")}, 0.1)["relabels"] == natural
    words = "the attack in_place went "
    assert_refused_in_one_line(lambda: orat.evaluate(model, test, {"in_place": resolve("own.py:in_place")}, 0.1), words)


def test_global_random_numbers_of_an_attack_are_repeatable_in_evaluation(tiny: str) -> None:
    seen = []

    def draws_globally(model: nn.Module, x: Tensor, y: Tensor, threat: Threat, draws: Any) -> Tensor:
        seen.append((torch.rand(()).item(), random.random(), np.random.rand()))
        return x

    state = torch.get_rng_state()
    for seed in (0, 0, 1):
        model = nn.Sequential(nn.Flatten(), nn.Linear(144, 3, bias=False))
        nn.init.zeros_(model[1].weight)
        orat.evaluate(model, orat.load_data(tiny).test, {"mine": draws_globally}, 0.1, seed)
        torch.set_rng_state(state)
    assert seen[0] == seen[1] != seen[2]
