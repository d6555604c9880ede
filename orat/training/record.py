"""Values of a run as JSON, and methods out of JSON. Imports no torch, to keep help texts quick."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from orat.core.errors import unknown
from orat.core.options import field_type, field_types, has_text
from orat.core.registry import IN_MEMORY, loaded, path_of
from orat.methods import METHODS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from orat.methods.base import Method

FLOATS = (float, float | None)


class FromRecord(str):
    """A name in a record, whose code does not run."""


def method_of(name: str, values: dict[str, Any]) -> Method:
    """The method of a record: built in, of an imported class, or the fields alone; a record never imports code."""
    if name in METHODS:
        return METHODS[name](**values)
    if ":" not in name.strip(":"):
        raise unknown("method", name, METHODS)
    from orat.methods.base import Method, recorded  # here, because it imports torch

    cls = loaded(name)
    if isinstance(cls, type) and issubclass(cls, Method):
        hints = {one.name: field_type(cls, one) for one in fields(cls) if has_text(one, field_type(cls, one))}
        with suppress(KeyError, TypeError, ValueError):  # the class has changed, or the record has words for an object
            return cls(**{name: typed(value, hints[name]) for name, value in values.items()})
    return recorded(name, values)


def typed(value: Any, hint: Any) -> Any:
    """A value of a record in the type of its field: JSON has no tuples and no paths."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if isinstance(value, list) and any(get_origin(one) is tuple for one in members):
        return tuple(value)
    return Path(value) if isinstance(value, str) and Path in members else value


def described(value: Any) -> Any:
    """A value that JSON does not have, in a record: a path as text, code by its import path, else its class."""
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "__qualname__"):
        return path_of(value)
    return {one.name: getattr(value, one.name) for one in fields(value)} if is_dataclass(value) else in_words(value)


def floats(value: DataclassInstance) -> dict[str, float | None]:
    """The fields of type float, as floats even where a whole number was given."""
    hints = field_types(type(value))
    given = {one.name: getattr(value, one.name) for one in fields(value) if one.init and hints[one.name] in FLOATS}
    return {name: None if number is None else float(number) for name, number in given.items()}


def in_words(value: Any) -> str | None:
    """A name as it is, and the class of an object in memory."""
    return None if value is None else name_of(value)


def name_of(value: Any) -> str:
    """A name as it is, and the class of an object in memory."""
    return value if isinstance(value, str) else f"{IN_MEMORY}{qualname(value)}"


def qualname(value: Any) -> str:
    """The name of a class or function, or of the class of an object."""
    return str(getattr(value, "__qualname__", type(value).__qualname__))
