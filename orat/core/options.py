"""Options: fields of dataclasses with a help text, checked by their types, read from text and written as text."""

from __future__ import annotations

import builtins
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, field, fields
from fractions import Fraction
from functools import partial
from math import isfinite
from numbers import Integral, Real
from os import PathLike, fspath
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from orat.core.errors import InputError, unknown

WANTED = {
    int: "a whole number", float: "a number", str: "a text", bool: "True or False", NoneType: "None",
    tuple[int, ...]: "a tuple of whole numbers, such as (20, 40)", tuple[int, int]: "a tuple of two whole numbers",
    tuple[str, ...]: "a tuple of names, such as ('age', 'sex')",
}  # fmt: skip

Reader = Callable[[str], Any]
UNSET = "none"  # the text of None
PERCENT = re.compile(r"([0-9]+\.?[0-9]*) ?%")
PIXEL = 255  # a radius in linf is often a number of its 255ths


def number(text: str) -> float:
    """A number, or a quotient such as 8/255."""
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError):
        share = PERCENT.fullmatch(text)
        example = f"{float(share[1]) / 100:g}" if share else "0.03 or 8/255"
        raise InputError(f"{text!r} is not a number: write it as {example}") from None


def norm_of(given: object) -> str:
    """The name of a norm from its usual spellings: linf for inf or "Linf", l2 for 2 or "L_2", l1 for 1."""
    text = str(given).lower().replace("_", "").replace("-", "").removesuffix(".0").removeprefix("l")
    return f"l{text.removesuffix('inity')}"


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{text!r} is not a whole number") from None


def limits(text: str) -> str | tuple[float, float]:
    """Bounds: data, none, or two numbers such as 0,100."""
    if text in ("data", "none"):
        return text
    parts = text.split(",")
    if len(parts) != 2:
        raise InputError(f"{text!r} is no range: give data, none, or two numbers LOW,HIGH")
    return number(parts[0]), number(parts[1])


def radius(eps: float) -> str:
    """A radius for people: 0.1, or 8/255 (0.0314) where a quotient is shorter."""
    pixels = round(eps * PIXEL)
    if not is_short(eps) and abs(pixels - eps * PIXEL) < 1e-9:
        return f"{pixels}/{PIXEL} ({eps:.4f})"
    return f"{eps:g}"


def quotient(eps: float) -> str:
    """A radius as text, which reads as the same number: 8/255 where this is shorter."""
    pixels = f"{round(eps * PIXEL)}/{PIXEL}"
    return pixels if in_pixels(eps, "linf") and number(pixels) == eps else str(eps)


def in_pixels(eps: float, norm: str) -> bool:
    """Whether a radius is a quotient k/255 without a shorter decimal form; 51/255 is 0.2."""
    return norm == "linf" and not is_short(eps) and abs(round(eps * PIXEL) / PIXEL - eps) < 1e-6


def is_short(value: float) -> bool:
    """Whether four digits write the number exactly."""
    return float(f"{value:.4g}") == value


def option(default: Any, help: str, **more: Any) -> Any:  # noqa: A002
    """A dataclass field with a help text; the command line has a flag for it.

    `least` and `most` bound a number. `unset` describes a default of None. `shown` is the value in the help text.
    `parse` and `write` replace the text form of the type. `type` replaces the annotation.
    """
    return field(default=default, metadata={"help": help, **more})


def flag(name: str) -> str:
    """The flag of a field: --batch-size for batch_size."""
    return "--" + name.replace("_", "-")


def field_types(cls: type) -> dict[str, Any]:
    """The type of every field of a dataclass."""
    return {one.name: field_type(cls, one) for one in fields(cls)}


def field_type(cls: type, one: Field[Any]) -> Any:
    """The type of one field, evaluated in the module of its class; Any where that module does not have its name.

    `typing.get_type_hints` evaluates all annotations at once, and fails if one is imported for the type checker alone.
    """
    if "type" in one.metadata or not isinstance(one.type, str):
        return one.metadata.get("type", one.type)
    owner = next(base for base in cls.__mro__ if one.name in inspect.get_annotations(base))
    try:
        return eval(one.type, vars(sys.modules.get(owner.__module__, builtins)))
    except NameError:
        return Any


def default_of(one: Field[Any]) -> Any:
    """The default of a field; MISSING if there is none."""
    return one.default if one.default_factory is MISSING else one.default_factory()


