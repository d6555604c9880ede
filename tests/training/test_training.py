"""One loop for every method: schedules, identities, resuming and what stops it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from orat.training.lines import epoch_line, lost_words
from quick_runs import quick, train_until_stopped

import orat
from orat.core.console import SILENT, Display
from orat.core.errors import InputError, TrainingError
from orat.methods import METHODS, Method, Setting
from orat.training import train as execute
from orat.training.learner import Learner, set_pace, train_epoch
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import build_model, prepare, setting_of

ONE_OF_EACH: dict[str, Method] = {
    "st": orat.methods.ST(),
    "at": orat.methods.AT(),
    "trades": orat.methods.TRADES(),
    "mart": orat.methods.MART(),
    "gairat": orat.methods.GAIRAT(burn_in=1),
    "gairat discrete": orat.methods.GAIRAT(weight="discrete", burn_in=1),
    "mail": orat.methods.MAIL(burn_in=1),
    "mail trades": orat.methods.MAIL(form="trades", scale="batch", burn_in=1),
    "wmmr": orat.methods.WMMR(),
    "wmmr detached": orat.methods.WMMR(detach_weights=True, weighted_attack=False),
    "raa": orat.methods.RAA(burn_in=1),
    "raa persistent": orat.methods.RAA(burn_in=1, persistent=True),
    "aorr": orat.methods.AoRR(m=0.2, k=0.95),
    "orat": orat.methods.ORAT(m=0.2, k=0.95),
    "orat by scalars": orat.methods.ORAT(
        m=0.2, k=0.95, solver="minmax", scalar_start="authors", scalar_rate="constant"
    ),
}
# Those that watch all labels, each by other answers and another rule.
WATCHED: dict[str, Method] = {
    "orat automatic": orat.methods.ORAT(scout_epochs=2),
    "orat by its own answers": orat.methods.ORAT(score="natural", measure="loss", burn_in=1),
    "orat by averaged losses": orat.methods.ORAT(m=0.2, score="adversarial", measure="margin", burn_in=1),
}
EVERY = ONE_OF_EACH | WATCHED


def without_seconds(folder: Path) -> tuple[Any, Any]:
    """History and result of a run, less what depends on the clock."""
    history = RunFolder(folder).history()
    result = RunFolder(folder).result()
    for record in history:
        del record["seconds"]
    assert result is not None
    del result["seconds"]
    return history, result


def assert_same(one: Path, two: Path) -> None:
    """Equal to the bit: weights, state, history, results."""
    for name in ("model", "state"):
        a, b = RunFolder(one).load_tensors(name), RunFolder(two).load_tensors(name)
        assert a.keys() == b.keys()
        for key in a:
            assert torch.equal(a[key], b[key]), key
    assert without_seconds(one) == without_seconds(two)


def test_every_method_is_tried_here() -> None:
    assert {type(method) for method in ONE_OF_EACH.values()} == set(METHODS.values())


@pytest.mark.parametrize("name", EVERY)
def test_a_run_stopped_in_the_middle_of_an_epoch_ends_as_if_never_stopped(
    name: str, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = quick(tiny, EVERY[name], noise="symmetric", noise_rate=0.2, augment="flip", lr=0.2)
    orat.train(run, tmp_path / "whole", display=SILENT)
    train_until_stopped(run, tmp_path / "broken", 14, monkeypatch)
    saved = torch.load(tmp_path / "broken" / "resume.pt", weights_only=True)["learner"]
    assert saved["step"] > 0
    orat.train(run, tmp_path / "broken", display=SILENT)
    assert_same(tmp_path / "whole", tmp_path / "broken")


def test_a_run_stopped_by_a_version_with_other_steps_is_not_gone_on_with(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = quick(tiny, orat.methods.AT())
    train_until_stopped(run, tmp_path / "a", 3, monkeypatch)
    file = tmp_path / "a" / "resume.pt"
    saved = torch.load(file, weights_only=True)
    torch.save({name: value for name, value in saved.items() if name != "format"}, file)
    words = "was stopped by another version of orat.*give --out a new folder"
    with pytest.raises(InputError, match=words):
        orat.train(run, tmp_path / "a", display=SILENT)
    assert file.exists()


@pytest.mark.parametrize("solver", ["rank", "minmax"])
def test_orat_that_drops_nothing_is_at_to_the_bit(solver: str, tiny: str, tmp_path: Path) -> None:
    for name, method in {"at": orat.methods.AT(), "orat": orat.methods.ORAT(m=0, k=1.0, solver=solver)}.items():
        orat.train(quick(tiny, method, epochs=2), tmp_path / name, display=SILENT)
    at, same = (RunFolder(tmp_path / name).load_tensors("model") for name in ("at", "orat"))
    assert all(torch.equal(at[key], same[key]) for key in at)
    results = [RunFolder(tmp_path / name).result() for name in ("at", "orat")]
    assert results[0]["last"] == results[1]["last"]


@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_orat_that_is_told_nothing_and_finds_nothing_is_at_to_the_bit(augment: str, tiny: str, tmp_path: Path) -> None:
    """After one epoch scouts know too little to cut anything."""
    for name, method in (("at", orat.methods.AT()), ("orat", orat.methods.ORAT(scout_epochs=1))):
        orat.train(quick(tiny, method, augment=augment), tmp_path / name, device="cpu", display=SILENT)
    assert orat.find_label_issues(tmp_path / "orat", device="cpu").flags.sum() == 0
    at, automatic = (RunFolder(tmp_path / name).load_tensors("model") for name in ("at", "orat"))
    assert all(torch.equal(at[key], automatic[key]) for key in at)


def test_orat_that_drops_something_is_not_at(tiny: str, tmp_path: Path) -> None:
    for name, method in {"at": orat.methods.AT(), "orat": orat.methods.ORAT(m=1, ramp=0)}.items():
        orat.train(quick(tiny, method, epochs=2), tmp_path / name, display=SILENT)
    at, other = (RunFolder(tmp_path / name).load_tensors("model") for name in ("at", "orat"))
    assert not all(torch.equal(at[key], other[key]) for key in at)


def test_the_same_seed_gives_the_same_result_and_another_seed_another(tiny: str, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        torch.rand(3)  # the global generator is nobody's business
        orat.train(quick(tiny, orat.methods.AT(), seed=seed), tmp_path / name, display=SILENT)
    assert_same(tmp_path / "a", tmp_path / "b")
    weights = [RunFolder(tmp_path / name).load_tensors("model")["1.1.weight"] for name in ("a", "c")]
    assert not torch.equal(*weights)


def test_training_leaves_the_global_generator_alone(tiny: str, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    orat.train(quick(tiny, orat.methods.AT(), epochs=1), tmp_path / "a", display=SILENT)
    assert torch.equal(before, torch.get_rng_state())


def test_cutting_finds_the_flipped_labels(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, orat.methods.ORAT(m=0.3), noise="symmetric", noise_rate=0.3, epochs=25, milestones=(), eps=0.05)
    result = orat.train(run, tmp_path / "a", display=SILENT)
    assert result["outliers"]["precision"] > 0.9
    assert result["outliers"]["recall"] > 0.9
    assert result["last"]["natural"] > 0.95


def test_learning_rates_warm_up_and_drop_in_the_milestones_epoch(tiny: str) -> None:
    run = quick(tiny, orat.methods.ORAT(m=0.1, solver="minmax", scalar_rate="constant"), warmup=2.0, milestones=(3, 4))
    parts = prepare(run)
    learner = Learner(run, build_model(run, parts.train), run.method.start(setting_of(run, parts)))
    rates = {}
    for epoch, progress in ((1, 0.5), (1, 1.0), (2, 2.0), (3, 2.1), (4, 3.1)):
        learner.epoch = epoch
        set_pace(learner, progress)
        rates[progress] = [group["lr"] for group in learner.optimizer.param_groups]
    assert [rate[0] for rate in rates.values()] == pytest.approx([0.0125, 0.025, 0.05, 0.005, 0.0005])
    assert {rate[1] for rate in rates.values()} == {0.05}  # the scalars' constant rate


@pytest.mark.parametrize(
    ("augment", "scouts_see"), [("none", "none-nudge"), ("flip", "flip-nudge"), ("crop-flip", "crop-flip")]
)
def test_scouts_see_images_moved_even_where_the_network_does_not(augment: str, scouts_see: str, tiny: str) -> None:
    run = quick(tiny, orat.methods.ORAT(scout_epochs=1), augment=augment)
    parts = prepare(run)
    learner = Learner(run, build_model(run, parts.train), run.method.start(setting_of(run, parts)))
    assert learner.augment == scouts_see
    learner.epoch = 1
    assert learner.augment == augment


@pytest.mark.parametrize(
    ("steps", "epochs", "expected"), [(446, 50, 1), (372, 100, 1), (90, 22, 4), (2, 100, 25), (1, 3000, 300), (9, 2, 1)]
)
def test_the_first_cut_waits_for_enough_steps_but_not_for_more_than_a_quarter_of_the_run(
    steps: int, epochs: int, expected: int
) -> None:
    assert orat.methods.ORAT(m=1).start(Setting(10, 10, 2, steps, epochs)).burn_in == expected
    assert orat.methods.ORAT(m=1, burn_in=0).start(Setting(10, 10, 2, steps, epochs)).burn_in == 0


def test_the_radius_of_the_training_attack_warms_up_with_its_steps(tiny: str) -> None:
    run = quick(tiny, orat.methods.AT(), attack_warmup=4.0)
    parts = prepare(run)
    learner = Learner(run, build_model(run, parts.train), run.method.start(setting_of(run, parts)))
    radii = []
    for progress in (1.0, 2.0, 4.0, 5.0):
        set_pace(learner, progress)
        radii.append((learner.attack.pgd.eps, learner.attack.pgd.step_size))
    expected = [(0.025, 0.00625), (0.05, 0.0125), (0.1, 0.025), (0.1, 0.025)]
    assert [radius for pair in radii for radius in pair] == pytest.approx([r for pair in expected for r in pair])


def test_the_state_of_the_scalars_is_in_the_checkpoint(tiny: str) -> None:
    run = quick(tiny, orat.methods.ORAT(m=0.1, solver="minmax"))
    parts = prepare(run)
    learner = Learner(run, build_model(run, parts.train), run.method.start(setting_of(run, parts)))
    assert {"lower", "width", "last_losses"} <= learner.state_dict()["state"].keys()
    assert len(list(train_epoch(learner, parts.train))) == 9


def test_validation_is_held_out_and_chooses_the_epoch(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, orat.methods.AT())
    parts = prepare(run)
    assert parts.validation is not None
    assert (len(parts.train), len(parts.validation), parts.total) == (270, 30, 300)
    result = orat.train(run, tmp_path / "a", display=SILENT)
    history = RunFolder(tmp_path / "a").history()
    scores = [record["validation"]["pgd10"] for record in history]
    assert [set(record["validation"]) for record in history] == [{"natural", "pgd10"}] * 4
    assert scores[result["chosen"]["epoch"] - 1] == max(scores)


def test_a_chosen_epoch_before_the_last_is_tested_with_its_own_weights(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, orat.methods.AT(), lr=0.2, epochs=6, milestones=(), noise="symmetric", noise_rate=0.4)
    for seed in range(5):
        result = orat.train(Run.from_record(run.record() | {"seed": seed}), tmp_path / str(seed), display=SILENT)
        if result["chosen"]["epoch"] != 6:
            break
    else:
        pytest.fail("in none of five seeds an earlier epoch was chosen")
    test = prepare(run).test
    model = orat.load_model(tmp_path / str(seed), which="chosen")
    assert orat.evaluate(model, test, {})["natural"] == result["chosen"]["natural"]


def test_without_validation_nothing_is_chosen(tiny: str, tmp_path: Path) -> None:
    result = orat.train(quick(tiny, orat.methods.AT(), validation=0.0, epochs=1), tmp_path / "a", display=SILENT)
    assert result["chosen"] is None


def test_a_finished_run_is_not_trained_again(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = quick(tiny, orat.methods.AT(), epochs=1)
    first = orat.train(run, tmp_path / "a", display=SILENT)
    monkeypatch.setattr(execute, "train_epoch", None)
    assert orat.train(run, tmp_path / "a", display=SILENT) == first
    assert not (tmp_path / "a" / "resume.pt").exists()


def test_a_loaded_model_gives_the_tested_accuracy(tiny: str, tmp_path: Path) -> None:
    result = orat.train(quick(tiny, orat.methods.AT(), normalize=True), tmp_path / "a", display=SILENT)
    test = prepare(quick(tiny, orat.methods.AT())).test
    assert test is not None
    model = orat.load_model(tmp_path / "a")
    assert orat.evaluate(model, test, orat.attacks.suite(0.1)) == {
        k: v for k, v in result["last"].items() if k != "epoch"
    }
    assert model[0].std.flatten().item() != 1  # the normalization of training travels with the weights


def test_a_network_that_gives_one_class_to_everything_is_stopped_and_said(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, orat.methods.AT(), lr=0.0, epochs=60, warmup=0.0, batch_size=2)
    parts = prepare(run)
    model = build_model(run, parts.train)
    with torch.no_grad():
        model[1][-1].weight.zero_()
        model[1][-1].bias.copy_(torch.tensor([0.0, 1.0, 0.0]))
    folder = RunFolder(tmp_path / "a")
    learner = Learner(run, model, run.method.start(setting_of(run, parts)))
    with pytest.raises(TrainingError, match="collapsed.*lower --lr"):
        list(execute.Job(folder, learner, parts, SILENT, torch.device("cpu")).steps())
    assert len(folder.history()) == 3


def test_scalars_that_drift_are_said_once_in_the_log(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More wrong labels than m leave a gap at the wanted rank, where nothing holds the scalars."""
    drifting = orat.methods.ORAT(m=0.05, solver="minmax", scalar_rate="constant")
    run = quick(tiny, drifting, noise="symmetric", noise_rate=0.3, epochs=60, lr=0.2, milestones=(10,), eps=0.02)
    orat.train(run, tmp_path / "a")
    log = capsys.readouterr().err
    assert log.count("the min-max scalars drift: lambda = -") == 1
    assert "(solver rank cuts m)" in log


