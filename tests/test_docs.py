"""The pages: commands and Python examples run, links and file names are right, and generated pages are up to date."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch
from PIL import Image

import orat
from orat.cli.main import main, parse
from orat.data import catalog
from orat.data.source import Splits
from orat.methods import METHODS
from orat.training.defaults import DEFAULTS
from orat.training.text import run_from

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
LOSSLESS = {  # the reports behind the CIFAR-10 rows of the README
    "symmetric": ("cifar10-lossless-sym40", "cifar10-lossless-auto"),
    "asymmetric": ("cifar10-lossless-asym40", "cifar10-lossless-asym40-auto"),
}
METHODS_SHOWN = ("AT", "ORAT", "ORAT automatic")


def results(name: str) -> dict[str, Any]:
    """A report of measured numbers."""
    content: dict[str, Any] = json.loads((ROOT / "results" / f"{name}.json").read_text())
    return content


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Every `orat` command on a page, once."""
    lines = [
        line
        for page in PAGES
        for kind in ("sh", "console")
        for block in blocks(page, kind)
        for line in block.splitlines()
    ]
    found = (line.partition(" > ")[0] for line in lines if line.startswith("orat "))
    return sorted({shlex.join(shlex.split(line, comments=True)) for line in found})


@pytest.mark.parametrize("command", commands())
def test_every_command_of_a_page_is_accepted(command: str) -> None:
    _, *words = shlex.split(command)
    arguments: Namespace = parse(words)
    if "texts" in arguments and "over" not in arguments:
        run_from(arguments.texts)


def small(name: str, *_: Any, **__: Any) -> Splits:
    """The first samples of the bundled data set."""
    assert name == "sample"
    return Splits(SAMPLE.train.take(torch.arange(300)), SAMPLE.test.take(torch.arange(60)))


SAMPLE = catalog.load("sample")


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalog, "load", small)
    monkeypatch.setattr(orat, "load_data", small, raising=False)
    monkeypatch.setitem(DEFAULTS, "sample", DEFAULTS["sample"] | {"epochs": 1, "attack_steps": 1})
    names: dict[str, Any] = {"__name__": "readme"}
    for block in blocks(ROOT / "README.md", "python"):
        exec(compile(block, "README.md", "exec", dont_inherit=True), names)  # without this file's future import
    assert names["adv"].sub(names["x"]).abs().max().item() == pytest.approx(8 / 255, abs=1e-6)
    assert {folder.name for folder in (tmp_path / "runs").iterdir()} == {"second", "focal"}
    assert set(names["result"]["last"]) == {"epoch", "natural", "fgsm", "pgd20", "cw"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_public_name_in_python_on_a_page_exists(page: Path) -> None:
    for block in blocks(page, "python"):
        for name in re.findall(r"\borat\.((?:[a-z]+\.)?\w+)", block):
            owner, _, attribute = name.rpartition(".")
            module = importlib.import_module(f"orat.{owner}") if owner else orat
            assert hasattr(module, attribute), name


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), target


def test_every_file_of_the_architecture_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawn = (ROOT / "docs" / "figures" / "architecture.svg").read_text()
    named = set(re.findall(r"`(?:orat/)?((?:[a-z]+/)+\w+\.py)`", page)) | set(re.findall(r"([a-z]+/\w+\.py)", drawn))
    assert len(named) > 30
    missing = {name for name in named if not ((ROOT / "orat" / name).is_file() or (ROOT / name).is_file())}
    assert missing == set()
    rooms = re.findall(r"^\| `(\w+)` \|", page.partition("## The rooms")[2].partition("\n## ")[0], re.MULTILINE)
    assert {"orat_paper"} < set(rooms)
    assert set(rooms) - {"orat_paper"} == {path.name for path in (ROOT / "orat").iterdir() if any(path.glob("*.py"))}


def test_every_contract_of_the_architecture_is_in_its_file() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text().partition("## Contracts")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+`) \| `([\w/]+)\.py` \|", page, re.MULTILINE)
    assert len(rows) == page.count("\n| `") > 20
    for names, file in rows:
        module = importlib.import_module(f"orat.{file.replace('/', '.')}")
        assert [name for name in re.findall(r"`(\w+)`", names) if not hasattr(module, name)] == [], file


def test_every_name_after_a_file_of_the_architecture_is_in_the_file() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    found = re.findall(r"`((?:[a-z_]+/)+\w+\.py)`[:,] ((?:`[\w.]+`(?:, | and )?)+)", page)
    assert len(found) > 12
    for file, names in found:
        text = (ROOT / "orat" / file).read_text()
        for name in re.findall(r"`([\w.]+)`", names):
            for part in name.split("."):
                assert re.search(rf"^\s*(?:(?:def|class) {part}\b|{part}(?::| =))", text, re.MULTILINE), (file, name)


