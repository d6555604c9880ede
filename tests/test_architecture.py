"""The way of a batch goes forward: imports go one way, files fit a head, methods stay short."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import orat

PACKAGE = Path(orat.__file__).parent
# Each may import those before it, and its own package.
ORDER = (
    "errors", "numbers", "progress", "types", "products", "mixing", "data", "noise", "models", "losses", "state",
    "attacks", "ranking", "relabeling", "mislabeling", "outliers", "scouts", "watching", "options", "lazy", "methods",
    "run", "flags", "mirrors", "replica", "compiled",
    "training", "engine", "run_folder", "metering", "journal", "evaluation", "masking", "breakdown", "curves",
    "theory",
    "examination", "devices", "provenance", "timing", "finished", "filtering", "operations", "prepare", "held_out",
    "suspecting", "suspects_page", "cleaning", "weights", "fine_tuning", "telling", "execute", "many", "textbook",
    "speed", "foreign", "subjects", "tables", "listing", "demo", "search_space", "search_trials", "search_folder",
    "search_plots", "searching", "reproduce", "cards", "commands", "cli", "__main__",
)  # fmt: skip


def modules() -> list[Path]:
    return sorted(file for file in PACKAGE.rglob("*.py") if file != PACKAGE / "__init__.py")


def part(file: Path) -> str:
    """The top-level module or package that a file belongs to."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(file: Path) -> set[str]:
    """The parts of this package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "orat":
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("orat."):
            found.add(node.module.split(".")[1])
    return found


def test_every_module_has_its_place() -> None:
    assert {part(file) for file in modules()} == set(ORDER)


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_one_way(file: Path) -> None:
    own = ORDER.index(part(file))
    assert {name for name in imported(file) if ORDER.index(name) > own} == set()


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_files_fit_a_head_and_functions_a_screen(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 40, node.name


@pytest.mark.parametrize("file", sorted((PACKAGE / "methods").glob("*.py")), ids=lambda file: file.name)
def test_a_method_is_short_and_has_no_attack_loop_mode_or_optimizer(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") <= 60
    for word in ("autograd.grad", ".eval()", ".train()", "optim", "for _ in"):
        assert word not in text


def test_no_module_takes_the_place_of_a_public_name() -> None:
    """Once imported, a module is an attribute of its package."""
    assert not {part(file) for file in modules()} & set(orat.__all__)
