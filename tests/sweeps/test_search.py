"""A search ranks settings by validation accuracy, survives a kill, and refuses invalid settings."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from math import log10
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from quick_runs import quick
from refusals import assert_refused_in_one_line

import orat
from orat.cli.main import main
from orat.core.console import SILENT
from orat.methods import Method
from orat.sweeps import search as searching
from orat.sweeps.search import search
from orat.sweeps.space import Range, Values, axes_of
from orat.sweeps.trials import Trials, silence
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.text import run_from, texts_of
from orat.training.train import Session

QUICK = [
    "--model", "mlp-8", "--epochs", "2", "--lr", "0.3", "--batch-size", "32", "--eps", "0.05", "--augment", "none",
    "--attack-steps", "2", "--warmup", "0", "--validation", "0.2", "--quiet",
]  # fmt: skip
SHORT: dict[str, Any] = {"model": "mlp-8", "epochs": 1, "eps": 0.05, "lr": 0.3, "warmup": 0.0, "validation": 0.2}


def short(data: str, method: Method | None = None, **changes: Any) -> Run:
    """A run of one epoch."""
    return quick(data, method or orat.methods.AT(), **{**SHORT, **changes})


def found(run: Run, over: dict[str, Any], out: Path, **more: Any) -> list[dict[str, Any]]:
    return search(run, over, out, display=SILENT, device="cpu", **more)


def figures(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The rows of a search without folders."""
    return [(row["setting"], row["validation"], row["epoch"], row["error"]) for row in rows]


@pytest.mark.parametrize(
    "method",
    [
        orat.methods.ST(), orat.methods.AT(), orat.methods.TRADES(beta=2), orat.methods.MART(),
        orat.methods.GAIRAT(burn_in=1), orat.methods.MAIL(form="trades"),
        orat.methods.WMMR(detach_weights=True), orat.methods.RAA(persistent=True), orat.methods.AoRR(m=7, k=250),
        orat.methods.ORAT(m=0.2, solver="minmax", ramp=3),
    ],
)  # fmt: skip
def test_the_flags_of_a_run_give_it_back(method: Method, tiny: str) -> None:
    for run in (
        Run(data="mnist", method=method),
        Run(data="sample", method=method, noise="symmetric", noise_rate=0.4, milestones=(), seed=3),
        quick(tiny, method, image_size=(32, 48), normalize=True, eps=8 / 255, milestones=(2, 3), labels="a,b.csv"),
    ):
        assert run_from(texts_of(run)) == run


def test_what_a_run_takes_from_the_searched_field_follows_it(tiny: str) -> None:
    run = Run(data="mnist", method=orat.methods.AT(), epochs=10)
    texts = texts_of(run)
    assert run_from(texts | {"eps": "0.4"}).attack_step_size == 0.1
    assert run_from(texts | {"epochs": "100"}).milestones == (40, 80)
    own = texts_of(quick(tiny, orat.methods.AT(), attack_step_size=0.03))
    assert run_from(own | {"eps": "0.4"}).attack_step_size == 0.03


def test_values_and_ranges_are_read_by_the_type_of_their_field() -> None:
    text = {
        "m": "0.05..0.5", "k": "0.5..1", "lr": "log:0.001..1", "epochs": "2..8", "eps": "4/255,8/255",
        "milestones": "20,40;30", "normalize": "yes,no", "model": "lenet,mlp-8", "batch-size": "32,64,32",
        "labels": "../a.csv",
    }  # fmt: skip
    axes = {axis.field: axis for axis in axes_of(text)}
    assert axes["m"] == Range("m", 0.05, 0.5, False)
    assert axes["k"] == Range("k", 0.5, 1.0, False)
    assert axes["lr"] == Range("lr", 0.001, 1.0, True)
    assert axes["epochs"] == Range("epochs", 2, 8, False)
    assert axes["eps"] == Values("eps", {"4/255": 4 / 255, "8/255": 8 / 255})
    assert axes["milestones"] == Values("milestones", {"20,40": (20, 40), "30": (30,)})
    assert axes["normalize"] == Values("normalize", {"yes": True, "no": False})
    assert axes["model"] == Values("model", {"lenet": "lenet", "mlp-8": "mlp-8"})
    assert axes["batch_size"] == Values("batch_size", {"32": 32, "64": 64})
    assert axes["labels"] == Values("labels", {"../a.csv": "../a.csv"})
    values = axes_of({"m": [0.1, 100], "milestones": [(20, 40), ()], "normalize": [True], "image_size": [(8, 9)]})
    assert [list(axis.by_text.values()) for axis in values] == [[0.1, 100], [(20, 40), ()], [True], [(8, 9)]]
    assert isinstance(axes_of({"m": "100..200"})[0].low, int)