def test_the_results_of_the_readme_are_those_of_the_reports() -> None:
    readme = (ROOT / "README.md").read_text()
    for noise, names in LOSSLESS.items():
        runs = {run["method"]: run for name in names for run in results(name)["runs"]}
        assert {(run["noise"], run["rate"], run["run"]["epochs"], run["seed"]) for run in runs.values()} == {
            (noise, 40, 100, 0)
        }
        last = [runs[method]["accuracy"]["last"] for method in METHODS_SHOWN]
        assert row(f"{noise} 40 %", [(100 * one["natural"], 100 * one["pgd20"]) for one in last]) in readme
    rows = [one for one in results("reproduce-stability")["rows"] if one["seeds"] == 10 and one["epoch"] == "last"]
    means = {(one["method"], one["column"]): one["ours"] for one in rows}
    cells = [(means[method, "natural"], means[method, "pgd20"]) for method in METHODS_SHOWN]
    assert row("symmetric 40 %", cells) in readme


def row(noise: str, cells: list[tuple[float, float]]) -> str:
    """The end of a row: the noise, then natural and PGD-20 accuracy of each method."""
    return f"| {noise} | " + " | ".join(f"{natural:.2f} / {pgd20:.2f}" for natural, pgd20 in cells) + " |"


def test_the_page_of_speed_has_the_measured_times_of_whole_runs() -> None:
    page = (ROOT / "docs" / "speed.md").read_text()
    together, fast = results("together"), results("fast-paths")
    assert f"| {together['seconds']} s, or {together['seconds_per_run']} s a run |" in page
    assert (together["runs"], together["epochs"], fast["epochs"], fast["seeds"]) == (8, 50, 15, 3)
    for name, difference in fast["difference_in_points"].items():
        fast_mean, plain_mean = (mean(one[name] for one in fast[way]) for way in ("fast", "plain"))
        assert abs(difference) <= 0.05
        assert 100 * (fast_mean - plain_mean) == pytest.approx(difference, abs=1e-3)


def test_the_page_of_a_user_has_the_measured_networks() -> None:
    page, content = (ROOT / "docs" / "yours.md").read_text(), results("own-networks")
    titles = ("a ResNet from another file", "a small vision transformer", "a network with shared weights")
    assert content["threads"] == 1
    for title, one in zip(titles, content["rows"], strict=True):
        last, reference = one["result"], one["autoattack"]
        assert (one["killed"], one["equal_to_the_bit"], one["loaded_equals_result"], last["epoch"]) == (
            True,
            True,
            True,
            2,
        )
        assert reference["robust_ours"] == reference["robust_reference"]
        start = (
            f"| {title} | yes | {100 * last['natural']:.1f} / {100 * last['pgd20']:.1f} | {reference['agree']} of 40"
        )
        cells = re.search(rf"^{re.escape(start)}.*\| ([\d.]+)[^|]*\|$", page, re.MULTILINE)
        assert cells is not None, title
        assert cells[1] == f"{one['ratio']:.2f}"


def test_the_page_of_methods_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "methods", "--markdown"]) == 0
    assert (ROOT / "docs" / "methods.md").read_text() == capsys.readouterr().out


@pytest.mark.parametrize(
    ("page", "script"),
    [
        ("defenses.md", ["defenses.py", "--page", ROOT / "results" / "defenses.json"]),
        ("automatic-measured.md", ["automatic_page.py"]),
    ],
    ids=["defenses", "automatic"],
)
def test_a_measured_page_is_made_from_the_measured_numbers(page: str, script: list[str | Path]) -> None:
    command = [sys.executable, ROOT / "experiments" / script[0], *script[1:]]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs" / page).read_text() == printed


def test_pictures_of_automatic_orat_are_drawn_from_the_measured_numbers(tmp_path: Path) -> None:
    runs, rates = (ROOT / "results" / f"automatic-{name}.json" for name in ("cifar10", "rates"))
    command = [sys.executable, ROOT / "experiments" / "automatic_figures.py", "--runs", runs, "--rates", rates]
    subprocess.run([*command, "--out", tmp_path], check=True, capture_output=True)
    page = (ROOT / "docs" / "automatic.md").read_text()
    for file in tmp_path.iterdir():
        assert f"(figures/{file.name})" in page
        with Image.open(file) as drawn, Image.open(ROOT / "docs" / "figures" / file.name) as shown:
            assert drawn.size == shown.size
    assert len(list(tmp_path.iterdir())) == page.count("](figures/")


def test_every_method_was_measured_with_three_seeds() -> None:
    cells = [cell for cell in results("defenses")["cells"] if "error" not in cell]
    assert {cell["method"]["name"] for cell in cells} == set(METHODS)
    for row_name in {cell["row"] for cell in cells}:
        assert [cell["seed"] for cell in cells if cell["row"] == row_name] == [0, 1, 2]
