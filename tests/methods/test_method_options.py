"""What can be set of a method: defaults by data set and schedule, records, ids, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from quick_runs import quick
from refusals import assert_refused_in_one_line

import orat
from orat.cli.main import main, parse
from orat.core.console import SILENT
from orat.methods import AT, GAIRAT, MAIL, MART, METHODS, ORAT, RAA, ST, TRADES, WMMR, AoRR, Method, Setting
from orat.training.run import Run, read_run
from orat.training.setup import prepare, setting_of
from orat.training.text import run_from

NAN, INFINITY = float("nan"), float("inf")
EACH = [
    ST(), AT(), TRADES(), MART(), GAIRAT(), MAIL(), MAIL(form="trades"), WMMR(), RAA(), AoRR(m=0.2), ORAT(m=0.2),
    ORAT(),
]  # fmt: skip
LATE = {"gairat": GAIRAT, "mail": MAIL, "raa": RAA}


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: GAIRAT(weight="tan"), "unknown weight 'tan': did you mean 'tanh'?"),
        (lambda: GAIRAT(shift=NAN), "shift = nan: give a finite number"),
        (lambda: GAIRAT(shift=INFINITY), "shift = inf"),
        (lambda: GAIRAT(burn_in=-1), "burn_in = -1: give 0 or more"),
        (lambda: MAIL(form="trade"), "unknown form 'trade': did you mean 'trades'?"),
        (lambda: MAIL(scale="const"), "unknown scale 'const': did you mean 'const3'?"),
        (lambda: MAIL(beta=-5.0), "beta = -5.0: give 0 or more"),
        (lambda: MAIL(slope=-1.0), "slope = -1.0"),
        (lambda: MAIL(bias=NAN), "bias = nan"),
        (lambda: MAIL(burn_in=-3), "burn_in = -3"),
        (lambda: MAIL(burn_in=1.5), "burn_in = 1.5: give a whole number"),
        (lambda: RAA(confidence=2.0), "confidence = 2.0: give 1 or less"),
        (lambda: TRADES(beta=-0.1), "beta = -0.1: give 0 or more"),
        (lambda: TRADES(beta=NAN), "beta = nan: give a finite number"),
        (lambda: MART(beta=-1), "beta = -1"),
        (lambda: MART(beta=INFINITY), "beta = inf"),
        (lambda: WMMR(alpha=-0.5), "alpha = -0.5: give 0 or more"),
        (lambda: WMMR(alpha=NAN), "alpha = nan"),
        (lambda: RAA(withstands=-1), "withstands = -1"),
        (lambda: RAA(confidence=-0.1), "confidence = -0.1"),
        (lambda: RAA(confidence=NAN), "confidence = nan"),
        (lambda: RAA(burn_in=-1), "burn_in = -1"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_in_one_line(build: Callable[[], object], words: str) -> None:
    assert_refused_in_one_line(build, words)


@pytest.mark.parametrize("name", ["gairat", "raa"])
def test_an_attack_without_steps_is_refused_where_its_steps_are_counted_and_nothing_is_written(
    name: str, tiny: str, tmp_path: Path
) -> None:
    run = quick(tiny, LATE[name](), attack_steps=0)
    words = f"attack_steps = 0: {name} counts the steps that a sample withstands"
    assert_refused_in_one_line(lambda: orat.train(run, tmp_path / "a", display=SILENT), words)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("method", [TRADES(), MAIL(form="trades")])
def test_a_divergence_is_not_attacked_from_the_image_itself(method: Method, tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, method, attack_start="none")
    words = "attack_start = none: the KL divergence has no gradient there"
    assert_refused_in_one_line(lambda: orat.train(run, tmp_path / "a", display=SILENT), words)


def test_a_drop_after_the_last_epoch_is_none() -> None:
    for milestones, expected in (((3, 9), 2), ((9,), 2), ((), 2)):
        assert GAIRAT().start(Setting(10, 10, 2, 5, 5, milestones)).burn_in == expected


@pytest.mark.parametrize("data", ["mnist", "sample", "cifar10", "cifar100", "some/folder"])
def test_defaults_of_trades_and_wmmr_depend_on_the_data_and_what_is_given_stays(data: str) -> None:
    digits = data in ("mnist", "sample")
    assert Run(data=data, method=TRADES()).method.beta == (1 if digits else 6)
    assert Run(data=data, method=WMMR()).method.alpha == (0.05 if digits else 0.5)
    assert Run(data=data, method=TRADES(beta=0)).method.beta == 0
    assert Run(data=data, method=WMMR(alpha=2.0, detach_weights=True)).method == WMMR(2.0, True)
    assert Run(data=data, method=MART()).method.beta == 5


def test_slope_and_bias_of_mail_are_the_authors_for_each_form_where_not_given() -> None:
    for given, expected in (
        (MAIL(), (10, -0.5, 5)),
        (MAIL(form="trades"), (2, 0, 5)),
        (replace(MAIL(), form="trades"), (2, 0, 5)),
        (MAIL(form="trades", slope=0, bias=-1.5), (0, -1.5, 5)),
    ):
        method = Run(data="mnist", method=given).method
        assert (method.slope, method.bias, method.beta) == expected
    assert (GAIRAT().shift, GAIRAT().weight) == (-1, "tanh")


@pytest.mark.parametrize("method", EACH)
def test_an_attack_starts_where_the_methods_authors_start_it_unless_told_otherwise(method: Method) -> None:
    expected = "gaussian" if isinstance(method, TRADES | MART | MAIL) else "uniform"
    assert Run(data="mnist", method=method).attack_start == expected
    for given in ("none", "uniform", "gaussian"):
        assert Run(data="mnist", method=method, attack_start=given).attack_start == given


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
@pytest.mark.parametrize("method", EACH)
def test_the_record_of_any_method_brings_its_run_back_from_a_file(method: Method, data: str, tmp_path: Path) -> None:
    run = Run(data=data, method=method)
    (tmp_path / "run.json").write_text(json.dumps(run.record()))
    again = read_run(tmp_path)
    assert again == run
    assert again.id == run.id


@pytest.mark.parametrize(
    ("whole", "decimal"),
    [
        (TRADES(beta=1), TRADES(beta=1.0)),
        (MART(beta=6), MART(beta=6.0)),
        (GAIRAT(shift=0), GAIRAT(shift=0.0)),
        (MAIL(slope=10, bias=0, beta=5), MAIL(slope=10.0, bias=0.0, beta=5.0)),
        (WMMR(alpha=1), WMMR(alpha=1.0)),
        (RAA(confidence=0), RAA(confidence=0.0)),
    ],
)
def test_a_float_written_as_a_whole_number_gives_the_same_id(whole: Method, decimal: Method) -> None:
    ids = [Run(data="mnist", method=method).id for method in (whole, decimal)]
    assert ids[0] == ids[1]


def test_every_field_of_a_method_changes_the_id() -> None:
    runs = [
        TRADES(), TRADES(beta=2), MART(), MART(beta=4), GAIRAT(), GAIRAT(shift=0),
        GAIRAT(weight="sigmoid"), GAIRAT(burn_in=3), MAIL(), MAIL(form="trades"),
        MAIL(scale="batch"), MAIL(slope=9), MAIL(bias=0), MAIL(beta=4), WMMR(),
        WMMR(alpha=1), WMMR(detach_weights=True), WMMR(weighted_attack=False), RAA(),
        RAA(withstands=2), RAA(confidence=0.9), RAA(persistent=True),
    ]  # fmt: skip
    assert len({Run(data="mnist", method=method).id for method in runs}) == len(runs)


def test_there_is_one_of_each() -> None:
    assert {type(method) for method in EACH} == set(METHODS.values())


@pytest.mark.parametrize("name", LATE)
@pytest.mark.parametrize(
    ("epochs", "milestones", "expected"),
    [(50, (20, 40), 19), (100, (30, 60), 29), (100, (60, 30), 29), (100, (), 40), (5, (), 2), (10, (1,), 0)],
)
def test_the_plain_form_lasts_until_the_epoch_before_the_first_drop_or_two_fifths_of_the_run(
    name: str, epochs: int, milestones: tuple[int, ...], expected: int
) -> None:
    setting = Setting(10, 10, 2, steps=5, epochs=epochs, milestones=milestones)
    assert LATE[name]().start(setting).burn_in == expected
    assert LATE[name](burn_in=7).start(setting).burn_in == 7
    assert LATE[name](burn_in=0).start(setting).burn_in == 0


@pytest.mark.parametrize("name", LATE)
def test_a_run_hands_its_schedule_to_its_method(name: str, tiny: str) -> None:
    for milestones, expected in (((3, 4), 2), ((), 2), ((4,), 3)):
        run = quick(tiny, LATE[name](), milestones=milestones)
        assert run.method.start(setting_of(run, prepare(run))).burn_in == expected
    setting = setting_of(run, prepare(run))
    assert (setting.attack_steps, setting.epochs, setting.n, setting.classes) == (3, 4, 270, 3)


def parsed(*arguments: str) -> Run:
    """The run of a command line with these flags."""
    return run_from(parse(["train", *arguments]).texts)


def test_flags_reach_the_fields_of_their_method() -> None:
    run = parsed("--method", "mail", "--form", "trades", "--scale", "batch", "--beta", "4", "--burn-in", "3")
    assert run.method == MAIL(form="trades", scale="batch", slope=2.0, bias=0.0, beta=4.0, burn_in=3)
    assert parsed("--method", "wmmr", "--detach-weights", "--weighted-attack", "no").method == WMMR(0.05, True, False)
    assert parsed("--method", "gairat", "--shift", "-2").method == GAIRAT(shift=-2.0)
    assert parsed("--method", "raa", "--persistent", "--confidence", "9/10").method.confidence == 0.9
    assert_refused_in_one_line(lambda: parsed("--method", "at", "--beta", "1"), "--beta is for trades, mart, mail, not")
    assert_refused_in_one_line(lambda: parsed("--method", "mail", "--slope", "-1"), "slope = -1")


def test_a_method_trains_from_the_command_line(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--model", "mlp-4", "--epochs", "1", "--eps", "0.1", "--attack-steps", "1", "--augment", "none"]
    out = tmp_path / "a"
    assert main(["train", "--data", tiny, "--method", "gairat", *flags, "--out", str(out), "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["folder"] == str(out)
    assert read_run(out).method == GAIRAT()


def test_all_methods_are_public() -> None:
    assert {cls.__name__ for cls in METHODS.values()} <= set(orat.methods.__all__)
    assert all(getattr(orat.methods, cls.__name__) is cls for cls in METHODS.values())
    with pytest.raises(AttributeError, match="has no attribute 'Orat'"):
        orat.methods.Orat  # noqa: B018


def test_a_class_has_its_name_or_its_import_path() -> None:
    assert [METHODS.name_of(cls) for cls in METHODS.values()] == list(METHODS)
    assert METHODS.name_of(Method) == "orat.methods.base:Method"
