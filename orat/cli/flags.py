"""Flags: the parser of the command line, flags that commands share, and a flag for every field of a run."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin

from orat.cli.config import read_config
from orat.cli.renamed import check_removed
from orat.core.errors import InputError, unknown
from orat.core.options import default_of, field_types, flag, has_text, text_of, whole
from orat.core.registry import names_code
from orat.methods import METHODS
from orat.training.defaults import BY_DATA, DEFAULTS
from orat.training.run import Run
from orat.training.text import method_class, methods_with

GROUPS = {  # of the fields of a run, in the order of the help
    "data": (
        "data", "image_size", "class_depth", "target", "bounds", "frozen", "labels", "validation", "augment",
    ),
    "added label noise": ("noise", "noise_rate", "noise_seed"),
    "network": ("model", "init_from", "normalize"),
    "attack": (
        "eps", "norm", "attack", "attack_steps", "attack_step_size", "attack_start", "attack_warmup", "attack_mode",
    ),
    "optimization": (
        "epochs", "batch_size", "lr", "milestones", "warmup", "momentum", "weight_decay", "precision", "seed",
    ),
}  # fmt: skip
SHOWN = {  # values by type, as the help shows them
    int: "N", int | None: "N", float: "X", float | None: "X", int | float: "N|X", int | float | None: "N|X",
    tuple[int, ...]: "N,N,...", tuple[int, int] | None: "HxW", list[str]: "NAMES", str: "TEXT", Path: "PATH",
}  # fmt: skip


class Parser(ArgumentParser):
    """A parser with one-line errors and without shortened flags; `grow` may add flags that depend on the words."""

    grow: Callable[[list[str]], None] | None = None

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        missing = message.removeprefix("the following arguments are required: ")
        raise InputError(message if missing == message else f"{missing} is missing: see {self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments, and the words that no flag takes."""
        if self.grow is not None:
            self.grow(args or [])
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: Action, value: Any) -> None:
        """Refuses an unknown command with the nearest name."""
        if action.choices is not None and value not in action.choices:
            check_removed(value)
            raise unknown("command", value, action.choices)

    def parse(self, words: list[str]) -> Namespace:
        """The arguments of a command line; refuses words that no flag takes."""
        arguments, rest = self.parse_known_args(words)
        if rest:
            raise unexpected(rest[0], arguments)
        return arguments


def unexpected(word: str, arguments: Namespace) -> InputError:
    """The error for a word that no flag takes: a removed flag, a flag of other methods, or a misspelled one."""
    name = word.partition("=")[0]
    check_removed(name)
    if not word.startswith("--"):
        return InputError(f"do not know what to do with {word!r}: flags start with --")
    if "texts" in arguments:
        method = arguments.texts.get("method")
        if method is not None and method not in METHODS and not names_code(method):
            return unknown("method", method, METHODS)
        if users := methods_with(name[2:].replace("-", "_")):
            wrong = ": give one of them as --method" if method is None else f", not for {method}: leave it out"
            return InputError(f"{name} is for {', '.join(users)}{wrong}")
    flags = [text for action in arguments.parser._actions for text in action.option_strings]
    return unknown("flag", name, flags, listed=False)


def add_command(commands: Any, name: str, run: Callable[[Namespace], int], text: str, goes_on: bool = False) -> Parser:
    """Adds a command; `goes_on` says whether the same command again continues after an interruption."""
    one: Parser = commands.add_parser(name, help=text, description=text)
    one.set_defaults(command=run, parser=one, goes_on=goes_on)
    return one


def add_places(one: Any) -> None:
    """Adds the flags for the data folder, the device and JSON."""
    one.add_argument("--data-dir", metavar="DIR", help="folder of the data sets (default: $ORAT_DATA, else ./data)")
    one.add_argument("--device", default="auto", help="cpu, cuda or auto (default: auto)")
    one.add_argument("--json", action="store_true", help="print the result as JSON")


def add_many(one: Any, runs: str) -> None:
    """Adds the flags for several runs at once; `runs` names them."""
    one.add_argument("--at-once", default="8", metavar="N", help=f"{runs} at once on a GPU (default: 8)")
    one.add_argument(
        "--engine", default="auto", help="how steps are executed: plain, folded, recorded, compiled (default: auto)"
    )
    one.add_argument("--quiet", action="store_true", help="show no progress")
    add_places(one)


def at_once_of(arguments: Namespace) -> int:
    """The number of runs at once."""
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
        raise InputError(f"{flag(name)}: {error}") from None


def listed(text: str | None) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def assignment(name: str, text: str) -> tuple[str, str]:
    """The field and the values of a flag such as `--vary seed=0,1,2`."""
    field, equals, values = text.partition("=")
    field = field.strip().removeprefix("--").replace("-", "_")
    if not equals or not values.strip(" ,"):
        raise InputError(f"--{name} {text} names no values: write it as {field}=A,B,...")
    return field, values


