"""Tables of names import nothing until a name is used; import paths are refused in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from refusals import assert_refused_in_one_line

from orat.core.errors import InputError
from orat.core.registry import Registry, resolve

NUMBERS: Registry[object] = Registry("number", {"pi": "math:pi", "nowhere": "no_module_of_this_name:pi"})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory, which leaves Python's path and modules as they were."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setattr("sys.modules", dict(sys.modules))
    return tmp_path


def test_names_are_listed_in_order_without_an_import() -> None:
    assert list(NUMBERS) == ["pi", "nowhere"]
    assert len(NUMBERS) == 2
    assert "nowhere" in NUMBERS
    assert "e" not in NUMBERS
    code = (
        "import sys; from orat.core.registry import Registry; table = Registry('x', {'a': 'xml.dom:Node'});"
        "print(list(table), 'xml.dom' in sys.modules, table['a'].__name__, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["['a']", "False", "Node", "False"]


def test_an_object_is_found_by_its_name_or_its_import_path() -> None:
    assert NUMBERS["pi"] == NUMBERS.load("pi") == pytest.approx(3.14159, abs=1e-5)
    assert NUMBERS.load("math:e") == resolve("math:e") == pytest.approx(2.71828, abs=1e-5)
    assert resolve("pathlib:Path.cwd")() == Path.cwd()
    with pytest.raises(KeyError):
        NUMBERS["e"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pie", "unknown number 'pie': did you mean 'pi'? known are nowhere, pi"),
        ("math:sqr", "unknown name in math: 'sqr': did you mean 'sqrt'?"),
        ("no_such_module:thing", "there is no module 'no_such_module', installed or in"),
        ("math.deep:thing", "there is no module 'math.deep'"),
        (":thing", "':thing' is no import path: give package.module:attribute"),
        ("math:", "'math:' is no import path"),
        (".math:pi", "'.math:pi' is no import path"),
        ("file.py:/thing", "is no import path"),
        ("a:b:c", "is no import path"),
    ],
)
def test_what_does_not_exist_is_refused(name: str, words: str) -> None:
    assert_refused_in_one_line(lambda: NUMBERS.load(name), words)


def test_a_module_in_the_current_directory_is_found(here: Path) -> None:
    (here / "own_module_here.py").write_text("class Net:\n    depth = 3\n")
    assert resolve("own_module_here:Net.depth") == 3
    with pytest.raises(InputError, match="did you mean 'Net'"):
        resolve("own_module_here:Met")


def test_a_module_that_needs_a_missing_one_is_named_with_it(here: Path) -> None:
    (here / "needy_module.py").write_text("import module_that_is_missing\n")
    assert_refused_in_one_line(
        lambda: resolve("needy_module:Net"),
        "importing needy_module fails with ModuleNotFoundError: No module named 'module_that_is_missing'",
    )
