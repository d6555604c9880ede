"""Eleven rooms in layers: imports go one way, files fit a head, methods stay short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import orat
import orat_paper

PACKAGE, PAPER = Path(orat.__file__).parent, Path(orat_paper.__file__).parent
LAYERS = (
    ("core",), ("noise", "data", "models"), ("attacks",), ("methods",), ("evaluation",), ("training",),
    ("curation", "sweeps"), ("cli",),
)  # fmt: skip
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
LONG_METHODS = {"__init__", "base", "ranked_range", "automatic"}  # what methods are made of


def files(package: Path = PACKAGE) -> list[Path]:
    return sorted(package.rglob("*.py"))


def module(file: Path) -> str:
    """The dotted name of a file of a package."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(name: str) -> str:
    """The room of a module, empty for the top level."""
    return [*name.split("."), ""][1]


def statements(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run: what stands under TYPE_CHECKING does not."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        yield from statements(node)


def imported(file: Path) -> set[str]:
    """The modules of the two packages that a file imports, anywhere in it."""
    known = {module(other) for other in (*files(), *files(PAPER))}
    found = set()
    for node in statements(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{name.name}" for name in node.names)}
        else:
            found |= {name.name for name in node.names}
    return found & known


ALL = pytest.mark.parametrize("file", files(), ids=lambda file: str(file.relative_to(PACKAGE)))


def test_the_package_has_eleven_rooms_and_no_flat_module() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms == set(LEVEL)
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


@ALL
def test_imports_go_from_higher_layers_to_lower_ones(file: Path) -> None:
    own = room(module(file))
    if own in LEVEL:
        others = {name for name in imported(file) if room(name) not in ("", own)}
        assert {name for name in others if LEVEL.get(room(name), 99) >= LEVEL[own]} == set()


def test_no_two_modules_import_each_other() -> None:
    edges = {module(file): imported(file) - {module(file)} for file in (*files(), *files(PAPER))}
    assert {(a, b) for a, seen in edges.items() for b in seen if a in edges.get(b, set()) and a < b} == set()


def test_the_paper_is_a_plugin_that_no_room_imports() -> None:
    assert {str(file) for file in files() if any(name.startswith("orat_paper") for name in imported(file))} == set()


@pytest.mark.parametrize("file", [*files(), *files(PAPER)], ids=module)
def test_files_fit_a_head_and_functions_a_screen(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 40, node.name


@pytest.mark.parametrize("file", sorted((PACKAGE / "methods").glob("*.py")), ids=lambda file: file.name)
def test_a_method_is_short_and_has_no_attack_loop_mode_or_optimizer(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") <= (60 if file.stem not in LONG_METHODS else 300)
    for word in ("autograd.grad", ".eval()", ".train()", "torch.optim", "for _ in"):
        assert word not in text
