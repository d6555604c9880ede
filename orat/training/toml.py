"""A run as a file of settings: written with all of its fields, and read as the texts of the command line."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields
from textwrap import shorten
from typing import TYPE_CHECKING, Any, get_args

from orat.core.errors import InputError, unknown
from orat.core.options import PIXEL, field_types, in_pixels, reader, text_of, written
from orat.core.registry import IN_MEMORY
from orat.training.record import in_words, name_of
from orat.training.run import Run
from orat.training.text import comes_back, methods_with, without

if TYPE_CHECKING:
    from orat.methods.base import Method

LETTERS = 80  # of a comment
HEAD = """\
# A run of orat. To train the run again: orat train --config THIS_FILE --out NEW_FOLDER
# Flags override the file. Paths are as they were given, relative to the folder of that command.

"""
Declared = Mapping[str, tuple[Field[Any], Any]]  # fields by name, each with its type


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
    return json.dumps(found, default=unlike_text) == json.dumps(value, default=unlike_text)


def unlike_text(value: Any) -> list[str]:
    """JSON of an object that no text equals."""
    return [repr(value)]


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
