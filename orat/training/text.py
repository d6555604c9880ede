"""Runs as text: the values of their fields on the command line and in a search, and a file of settings in TOML."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, replace
from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING, Any, get_args

from orat.core.errors import InputError, unknown
from orat.core.options import PIXEL, default_of, field_types, flag, has_text, in_pixels, reader, text_of, written
from orat.core.registry import IN_MEMORY, as_input_error, in_words, name_of
from orat.methods import METHODS
from orat.training.run import Run

if TYPE_CHECKING:
    from orat.methods.base import Method

LETTERS = 80  # of a comment
HEAD = """\
# A run of orat. To train the run again: orat train --config THIS_FILE --out NEW_FOLDER
# Flags override the file. Paths are as they were given, relative to the folder of that command.

"""
Declared = Mapping[str, tuple[Field[Any], Any]]  # fields by name, each with its type
# By the names of the fields of a run and of its method; what has no text, such as a network in memory, is as it is.
Texts = Mapping[str, Any]


def run_from(texts: Texts) -> Run:
    """The run with these values; a field without a text keeps its default."""
    given = {name: text for name, text in texts.items() if text is not None}
    name = given.get("method")
    if name is None:
        raise InputError(f"--method is not given: choose one of {', '.join(METHODS)}")
    cls = method_class(name)
    own = {field.name for field in (*fields(Run), *fields(cls))}
    if strangers := [field for field in given if field not in own]:
        raise not_of(strangers[0], cls)
    check_given(cls, given)
    with as_input_error(f"{cls.__name__} with these fields", "give other values"):
        method = cls(**values(cls, given))
    return Run(method=method, **values(Run, {field: text for field, text in given.items() if field != "method"}))


def method_class(name: str | type) -> type[Method]:
    """The class of a method by its name, or at module:attribute, or as it is."""
    from orat.methods.base import Method, check_class  # here, because it imports torch

    cls: Any = METHODS.load(name) if isinstance(name, str) else name
    if not (isinstance(cls, type) and issubclass(cls, Method)):
        kind = "function" if inspect.isroutine(cls) else type(cls).__name__
        raise InputError(f"{name} is a {kind}, no training method: give a class derived from orat.Method")
    check_class(cls)
    return cls


def check_given(cls: type[Method], given: Texts) -> None:
    """Refuses a method without a value for a field that has no default."""
    for field in fields(cls):
        if field.init and field.name not in given and default_of(field) is MISSING:
            raise InputError(f"{flag(field.name)} is not given: {cls.__name__} has no default for it")


def values(cls: type, texts: Texts) -> dict[str, Any]:
    """The values of the fields of a class that have a text."""
    found = {}
    for field in fields(cls):
        if field.name not in texts:
            continue
        found[field.name] = text = texts[field.name]
        try:
            if isinstance(text, str):
                found[field.name] = reader(field, field_types(cls)[field.name])(text)
        except InputError as error:
            raise InputError(f"{flag(field.name)}: {error}") from None
    return found


def not_of(name: str, cls: type[Method]) -> InputError:
    """The error for a field that a run of this method does not have."""
    users = methods_with(name)
    if users:
        return InputError(f"{flag(name)} is for {', '.join(users)}, not for {METHODS.name_of(cls)}: leave it out")
    return unknown("field", name, declared_fields((cls, Run)), listed=False)


def methods_with(name: str) -> list[str]:
    """The methods with a field of this name."""
    return [method for method, cls in METHODS.items() if any(field.name == name for field in fields(cls))]


def declared_fields(classes: Iterable[type] | None = None) -> dict[str, tuple[Field[Any], Any]]:
    """Every field of these classes with its type; by default of a run and of all built-in methods."""
    classes = (*METHODS.values(), Run) if classes is None else classes
    return {field.name: (field, field_types(cls)[field.name]) for cls in classes for field in fields(cls)}


def texts_of(run: Run) -> dict[str, Any]:
    """The texts of a run, from which `run_from` gives the run back; what has no text is as it is.

    Fields at their default are left out: defaults may depend on other fields.
    """
    method = run.method
    own = {
        field.name: text_or_value(run, field)
        for field in fields(Run)
        if field.name != "method" and not comes_back(run, {field.name: field.default})
    }
    its = {
        field.name: text_or_value(method, field)
        for field in fields(method)
        if field.init and not comes_back(run, {"method": without(method, field)})
    }
    return {"method": run.method_name, **own, **its}


def text_or_value(owner: Run | Method, field: Field[Any]) -> Any:
    """The text of a field; the value itself for an object in memory and for a type without text."""
    value, hint = getattr(owner, field.name), field_types(type(owner))[field.name]
    as_text = has_text(field, hint) and (hint not in (str, str | None) or isinstance(value, str | None))
    return written(field, value) if as_text else value


def without(method: Method, field: Field[Any]) -> Method | None:
    """The method with a field reset to its default; None without a default, or for a refused default."""
    default = default_of(field)
    if default is MISSING:
        return None
    try:
        return replace(method, **{field.name: default})
    except InputError:
        return None


def comes_back(run: Run, changes: dict[str, Any]) -> bool:
    """Whether a run with these fields changed comes out the same."""
    try:
        return run == replace(run, **changes)
    except InputError:
        return False


def as_flags(texts: Texts) -> list[str]:
    """The words of a command line with these texts, without what has no text: data set and method first."""
    first = {name: texts[name] for name in ("data", "method") if name in texts}
    words = ((flag(name), text) for name, text in (first | dict(texts)).items() if isinstance(text, str))
    return [word for pair in words for word in pair]


def as_toml(run: Run) -> str:
    """All fields of a run and of its method, each with its help; reading the file refuses objects in memory."""
    method = run.method
    own = entries(run, lambda one: comes_back(run, {one.name: None}))
    its = list(entries(method, lambda one: comes_back(run, {"method": without(method, one)})))
    title = [f"\n# of the method {plain(run.method_name)}"] if its else []
    return HEAD + "\n".join([*own, *title, *its]) + "\n"


def entries(owner: Run | Method, derived: Callable[[Field[Any]], bool]) -> Iterator[str]:
    """The line of each field; `derived` says whether a field has the value that it gets where it is left out."""
    hints = field_types(type(owner)) | {"method": str}
    for one in fields(owner):
        value = method_in_words(owner) if isinstance(owner, Run) and one.name == "method" else getattr(owner, one.name)
        yield entry(one, hints[one.name], value, "unset" in one.metadata and derived(one))


def entry(one: Field[Any], hint: Any, value: Any, derived: bool) -> str:
    """The line of a field; `derived` says whether other fields decide the value where the field is left out."""
    note = plain(one.metadata.get("help", ""))
    if value is None and one.default is None:
        return f"# {one.name} is not set: {note}"
    key = one.name if one.name.isascii() else quoted(one.name)
    text = literal(float(value) if hint is float else value, quotients=hint in (float, float | None))
    if not reads_as(one, hint, text, value):
        return f"{key} = {quoted(gone(value))}  # has no text form: hand it in again; {note}"
    if derived:
        return f"# {one.name} = {text}  # unless given: {plain(one.metadata['unset'])}"
    return f"{key} = {text}  # {note}"


def method_in_words(run: Run) -> str:
    """The name of the method of a run; marked if it belongs to a script or a function, which no name brings back."""
    name = run.method_name
    is_gone = name.startswith("__main__:") or "<locals>" in name
    return gone(type(run.method)) if is_gone else name


def gone(value: Any) -> str:
    """A value that no text brings back, as the file has it."""
    is_text = isinstance(value, str) or (isinstance(value, tuple) and all(isinstance(part, str) for part in value))
    words = plain(value) if is_text else name_of(value)
    return words if words.startswith(IN_MEMORY) else f"{IN_MEMORY}{words}"


def without_objects(table: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A table of TOML without its objects in memory, and the words for them by field."""
    words = {
        name.replace("-", "_"): value.removeprefix(IN_MEMORY)
        for name, value in table.items()
        if isinstance(value, str) and value.startswith(IN_MEMORY)
    }
    return {name: value for name, value in table.items() if name.replace("-", "_") not in words}, words


