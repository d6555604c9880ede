"""Names of objects: tables of the package, plug-ins of other distributions, and `module:attribute`."""

from __future__ import annotations

import hashlib
import re
import sys
import sysconfig
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from operator import attrgetter
from os import sep
from pathlib import Path
from pkgutil import resolve_name
from textwrap import shorten
from traceback import extract_tb
from types import ModuleType
from typing import Any, TypeVar

from orat.core.errors import InputError, line_of, unknown

T = TypeVar("T")

NAMES = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"  # names with dots between them
SPEC = re.compile(rf"({NAMES}|.+\.py):({NAMES})")  # module:attribute or file.py:attribute
LETTERS = 200  # of an error of a user's code
IN_MEMORY = "in memory: "  # in a record, before the class of an object
CODE = "__code_as_read__"  # the attribute of a module with the bytes of its file
FILE = "__file_as_named__"  # the attribute of a module with the path that named its file


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
        if ":" not in name and not name.endswith(".py"):
            raise unknown(self.kind, name, self)
        found: T = resolve(name)
        return found

    def name_of(self, found: type) -> str:
        """The name of a class; its import path if the table does not have it."""
        path = path_of(found)
        return next((name for name, place in self.places.items() if place == path), path)


def path_of(found: Any) -> str:
    """The import path of a class or function: module:attribute, or file.py:attribute for a file that was named."""
    where = getattr(sys.modules.get(found.__module__), FILE, found.__module__)
    return f"{where}:{found.__qualname__}"


@cache
def plugins(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name; loading an entry point imports its module."""
    return {point.name: point for point in entry_points(group=group)}


def imported(package: str, places: Mapping[str, str], name: str) -> Any:
    """A public name of a package, for its `__getattr__`: imported from its module at the first use."""
    if name not in places:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return resolve_name(places[name])


def names_code(name: str) -> bool:
    """Whether a name is that of an object in a module or a file: package.module:attribute or path/file.py:attribute."""
    return SPEC.fullmatch(name) is not None


def resolve(spec: str) -> Any:
    """The object at package.module:attribute, installed or in the current directory, or at path/file.py:attribute."""
    parts = SPEC.fullmatch(spec)
    if parts is None:
        raise InputError(f"{spec!r} is no import path: give package.module:attribute or path/file.py:attribute")
    where, attribute = parts.groups()
    with as_input_error(f"importing {where}", "check that Python can import it"):
        owner = module_of_file(Path(where)) if where.endswith(".py") else module_of(where)
    try:
        return attrgetter(attribute)(owner)
    except AttributeError as error:
        raise no_attribute(where, attribute, owner) from error


def loaded(path: str) -> Any:
    """The object at an import path whose module is imported already, else None; imports nothing."""
    where, _, attribute = path.rpartition(":")
    owner = sys.modules.get(name_of_file(Path(where)) if where.endswith(".py") else where)
    try:
        return attrgetter(attribute)(owner)
    except AttributeError:
        return None


def no_attribute(where: str, name: str, module: ModuleType) -> InputError:
    """The error for an unknown name, with the most similar name of the module; its own come before imported names."""
    public = {key: value for key, value in vars(module).items() if not key.startswith("_")}
    names = [key for key, value in public.items() if own(value, module)] or list(public)
    return unknown(f"name in {where}:", name, names, listed=False)


@contextmanager
def as_input_error(what: str, advice: str) -> Iterator[None]:
    """Turns any error of a user's code, and a script that exits when imported, into one line."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        text = shorten(line_of(error), LETTERS, placeholder=" ...")
        raise InputError(f"{what} fails with {type(error).__name__}: {text}{place_of(error)}; {advice}") from error


def place_of(error: BaseException) -> str:
    """The last line of a user's code before an error, in words; empty if the error is in no file of theirs."""
    ours = [str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), f"{sep}torch{sep}", "<"]
    frames = [frame for frame in extract_tb(error.__traceback__) if not any(part in frame.filename for part in ours)]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def digest_of(spec: str) -> str:
    """A hash of the file that holds the object at an import path, as read by this process; empty if there is none.

    Imports nothing. Ends of lines do not count, which version control may change.
    """
    where = spec.rpartition(":")[0]
    file = Path(where) if where.endswith(".py") else file_of(where)
    there = sys.modules.get(name_of_file(file)) if file is not None and where.endswith(".py") else None
    content = vars(there).get(CODE) if there is not None else file.read_bytes() if file and file.is_file() else None
    return "" if content is None else hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()[:16]


