"""Pages that are made from code or from measured numbers say what those say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import automatic_page
import pytest
from PIL import Image

from orat.cli.main import main
from orat.methods import METHODS

ROOT = Path(__file__).parents[1]
COLUMNS = ("natural", "fgsm", "pgd20", "cw", "autoattack")


@pytest.fixture(scope="module")
def defenses() -> dict[str, Any]:
    """All defenses on the sample with wrong labels, as measured."""
    return json.loads((ROOT / "results" / "defenses.json").read_text())


def test_the_page_of_methods_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "methods", "--markdown"]) == 0
    assert (ROOT / "docs" / "methods.md").read_text() == capsys.readouterr().out


def test_the_page_of_defenses_is_made_from_the_measured_numbers() -> None:
    command = [sys.executable, ROOT / "benchmarks" / "defenses.py", "--page", ROOT / "results" / "defenses.json"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs" / "defenses.md").read_text() == printed


def test_the_page_of_the_automatic_form_is_made_from_the_measured_numbers() -> None:
    command = [sys.executable, ROOT / "benchmarks" / "automatic_page.py"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs" / "automatic-measured.md").read_text() == printed


def test_pictures_of_the_automatic_form_are_drawn_from_the_measured_numbers(tmp_path: Path) -> None:
    runs, rates = (ROOT / "results" / f"automatic-{name}.json" for name in ("cifar10", "rates"))
    command = [sys.executable, ROOT / "benchmarks" / "automatic_figures.py", "--runs", runs, "--rates", rates]
    command += ["--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    page = (ROOT / "docs" / "automatic.md").read_text()
    for file in tmp_path.iterdir():
        assert f"(figures/{file.name})" in page
        with Image.open(file) as drawn, Image.open(ROOT / "docs" / "figures" / file.name) as shown:
            assert drawn.size == shown.size
    assert len(list(tmp_path.iterdir())) == page.count("](figures/")


def test_the_readme_shows_what_the_automatic_form_was_measured_to_reach() -> None:
    assert "\n".join(automatic_page.headlines()) in (ROOT / "README.md").read_text()


def test_every_method_was_measured_with_three_seeds(defenses: dict[str, Any]) -> None:
    cells = [cell for cell in defenses["cells"] if "error" not in cell]
    assert {cell["method"]["name"] for cell in cells} == set(METHODS)
    for row in {cell["row"] for cell in cells}:
        assert [cell["seed"] for cell in cells if cell["row"] == row] == [0, 1, 2]


def test_the_readme_shows_the_means_of_the_measured_defenses(defenses: dict[str, Any]) -> None:
    text = (ROOT / "README.md").read_text().partition("## Every defense")[2].partition("\n## ")[0]
    shown = [[part.strip() for part in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    assert len(shown) == 11
    for name, *numbers in shown[1:]:
        lasts = [cell["last"] for cell in defenses["cells"] if cell["row"] == name]
        assert numbers == [f"{100 * mean(last[column] for last in lasts):.2f}" for column in COLUMNS], name


def test_the_readme_tells_what_whole_runs_were_measured_to_take_and_to_keep() -> None:
    page = (ROOT / "README.md").read_text()
    together, fast = (
        json.loads((ROOT / "results" / name).read_text()) for name in ("together.json", "fast-paths.json")
    )
    assert f"took {together['seconds']} s" in page
    assert f"{together['seconds_per_run']} s a run" in page
    assert (together["runs"], together["epochs"], fast["epochs"], fast["seeds"]) == (8, 50, 15, 3)
    for name, difference in fast["difference_in_points"].items():
        fast_mean, plain_mean = (mean(row[name] for row in fast[way]) for way in ("fast", "plain"))
        assert abs(difference) <= 0.05
        assert 100 * (fast_mean - plain_mean) == pytest.approx(difference, abs=1e-3)