def test_1_is_a_count_and_1_0_is_everything() -> None:
    assert list(axes_of({"k": [1, 1.0, 1]})[0].by_text.values()) == [1, 1.0]


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({}, "no field to search over"),
        ({"lrr": [0.1]}, "did you mean 'lr'"),
        ({"m": []}, "no values"),
        ({"m": ""}, "no values"),
        ({"m": 0.1}, "0.1 is one value"),
        ({"m": ["much"]}, "'much' is not a number"),
        ({"epochs": [1.5]}, "'1.5' is not a whole number"),
        ({"epochs": "1..2.5"}, "'2.5' is not a whole number"),
        ({"norm": ["l3"]}, "known are l1, l2, linf"),
        ({"method": ["orta"]}, "did you mean 'orat'"),
        ({"m": "0.5..0.1"}, "give the smaller number first"),
        ({"m": "0.1..0.1"}, "give the smaller number first"),
        ({"m": "0.1.."}, "'' is not a number"),
        ({"lr": "log:0..0.1"}, "starts above 0, not at 0"),
        ({"m": "0.1..0.5"}, "add --trials"),
        ({"beta": [1.0]}, "--beta is for trades, mart, mail, not for orat"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_one_line(
    over: dict[str, Any], words: str, tiny: str, tmp_path: Path
) -> None:
    run = short(tiny, orat.methods.ORAT(m=0.1))
    assert_refused_in_one_line(lambda: found(run, over, tmp_path / "a"), words)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("changes", "more", "words"),
    [
        ({"validation": 0.0}, {}, "validation = 0 leaves no samples to rank by"),
        ({"validation": 0.001}, {}, "holds out none of 300"),
        ({}, {"by": "test"}, "known are natural, pgd10"),
        ({}, {"trials": 0}, "trials = 0"),
        ({}, {"trials": 2, "seed": -1}, "seed of the search = -1"),
        ({}, {"engine": "steam"}, "unknown engine 'steam'"),
        ({"model": "lenett"}, {}, "did you mean 'lenet'"),
        ({"data": "/nowhere.npz"}, {}, "/nowhere.npz"),
        ({"data": "/nowhere.npz"}, {"trials": 2}, "/nowhere.npz"),
    ],
)
def test_a_run_that_cannot_be_searched_is_refused_before_anything_is_written(
    changes: dict[str, Any], more: dict[str, Any], words: str, tiny: str, tmp_path: Path
) -> None:
    run = short(**{"data": tiny, **changes})
    assert_refused_in_one_line(lambda: found(run, {"lr": [0.1, 0.2]}, tmp_path / "a", **more), words)
    assert not (tmp_path / "a").exists()


def test_a_rate_that_learns_wins_over_one_of_zero_and_rows_are_what_the_runs_say(tiny: str, tmp_path: Path) -> None:
    rows = found(short(tiny, epochs=3), {"lr": [0.0, 0.3], "momentum": [0.0, 0.9]}, tmp_path)
    assert [row["setting"]["lr"] for row in rows[:1]] == [0.3]
    assert [row["validation"]["pgd10"] for row in rows] == sorted(
        (row["validation"]["pgd10"] for row in rows), reverse=True
    )
    assert {tuple(row["setting"].values()) for row in rows} == {(0.0, 0.0), (0.0, 0.9), (0.3, 0.0), (0.3, 0.9)}
    for row in rows:
        lines = RunFolder(Path(row["folder"])).history()
        best = max(lines, key=lambda line: (line["validation"]["pgd10"], line["epoch"]))
        assert (row["epoch"], row["validation"]) == (best["epoch"], best["validation"])
        assert "test" not in row
    alone = short(tiny, epochs=3, **rows[0]["setting"])
    name = f"lr-{rows[0]['setting']['lr']}-momentum-{rows[0]['setting']['momentum']}"
    assert Run.from_record(json.loads((tmp_path / name / "run.json").read_text())) == alone
    orat.train(alone, tmp_path.with_name("alone"), device="cpu", display=SILENT)
    weights = [(folder / "model.safetensors").read_bytes() for folder in (tmp_path / name, tmp_path.with_name("alone"))]
    assert weights[0] == weights[1]