def test_a_class_that_is_cut_whole_is_said_once_in_the_log(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Images of two kinds, each third one labeled as a third class: ORAT takes all of that for outliers."""
    with np.load(tiny) as arrays:
        others = arrays["x_train"][arrays["y_train"] < 2]
        labels = arrays["y_train"][arrays["y_train"] < 2]
    labels[np.arange(len(labels)) % 6 > 3] = 2
    np.savez(tmp_path / "strange.npz", x_train=others, y_train=labels)
    run = quick(str(tmp_path / "strange.npz"), orat.methods.ORAT(m=0.34, burn_in=4, ramp=0), epochs=20)
    orat.train(run, tmp_path / "a")
    log = capsys.readouterr().err
    assert log.count("nearly every sample of class 2 is cut as an outlier") == 1
    assert "if most of these labels are right, lengthen --burn-in or lower --m" in log


def test_the_pace_is_of_all_epochs_since_the_last_line_and_not_of_scouts(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = quick(tiny, orat.methods.AT(), epochs=11)
    parts = prepare(run)
    learner = Learner(run, build_model(run, parts.train), run.method.start(setting_of(run, parts)))
    job = execute.Job(RunFolder(tmp_path / "a"), learner, parts, Display(), torch.device("cpu"))

    def told(epoch: int, seconds: float, after: float = 0.0) -> str:
        job.told_at = time.monotonic() - after
        job.tell({"epoch": epoch, "loss": 1.0, "validation": {}, "state": {}, "seconds": seconds})
        return capsys.readouterr().err

    assert told(0, 0.5) == ""  # of a scout
    assert "61.0 s, 0:10:10 to go" in told(1, 61.0, after=61)
    assert [told(2, 0.02), told(3, 0.04)] == ["", ""]
    assert "50 ms, 0:00:00 to go" in told(4, 0.09, after=2)
    assert "20.0 s, 0:02:00 to go" in told(5, 20.0, after=2)  # of this one alone again


def test_a_line_tells_short_epochs_in_milliseconds_and_the_time_left() -> None:
    record = {"epoch": 40, "loss": 0.25, "validation": {}, "state": {}, "seconds": 0.0}  # one too short for its clock
    quick = epoch_line(record, "epoch  40/100", 100, pace=0.0125)
    assert quick == "epoch  40/100  loss 0.2500  validation -  12 ms, 0:00:01 to go"
    slow = epoch_line(record | {"validation": {"pgd10": 0.5}}, "epoch  40/100", 100, pace=61.0)
    assert slow == "epoch  40/100  loss 0.2500  validation pgd10 50.00  61.0 s, 1:01:00 to go"


def test_lost_classes_are_named_and_only_some_of_many() -> None:
    assert lost_words([]) is None
    assert "class a, b, c, d, e and 2 more is cut" in (lost_words(list("abcdefg")) or "")


def test_a_loss_that_is_no_number_is_stopped_and_said(tiny: str, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"nan in epoch 1.*--lr \(now 1e\+30\)"):
        orat.train(quick(tiny, orat.methods.AT(), lr=1e30, warmup=0.0), tmp_path / "a", display=SILENT)
