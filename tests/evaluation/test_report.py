"""An outcome of five samples, worked out by hand; intervals against scipy."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
import torch
from scipy.stats import binomtest
from torch import Tensor

from orat.core.errors import InputError
from orat.core.files import write_table
from orat.evaluation.report import interval, per_class, sample_rows, worst_case, worst_class

CLASSES = ("cat", "dog", "owl, snowy", "unseen")
LABELS = torch.tensor([0, 0, 1, 1, 2])
PREDICTED = torch.tensor([0, 1, 1, 1, 2])


def mask(bits: str) -> Tensor:
    return torch.tensor([bit == "1" for bit in bits])


def outcome() -> dict[str, Tensor]:
    return {
        "natural": mask("10111"),
        "pgd20": mask("00111"),
        "autoattack": mask("00001"),
        "autoattack:apgd-ce": mask("00111"),
        "autoattack:apgd-t": mask("00011"),
        "autoattack:square": mask("00001"),
    }


def test_the_worst_case_is_right_under_every_attack() -> None:
    assert torch.equal(worst_case(outcome()), mask("00001"))
    assert torch.equal(worst_case({"natural": mask("101")}), mask("101"))


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("total", [1, 2, 7, 100, 10_000])
def test_the_interval_is_scipys(total: int, level: float) -> None:
    for count in {0, 1, total // 3, total // 2, total - 1, total}:
        expected = binomtest(count, total).proportion_ci(level, method="wilson")
        assert interval(count, total, level) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_interval_is_exact_at_its_ends() -> None:
    assert all(interval(0, total)[0] == 0 and interval(total, total)[1] == 1 for total in range(1, 500))
    assert interval(0, 0) == (0, 1)


@pytest.mark.parametrize(("count", "total", "level"), [(3, 2, 0.95), (-1, 2, 0.95), (1, 2, 95.0)])
def test_an_interval_of_nonsense_is_refused(count: int, total: int, level: float) -> None:
    with pytest.raises(InputError):
        interval(count, total, level)


def test_classes_come_in_order_with_natural_and_worst_case_accuracy() -> None:
    assert per_class(outcome(), LABELS, CLASSES) == [
        {"class": "cat", "examples": 2, "natural": 0.5, "robust": 0.0},
        {"class": "dog", "examples": 2, "natural": 1.0, "robust": 0.0},
        {"class": "owl, snowy", "examples": 1, "natural": 1.0, "robust": 1.0},
        {"class": "unseen", "examples": 0, "natural": None, "robust": None},
    ]


def test_of_equally_fragile_classes_the_naturally_worse_one_is_the_worst_then_the_first() -> None:
    rows = per_class(outcome(), LABELS, CLASSES)
    assert worst_class(rows) == rows[0]
    assert worst_class(rows[::-1]) == rows[0]
    assert worst_class([rows[1] | {"class": "first"}, rows[1]]) == rows[1] | {"class": "first"}


def test_a_class_without_examples_is_never_the_worst() -> None:
    assert worst_class(per_class(outcome(), LABELS, CLASSES)[3:]) is None


def test_each_sample_says_what_broke_it_first() -> None:
    assert sample_rows(outcome(), LABELS, CLASSES, PREDICTED) == {
        "index": [0, 1, 2, 3, 4],
        "label": ["cat", "cat", "dog", "dog", "owl, snowy"],
        "predicted": ["cat", "dog", "dog", "dog", "owl, snowy"],
        "natural": [1, 0, 1, 1, 1],
        "pgd20": [0, 0, 1, 1, 1],
        "autoattack": [0, 0, 0, 0, 1],
        "autoattack:apgd-ce": [0, None, 1, 1, 1],
        "autoattack:apgd-t": [None, None, 0, 1, 1],
        "autoattack:square": [None, None, None, 0, 1],
        "robust": [0, 0, 0, 0, 1],
        "broken_by": ["pgd20", "natural", "autoattack:apgd-t", "autoattack:square", ""],
    }


def test_what_broke_a_sample_does_not_depend_on_where_the_composite_stands() -> None:
    right = outcome()
    right["autoattack"] = right.pop("autoattack")
    expected = sample_rows(outcome(), LABELS, CLASSES, PREDICTED)
    assert sample_rows(right, LABELS, CLASSES, PREDICTED) == expected


def test_a_name_with_a_colon_is_a_plain_attack_where_there_is_no_composite() -> None:
    columns = sample_rows({"natural": mask("01"), "pgd:mine": mask("00")}, LABELS[:2], CLASSES, PREDICTED[:2])
    assert columns["pgd:mine"] == [0, 0]
    assert columns["broken_by"] == ["natural", "pgd:mine"]


def test_a_csv_table_reads_back(tmp_path: Path) -> None:
    columns = sample_rows(outcome(), LABELS, CLASSES, PREDICTED)
    write_table(tmp_path / "samples.csv", columns)
    with (tmp_path / "samples.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == list(columns)
    texts = [["" if value is None else str(value) for value in column] for column in columns.values()]
    assert rows == [list(row) for row in zip(*texts, strict=True)]


def test_a_parquet_table_reads_back_with_its_types_and_nulls(tmp_path: Path) -> None:
    columns = sample_rows(outcome(), LABELS, CLASSES, PREDICTED)
    write_table(tmp_path / "samples.parquet", columns)
    assert pyarrow.parquet.read_table(tmp_path / "samples.parquet").to_pydict() == columns


def test_a_failed_table_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "samples.csv"
    write_table(file, {"index": [0]})
    with pytest.raises(ValueError, match="shorter"):
        write_table(file, {"index": [0, 1], "label": ["cat"]})
    assert file.read_text() == "index\n0\n"
    assert list(tmp_path.iterdir()) == [file]


def test_a_table_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.csv or \.parquet, not as \.xlsx"):
        write_table(tmp_path / "samples.xlsx", {"index": [0]})


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'orat\[parquet\]'"):
        write_table(tmp_path / "samples.parquet", {"index": [0]})
    assert not list(tmp_path.iterdir())
