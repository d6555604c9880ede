"""Ours beside the paper's from hand-made results, the marks of the spread, and the list with its costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from orat.cli.main import main
from orat.models.catalog import build, forward_operations
from orat_paper.reproduce import tables
from orat_paper.reproduce.artifacts import ACCURACY, AUTOMATIC, MEASURED, Artifact, artifact, artifacts
from orat_paper.reproduce.cells import Cell, choose
from orat_paper.reproduce.comparison import compare, comparison, content, spread
from orat_paper.reproduce.costs import FORWARD, SIZES, forward, operations, rate, seconds
from orat_paper.reproduce.outcomes import is_done, outcome
from orat_paper.reproduce.reports import Identity, identity_of
from orat_paper.reproduce.settings import Places, Trial, run_of, trial_of

PLACES = Places(Path("out"))
PLACE = {"data": "mnist", "eps": "0.1", "noise": "symmetric", "rate": 40}
ORAT = Cell(**PLACE, method="ORAT", k=59950, m=11000, theirs={"natural": 99.36, "fgsm": 98.0})  # type: ignore[arg-type]
TABLE = Artifact("made", "by hand", (ORAT,), columns=("natural", "fgsm"))


def finish(trial: Trial, last: dict[str, float], chosen: dict[str, float] | None = None) -> None:
    """Writes the result of an invented run."""
    trial.folder.mkdir(parents=True)
    result: dict[str, Any] = {"last": {"epoch": 50, **last}, "chosen": {"epoch": 40, **(chosen or last)}}
    (trial.folder / "result.json").write_text(json.dumps(result))


def trials(out: Path, seeds: tuple[int, ...], protocol: str = "ours") -> list[Trial]:
    """The cell with these seeds."""
    return [trial_of(TABLE, ORAT, protocol, seed, Places(out)) for seed in seeds]


def test_the_join_has_mean_deviation_difference_and_the_number_of_seeds(tmp_path: Path) -> None:
    three = trials(tmp_path, (0, 1, 2))
    finish(three[0], {"natural": 0.993, "fgsm": 0.97}, {"natural": 0.99, "fgsm": 0.98})
    finish(three[1], {"natural": 0.995, "fgsm": 0.98}, {"natural": 0.99, "fgsm": 0.98})
    rows = compare(TABLE, three)
    assert [(row["epoch"], row["column"]) for row in rows] == [
        ("last", "natural"), ("last", "fgsm"), ("chosen", "natural"), ("chosen", "fgsm"),
    ]  # fmt: skip
    first = rows[0]
    assert (first["protocol"], first["method"], first["k"], first["seeds"]) == ("ours", "ORAT", 59950, 2)
    assert first["ours"] == pytest.approx(99.4)
    assert first["sd"] == pytest.approx(0.1 * 2**0.5)
    assert first["theirs"] == 99.36
    assert first["difference"] == pytest.approx(0.04)
    assert rows[2]["sd"] == pytest.approx(0)


def test_a_cell_without_a_run_is_a_hole(tmp_path: Path) -> None:
    for row in compare(TABLE, trials(tmp_path, (0,))):
        assert (row["seeds"], row["ours"], row["sd"], row["difference"], row["within"]) == (0, None, None, None, None)
        assert row["theirs"] is not None


def test_both_protocols_are_rows_that_say_which_they_are(tmp_path: Path) -> None:
    rows = compare(TABLE, trials(tmp_path, (0,)) + trials(tmp_path, (0,), "authors"))
    assert [(row["protocol"], row["epoch"]) for row in rows[::2]] == [
        ("ours", "last"), ("ours", "chosen"), ("authors", "best"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ours", "within"), [(99.36, True), (99.42, True), (99.30, True), (99.43, False), (99.29, False)]
)
def test_two_deviations_of_the_papers_ten_runs_are_within(ours: float, within: bool) -> None:
    row = comparison([ours], ORAT, "natural")
    assert (row["their_sd"], row["sd_from"], row["within"]) == (0.03, "here", within)


@pytest.mark.parametrize(
    ("changes", "column", "wanted"),
    [
        ({}, "pgd20", (0.08, "here")),
        ({"method": "AT"}, "natural", (0.87, "here")),
        ({"eps": "0.2"}, "natural", (0.03, "borrowed")),
        ({"noise": "asymmetric", "rate": 10}, "cw", (0.07, "borrowed")),
        ({"data": "cifar100", "eps": "2/255"}, "natural", (0.47, "here")),
        ({"data": "cifar10", "eps": "2/255"}, "natural", (None, None)),
        ({"method": "AT w/o"}, "natural", (None, None)),
        ({}, "autoattack", (None, None)),
    ],
)
def test_the_spread_is_of_the_place_or_of_the_same_method_and_data_or_unknown(
    changes: dict[str, Any], column: str, wanted: tuple[float | None, str | None]
) -> None:
    assert spread(Cell(**{**PLACE, "method": "ORAT", **changes}), column) == wanted


def test_nothing_is_marked_where_nothing_is_known() -> None:
    cell = Cell("cifar10", "2/255", "symmetric", 20, "AT", theirs={"natural": 61.1})
    row = comparison([61.1], cell, "natural")
    assert row["within"] is None
    assert tables.figures(row) == ("61.10", "61.10", "+0.00")


def test_marks_say_where_the_spread_is_from_and_are_green() -> None:
    here = tables.figures(comparison([99.35, 99.37], ORAT, "natural"))
    assert here == ("99.36 ±0.01", "99.36", Text("+0.00*", style="green"))
    other = Cell(**{**PLACE, "eps": "0.2", "method": "ORAT", "theirs": {"natural": 99.0}})  # type: ignore[arg-type]
    assert tables.figures(comparison([99.0], other, "natural"))[2] == Text("+0.00~", style="green")
    assert tables.figures(comparison([90.0], other, "natural"))[2] == "-9.00"
    assert tables.figures(comparison([], other, "natural")) == ("-", "99.00", "-")


def test_a_report_is_aligned_and_whole_on_a_narrow_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert (
        main(
            ["paper", "reproduce", "table1", "--report", "--only", "data=mnist,eps=0.1", "--out", str(tmp_path / "no")]
        )
        == 0
    )
    text = capsys.readouterr().out
    lines = [line for line in text.splitlines() if " ours " in line]
    assert len(lines) == 59 * 2
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split()[-3:] == ["-", "86.05", "-"]
    assert "no known spread and no mark" in text
    assert not (tmp_path / "no").exists()


def test_autoattack_is_done_when_both_epochs_were_attacked_and_tells_of_one_before(tmp_path: Path) -> None:
    table = artifact("autoattack")
    trial = trial_of(table, table.cells[0], "ours", 0, Places(tmp_path))
    finish(trial, {"natural": 0.9})
    measured: dict[str, dict[str, float]] = {}
    for weights, accuracy in (("last", 0.5), ("chosen", 0.6)):
        assert not is_done(trial, table.columns)
        assert outcome(trial, table.columns) == measured
        folder = trial.folder / f"autoattack-{weights}"
        folder.mkdir()
        (folder / "report.json").write_text(json.dumps({"accuracy": {"natural": 0.9, "autoattack": accuracy}}))
        measured[weights] = {"autoattack": accuracy}
    assert outcome(trial, table.columns) == measured
    assert is_done(trial, table.columns)


def test_a_report_tells_which_epochs_its_numbers_are_from(tmp_path: Path) -> None:
    ours, authors = trials(tmp_path, (0,)) + trials(tmp_path, (0,), "authors")
    for trial in (ours, authors):
        finish(trial, {"natural": 0.9, "fgsm": 0.5})
    numbers = [(0.3, 0.6), (0.9, 0.5), (0.9, 0.4)]
    lines = [{"epoch": epoch, "natural": one, "fgsm": other} for epoch, (one, other) in enumerate(numbers, start=1)]
    (authors.folder / "tested.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    of_ours, of_authors = content(TABLE, [ours, authors], [])["runs"]
    assert of_ours["epochs"] == {"last": 50, "chosen": 40}
    assert of_authors["epochs"] == {"best": {"natural": [2, 3], "fgsm": [1]}}
    assert of_authors["accuracy"] == {"best": {"natural": 0.9, "fgsm": 0.6}}


def told(trial: Trial, **accuracy: float) -> dict[str, Any]:
    """A run in a report of another machine."""
    start = {**trial.cell.key(), "protocol": trial.protocol, "seed": trial.seed, "folder": "mnist-of-an-older-version"}
    more = {"run": {"data": "mnist", "epochs": trial.run.epochs}, "origin": {"commit": "a"}}
    return start | {"accuracy": {"last": accuracy, "chosen": accuracy}} | more


def known(*runs: dict[str, Any]) -> dict[Identity, tuple[dict[str, Any], ...]]:
    """Entries of one run, as read from reports."""
    return {identity_of(runs[0]): runs}


def test_a_run_that_a_report_has_counts_unless_its_folder_is_here(tmp_path: Path) -> None:
    (nowhere,) = trials(tmp_path, (0,))
    half = told(nowhere, natural=0.1)  # of a table with other columns
    reported = known(half, told(nowhere, natural=0.9, fgsm=0.8, pgd20=0.7))
    trial = trial_of(TABLE, ORAT, "ours", 0, Places(tmp_path, reported=reported))
    assert is_done(trial, TABLE.columns)
    assert [row["ours"] for row in compare(TABLE, [trial])] == [90, 80, 90, 80]
    (run,) = content(TABLE, [trial], [])["runs"]
    assert run == told(nowhere, natural=0.9, fgsm=0.8)
    finish(trial, {"natural": 0.5, "fgsm": 0.4})
    assert [row["ours"] for row in compare(TABLE, [trial])] == [50, 40, 50, 40]
    assert content(TABLE, [trial], [])["runs"][0]["origin"] == {"commit": None}


def test_a_figure_of_curves_takes_only_runs_with_curves_and_tables_leave_them_out(tmp_path: Path) -> None:
    (plain,) = trials(tmp_path, (0,))
    curves = replace(TABLE, curves=True)
    without = told(plain, natural=0.9, fgsm=0.8)
    trial = trial_of(curves, ORAT, "ours", 0, Places(tmp_path, reported=known(without)))
    assert not is_done(trial, curves.columns)
    drawn = without | {"curve": [{"epoch": 1, "loss": 2.0}]}
    places = Places(tmp_path, reported=known(drawn))
    assert content(curves, [trial_of(curves, ORAT, "ours", 0, places)], [])["runs"] == [drawn]
    assert content(TABLE, [trial_of(TABLE, ORAT, "ours", 0, places)], [])["runs"] == [without]


def test_a_run_of_another_length_is_another_training_and_older_names_of_the_images_are_known(tmp_path: Path) -> None:
    cell = Cell("cifar10", "8/255", "symmetric", 40, "AT")
    trial = trial_of(TABLE, cell, "ours", 0, Places(tmp_path))
    for run, wanted in (
        ({"data": "c10.npz", "epochs": 100}, True), ({"data": "c10.npz", "epochs": 24}, False),
        ({"data": "cifar10-jpeg.npz", "epochs": 100}, False),
    ):  # fmt: skip
        reported = known(told(trial, natural=0.9, fgsm=0.8) | {"run": run})
        assert is_done(trial_of(TABLE, cell, "ours", 0, Places(tmp_path, reported=reported)), TABLE.columns) == wanted


REPORTS = sorted((Path(__file__).parents[2] / "results").glob("reproduce-*.json"))


@pytest.mark.parametrize("file", REPORTS, ids=lambda file: file.stem)
def test_published_reports_of_older_versions_are_the_same_when_they_are_read_and_reported_again(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = json.loads(file.read_text())
    name = published["name"]
    assert any("without_outliers_of" in run["run"] for run in published["runs"])  # a field that runs no longer have
    protocols = ",".join(dict.fromkeys(row["protocol"] for row in published["rows"]))
    only = ",".join(dict.fromkeys(f"{field}={row[field]}" for row in published["rows"] for field in ("data", "eps")))
    flags = ["--known", str(file), "--protocol", protocols, "--only", only, "--out", str(tmp_path / "none")]
    for form, flag in {AUTOMATIC: "--with-automatic", MEASURED: "--with-measured"}.items():
        flags += [flag] if any(row["method"] == form for row in published["rows"]) else []
    assert main(["paper", "reproduce", name, "--report", *flags, "--json", "--no-figure"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["rows"], again["runs"]) == (published["rows"], published["runs"])
    assert json.loads((tmp_path / "none" / f"{name}.json").read_text()) == again


def test_the_list_tells_cells_what_is_done_time_and_missing_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = choose(artifact("table1").cells, {"data": ["mnist"], "method": ["ST"], "rate": ["0"]}, "table1")[0]
    finish(trial_of(artifact("table1"), cell, "ours", 0, Places(tmp_path)), dict.fromkeys(ACCURACY, 0.9))
    flags = ["--out", str(tmp_path), "--data-dir", str(tmp_path), "--device", "cpu"]
    assert main(["paper", "reproduce", "--list", *flags, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in listed["rows"]}
    assert (rows["table1"]["cells"], rows["table1"]["runs"], rows["table1"]["done"]) == (354, 354, 1)
    assert (rows["stability"]["cells"], rows["stability"]["runs"]) == (14, 140)
    assert rows["toy"]["data"] == "toy-balanced, toy-imbalanced, toy-imbalanced-2"
    assert rows["pretrained"]["data"] == "cifar100 (missing), weights (missing)"
    assert all(row["seconds"] > 0 for row in rows.values())
    assert "as measured on one NVIDIA H200" in listed["notes"][0]
    assert "orat data --download cifar10" in listed["notes"][2]


def test_operations_of_the_papers_networks_are_what_is_counted() -> None:
    for one in artifacts().values():
        for data, model in {(cell.data, run_of(cell, "ours", 0, PLACES).model) for cell in one.cells[:9]}:
            shape, classes, *_ = SIZES[data]
            assert forward_operations(build(model, shape, classes, 0), shape) == pytest.approx(FORWARD[model], rel=1e-3)


def test_the_cost_of_a_run_is_its_operations_at_the_measured_rate() -> None:
    cell = Cell("mnist", "0.1", "none", 0, "AT")
    trial = trial_of(artifact("table1"), cell, "ours", 0, Places(Path("out")))
    step = 128 * forward("lenet", "mnist") * 23  # ten gradients to images, one to weights
    assert rate("cpu", "lenet") == pytest.approx(step / 0.508)
    training = 57_000 * 50 / 128 * step
    assert training < operations(trial) < 1.1 * training
    assert seconds([trial, trial], ACCURACY, "cuda") == pytest.approx(2 * operations(trial) / rate("cuda", "lenet"))
    standard = trial_of(artifact("table1"), Cell("mnist", "0.1", "none", 0, "ST"), "ours", 0, Places(Path("out")))
    assert operations(standard) < operations(trial) / 4


def test_the_cost_that_is_left_has_scouts_and_autoattack_and_falls_with_every_epoch(tmp_path: Path) -> None:
    table, places = artifact("autoattack"), Places(tmp_path)
    plain, automatic = (
        trial_of(table, Cell("cifar10", "8/255", "none", 0, name), "ours", 0, places) for name in ("AT", AUTOMATIC)
    )
    training, attack = (seconds([plain], columns, "cuda") for columns in (ACCURACY, ("autoattack",)))
    assert training == pytest.approx(225, rel=0.1)  # measured
    assert seconds([automatic], ACCURACY, "cuda") == pytest.approx(260, rel=0.1)
    assert attack - training == pytest.approx(2 * 10 * 15, rel=0.1)  # last and chosen epoch, 15 s for 1,000 images
    plain.folder.mkdir()
    (plain.folder / "history.jsonl").write_text('{"epoch": 1}\n' * 25)
    assert seconds([plain], ACCURACY, "cuda") == pytest.approx(0.75 * training)
    finish_both(plain)
    assert seconds([plain], ACCURACY, "cuda") == 0
    assert seconds([plain], table.columns, "cuda") == pytest.approx(attack - training)


def finish_both(trial: Trial) -> None:
    """An invented result in a folder that is there."""
    (trial.folder / "result.json").write_text(json.dumps({"last": {"epoch": 100}, "chosen": {"epoch": 40}}))
