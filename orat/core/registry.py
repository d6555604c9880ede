"""Names of objects: tables of the package, plug-ins of other distributions, and `module:attribute`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar

from orat.core.errors import InputError, line_of, unknown

T = TypeVar("T")

SPEC = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)")  # module:attribute


class Registry(Mapping[str, T]):
    """A table of names in which an object is imported on its first use, so that names are listed without imports."""

    def __init__(self, kind: str, places: Mapping[str, str]) -> None:
        self.kind, self.places = kind, dict(places)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __getitem__(self, name: str) -> T:
        found: T = resolve_name(self.places[name])
        return found

    def load(self, name: str) -> T:
        """The object of a name in the table, or at `module:attribute`."""
        if name in self:
            return self[name]
        if ":" not in name:
            raise unknown(self.kind, name, self)
        found: T = resolve(name)
        return found

    def name_of(self, found: type) -> str:
        """The name of a class; its import path, module:attribute, if the table does not have it."""
        path = f"{found.__module__}:{found.__qualname__}"
        return next((name for name, place in self.places.items() if place == path), path)


@cache
def plugins(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name; loading an entry point imports its module."""
    return {point.name: point for point in entry_points(group=group)}


def imported(package: str, places: Mapping[str, str], name: str) -> Any:
    """A public name of a package, for its `__getattr__`: imported from its module at the first use."""
    if name not in places:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return resolve_name(places[name])


def resolve(spec: str) -> Any:
    """The object at `module:attribute`; the module is installed or in the current directory."""
    parts = SPEC.fullmatch(spec)
    if parts is None:
        raise InputError(f"{spec!r} is no import path: give package.module:attribute")
    module, attribute = parts.groups()
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        owner = import_module(module)
    except ImportError as error:
        raise failed_import(module, error) from error
    try:
        return resolve_name(spec)
    except AttributeError as error:
        names = [name for name in vars(owner) if not name.startswith("_")]
        raise unknown(f"name in {module}:", attribute, names, listed=False) from error


def failed_import(module: str, error: ImportError) -> InputError:
    """The error for a module that does not exist, or that imports a missing module."""
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return InputError(
            f"there is no module {module!r}, installed or in {Path.cwd()}: install it, or go to its folder"
        )
    return InputError(f"importing {module} fails: {line_of(error)}; install what it needs")
