"""The state of a user's method: its memory is in the checkpoint, or refused before anything is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from quick_runs import QUICK, assert_same, train_until_stopped
from refusals import assert_refused_in_one_line, wrong
from torch import nn

import orat
from orat.core.console import SILENT
from orat.core.registry import resolve
from orat.core.unsaved import unsaved
from orat.methods import SampleTable
from orat.training.run import Run

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_state.py"
CODE = """
import random
import orat
import torch
from orat.methods import AT, Decision, SampleTable

class Plain(orat.State):
    def __init__(self, n=0):
        super().__init__()
        self.n, self.seen, self.mean, self.names, self.chance = n, 0, torch.tensor(0.0), ["a"], random.Random(0)
        self.register_buffer("sum", torch.tensor(0.0))
        self.register_buffer("gone", torch.tensor(0.0), persistent=False)
        self.table = SampleTable(n, loss=0.0)

class Base(AT):
    def start(self, setting):
        return Plain(setting.n)

    def loss(self, step):
        loss = super().loss(step)
        self.remember(step.state, loss, step.batch.id)
        return loss

    def remember(self, state, loss, ids):
        pass

def method(**named):
    return type("Made", (Base,), named)

def with_state(**named):
    made = type("State", (Plain,), named)
    return type("Made", (Base,), {"start": lambda self, setting: made(setting.n)})

def tensor(self, state, loss, ids):
    state.mean = state.mean + loss.detach()

def graph(self, state, loss, ids):
    state.sum = state.sum + loss

def plain_graph(self, state, loss, ids):
    state.mean = state.mean + loss

def listed(self, state, loss, ids):
    state.names.append(loss.item())

def gone(self, state, loss, ids):
    state.gone += loss.detach()

def draws(self, state, loss, ids):
    state.chance.random()

def wide(self, state, loss, ids):
    state.table.put(ids, loss=torch.zeros(len(ids), 3))

def misnamed(self, state, loss, ids):
    state.table.put(ids, los=torch.zeros(len(ids)))

def counts(self):
    self.seen += 1
    return {}

def right(self, state, loss, ids):
    state.sum += loss.detach()
    state.gone.fill_(0)