def plain(value: Any) -> str:
    """A value in one line of letters, for a comment."""
    value = value if isinstance(value, str | tuple | list) else in_words(value)
    text = "".join(letter if letter.isprintable() else " " for letter in str(value))
    return shorten(text, LETTERS, placeholder=" ...")


def quoted(text: str) -> str:
    """A string of TOML, whose escapes are those of JSON except for one letter."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def literal(value: Any, quotients: bool = False) -> str:
    """A value of TOML; a radius such as 8/255 becomes a text, which is exact."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        pixels = round(value * PIXEL) if quotients and 0 < value < 1 and in_pixels(value, "linf") else 0
        return f'"{pixels}/{PIXEL}"' if pixels and pixels / PIXEL == value else float.__repr__(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(literal, value))}]"
    return str(value) if isinstance(value, int) else quoted(text_of(value))


def reads_as(one: Field[Any], hint: Any, text: str, value: Any) -> bool:
    """Whether a field reads a text of TOML as this value: as the same JSON."""
    try:
        text.encode()
        found = reader(one, hint)(text_in(one, hint, tomllib.loads(f"x = {text}")["x"]))
    except (InputError, UnicodeEncodeError):
        return False
    value = float(value) if hint is float else value
    as_json = partial(json.dumps, default=lambda one: [repr(one)])  # an object, which no text equals
    return as_json(found) == as_json(value)


