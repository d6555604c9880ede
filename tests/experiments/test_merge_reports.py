"""Reports of other machines in the reports that the pages read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import merge_reports
import pytest

from orat.core.errors import InputError
from orat_paper.reproduce.artifacts import artifact

RESULTS = Path(__file__).parents[2] / "results"
ELSEWHERE = sorted(RESULTS.glob("cifar10-lossless-*.json"))


def read(file: Path) -> dict[str, Any]:
    """A report."""
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def test_every_run_is_copied_once_and_stands_beside_the_papers_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_reports, "RESULTS", tmp_path)
    merge_reports.merge(ELSEWHERE[:2])
    merge_reports.merge(ELSEWHERE)
    (file,) = tmp_path.iterdir()
    merged, given = read(file), [run for one in ELSEWHERE for run in read(one)["runs"]]
    assert file.name == "reproduce-table1-cifar10.json"
    assert len(merged["runs"]) == len(given) == 6
    assert all(run in merged["runs"] for run in given)
    known = {(row["noise"], row["method"], row["epoch"], row["column"]): row for row in merged["rows"] if row["seeds"]}
    for run in given:
        for epoch, accuracy in run["accuracy"].items():
            for column, share in accuracy.items():
                assert known.pop((run["noise"], run["method"], epoch, column))["ours"] == pytest.approx(100 * share)
    assert not known
    theirs = {row["method"]: row["theirs"] for row in merged["rows"] if row["rate"] == 40 and row["column"] == "pgd20"
              and (row["noise"], row["epoch"]) == ("symmetric", "last")}  # fmt: skip
    printed = {cell.method: cell.theirs["pgd20"] for cell in artifact("table1").cells
               if (cell.data, cell.eps, cell.noise, cell.rate) == ("cifar10", "8/255", "symmetric", 40)}  # fmt: skip
    assert theirs == printed | {"ORAT automatic": None}


def test_a_report_that_is_there_is_extended_and_keeps_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_reports, "RESULTS", tmp_path)
    file = Path(shutil.copy(RESULTS / "reproduce-autoattack.json", tmp_path))
    before = read(file)
    run = dict(before["runs"][0])
    other = tmp_path / "elsewhere.json"
    other.write_text(json.dumps(before | {"runs": [run | {"seed": 7}]}))
    merge_reports.merge([other])
    assert [one for one in read(file)["runs"] if one["seed"] != 7] == before["runs"]
    assert [one for one in read(file)["runs"] if one["seed"] == 7] == [run | {"seed": 7}]


def test_runs_of_other_images_or_other_lengths_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_reports, "RESULTS", tmp_path / "results")
    report = read(ELSEWHERE[0])
    for change in ({"data": "cifar10-jpeg.npz"}, {"epochs": 24}):
        other = tmp_path / "other.json"
        other.write_text(json.dumps(report | {"runs": [one | {"run": one["run"] | change} for one in report["runs"]]}))
        with pytest.raises(InputError, match="some runs of table1 .* are of no cell on cifar10: leave them out"):
            merge_reports.merge([other])
    assert not (tmp_path / "results").exists()


def test_the_published_report_has_the_runs_of_the_published_parts() -> None:
    runs = read(RESULTS / "reproduce-table1-cifar10.json")["runs"]
    assert all(run in runs for one in ELSEWHERE for run in read(one)["runs"])
