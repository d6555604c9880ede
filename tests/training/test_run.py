"""A run is a complete, frozen value with a stable id; its record brings it back, and runs no code."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import assert_refused_in_one_line

from orat.core.domain import size, size_text
from orat.core.errors import InputError
from orat.core.options import number, quotient, radius
from orat.methods import AT, ORAT, AoRR
from orat.methods.base import Recorded
from orat.training.defaults import DEFAULTS
from orat.training.run import Run, read_run


def test_a_run_is_complete_with_the_papers_schedule_for_mnist() -> None:
    run = Run(data="mnist", method=AT())
    schedule = (run.model, run.epochs, run.lr, run.milestones, run.batch_size, run.momentum, run.weight_decay)
    assert schedule == ("lenet", 50, 0.03, (20, 40), 128, 0.9, 2e-4)
    assert (run.attack_steps, run.attack_step_size) == (10, run.eps / 4)


@pytest.mark.parametrize(("data", "model"), [("cifar10", "small_cnn"), ("cifar100", "resnet18")])
def test_cifar_has_the_papers_schedule(data: str, model: str) -> None:
    run = Run(data=data, method=AT())
    assert (run.model, run.epochs, run.lr, run.milestones) == (model, 100, 0.1, (30, 60))


def test_milestones_move_with_the_epochs() -> None:
    assert Run(data="mnist", method=AT(), epochs=10).milestones == (4, 8)
    assert Run(data="mnist", method=AT(), epochs=10, milestones=()).milestones == ()
    assert Run(data="cifar10", method=AT(), epochs=3).milestones == (2,)
    assert Run(data="cifar10", method=AT(), epochs=2).milestones == ()


@pytest.mark.parametrize("data", [*DEFAULTS, "some/folder"])
def test_a_record_brings_back_the_run_through_json(data: str) -> None:
    run = Run(data=data, method=ORAT(m=3, k=0.9, solver="minmax"), image_size=(32, 48))
    again = Run.from_record(json.loads(json.dumps(run.record())))
    assert again == run
    assert again.id == run.id


def test_the_id_changes_with_any_field_and_not_with_how_a_number_is_written() -> None:
    run = Run(data="mnist", method=ORAT(m=3))
    assert replace(run, seed=1).id != run.id
    assert replace(run, method=ORAT(m=4)).id != run.id
    assert replace(run, warmup=1).id == replace(run, warmup=1.0).id


def test_ids_are_the_same_anywhere() -> None:
    """A changed default or field changes ids and orphans folders: then this figure changes, openly."""
    assert Run(data="mnist", method=AT()).id == "64b3fe7007"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"eps": 8}, "did you mean 8/255"),
        ({"eps": -0.1}, "eps = -0.1"),
        ({"noise": "symmetric", "noise_rate": 1.0}, "noise_rate = 1"),
        ({"noise": "symmetric", "noise_rate": -0.1}, "noise_rate = -0.1"),
        ({"noise": "symmetric"}, "flips nothing"),
        ({"noise_rate": 0.4}, "without noise"),
        ({"noise": "symetric", "noise_rate": 0.4}, "did you mean 'symmetric'"),
        ({"norm": "linff"}, "did you mean 'linf'"),
        ({"noise": "symmetric", "noise_rate": 0.1, "labels": "a.csv"}, "give one of them"),
        ({"validation": 1.0}, "validation = 1"),
        ({"epochs": 0}, "epochs = 0"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"lr": -1.0}, "lr = -1"),
        ({"method": None}, "known are aorr, at, gairat, mail, mart, orat, raa, st, trades, wmmr"),
        ({"method": "at"}, "orat.methods.ORAT(m=0.3)"),
    ],
)
def test_nonsense_is_refused_in_one_line(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Run(**({"data": "mnist", "method": AT()} | changes))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: AoRR(), "m is not given"),
        (lambda: ORAT(k=0.9), "k = 0.9"),
        (lambda: ORAT(scout_epochs=0), "scout_epochs = 0"),
        (lambda: ORAT(m=5, k=3), "k = 3, m = 5"),
        (lambda: ORAT(m=0.5, k=0.5), "k = 0.5, m = 0.5"),
        (lambda: ORAT(m=5, solver="min-max"), "did you mean 'minmax'"),
    ],
)
def test_methods_refuse_nonsense(build: object, words: str) -> None:
    with pytest.raises(InputError) as caught:
        build()
    assert words in str(caught.value)


WRONG_TYPES: list[tuple[dict[str, Any], str]] = [
    ({"eps": "eight"}, "eps = 'eight': give a number"),
    ({"epochs": "2"}, "epochs = '2': give a whole number"),
    ({"epochs": 2.5}, "epochs = 2.5: give a whole number"),
    ({"epochs": True}, "epochs = True: give a whole number"),
    ({"milestones": 2}, "milestones = 2: give a tuple of whole numbers, such as (20, 40)"),
    ({"milestones": (2.5,)}, "milestones = (2.5,): give a tuple of whole numbers, such as (20, 40)"),
    ({"lr": "0.1"}, "lr = '0.1': give a number"),
    ({"normalize": "no"}, "normalize = 'no': give True or False"),
    ({"image_size": 32}, "image_size = 32: give a tuple of two whole numbers or None"),
    ({"target": 3}, "target = 3: give a text or None"),
    ({"frozen": "age"}, "frozen = 'age': give a tuple of names, such as ('age', 'sex')"),
    ({"bounds": ("a", 1)}, "bounds = ('a', 1): give data, none, or two numbers"),
    ({"method": "at"}, "method = 'at': give a value such as orat.methods.ORAT(m=0.3)"),
]


@pytest.mark.parametrize(("values", "words"), WRONG_TYPES)
def test_a_value_of_another_type_is_refused_with_field_and_type(values: dict[str, Any], words: str) -> None:
    assert_refused_in_one_line(lambda: Run(**{"data": "photos", "method": AT(), **values}), words)


def test_radii_may_be_texts_lists_tuples_and_numbers_of_numpy() -> None:
    run = Run(data="photos", method=AT(), eps="8/255", attack_step_size="2/255", milestones=[2, 3], epochs=np.int64(4))  # type: ignore[arg-type]
    assert (run.eps, run.attack_step_size, run.milestones, run.epochs) == (8 / 255, 2 / 255, (2, 3), 4)
    plain = Run(data="photos", method=AT(), eps=8 / 255, attack_step_size=2 / 255, milestones=(2, 3), epochs=4)
    assert (run.id, type(run.epochs)) == (plain.id, int)


def test_numbers_are_read_as_people_write_them() -> None:
    assert number("8/255") == 8 / 255
    for eps, text in (
        (8 / 255, "8/255"),
        (0.1, "0.1"),
        (51 / 255, "0.2"),
        (0.031, "0.031"),
        (1, "1"),
        (300.0, "300.0"),
    ):
        assert (quotient(eps), number(quotient(eps))) == (text, eps)
    assert number("0.1") == 0.1
    for text, share in (("70%", "0.7"), ("12.5 %", "0.125")):
        assert_refused_in_one_line(lambda text=text: number(text), f"{text!r} is not a number: write it as {share}")  # type: ignore[misc]
    assert size("32x48") == (32, 48)
    assert size("32") == (32, 32)
    assert size_text((32, 48)) == "32x48"
    for wrong in ("8/0", "eight", "8/255/2", ""):
        with pytest.raises(InputError, match="is not a number"):
            number(wrong)


def test_radii_are_shown_as_people_write_them() -> None:
    assert [radius(eps) for eps in (8 / 255, 0.1, 0.2, 0.031, 2 / 255)] == [
        "8/255 (0.0314)", "0.1", "0.2", "0.031", "2/255 (0.0078)",
    ]  # fmt: skip


@dataclass(frozen=True)
class Own(AT):
    """A method of a user."""

    power: float = 2.0


def test_a_method_of_a_user_is_recorded_by_its_import_path_and_found_where_it_is_imported() -> None:
    run = Run(method=Own(power=3))
    assert run.method_name == f"{__name__}:Own"
    record = json.loads(json.dumps(run.record()))
    assert record["method"] == {"name": run.method_name, "power": 3.0}
    assert Run.from_record(record) == run


FOREIGN = ["antigravity:Own", f"{__name__}:Other", "subprocess:Popen", "json:loads", "no/such/file.py:Own"]


@pytest.mark.parametrize("name", FOREIGN)
def test_a_record_imports_no_code_and_calls_nothing_but_methods(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record with another class, such as Popen with its arguments, must not make an object of it."""
    monkeypatch.setattr(subprocess.Popen, "__init__", None)
    record = Run(method=AT()).record() | {"method": {"name": name, "args": ["true"]}}
    run = Run.from_record(record)
    assert "antigravity" not in sys.modules
    assert (run.method_name, run.record()) == (name, record)
    assert type(run.method).__mro__[1:] == Recorded.__mro__


@pytest.mark.parametrize("name", ["at:", "", "focal", ":"])
def test_a_record_without_the_import_path_of_a_method_is_refused(name: str) -> None:
    record = Run(method=AT()).record() | {"method": {"name": name}}
    assert_refused_in_one_line(lambda: Run.from_record(record), f"unknown method '{name}': ")


def test_the_record_of_a_method_with_a_field_that_is_gone_is_refused() -> None:
    record = Run(method=ORAT()).record()
    record["method"]["confidence"] = 0.9
    assert_refused_in_one_line(
        lambda: Run.from_record(record), "the run is of another version of orat, with orat.confi"
    )


@pytest.mark.parametrize("version", [1, 3, None])
def test_the_record_of_another_format_is_refused_with_its_file_and_the_remedy(
    version: int | None, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(json.dumps(Run(method=AT()).record() | {"format": version}))
    words = f"run.json: the run is from an incompatible version of orat (format {version}, not 2): use that version, or"
    assert_refused_in_one_line(lambda: read_run(tmp_path), words)
