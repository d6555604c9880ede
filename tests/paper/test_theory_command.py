"""`orat paper theory` on the command line, and docs/theory.md."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from orat.cli.main import main
from orat_paper.theory import Task, measured_gaps
from orat_paper.theory.command import show
from orat_paper.theory.summary import CASES, SIZES, calibration_row, gap_row

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "theory.md").read_text()
STORED = json.loads((ROOT / "results" / "theory.json").read_text())
FIGURES = ROOT / "docs" / "figures"
PICTURES = ("bounds", "gap", "calibration")


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """The JSON output of the command, and its folder."""
    out = tmp_path_factory.mktemp("theory") / "new" / "folder"
    command = [
        str(Path(sys.executable).with_name("orat")),
        "paper",
        "theory",
        "--draws",
        "2",
        "--json",
        "--out",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return json.loads(done.stdout), out


def test_three_pictures_are_written_each_in_two_forms(called: tuple[dict[str, Any], Path]) -> None:
    content, out = called
    expected = [out / f"theory-{name}.{kind}" for name in PICTURES for kind in ("png", "pdf")]
    assert content["files"] == [str(file) for file in expected]
    assert sorted(out.iterdir()) == sorted(expected)
    for name in PICTURES:
        with Image.open(out / f"theory-{name}.png") as drawn, Image.open(FIGURES / f"theory-{name}.png") as on_page:
            assert drawn.size[0] > 1000
            assert drawn.size == on_page.size
            assert len(drawn.convert("RGB").getcolors(1 << 24)) > 100
        assert (out / f"theory-{name}.pdf").read_bytes().startswith(b"%PDF")


def test_printed_gaps_are_those_of_the_function(called: tuple[dict[str, Any], Path]) -> None:
    content, _ = called
    gaps = measured_gaps(Task(), SIZES, draws=2)
    assert [row["n"] for row in content["gaps"]] == list(SIZES)
    for row, gap in zip(content["gaps"], gaps, strict=True):
        assert row["bound"] == pytest.approx(gap.bound.value)
        assert row["worst"] == pytest.approx(max(gap.largest))
        assert row["trained"] == pytest.approx(max(gap.trained))
        assert row["vacuous"] == (gap.bound.value >= gap.bound.loss_max)
    assert {row["vacuous"] for row in content["gaps"]} == {True, False}
    assert content["task"]["draws"] == 2
    assert content["task"]["toy"] == Task().toy


def test_calibration_rows_have_the_counterexample_of_the_errata(called: tuple[dict[str, Any], Path]) -> None:
    rows = {(row["loss"], row["lambda"], row["lambda_hat"]): row for row in called[0]["calibration"]}
    false = rows["hinge", 0.0, 2.0]
    assert (false["stated"], false["calibrated"]) == (True, False)
    assert false["fails"] == "phi(t) + phi(-t) < 2 phi(0) for some t"
    assert (false["counterexample"]["eta"], false["counterexample"]["tau"]) == (0.5, 0.5)
    right = rows["hinge", 0.0, 1.0]
    assert (right["stated"], right["calibrated"], right["fails"], right["counterexample"]) == (True, True, None, None)
    unordered = rows["hinge", 0.4, 0.3]
    assert (unordered["stated"], unordered["calibrated"]) == (False, True)
    assert (unordered["fails"], unordered["numbers"]) == (
        "0 <= lambda < lambda-hat",
        "lambda = 0.4, lambda-hat = 0.3",
    )


def test_tables_are_aligned_and_fit_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show(STORED)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if re.match(r" +[\d,]+ +\d+\.\d{3} ", line)]
    assert [line.split()[0] for line in rows] == [f"{n:,}" for n in SIZES]
    assert len({line.index(".") for line in rows}) == 1
    assert sum(line.lstrip().startswith(("hinge ", "logistic ")) for line in lines) == len(CASES)
    assert "largest in 20 draws, seed 0" in " ".join(lines)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--draws", "0"], "--draws 0: give 1 or more"),
        (["--draws", "two"], "--draws: 'two' is not a whole number"),
        (["--out", "taken"], "taken is a file: give --out a folder"),
        (["--drawz", "1"], "did you mean '--draws'"),
    ],
)
def test_nonsense_is_answered_in_one_line(
    flags: list[str], words: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    assert main(["paper", "theory", *flags]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]


def test_without_matplotlib_nothing_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    monkeypatch.setattr("orat_paper.theory.measured_gaps", None)
    assert main(["paper", "theory", "--out", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err.startswith("orat: a picture of the theory needs matplotlib: pip install")
    assert list(tmp_path.iterdir()) == []


def test_stored_numbers_are_what_the_functions_give() -> None:
    assert STORED["task"]["draws"] == 20
    assert [row["n"] for row in STORED["gaps"]] == list(SIZES)
    (gap,) = measured_gaps(Task(), SIZES[:1], draws=20)
    assert gap_row(gap) == pytest.approx(STORED["gaps"][0])
    for case, stored in zip(CASES, STORED["calibration"], strict=True):
        row = calibration_row(case)
        assert {name for name in row if name != "counterexample" and row[name] != stored[name]} == set()
        assert row["counterexample"] == (stored["counterexample"] and pytest.approx(stored["counterexample"], abs=1e-9))


def test_the_table_of_the_page_is_what_was_stored() -> None:
    lines = [line for line in PAGE.splitlines() if re.match(r"\| [\d,]+ \|", line)]
    assert lines == [
        f"| {row['n']:,} | {row['bound']:.3f} | {row['worst']:.4f} | {row['trained']:.4f} "
        f"| {'yes' if row['vacuous'] else 'no'} |"
        for row in STORED["gaps"]
    ]
    ratios = [row["bound"] / row["worst"] for row in STORED["gaps"]]
    assert f"The bound is {min(ratios):.0f} to {max(ratios):.0f} times" in PAGE
    assert f"M = {STORED['task']['largest_loss']:.2f}." in PAGE
    assert f"{STORED['task']['draws']} times for each n (seed {STORED['task']['seed']})" in PAGE


def test_links_of_the_page_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)", PAGE)
    assert {f"figures/theory-{name}.png" for name in PICTURES} <= set(targets)
    for target in targets:
        assert (ROOT / "docs" / target).is_file(), target
    numbers = {int(number) for number in re.findall(r"\s\(([1-9]\d?)\)", PAGE)}
    errata = (ROOT / "docs" / "errata.md").read_text()
    for part, theirs in ((errata, numbers), (errata.partition("## Theory")[2].partition("\n## ")[0], range(1, 12))):
        assert {int(number) for number in re.findall(r"^\*\*(\d+)\. ", part, re.MULTILINE)} >= set(theirs)
    assert numbers >= set(range(1, 12))


def test_every_example_of_the_page_gives_what_the_page_says() -> None:
    examples = doctest.DocTestParser().get_doctest(PAGE.replace("```", ""), {}, "theory.md", "docs/theory.md", 0)
    assert len(examples.examples) == PAGE.count("\n>>> ") > 15
    assert doctest.DocTestRunner(verbose=False).run(examples).failed == 0
