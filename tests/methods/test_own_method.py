"""A method of a user, in a file outside of the package: flags, card, training, records, and refusals in one line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from quick_runs import QUICK, assert_same, train_until_stopped
from refusals import assert_refused_in_one_line, wrong

import orat
from orat.cli.main import main
from orat.core.console import SILENT
from orat.core.registry import resolve
from orat.methods import AT, ORAT
from orat.methods.base import Recorded
from orat.training.run import Run, read_run

CODE = '''
from __future__ import annotations
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
import orat
import torch
from orat.core.losses import cross_entropy

@dataclass(frozen=True)
class Mixed(orat.Method):
    """Mixes the losses of natural and attacked inputs.

    The share is drawn in every step.
    """

    strength: float = 1.0
    power: float | None = None
    table: Path = Path("a/b")
    names: list[str] = field(default_factory=lambda: ["x"])
    pair: tuple[int, float] = (1, 2.0)
    kind: Literal["a", "b"] = "a"
    loud: bool = False
    of: Callable = cross_entropy
    made: int = field(default=3, init=False)

    def loss(self, step):
        share = torch.rand(()) * self.strength
        losses = self.of(step.model(step.adversary(step.batch.x, step.batch.y)), step.batch.y)
        return ((1 - share) * self.of(step.model(step.batch.x), step.batch.y) + share * losses).mean()

@dataclass(frozen=True)
class Half(orat.methods.ORAT):
    half: float = 0.5

    def loss(self, step):
        return self.half * super().loss(step)

@dataclass(frozen=True)
class NoLoss(orat.Method):
    gamma: float = 1.0

class Undecorated(orat.methods.AT):
    gamma: float = 1.0

class WithInit(orat.methods.AT):
    def __init__(self, gamma=1.0):
        self.gamma = gamma

@dataclass(frozen=True)
class PerSample(orat.methods.AT):
    def loss(self, step):
        return cross_entropy(step.model(step.batch.x), step.batch.y)

class Returns(orat.methods.AT):
    def loss(self, step):
        pass

class Constant(orat.methods.AT):
    def loss(self, step):
        return super().loss(step).detach()

class Breaks(orat.methods.AT):
    def loss(self, step):
        return step.network(step.batch.x)

class Stateless(orat.methods.AT):
    def start(self, setting):
        pass

@dataclass(frozen=True)
class Clashes(orat.methods.AT):
    eps: float = 1.0

@dataclass(frozen=True)
class Required(orat.methods.AT):
    gamma: float

@dataclass(frozen=True)
class Strict(orat.methods.AT):
    gamma: float = 1.0

    def __post_init__(self):
        if self.gamma < 0:
            raise ValueError(f"gamma = {self.gamma} is negative")

def function(step):
    return 0

value = orat.methods.AT()
'''


pytestmark = pytest.mark.usefixtures("folder")


def flags(tiny: str, out: str, *more: str) -> list[str]:
    """The words of a quick training."""
    quick = ["--model", "mlp-4", "--epochs", "1", "--eps", "0.1", "--attack-steps", "1", "--augment", "none"]
    return ["train", "--data", tiny, "--out", out, *quick, *more]


def quick(tiny: str, method: orat.Method, **more: Any) -> Run:
    """A quick run."""
    return Run(data=tiny, method=method, **{**QUICK, "epochs": 2, "milestones": (), **more})


def test_fields_with_a_text_form_are_flags_and_the_record_has_all(
    tiny: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--strength", "0.5", "--power", "1/4", "--table", "c", "--names", "y,z", "--pair", "3,4", "--kind", "b"]
    assert main(flags(tiny, "a", "--method", "own.py:Mixed", *given, "--loud", "--quiet", "--json")) == 0
    assert json.loads((folder / "a" / "run.json").read_text())["method"] == {
        "name": "own.py:Mixed", "strength": 0.5, "power": 0.25, "table": "c", "names": ["y", "z"], "pair": [3, 4.0],
        "kind": "b", "loud": True, "of": "orat.core.losses:cross_entropy",
    }  # fmt: skip
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["train", "--method", "own.py:Mixed", "--help"])
    shown = capsys.readouterr().out.partition("method own.py:Mixed:")[2].split()
    assert [word for word in shown if word.startswith("--")] == [
        "--strength", "--power", "--table", "--names", "--pair", "--kind", "--loud",
    ]  # fmt: skip


def test_the_docstring_is_the_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "methods", "own.py:Mixed"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Mixes the losses of natural and attacked inputs. The share is drawn in every step." in text
    assert "--strength (default: 1.0)" in text
    assert "--of" not in text
    assert main(["list", "methods", "own.py:Clashes", "--json"]) == 0
    assert "Clashes(" not in capsys.readouterr().out  # the text that dataclasses write


@pytest.mark.parametrize("name", ["Mixed", "Half"])
def test_a_stopped_training_resumes_to_the_bit_though_the_loss_draws_from_the_global_generator(
    name: str, tiny: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = resolve(f"own.py:{name}")
    run = quick(tiny, cls(m=20) if issubclass(cls, ORAT) else cls())
    train_until_stopped(run, folder / "b", 5, monkeypatch)
    torch.rand(3)
    for out in ("a", "b"):
        orat.train(run, folder / out, display=SILENT)
    assert_same(folder / "a", folder / "b")


def test_a_run_is_read_evaluated_and_searched_for_label_issues_without_the_code(
    tiny: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(tiny, "a", "--method", "own.py:Mixed", "--quiet")) == 0
    record = json.loads((folder / "a" / "run.json").read_text())
    (folder / "own.py").unlink()
    for name in [name for name in sys.modules if name.startswith("orat_file_own_")]:
        del sys.modules[name]
    run = read_run(folder / "a")
    assert isinstance(run.method, Recorded)
    assert (run.record(), run.method_name) == (record, "own.py:Mixed")
    assert run == Run.from_record(record)
    assert orat.load_model("a")(torch.zeros(1, 1, 12, 12)).shape == (1, 3)
    assert main(["evaluate", "a", "--attacks", "fgsm", "--examples", "6"]) == 0
    assert main(["labels", "find", "a"]) == 0
    assert main(["labels", "fix", "a", "--out", "fixed"]) == 0
    capsys.readouterr()
    words = "the method own.py:Mixed is known from a record alone, which runs no code: give --method own.py:Mixed"
    assert_refused_in_one_line(lambda: orat.train(run, "again", display=SILENT), words)
    assert not (folder / "again").exists()


def test_a_class_of_a_notebook_trains_and_resumes(tiny: str, folder: Path) -> None:
    cell = ModuleType("a_notebook")  # which is in no table of modules
    code = CODE.replace("from __future__ import annotations", "")  # with which dataclasses need such a table
    exec(compile(code, "cell", "exec", dont_inherit=True), vars(cell))
    run = quick(tiny, cell.Mixed(strength=1, of=lambda logits, y: logits.logsumexp(1) - logits[range(len(y)), y]))
    result = orat.train(run, "a", display=SILENT)
    assert run.record()["method"]["of"].endswith(".<locals>.<lambda>")
    assert orat.train(run, "a", display=SILENT) == result


def test_methods_of_a_user_vary_and_are_searched(tiny: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(flags(tiny, "a", "--quiet", "--json", "--vary", "method=at,own.py:Mixed", "--vary", "seed=0,1")) == 0
    assert main(flags(tiny, "b", "--quiet", "--json", "--method", "own.py:Mixed", "--vary", "strength=0,1")) == 0
    words = ["search", *flags(tiny, "c", "--quiet", "--json", "--method", "own.py:Mixed")[1:]]
    capsys.readouterr()
    assert main([*words, "--over", "strength=0,0.5"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert sorted(row["setting"]["strength"] for row in rows) == [0, 0.5]
    assert "did you mean 'strength'?" in wrong(capsys, *words, "--over", "strenth=1,2")
    run = quick(tiny, resolve("own.py:Mixed")(of=lambda logits, y: logits.square().sum(1)), epochs=1)
    found = orat.search(run, {"strength": [0.1, 0.2]}, "d", display=SILENT)
    assert [row["error"] for row in found] == [None, None]
    assert read_run(folder / "d" / "strength-0.1").method_name == "own.py:Mixed"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["own.py:NoLoss"], "NoLoss has no loss: define loss(self, step)"),
        (["own.py:Undecorated"], "Undecorated is no dataclass: declare its fields as `name: type = default`, and put"),
        (["own.py:WithInit"], "@dataclass(frozen=True) above class WithInit"),
        (["own.py:function"], "own.py:function is a function, no training method: give a class derived from orat.M"),
        (["own.py:value"], "own.py:value is a AT, no training method"),
        (["own.py:Mixd"], "unknown name in own.py: 'Mixd': did you mean 'Mixed'?"),
        (["own.py"], "'own.py' is no import path: give package.module:attribute or path/file.py:attribute"),
        (["other.py:Mixed"], f"there is no file other.py in {os.sep}"),
        (["Focal"], "known are aorr, at, "),
        (["Focal"], "; one of yours is path/file.py:Focal"),
        (["traeds"], "did you mean 'trades'?"),
        (["own.py:Mixed", "--strenth", "1"], "unknown flag '--strenth': did you mean '--strength'?"),
        (["own.py:Mixed", "--strength", "a"], "--strength: 'a' is not a number"),
        (["own.py:Mixed", "--kind", "c"], "--kind: unknown kind 'c': "),
        (["own.py:Mixed", "--strength", "nan"], "strength = nan: give a finite number"),
        (["own.py:Required"], "--gamma is not given: Required has no default for it"),
        (["own.py:Strict", "--gamma", "-1"], "Strict with these fields fails with ValueError: gamma = -1.0 is neg"),
        (["own.py:Clashes"], "Clashes.eps is a field of every run: give the field another name"),
        (["own.py:PerSample"], "the loss of own.py:PerSample gives (16,) for 16 samples: return one number"),
        (["own.py:Returns"], "the loss of own.py:Returns gives NoneType"),
        (["own.py:Constant"], "the loss of own.py:Constant gives a number without a gradient"),
        (["own.py:Breaks"], "AttributeError: 'Step' object has no attribute 'network' (own.py, line "),
        (["own.py:Stateless"], "start of own.py:Stateless gives NoneType: return an orat.State"),
    ],
)
def test_a_method_that_cannot_train_is_refused_in_one_line_and_nothing_is_written(
    words: list[str], line: str, tiny: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert line in wrong(capsys, *flags(tiny, "a", "--quiet", "--method", *words))
    assert not (folder / "a").exists()


def test_the_same_refusals_hold_in_python() -> None:
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: Run(method=resolve("own.py:NoLoss")()), "NoLoss has no loss"),
        (lambda: Run(method=resolve("own.py:Undecorated")()), "Undecorated is no dataclass"),
        (lambda: Run(method=resolve("own.py:Clashes")()), "Clashes.eps is a field of every run"),
        (lambda: Run(method=resolve("own.py:Mixed")), "give a value such as"),
    ]
    for build, words in cases:
        assert_refused_in_one_line(build, words)


def test_a_class_without_fields_needs_no_decorator() -> None:
    class Doubled(AT):
        def loss(self, step: orat.Step) -> torch.Tensor:
            return 2 * super().loss(step)

    assert Run(method=Doubled()).method_name.endswith("<locals>.Doubled")
