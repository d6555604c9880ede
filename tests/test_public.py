"""The public names: few, imported at their first use, and removed names answered with their new place."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import pytest

import orat


@pytest.mark.parametrize("name", orat.__all__)
def test_every_public_name_is_in_its_place(name: str) -> None:
    module, _, attribute = orat.PLACES[name].partition(":")
    assert getattr(orat, name) is getattr(import_module(module), attribute or name)


def test_the_public_names_are_those_of_the_table_and_few() -> None:
    assert sorted(orat.__all__) == sorted(orat.PLACES)
    assert len(orat.__all__) <= 25
    assert set(orat.__all__) <= set(dir(orat))


@pytest.mark.parametrize("name", orat.REMOVED)
def test_a_removed_name_is_answered_with_its_new_place_where_it_is(name: str) -> None:
    place = orat.REMOVED[name]
    with pytest.raises(AttributeError, match=f"orat.{name} was removed: use {place}$"):
        getattr(orat, name)
    found: object = orat
    for part in place.split(".")[1:]:
        found = getattr(found, part)
    assert callable(found)


def test_an_unknown_name_is_no_attribute() -> None:
    assert not hasattr(orat, "trian")
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        orat.trian  # noqa: B018


@pytest.mark.parametrize("room", orat.ROOMS)
def test_no_public_name_of_a_room_becomes_the_module_of_that_name_once_it_is_imported(room: str) -> None:
    """Python binds a module in its package at import, over a function of the same name."""
    package = import_module(f"orat.{room}")
    for found in iter_modules(package.__path__, f"{package.__name__}."):
        import_module(found.name)
    assert [name for name in getattr(package, "__all__", ()) if isinstance(getattr(package, name), ModuleType)] == []


def test_the_import_of_the_package_and_of_the_methods_needs_no_torch() -> None:
    code = "import sys, orat, orat.methods; print(len(orat.methods.METHODS)); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