def add_run_flags(one: Parser) -> None:
    """Adds a flag for every field of a run; while parsing, also for the fields of the methods that are named.

    The values stay texts, in `arguments.texts` by field, until `run_from` reads them.
    """
    one.set_defaults(texts={}, base={})
    by_name = {field.name: field for field in fields(Run)}
    grouped = {"run": [name for name in by_name if not any(name in group for group in GROUPS.values())], **GROUPS}
    for title, names in grouped.items():
        group = one.add_argument_group(title)
        for name in names:
            by_data = name in BY_DATA or any(name in defaults for defaults in DEFAULTS.values())
            add_flag(group, by_name[name], field_types(Run)[name], "by data" if by_data else None)
        if title == "run":
            add_config_flags(group)
    one.epilog = f"Methods have flags of their own, yours too; see {one.prog} --method orat --help."
    one.grow = partial(grow, one)


def add_config_flags(group: Any) -> None:
    """Adds the flags of a file of settings, which `grow` reads before all others."""
    group.add_argument("--config", metavar="FILE", help="values of flags in TOML, such as the run.toml of a run")
    group.add_argument("--trust", action="store_true", help="run code that FILE names as module:attribute")


def grow(one: Parser, words: list[str]) -> None:
    """Reads the file of settings that a command line names, and adds the flags of all methods that are named."""
    settings = Parser(add_help=False)
    settings.add_argument("--config", nargs="?")
    settings.add_argument("--trust", action="store_true")
    first, _ = settings.parse_known_args(words)
    names = named_methods(words)
    if first.config is not None:
        config = read_config(Path(first.config), given_fields(words), names, first.trust)
        one.set_defaults(texts=config.texts, base=config.texts, **config.places)
        names = names or [config.texts[name] for name in ("method",) if name in config.texts]
    add_method_flags(one, names)


def given_fields(words: list[str]) -> set[str]:
    """The fields that a command line sets, those of --vary and --over among them."""
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    return {name.removeprefix("--").replace("-", "_") for name in flags} | varied(words).keys()


def varied(words: list[str]) -> dict[str, str]:
    """The fields of --vary and --over, each with its values."""
    first = Parser(add_help=False)
    for name in ("--vary", "--over"):
        first.add_argument(name, nargs="?", action="append", default=[], dest="several")
    arguments, _ = first.parse_known_args(words)
    parts = (text.partition("=") for text in arguments.several if text)
    return {name.strip().removeprefix("--").replace("-", "_"): values for name, _, values in parts}


def add_method_flags(one: Parser, names: list[str]) -> None:
    """Adds the flags of methods."""
    known = {action.dest for action in one._actions}
    one.epilog = None if names else one.epilog
    for name in names:
        cls = method_class(name)
        group = one.add_argument_group(f"method {name}")
        for field in fields(cls):
            hint = field_types(cls)[field.name]
            if field.name not in known and has_text(field, hint):
                add_flag(group, field, hint)
        known |= {field.name for field in fields(cls)}


def named_methods(words: list[str]) -> list[str]:
    """The methods after --method, and those that --vary or --over list."""
    first = Parser(add_help=False)
    first.add_argument("--method", nargs="?", action="append", default=[])
    arguments, _ = first.parse_known_args(words)
    names = [*arguments.method, *listed(varied(words).get("method"))]
    return [name for name in dict.fromkeys(names) if name and (name in METHODS or names_code(name))]


class Text(Action):
    """Keeps the text of a flag in `arguments.texts`."""

    def __call__(self, parser: Any, namespace: Namespace, values: Any, option_string: Any = None) -> None:
        namespace.texts = {**namespace.texts, self.dest: values}


def add_flag(group: Any, field: Field[Any], hint: Any, default: str | None = None, action: Any = Text) -> None:
    """Adds the flag of a field; by default, its text is kept in `arguments.texts`."""
    default = default_text(field) if default is None else default
    words = field.metadata.get("help", "") + (f" (default: {default})" if default else "")
    text = words.strip().replace("%", "%%")
    settings: dict[str, Any] = {"metavar": shown(field, hint)}
    if hint is bool:
        settings = {"nargs": "?", "const": "yes", "metavar": "yes|no"}
    group.add_argument(flag(field.name), action=action, dest=field.name, default=SUPPRESS, help=text, **settings)


def shown(field: Field[Any], hint: Any) -> str:
    """A field's value in the help: its choices, or a word for its type."""
    choices: Iterable[Any] = literal(hint)
    if choices:
        return "{" + ",".join(map(str, choices)) + "}"
    return field.metadata.get("shown") or SHOWN.get(hint, field.name.upper())


def default_text(field: Field[Any]) -> str:
    """A field's default in words; empty if there is none."""
    default = default_of(field)
    if "unset" in field.metadata:
        return str(field.metadata["unset"])
    return "" if default is None or default is MISSING else text_of(default)


def literal(hint: Any) -> tuple[Any, ...]:
    """The choices of a Literal type; no choices for any other type."""
    return get_args(hint) if get_origin(hint) is Literal else ()
