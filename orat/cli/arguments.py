"""Flags that commands share, and the reading of their text."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from orat.cli.flags import Parser
from orat.core.errors import InputError
from orat.core.numbers import whole


def add_command(commands: Any, name: str, run: Callable[[Namespace], int], text: str, goes_on: bool = False) -> Parser:
    """One command with what all commands share, and whether it goes on where it was stopped."""
    one: Parser = commands.add_parser(name, help=text, description=text)
    one.set_defaults(command=run, parser=one, goes_on=goes_on)
    return one


def add_places(one: Parser) -> None:
    """Where the data and the device are."""
    one.add_argument("--data-dir", metavar="DIR", help="where data sets lie (default: $ORAT_DATA, else ./data)")
    one.add_argument("--device", default="auto", help="cpu, cuda or auto (default: auto)")
    one.add_argument("--json", action="store_true", help="print the result as JSON")


def add_many(one: Parser, what: str) -> None:
    """How several runs are carried out."""
    one.add_argument("--at-once", default="8", metavar="N", help=f"{what} at once on a GPU (default: 8)")
    one.add_argument("--engine", default="auto", help="as in `orat train` (default: auto)")
    one.add_argument("--quiet", action="store_true", help="no progress")
    add_places(one)


def at_once_of(arguments: Namespace) -> int:
    """How many runs at once."""
    at_once: int = read(arguments, "at_once", whole)
    if at_once < 1:
        raise InputError(f"--at-once {at_once}: give 1 or more")
    return at_once


def read(arguments: Namespace, name: str, reader: Callable[[str], Any], default: Any = None) -> Any:
    """The value of a flag, read from its text."""
    text = getattr(arguments, name)
    try:
        return default if text is None else reader(text)
    except InputError as error:
        raise InputError(f"--{name.replace('_', '-')}: {error}") from None


def listed(text: str | None) -> tuple[str, ...]:
    """Names with commas between; none of nothing."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
