"""Runs and their texts are each other's inverse."""

from __future__ import annotations

import sys
from dataclasses import MISSING, dataclass, field, replace

import pytest
from refusals import assert_refused_in_one_line

from orat.core.options import option
from orat.methods import AT, MAIL, ORAT, TRADES, AoRR, Method
from orat.training.run import Run
from orat.training.text import as_flags, declared_fields, method_class, methods_with, run_from, texts_of


@pytest.mark.parametrize(
    "method", [AT(), TRADES(beta=2), MAIL(form="trades", slope=3.0), AoRR(m=7, k=250), ORAT(m=0.2)]
)
def test_the_texts_of_a_run_give_the_run_back(method: Method) -> None:
    for run in (
        Run(data="mnist", method=method),
        Run(data="sample", method=method, noise="symmetric", noise_rate=0.4, milestones=(), seed=3),
        Run(data="a/b", method=method, image_size=(32, 48), normalize=True, eps=8 / 255, labels="a,b.csv"),
    ):
        assert run_from(texts_of(run)) == run


def test_only_what_differs_from_the_defaults_has_a_text() -> None:
    assert texts_of(Run(method=ORAT(m=0.3), epochs=22)) == {"method": "orat", "m": "0.3"}
    assert texts_of(Run(data="mnist", method=AT(), seed=2)) == {"method": "at", "data": "mnist", "seed": "2"}


def test_what_a_run_derives_from_a_field_follows_the_field() -> None:
    texts = texts_of(Run(data="mnist", method=AT(), epochs=10))
    assert run_from(texts | {"eps": "0.4"}).attack_step_size == 0.1
    assert run_from(texts | {"epochs": "100"}).milestones == (40, 80)


def test_a_field_without_a_text_keeps_its_default() -> None:
    assert run_from({"method": "at", "eps": None}) == Run(method=AT())


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({}, "--method is not given: choose one of st, at,"),
        ({"method": "orta"}, "unknown method 'orta': did you mean 'orat'?"),
        ({"method": "at", "beta": "1"}, "--beta is for trades, mart, mail, not for at: leave it out"),
        ({"method": "at", "sede": "1"}, "unknown field 'sede': did you mean 'seed'?"),
        ({"method": "at", "epochs": "1.5"}, "--epochs: '1.5' is not a whole number"),
        ({"method": "at", "normalize": "maybe"}, "--normalize: unknown answer 'maybe'"),
    ],
)
def test_texts_without_meaning_are_refused_in_one_line(texts: dict[str, str], words: str) -> None:
    assert_refused_in_one_line(lambda: run_from(texts), words)


def test_flags_begin_with_data_and_method() -> None:
    assert as_flags({"m": "0.3", "batch_size": "8", "method": "orat", "data": "a b"}) == [
        "--data", "a b", "--method", "orat", "--m", "0.3", "--batch-size", "8",
    ]  # fmt: skip


def test_every_field_of_every_method_is_known() -> None:
    assert methods_with("beta") == ["trades", "mart", "mail"]
    assert {"eps", "beta", "m", "solver"} <= set(declared_fields())


@dataclass(frozen=True)
class Own(AT):
    """A method of somebody else, with a field that has no default."""

    strength: float = field(default=MISSING, kw_only=True, metadata={"help": "a strength"})
    power: int = option(2, "a power")


def test_a_method_without_a_name_is_recorded_by_its_import_path_and_no_record_imports_code() -> None:
    run = Run(method=Own(strength=0.5))
    assert run.method_name == f"{__name__}:Own"
    assert texts_of(run) == {"method": run.method_name, "strength": "0.5"}
    assert replace(run, method=Own(strength=0.4)).id != run.id
    assert run_from(texts_of(run)) == Run.from_record(run.record()) == run
    assert Run.from_record(run.record() | {"method": {"name": "antigravity:Own"}}).method_name == "antigravity:Own"
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("name", ["os.path:join", "no_such_module:Own", "orat.methods:Own", "pathlib:Path"])
def test_an_import_path_without_a_method_is_refused(name: str) -> None:
    assert_refused_in_one_line(lambda: method_class(name), name.partition(":")[0])