def test_by_says_which_figure_of_the_chosen_epoch_ranks(tiny: str, tmp_path: Path) -> None:
    """The histories of finished runs are replaced by histories in which the two accuracies disagree."""
    planted = {0.1: {"natural": 0.9, "pgd10": 0.2}, 0.3: {"natural": 0.5, "pgd10": 0.4}}
    for by, order in (("natural", [0.1, 0.3]), ("pgd10", [0.3, 0.1])):
        for row in found(short(tiny, epochs=2), {"lr": [0.1, 0.3]}, tmp_path / by, by=by):
            folder = RunFolder(Path(row["folder"]))
            lines = folder.history()
            for line in lines:
                better = {"natural": 1.0, "pgd10": 1.0}
                line["validation"] = planted[row["setting"]["lr"]] if line["epoch"] == row["epoch"] else better
            folder.truncate("history.jsonl", 0)
            for line in lines:
                folder.append("history.jsonl", line)
        rows = found(short(tiny, epochs=2), {"lr": [0.1, 0.3]}, tmp_path / by, by=by)
        assert [row["setting"]["lr"] for row in rows] == order
        assert [row["validation"] for row in rows] == [planted[lr] for lr in order]


def test_the_table_is_written_with_and_without_the_test_set(tiny: str, tmp_path: Path) -> None:
    run, over = short(tiny, orat.methods.ORAT(m=0.1)), {"m": [0.1, 0.95], "k": [0.9, 1.0]}
    rows = found(run, over, tmp_path)
    with (tmp_path / "search.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["m", "k", "validation_natural", "validation_pgd10", "epoch", "folder", "error"]
    assert [(float(line["m"]), float(line["k"])) for line in lines] == [tuple(row["setting"].values()) for row in rows]
    assert float(lines[0]["validation_pgd10"]) == rows[0]["validation"]["pgd10"]
    assert lines[-1]["validation_pgd10"] == ""
    shown = found(run, over, tmp_path, show_test=True)
    assert figures(shown) == figures(rows)
    result = json.loads((Path(shown[0]["folder"]) / "result.json").read_text())
    assert shown[0]["test"] | {"epoch": shown[0]["epoch"]} == result["chosen"]
    assert "test_pgd20" in (tmp_path / "search.csv").read_text().splitlines()[0]


def test_a_combination_that_makes_no_run_is_named_before_anything_is_trained_and_the_others_go_on(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One setting is refused by its fractions, the other by its count and the data."""
    heard: list[str] = []

    class Listening(type(SILENT)):
        def line(self, text: str) -> None:
            heard.append(text)

    events = Session.events
    monkeypatch.setattr(Session, "events", lambda *arguments: (heard.append("trains"), events(*arguments))[1])
    run = short(tiny, orat.methods.ORAT(m=0.1))
    rows = search(run, {"m": [0.6, 280, 0.2], "k": [0.5, 1.0]}, tmp_path, device="cpu", display=Listening(shown=False))
    before = heard[: heard.index("trains")]
    assert [text.partition(" is left out: ")[0] for text in before] == ["m-0.6-k-0.5", "m-280-k-0.5"]
    assert "k = 0.5, m = 0.6" in before[0]
    assert {(row["setting"]["m"], row["setting"]["k"]) for row in rows if row["error"]} == {(0.6, 0.5), (280, 0.5)}
    assert [bool(row["error"]) for row in rows] == [False] * 4 + [True] * 2
    assert not (tmp_path / "m-0.6-k-0.5").exists()


def test_where_no_combination_makes_a_run_nothing_is_written(tiny: str, tmp_path: Path) -> None:
    run = short(tiny, orat.methods.ORAT(m=0.1))
    assert_refused_in_one_line(
        lambda: found(run, {"m": [0.6, 0.7], "k": [0.5]}, tmp_path / "a"), "k = 0.5, m = 0.6: losses ranked"
    )
    assert not (tmp_path / "a").exists()


def test_a_run_that_breaks_is_last_in_the_table_with_its_reason_and_not_trained_again(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = found(short(tiny), {"lr": [1e30, 0.3]}, tmp_path)
    assert [row["setting"]["lr"] for row in rows] == [0.3, 1e30]
    assert "nan" in rows[1]["error"]
    assert (rows[1]["validation"], rows[1]["epoch"]) == ({}, None)
    monkeypatch.setattr(Session, "events", None)
    assert found(short(tiny), {"lr": [1e30, 0.3]}, tmp_path) == rows


def test_methods_can_be_searched_too(tiny: str, tmp_path: Path) -> None:
    rows = found(short(tiny), {"method": ["at", "st", "trades"]}, tmp_path)
    assert {row["setting"]["method"] for row in rows} == {"at", "st", "trades"}
    assert all(row["validation"] for row in rows)


def test_finished_runs_are_not_trained_again_and_need_no_data(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, trials in enumerate((None, 2)):
        out = tmp_path / str(number)
        rows = found(short(tiny), {"lr": [0.1, 0.3]}, out, trials=trials)
        with monkeypatch.context() as patch:
            for name in ("prepare", "build_model"):
                patch.setattr(searching, name, None)
            patch.setattr(Session, "events", None)
            assert found(short(tiny), {"lr": [0.1, 0.3]}, out, trials=trials) == rows


def test_another_search_in_the_same_folder_is_refused_with_the_difference(tiny: str, tmp_path: Path) -> None:
    run, over = short(tiny, orat.methods.ORAT(m=0.1)), {"m": [0.1, 0.2]}
    found(run, over, tmp_path)
    others: dict[str, Any] = {
        "m: ['0.1', '0.2'] there, ['0.1', '0.3'] here": lambda: found(run, {"m": [0.1, 0.3]}, tmp_path),
        "k: None there, ['0.9', '1.0'] here": lambda: found(run, over | {"k": [0.9, 1.0]}, tmp_path),
        "by: pgd10 there, natural here": lambda: found(run, over, tmp_path, by="natural"),
        "trials: None there, 3 here": lambda: found(run, over, tmp_path, trials=3),
        "lr: 0.3 there, 0.4 here": lambda: found(short(tiny, orat.methods.ORAT(m=0.1), lr=0.4), over, tmp_path),
        "solver: rank there, minmax": lambda: found(
            short(tiny, orat.methods.ORAT(m=0.1, solver="minmax")), over, tmp_path
        ),
    }
    for words, other in others.items():
        assert_refused_in_one_line(other, words)
    (tmp_path / "search.json").write_text("{")
    assert_refused_in_one_line(lambda: found(run, over, tmp_path), "search.json is damaged")


def test_a_folder_of_something_else_is_refused(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    assert_refused_in_one_line(lambda: found(short(tiny), {"lr": [0.1]}, tmp_path), "has files, but no search")
    assert_refused_in_one_line(lambda: found(short(tiny), {"lr": [0.1]}, tmp_path / "letter.txt"), "is a file")


def test_two_searches_in_one_folder_at_once_are_refused(tiny: str, tmp_path: Path) -> None:
    from filelock import FileLock

    with FileLock(tmp_path / ".lock"):
        assert_refused_in_one_line(lambda: found(short(tiny), {"lr": [0.1]}, tmp_path), "in use by another process")


OVER: dict[str, Any] = {"lr": "log:0.001..1", "momentum": ["0.0", "0.9"], "attack_steps": "1..3"}


def test_trials_are_the_same_every_time_and_more_of_them_go_on(tiny: str, tmp_path: Path) -> None:
    first = found(short(tiny), OVER, tmp_path / "a", trials=5)
    assert figures(first) == figures(found(short(tiny), OVER, tmp_path / "b", trials=5))
    assert len(first) == 5
    for row in first:
        assert 0.001 <= row["setting"]["lr"] <= 1
        assert row["setting"]["lr"] == float(f"{row['setting']['lr']:.4g}")
        assert row["setting"]["momentum"] in (0.0, 0.9)
        assert row["setting"]["attack_steps"] in (1, 2, 3)
    assert figures(found(short(tiny), OVER, tmp_path / "c", trials=2)) != figures(first)
    assert figures(found(short(tiny), OVER, tmp_path / "c", trials=5)) == figures(first)
    assert_refused_in_one_line(lambda: found(short(tiny), OVER, tmp_path / "c", trials=2), "trials: 5 there, 2 here")
    other = found(short(tiny), OVER, tmp_path / "d", trials=5, seed=1)
    assert [row["setting"] for row in other] != [row["setting"] for row in first]


def test_proposals_gather_where_the_score_is_high(tmp_path: Path) -> None:
    """The score peaks at 0.01; random proposals in this range are 1.5 powers of ten away on average."""
    axes = axes_of({"lr": "log:0.00001..10", "solver": "rank,minmax"})
    late = []
    with silence():
        for seed in range(3):
            trials = Trials(tmp_path / str(seed), axes, seed)
            for number in range(40):
                trial = trials.next()
                distance = abs(log10(float(trial.choice["lr"])) + 2)
                trials.tell(trial, -distance - (trial.choice["solver"] == "rank"), None)
                late += [distance] if number >= 25 else []
    assert mean(late) < 1


def test_a_trial_without_a_result_counts_and_is_kept_with_its_reason(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invalid ranks and a failed training do not end the search, and are not tried again."""
    run, over = short(tiny, orat.methods.ORAT(m=0.1)), {"m": "0.1..0.9", "k": "0.2..1.0", "lr": ["0.3", "1e30"]}
    rows = found(run, over, tmp_path, trials=8)
    assert len(rows) == 8
    reasons = [row["error"] for row in rows if row["error"]]
    assert any("k must be above m" in reason for reason in reasons)
    assert any("nan" in reason for reason in reasons)
    assert rows[0]["error"] is None
    monkeypatch.setattr(searching, "train", None)
    assert found(run, over, tmp_path, trials=8) == rows


class Stop(BaseException):
    """Stands for a kill."""


@pytest.mark.parametrize("place", ["before it is written down", "in training", "before it is told", "after it"])
def test_a_search_that_is_stopped_anywhere_in_its_third_trial_ends_as_if_it_had_not(
    place: str, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = found(short(tiny), OVER, tmp_path / "whole", trials=5)
    owner, name, after = {
        "before it is written down": (Trials, "next", False),
        "in training": (Session, "test", False),
        "before it is told": (Trials, "tell", False),
        "after it": (Trials, "tell", True),
    }[place]
    calls, real = [0], getattr(owner, name)

    def stop_at_the_third(self: Any, *arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == 3 and not after:
            raise Stop
        result = real(self, *arguments)
        if calls[0] == 3:
            raise Stop
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stop_at_the_third)
        with pytest.raises(Stop):
            found(short(tiny), OVER, tmp_path / "broken", trials=5)
    assert figures(found(short(tiny), OVER, tmp_path / "broken", trials=5)) == figures(whole)
    names = [sorted(folder.name for folder in (tmp_path / part).glob("lr-*")) for part in ("whole", "broken")]
    assert names[0] == names[1]  # nothing was tried beside


def test_half_a_line_and_a_lock_that_a_kill_left_in_the_journal_are_no_matter(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = found(short(tiny), OVER, tmp_path / "whole", trials=4)
    found(short(tiny), OVER, tmp_path / "broken", trials=3)
    journal = tmp_path / "broken" / "optuna.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    Path(f"{journal}.lock").touch()
    monkeypatch.setattr(time, "sleep", None)  # Optuna itself would wait for 30 seconds
    assert figures(found(short(tiny), OVER, tmp_path / "broken", trials=4)) == figures(whole)


def test_optuna_says_nothing_and_its_own_verbosity_is_left_alone(
    tiny: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    found(short(tiny), OVER, tmp_path, trials=2)
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")


def test_without_optuna_one_line_says_how_to_get_it_and_lists_go_on(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert_refused_in_one_line(
        lambda: found(short(tiny), OVER, tmp_path / "a", trials=2), "needs optuna: pip install 'orat[search]'"
    )
    assert len(found(short(tiny), {"lr": [0.1]}, tmp_path / "a")) == 1


def test_the_command_prints_the_best_first_and_nothing_of_the_test_set_unless_asked(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["search", "--data", tiny, "--method", "orat", *QUICK, "--over", "m=0.1,0.9", "--over", "k=0.5,1.0"]
    assert main([*command, "--out", str(tmp_path / "a")]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "Natural   PGD-10   epoch" in captured.out
    assert "m-0.9-k-0.5: k = 0.5, m = 0.9" in captured.out
    assert "validation labels may be wrong too: the table ranks settings" in captured.out
    assert "search.csv, search.json: " in captured.out
    assert "PGD-20" not in captured.out
    assert main([*command, "--out", str(tmp_path / "a"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    best = printed["rows"][0]["setting"]
    assert f"best by PGD-10: --m {best['m']} --k {best['k']}\n" in captured.out
    assert all("test" not in row for row in printed["rows"])
    assert main([*command, "--out", str(tmp_path / "a"), "--show-test"]) == 0
    first, _, second = capsys.readouterr().out.partition("accuracy in % on the test set, which took no part")
    assert "PGD-20" not in first
    assert "PGD-20" in second


def test_the_command_says_which_fields_do_not_compare_and_shows_trials(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*QUICK[:8], *QUICK[10:-1]]  # without eps and --quiet
    command = ["search", "--data", tiny, "--method", "at", *flags, "--over", "eps=0.01..0.1", "--over", "seed=0,1"]
    assert main([*command, "--trials", "2", "--out", str(tmp_path / "a")]) == 0
    captured = capsys.readouterr()
    assert "eps changes the attack of validation" in captured.out
    assert "seed changes the images or labels of validation" in captured.out
    assert "trial 1 of 2: eps = 0." in captured.err
    assert "trial 2 of 2: pgd10 " in captured.err


def test_where_no_run_ends_the_command_says_so(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["search", "--data", tiny, "--method", "at", *QUICK[:4], *QUICK[6:], "--over", "lr=1e30"]
    assert main([*command, "--out", str(tmp_path / "a")]) == 1
    text = capsys.readouterr().out
    assert "lr-1e30: the loss became nan" in text
    assert "no run was finished" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--over is not given"),
        (["--over", "momentum"], "names no values"),
        (["--over", "momentum="], "no values"),
        (["--over", "momentun=1"], "did you mean 'momentum'"),
        (["--over", "out=1"], "unknown field to search over"),
        (["--over", "lr=0.1,0.2"], "both --lr 0.3 and --over lr"),
        (["--over", "momentum=0.1", "--over", "momentum=0.2"], "given twice"),
        (["--over", "momentum=0.1..0.9"], "add --trials 20"),
        (["--over", "momentum=0.1..0.9", "--trials", "many"], "--trials: 'many'"),
        (["--over", "momentum=0.1", "--at-once", "0"], "give 1 or more"),
        (["--over", "momentum=0.1", "--by", "cw"], "known are natural, pgd10"),
        (["--over", "momentum=0.1", "--validation", "0"], "validation = 0 leaves no samples to rank by"),
    ],
)
def test_nonsense_is_refused_in_one_line(
    arguments: list[str], words: str, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["search", "--data", tiny, "--method", "at", *QUICK, "--out", str(tmp_path / "a"), *arguments]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "a").exists()


def is_in_the_middle(out: Path, finished: int) -> bool:
    """Whether this many runs are finished and the next run has four epochs."""
    done = {file.parent for file in out.glob("*/result.json")}
    lines = [file.read_text().count("\n") for file in out.glob("*/history.jsonl") if file.parent not in done]
    return len(done) == finished and max(lines, default=0) >= 4


@pytest.mark.parametrize("search_for", [["--over", "m=0.1,0.2"], ["--over", "m=0.1..0.4", "--trials", "2"]])
def test_kill_9_and_the_same_command_again_end_with_the_table_of_a_search_that_was_not_stopped(
    search_for: list[str], tiny: str, tmp_path: Path
) -> None:
    """The search is killed in the middle of the first run and of the second."""
    slow = ["--epochs", "12", "--batch-size", "4", "--attack-steps", "5", "--lr", "0.005", "--device", "cpu"]
    noise = ["--noise", "symmetric", "--noise-rate", "0.2"]
    command = [str(Path(sys.executable).with_name("orat")), "search", "--data", tiny, "--method", "orat"]
    command += [*QUICK, *slow, *noise, *search_for]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*command, "--out", str(whole)], env=environment, check=True, capture_output=True)
    for finished in (0, 1):
        with subprocess.Popen([*command, "--out", str(broken)], env=environment, stdout=subprocess.PIPE) as process:
            while process.poll() is None and not is_in_the_middle(broken, finished):
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        assert len(list(broken.glob("*/result.json"))) == finished
    subprocess.run([*command, "--out", str(broken)], env=environment, check=True, capture_output=True)
    tables = [(folder / "search.csv").read_text().replace(str(folder), "") for folder in (whole, broken)]
    assert tables[0] == tables[1]
    names = [sorted(folder.name for folder in part.iterdir() if folder.is_dir()) for part in (whole, broken)]
    assert names[0] == names[1]
