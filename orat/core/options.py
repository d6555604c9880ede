"""Fields of dataclasses that are also flags of the command line, and the checks that all of them share."""

from __future__ import annotations

from dataclasses import field, fields
from math import isfinite
from typing import Any, Literal, get_args, get_origin, get_type_hints

from orat.core.errors import InputError, unknown


def option(default: Any, help: str, **more: Any) -> Any:  # noqa: A002
    """A field that is also a flag of the command line, with the text that explains it."""
    return field(default=default, metadata={"help": help, **more})


def burn_in_option(unset: str) -> Any:
    """The epochs before a method does what it is for; `unset` says how many where nothing is said."""
    text = "epochs of the plain form before the first cut, weight or correction"
    return option(None, text, least=0, unset=unset)


def check_choices(value: object) -> None:
    """Refuses a field of a dataclass that is none of the choices its type lists."""
    for name, hint in get_type_hints(type(value)).items():
        if get_origin(hint) is Literal and getattr(value, name) not in get_args(hint):
            raise unknown(name.replace("_", " "), str(getattr(value, name)), get_args(hint))


def check_numbers(value: object) -> None:
    """Refuses a number that is not finite, not whole where it must be, or out of its option's range."""
    hints = get_type_hints(type(value))
    for one in fields(value):  # type: ignore[arg-type]
        number, least, most = getattr(value, one.name), one.metadata.get("least"), one.metadata.get("most")
        if isinstance(number, float) and not isfinite(number):
            raise InputError(f"{one.name} = {number}: give a finite number")
        if isinstance(number, float) and hints[one.name] in (int, int | None):
            raise InputError(f"{one.name} = {number}: give a whole number")
        if least is not None and number is not None and number < least:
            raise InputError(f"{one.name} = {number}: give {least} or more")
        if most is not None and number > most:
            raise InputError(f"{one.name} = {number}: give {most} or less")
