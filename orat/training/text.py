"""Runs as text: the values of their fields, as the command line and a search read and write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, replace
from typing import TYPE_CHECKING, Any

from orat.core.errors import InputError, unknown
from orat.core.options import field_types, flag, reader, written
from orat.methods import METHODS
from orat.training.run import Run

if TYPE_CHECKING:
    from orat.methods.base import Method

Texts = Mapping[str, str | None]  # by the names of the fields of a run and of its method


def run_from(texts: Texts) -> Run:
    """The run with these values; a field without a text keeps its default."""
    given = {name: text for name, text in texts.items() if text is not None}
    name = given.get("method")
    if name is None:
        raise InputError(f"--method is not given: choose one of {', '.join(METHODS)}")
    cls = method_class(name)
    own = {field.name for field in (*fields(Run), *fields(cls))}
    if strangers := [field for field in given if field not in own]:
        raise not_of(strangers[0], name)
    method = cls(**values(cls, given))
    return Run(method=method, **values(Run, {field: text for field, text in given.items() if field != "method"}))


def method_class(name: str) -> type[Method]:
    """The class of a method by its name, or at module:attribute."""
    from orat.methods.base import Method  # here, because it imports torch

    cls = METHODS.load(name)
    if not (isinstance(cls, type) and issubclass(cls, Method)):
        raise InputError(f"{name} is no training method: give a subclass of orat.Method")
    return cls


def values(cls: type, texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of the fields of a class that have a text."""
    found = {}
    for field in fields(cls):
        if field.name not in texts:
            continue
        try:
            found[field.name] = reader(field, field_types(cls)[field.name])(texts[field.name])
        except InputError as error:
            raise InputError(f"{flag(field.name)}: {error}") from None
    return found


def not_of(name: str, method: str) -> InputError:
    """The error for a field that a run of this method does not have."""
    users = methods_with(name)
    if users:
        return InputError(f"{flag(name)} is for {', '.join(users)}, not for {method}: leave it out")
    return unknown("field", name, declared_fields(), listed=False)


def methods_with(name: str) -> list[str]:
    """The methods with a field of this name."""
    return [method for method, cls in METHODS.items() if any(field.name == name for field in fields(cls))]


def declared_fields(classes: Iterable[type] | None = None) -> dict[str, tuple[Field[Any], Any]]:
    """Every field of these classes with its type; by default of a run and of all methods."""
    classes = (*METHODS.values(), Run) if classes is None else classes
    return {field.name: (field, field_types(cls)[field.name]) for cls in classes for field in fields(cls)}


def texts_of(run: Run) -> dict[str, str]:
    """The texts of a run, from which `run_from` gives the run back.

    Fields at their default are left out: defaults may depend on other fields.
    """
    method = run.method
    own = {
        field.name: written(field, getattr(run, field.name))
        for field in fields(Run)
        if field.name != "method" and not comes_back(run, {field.name: field.default})
    }
    its = {
        field.name: written(field, getattr(method, field.name))
        for field in fields(method)
        if not comes_back(run, {"method": without(method, field)})
    }
    return {"method": run.method_name, **own, **its}


def without(method: Method, field: Field[Any]) -> Method | None:
    """The method with a field reset to its default; None without a default, or for a refused default."""
    if field.default is MISSING:
        return None
    try:
        return replace(method, **{field.name: field.default})
    except InputError:
        return None


def comes_back(run: Run, changes: dict[str, Any]) -> bool:
    """Whether a run with these fields changed comes out the same."""
    try:
        return run == replace(run, **changes)
    except InputError:
        return False


def as_flags(texts: Mapping[str, str]) -> list[str]:
    """The words of a command line with these texts: data set and method first."""
    first = {name: texts[name] for name in ("data", "method") if name in texts}
    return [word for name, text in (first | dict(texts)).items() for word in (flag(name), text)]