def texts_in(table: Mapping[str, Any], declared: Declared, method: str | None) -> dict[str, str]:
    """The texts of the fields in a table of TOML; refuses keys that are no field, and values of a wrong type."""
    texts = {}
    for name, value in table.items():
        field = name.replace("-", "_")
        if isinstance(value, dict):
            raise InputError(f"[{name}] begins a table: write all keys without tables")
        if field not in declared:
            raise stranger(name, field, declared, method)
        if field in texts:
            raise InputError(f"{name} is given twice: give it once")
        one, hint = declared[field]
        try:
            texts[field] = text_in(one, hint, value)
            reader(one, hint)(texts[field])
        except InputError as error:
            raise InputError(f"{name} = {shown(value)}: {error}") from None
    return texts


def stranger(name: str, field: str, declared: Declared, method: str | None) -> InputError:
    """The error for a key that is no field of a run or of its method."""
    users = methods_with(field)
    if users and method is not None:
        return InputError(f"{name} is for {', '.join(users)}, not for {method}: leave it out")
    return unknown("key", name, declared, listed=False)


def text_in(one: Field[Any], hint: Any, value: Any) -> str:
    """The text of a value of TOML as on the command line; refuses a value of another type than the field's."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        if bool not in (hint, *get_args(hint)):
            raise InputError("true and false are for switches: give a number or a text")
        return text_of(value)
    if isinstance(value, int | float):
        if isinstance(reader(one, hint)(text_of(value)), str):
            raise InputError("give a text in quotes")
        return text_of(value)
    if isinstance(value, list) and all(isinstance(part, str | int | float) for part in value):
        text = written(one, value)
        found = reader(one, hint)(text)
        if not isinstance(found, tuple | list):
            raise InputError("give one value, not an array")
        if len(found) != len(value):
            raise InputError("give texts without commas")
        return text
    raise InputError("give a number, a text in quotes, true or false, or an array of numbers or texts")


def shown(value: Any) -> str:
    """A value of TOML in an error."""
    return shorten(literal(value) if isinstance(value, bool | int | float | str | list) else str(value), LETTERS)