Tensor, Graph, PlainGraph, Listed, Gone = (method(remember=one) for one in (tensor, graph, plain_graph, listed, gone))
Draws, Wide, Misnamed, Right = (method(remember=one) for one in (draws, wide, misnamed, right))
Counts = with_state(end_epoch=counts)
Text = with_state(end_epoch=lambda self: "done")
Number = with_state(end_epoch=lambda self: {"sum": self.sum})
Fails = with_state(end_epoch=lambda self: {}["x"])
Mask = with_state(decision=lambda self: torch.ones(self.n, dtype=torch.bool))
Short = with_state(decision=lambda self: Decision(keep=torch.ones(3, dtype=torch.bool)))
Floats = with_state(decision=lambda self: Decision(keep=torch.ones(self.n)))
"""


pytestmark = pytest.mark.usefixtures("folder")


def quick(tiny: str, method: orat.Method) -> Run:
    """A quick run."""
    return Run(data=tiny, method=method, **{**QUICK, "epochs": 3, "milestones": ()})


MEMORY = "in training, which no checkpoint has: use self.register_buffer(name, tensor), or a SampleTable"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Tensor", f"changes mean {MEMORY}"),
        ("Listed", f"changes names {MEMORY}"),
        ("Gone", f"changes gone {MEMORY}"),
        ("Draws", f"changes chance {MEMORY}"),
        ("Counts", f"changes seen {MEMORY}"),
        ("Graph", "keeps sum with the graph of its step: store sum.detach()"),
        ("PlainGraph", "keeps mean with the graph of its step: store mean.detach()"),
        ("Wide", "the column loss takes (16,) for 16 samples, not (16, 3): give a row per sample, and make the table"),
        ("Misnamed", "unknown column 'los': did you mean 'loss'?"),
        ("Text", "end_epoch of own.py:Text gives str: return a dict of numbers"),
        ("Number", "end_epoch of own.py:Number gives Tensor as 'sum': return numbers, such as value.item()"),
        ("Fails", "the end of an epoch with method own.py:Fails fails with KeyError: 'x' (own.py, line "),
        ("Mask", "decision of own.py:Mask gives Tensor: return orat.methods.Decision(keep=mask)"),
        ("Short", "gives (3,) of bool as keep: give (270,) of bool, an entry per training sample"),
        ("Floats", "gives (270,) of float32 as keep: give (270,) of bool, an entry per training sample"),
    ],
)
def test_a_state_that_would_be_lost_or_misread_is_refused_and_nothing_is_written(
    name: str, line: str, tiny: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "own.py").write_text(CODE + f"\n{name}.__qualname__ = '{name}'\n")
    flags = ["--model", "mlp-4", "--epochs", "1", "--eps", "0.1", "--augment", "none", "--validation", "0.1"]
    words = ["train", "--data", tiny, "--method", f"own.py:{name}", *flags, "--quiet", "--out", "a"]
    assert line in wrong(capsys, *words)
    assert not (folder / "a").exists()


def test_a_state_that_needs_scout_networks_is_refused_after_them(tiny: str) -> None:
    class Counting(orat.methods.ORAT):
        def loss(self, step: orat.Step) -> torch.Tensor:
            step.state.seen = getattr(step.state, "seen", 0) + 1
            return super().loss(step)

    class Same(orat.methods.ORAT):
        pass

    run = quick(tiny, Counting(scout_epochs=1))
    assert_refused_in_one_line(lambda: orat.train(run, "a", display=SILENT), f"Counting changes seen {MEMORY}")
    orat.train(quick(tiny, Same(scout_epochs=1)), "b", display=SILENT)


def test_a_state_of_buffers_trains(tiny: str) -> None:
    orat.train(quick(tiny, resolve("own.py:Right")()), "a", display=SILENT)


def test_the_example_drops_the_largest_share_and_resumes_to_the_bit(
    tiny: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sum(map(bool, EXAMPLE.read_text().splitlines())) < 32
    run = quick(tiny, resolve(f"{EXAMPLE}:Drop")(share=0.25))
    train_until_stopped(run, folder / "b", 13, monkeypatch)
    for out in ("a", "b"):
        result = orat.train(run, folder / out, display=SILENT)
    assert_same(folder / "a", folder / "b")
    assert result["outliers"] | {"cut": 67, "of": 270} == result["outliers"]
    history = [json.loads(line) for line in (folder / "a" / "history.jsonl").read_text().splitlines()]
    assert [line["state"] for line in history] == [{"kept": 203}] * 3


def test_what_no_state_dict_has_is_told_apart_by_its_content() -> None:
    one = nn.Sequential(nn.Linear(2, 2))
    one[0].seen, one[0].cache, one.held = 1, {"x": [torch.tensor(torch.nan)]}, [nn.Linear(1, 1)]
    before = unsaved(one)
    assert before.keys() == {"0.in_features", "0.out_features", "0.seen", "0.cache", "held"}
    assert unsaved(one) == before
    one[0].cache["x"][0] = torch.tensor(1.0)
    with torch.no_grad():
        one.held[0].weight += 1
        one[0].weight += 1
    assert {name for name, value in unsaved(one).items() if value != before[name]} == {"0.cache", "held"}
    one.itself = one  # which is no endless loop
    assert unsaved(one).keys() >= before.keys()


def test_a_table_takes_a_number_as_a_row_and_refuses_whole_columns_as_rows() -> None:
    assert SampleTable(3, loss=0.5)["loss"].tolist() == [0.5] * 3
    whole = SampleTable(3, loss=torch.zeros(3))
    words = "the column loss takes (2, 3) for 2 samples, not (2,): give a row per sample, and make the table with one"
    assert_refused_in_one_line(lambda: whole.put(torch.tensor([0, 1]), loss=torch.ones(2)), words)