def has_text(one: Field[Any], hint: Any) -> bool:
    """Whether a field of this type can be read from text, and so has a flag."""
    try:
        reader(one, hint)
    except InputError:
        return False
    return one.init


def check_choices(value: object) -> None:
    """Refuses a field whose value is none of the choices of its Literal type; None stands for a value to be chosen."""
    hints = field_types(type(value))
    for one in fields(value):  # type: ignore[arg-type]
        hint, given = hints[one.name], getattr(value, one.name)
        if get_origin(hint) is Literal and given not in get_args(hint) and not (given is one.default is None):
            raise unknown(words(one.name), str(given), get_args(hint))


def check_numbers(value: object) -> None:
    """Refuses a number that is infinite or NaN, a fraction where the type is int, or a number out of its range."""
    hints = field_types(type(value))
    for one in fields(value):  # type: ignore[arg-type]
        given, least, most = getattr(value, one.name), one.metadata.get("least"), one.metadata.get("most")
        if isinstance(given, float) and not isfinite(given):
            raise InputError(f"{one.name} = {given}: give a finite number")
        if isinstance(given, float) and hints[one.name] in (int, int | None):
            raise InputError(f"{one.name} = {given}: give a whole number")
        if least is not None and given is not None and given < least:
            raise InputError(f"{one.name} = {given}: give {least} or more")
        if most is not None and given is not None and given > most:
            raise InputError(f"{one.name} = {given}: give {most} or less")


def reader(one: Field[Any], hint: Any) -> Reader:
    """The function that reads a field of this type from text."""
    return one.metadata.get("parse") or reader_of(hint, one.name)


def reader_of(hint: Any, name: str) -> Reader:
    """The function that reads a value of this type from text; `name` is for error messages."""
    simple: dict[Any, Reader] = {int: whole, float: number, str: str, Path: Path, bool: yes_or_no, NoneType: none}
    if hint in simple:
        return simple[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return partial(one_of, choices=arguments, name=name)
    if origin in (Union, UnionType):
        return partial(first_of, readers=[reader_of(member, name) for member in sorted(arguments, key=generality)])
    if origin is list or (origin is tuple and arguments[1:] == (...,)):
        return partial(sequence, kind=origin, read=reader_of(arguments[0], name))
    if origin is tuple:
        return partial(row, readers=[reader_of(member, name) for member in arguments])
    raise InputError(f"{name} is of type {hint}, which has no text form: set it in Python")


def generality(member: Any) -> int:
    """The rank of a type in a union, for reading: None first, whole numbers before fractions, text last."""
    return {NoneType: 0, bool: 1, float: 3, Path: 4, str: 5}.get(member, 2)


def first_of(text: str, readers: Iterable[Reader]) -> Any:
    """The value by the first reader that accepts the text; where none does, the error of the last."""
    refusal = InputError(f"{text!r} has no meaning here")
    for read in readers:
        try:
            return read(text)
        except InputError as error:
            refusal = error
    raise refusal


def sequence(text: str, kind: type, read: Reader) -> Any:
    """Values with commas between them; an empty text is an empty sequence."""
    return kind(read(part.strip()) for part in text.split(",") if part.strip())


def row(text: str, readers: list[Reader]) -> tuple[Any, ...]:
    """A fixed number of values with commas between them."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != len(readers):
        raise InputError(f"{text!r}: give {len(readers)} values with commas between them")
    return tuple(read(part) for read, part in zip(readers, parts, strict=True))


def one_of(text: str, choices: Iterable[Any], name: str) -> Any:
    """The choice with this text."""
    by_text = {str(choice): choice for choice in choices}
    if text not in by_text:
        raise unknown(words(name), text, by_text)
    return by_text[text]


def yes_or_no(text: str) -> bool:
    """A switch."""
    return bool(one_of(text, ("yes", "no"), "answer") == "yes")


def none(text: str) -> None:
    """The absence of a value."""
    if text != UNSET:
        raise InputError(f"{text!r} is not {UNSET}")


def written(one: Field[Any], value: Any) -> str:
    """The text of a field's value, from which `reader` gives the value back."""
    write: Callable[[Any], str] = one.metadata.get("write", text_of)
    return text_of(value) if value is None else write(value)


def text_of(value: Any) -> str:
    """The text of a value."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ",".join(map(text_of, value))
    return UNSET if value is None else str(value)


def words(name: str) -> str:
    """A field's name for people."""
    return name.replace("_", " ")


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
