"""The measured tables: files that can be read, and a page with the measured numbers."""

from __future__ import annotations

import json
from pathlib import Path

import own_tables
import pytest

from orat.data.catalog import load

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "rows", "features"), [("breast cancer", 569, 30), ("wine", 178, 13), ("bikes", 1200, 7)]
)
def test_every_table_is_written_whole(tmp_path: Path, name: str, rows: int, features: int) -> None:
    splits = load(str(own_tables.write(name, tmp_path)), target="label")
    assert splits.test is not None
    assert len(splits.train) + len(splits.test) == rows
    assert splits.train.shape == (features,)


def test_the_page_has_the_measured_numbers_of_three_seeds() -> None:
    content = json.loads((ROOT / "results" / "own-tables.json").read_text())
    assert len(content["rows"]) == len(own_tables.TABLES) * 2 * len(own_tables.METHODS) * len(own_tables.SEEDS)
    assert "\n".join(own_tables.lines(content)) in (ROOT / "docs" / "yours.md").read_text()