def file_of(name: str) -> Path | None:
    """The file of a module, installed or in the current directory; None for a script and for what has no file."""
    make_importable(Path.cwd())
    try:
        found = None if name == "__main__" else find_spec(name)
    except (ImportError, AttributeError, ValueError):
        return None
    return Path(found.origin) if found and found.origin and found.has_location else None


def module_of(name: str) -> ModuleType:
    """A module, installed or in the current directory."""
    make_importable(Path.cwd())
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise  # an import inside of the module fails
        raise InputError(
            f"there is no module {name!r}, installed or in {Path.cwd()}: install it, go to its folder, or give "
            "path/file.py:attribute"
        ) from None


def module_of_file(file: Path) -> ModuleType:
    """The module of a file, run once; it may import its neighbors, as when run as a script."""
    if not file.is_file():
        place = "" if file.is_absolute() else f" in {Path.cwd()}"
        raise InputError(f"there is no file {file}{place}: give path/file.py:attribute")
    name = name_of_file(file)
    if name in sys.modules:
        return sys.modules[name]
    make_importable(file.parent)
    found = spec_from_file_location(name, file)
    assert found is not None  # since the name ends in .py
    assert found.loader is not None
    module = module_from_spec(found)
    setattr(module, FILE, str(file))
    setattr(module, CODE, file.read_bytes())
    sys.modules[name] = module  # where dataclasses look up their module
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def name_of_file(file: Path) -> str:
    """The name of the module of a file, which no other module has."""
    return f"orat_file_{file.stem}_{zlib.crc32(str(file.resolve()).encode()):08x}"


def make_importable(folder: Path) -> None:
    """Puts a folder first on Python's path, for good: code may import modules when it runs."""
    path = str(folder.resolve())
    if path not in sys.path:
        sys.path.insert(0, path)


def own(value: Any, module: ModuleType) -> bool:
    """Whether a module defines a value; a value that is no class, function or module is taken for its own."""
    if not hasattr(value, "__qualname__"):
        return not isinstance(value, ModuleType)
    return getattr(value, "__module__", None) == module.__name__


def check_trust(name: object, what: str, trust: bool, caller: str = "command") -> None:
    """Refuses to run code that a record or a file names; `what` is the flag or argument that would name the code now.

    `caller` is command or call, for the words of the remedy, or either.
    """
    if isinstance(name, str) and names_code(name) and not trust:
        flags, words = f"give --{what} {name} in this command, or --trust", f"give {what}={name!r}, or trust=True"
        remedy = {"command": flags, "call": words, "either": f"{flags}; in Python, {words}"}[caller]
        raise InputError(f"{what} {name} is code that a file names: {remedy}")


class FromRecord(str):
    """A name in a record, whose code does not run."""


def in_words(value: Any) -> str | None:
    """A name as it is, and the class of an object in memory."""
    return None if value is None else name_of(value)


def name_of(value: Any) -> str:
    """A name as it is, and the class of an object in memory."""
    return value if isinstance(value, str) else f"{IN_MEMORY}{qualname(value)}"


def qualname(value: Any) -> str:
    """The name of a class or function, or of the class of an object."""
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def described(value: Any) -> Any:
    """A value that JSON does not have, in a record: a path as text, code by its import path, else its class."""
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "__qualname__"):
        return path_of(value)
    return {one.name: getattr(value, one.name) for one in fields(value)} if is_dataclass(value) else in_words(value)
