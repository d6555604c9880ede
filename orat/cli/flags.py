"""Fields of dataclasses <-> flags of the command line: a field is declared once, with its type, default and help."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import Field, fields, replace
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from orat.core.errors import InputError, unknown
from orat.core.numbers import amount, number, whole, wholes
from orat.methods import METHODS, Method
from orat.training.defaults import DEFAULTS
from orat.training.run import Run


class Parser(ArgumentParser):
    """A parser whose errors are one line, and that takes no shortened flags."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise InputError(message)

    def parse(self, argv: list[str]) -> Namespace:
        """The arguments; an unknown flag is answered with the nearest one."""
        arguments, rest = self.parse_known_args(argv)
        if not rest:
            return arguments
        if rest[0].startswith("--"):
            flags = [flag for action in arguments.parser._actions for flag in action.option_strings]
            raise unknown("flag", rest[0].partition("=")[0], flags, listed=False)
        raise InputError(f"do not know what to do with {rest[0]!r}: flags start with --")


def add_run_flags(parser: Parser) -> None:
    """A flag for every field of a run, and for every field of a method under the names of the methods that have it."""
    general = parser.add_argument_group("run")
    for field in fields(Run):
        by_data = any(field.name in defaults for defaults in DEFAULTS.values())
        add_flag(general, field, get_type_hints(Run)[field.name], "by data set" if by_data else default_of(field))
    groups: dict[str, Any] = {}
    for cls in METHODS.values():
        for field in fields(cls):
            users = methods_with(field.name)
            if METHODS[users[0]] is not cls:
                continue  # added with the first of them
            title = f"of {', '.join(users)}"
            groups[title] = groups.get(title) or parser.add_argument_group(title)
            defaults = {default_of(fields_of(METHODS[user])[field.name]) for user in users}
            default = defaults.pop() if len(defaults) == 1 else "by method"
            add_flag(groups[title], field, get_type_hints(cls)[field.name], default)


def default_of(field: Field[Any]) -> str:
    """What a field is where nothing is said, in words; nothing for one that has no default."""
    if "unset" in field.metadata:
        return str(field.metadata["unset"])
    if isinstance(field.default, bool):
        return "yes" if field.default else "no"
    return "" if field.default is None else str(field.default)


def add_flag(group: Any, field: Field[Any], hint: Any, default: str) -> None:
    """One field as a flag; its value stays text until `run_from` reads it."""
    choices = literal(hint)
    shown = "{" + ",".join(choices) + "}" if choices else field.name.upper()
    text = field.metadata["help"] + (f" (default: {default})" if default else "")
    settings: dict[str, Any] = {"metavar": shown, "help": text.replace("%", "%%")}
    if hint is bool:
        settings = {"nargs": "?", "const": "yes", "metavar": "yes|no", "help": settings["help"]}
    group.add_argument("--" + field.name.replace("_", "-"), dest=field.name, default=None, **settings)


def run_from(arguments: Namespace) -> Run:
    """The run that the flags describe."""
    if arguments.method is None:
        raise InputError(f"--method is not given: choose one of {', '.join(METHODS)}")
    if arguments.method not in METHODS:
        raise unknown("method", arguments.method, METHODS)
    cls = METHODS[arguments.method]
    own = {field.name for field in fields(cls)}
    for other in METHODS.values():
        for field in fields(other):
            if field.name not in own and getattr(arguments, field.name) is not None:
                names = ", ".join(methods_with(field.name))
                raise InputError(
                    f"--{field.name.replace('_', '-')} is for {names}, not for {arguments.method}: leave it out"
                )
    method = cls(**given(cls, arguments))
    return Run(method=method, **given(Run, arguments, leave_out="method"))


def given(cls: type[Run] | type[Method], arguments: Namespace, leave_out: str = "") -> dict[str, Any]:
    """The values that were given for the fields of a class, read from their text."""
    hints = get_type_hints(cls)
    values = {}
    for field in fields(cls):
        text = getattr(arguments, field.name)
        if text is None or field.name == leave_out:
            continue
        try:
            values[field.name] = reader(field, hints[field.name])(text)
        except InputError as error:
            raise InputError(f"--{field.name.replace('_', '-')}: {error}") from None
    return values


def reader(field: Field[Any], hint: Any) -> Callable[[str], Any]:
    """What turns a flag's text into the field's value."""
    if "parse" in field.metadata:
        return field.metadata["parse"]
    if choices := literal(hint):
        return lambda text: one_of(text, choices, field.name)
    readers: dict[Any, Callable[[str], Any]] = {
        int: whole, float: number, str: str, bool: yes_or_no, int | float: amount, str | None: str,
        int | None: whole, int | float | None: amount,
        tuple[int, ...]: wholes,
    }  # fmt: skip
    return readers[hint]


def literal(hint: Any) -> tuple[str, ...]:
    """The choices of a Literal type; none for another type."""
    return get_args(hint) if get_origin(hint) is Literal else ()


def one_of(text: str, choices: tuple[str, ...], name: str) -> str:
    """A text that must be one of the choices."""
    if text not in choices:
        raise unknown(name.replace("_", " "), text, choices)
    return text


def yes_or_no(text: str) -> bool:
    """A switch."""
    return one_of(text, ("yes", "no"), "answer") == "yes"


def fields_of(cls: type[Method]) -> dict[str, Field[Any]]:
    """The fields of a method by name."""
    return {field.name: field for field in fields(cls)}


def methods_with(name: str) -> list[str]:
    """The methods that have a field of this name."""
    return [method for method, cls in METHODS.items() if name in fields_of(cls)]


def written(name: str, value: Any) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ("x" if name == "image_size" else ",").join(str(part) for part in value)
    return str(value)


def flags_of(run: Run) -> Namespace:
    """The flags that give a run; what it takes from others by itself is left out, so that it follows them."""
    flags: dict[str, str | None] = {field.name: None for cls in (*METHODS.values(), Run) for field in fields(cls)}
    for field in fields(Run):
        if field.name != "method" and not follows(run, field.name, {field.name: field.default}):
            flags[field.name] = written(field.name, getattr(run, field.name))
    for field in fields(run.method):
        if not follows(run, "method", {field.name: field.default}):
            flags[field.name] = written(field.name, getattr(run.method, field.name))
    return Namespace(**flags | {"method": run.method_name})


def follows(run: Run, name: str, unset: dict[str, Any]) -> bool:
    """Whether a run comes out the same with one of its fields, or of its method's, left to itself."""
    try:
        return run == replace(run, **({"method": replace(run.method, **unset)} if name == "method" else unset))
    except InputError:
        return False
