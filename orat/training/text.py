"""Runs as text: the values of their fields, as the command line and a search read and write them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, replace
from typing import TYPE_CHECKING, Any

from orat.core.errors import InputError, unknown
from orat.core.options import default_of, field_types, flag, has_text, reader, written
from orat.core.registry import as_input_error
from orat.methods import METHODS
from orat.training.run import Run

if TYPE_CHECKING:
    from orat.methods.base import Method

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
