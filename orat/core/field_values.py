"""The values of fields of dataclasses, taken by their annotations."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from numbers import Integral, Real
from os import PathLike, fspath
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from orat.core.errors import InputError
from orat.core.options import field_types, generality, number

WANTED = {
    int: "a whole number", float: "a number", str: "a text", bool: "True or False", NoneType: "None",
    tuple[int, ...]: "a tuple of whole numbers, such as (20, 40)", tuple[int, int]: "a tuple of two whole numbers",
    tuple[str, ...]: "a tuple of names, such as ('age', 'sex')",
}  # fmt: skip


def take_types(value: object) -> None:
    """Refuses a field of another type than its annotation says; lists become tuples, NumPy's numbers Python's.

    A field with `as_text` takes numbers as texts, such as 8/255. Annotations besides those of `WANTED` are not checked.
    """
    hints = field_types(type(value))
    for one in fields(value):  # type: ignore[arg-type]
        given, members = getattr(value, one.name), members_of(hints[one.name])
        if isinstance(given, str) and one.metadata.get("as_text"):
            with suppress(InputError):
                given = number(given)
        if "type" in one.metadata or given is one.default or not all(member in WANTED for member in members):
            continue
        found = next((taken for member in members if (taken := taken_as(member, given)) is not MISSING), MISSING)
        if found is MISSING:
            raise InputError(f"{one.name} = {given!r}: give {wanted(members)}")
        object.__setattr__(value, one.name, found)


def wanted(members: Sequence[Any]) -> str:
    """The types for people."""
    return " or ".join(WANTED[member] for member in reversed(members) if member is not int or float not in members)


def members_of(hint: Any) -> tuple[Any, ...]:
    """The types of a union, the most special first; another type alone."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(sorted(members, key=generality)) if len(members) > 1 else members


def taken_as(member: Any, given: Any) -> Any:
    """A value as one of the types in `WANTED`; MISSING where it is of another type."""
    if get_origin(member) is tuple:
        if not isinstance(given, tuple | list):
            return MISSING
        kinds = get_args(member) if get_args(member)[1:] != (...,) else get_args(member)[:1] * len(given)
        parts = [taken_as(kind, part) for kind, part in zip(kinds, given, strict=False)]
        return MISSING if len(kinds) != len(given) or MISSING in parts else tuple(parts)
    if member is str and isinstance(given, PathLike):
        return fspath(given)
    if member in (str, bool, NoneType):
        return given if isinstance(given, member) else MISSING
    number_like = isinstance(given, Integral if member is int else Real) and not isinstance(given, bool)
    if not number_like:
        return MISSING
    return given if isinstance(given, int | float) else int(given) if isinstance(given, Integral) else float(given)
