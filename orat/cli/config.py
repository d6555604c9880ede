"""A file of settings as the base of a command line."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from orat.core.errors import InputError
from orat.core.files import read_bytes
from orat.core.options import flag, option
from orat.core.registry import check_trust, plugins
from orat.data.catalog import PLUGINS
from orat.methods import METHODS
from orat.training.run import Run
from orat.training.text import declared_fields, method_class, texts_in, without_objects

RUN_FIELDS = frozenset(one.name for one in fields(Run))


@dataclass(frozen=True)
class Places:
    """How a run is executed, as far as a file may say it."""

    out: str | None = option(None, "folder of the run")
    data_dir: str | None = option(None, "folder of the data sets")
    device: str | None = option(None, "device")
    engine: str | None = option(None, "engine")


@dataclass(frozen=True)
class Config:
    """The settings in a file as the texts of the command line, and how the run is executed."""

    texts: dict[str, str]
    places: dict[str, str]


def read_config(file: Path, given: Collection[str], methods: Collection[str], trust: bool) -> Config:
    """The settings in a file; `given` are the fields that the command sets, `methods` the methods that it names.

    If the command names other methods, the fields of the file's own method are left out.
    """
    try:
        table, objects = without_objects(read_toml(file))
        check_objects({name: words for name, words in objects.items() if name in RUN_FIELDS}, given)
        own = table.get("method")
        for name, value in table.items():
            if name.replace("-", "_") not in given and not of_plugin(name, value):
                check_trust(value, name.replace("_", "-"), trust)
        classes = {name: method_class(name) for name in methods}
        if isinstance(own, str) and own not in classes and (own in METHODS or "method" not in given):
            classes[own] = method_class(own)
        declared = declared_fields((*classes.values(), Run, Places))
        declared["method"] = declared["method"][0], str
        if "method" in objects:  # whose fields are unknown; the command names another
            table = {name: value for name, value in table.items() if name.replace("-", "_") in declared}
        used = declared_fields((*(classes[name] for name in methods or classes), Run))
        check_objects({name: words for name, words in objects.items() if name in used}, given)
        texts = texts_in(table, declared, own or next(iter(methods), None))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    places = {one.name: texts[one.name] for one in fields(Places) if one.name in texts}
    return Config({name: text for name, text in texts.items() if name in used}, places)


def check_objects(objects: Mapping[str, str], given: Collection[str]) -> None:
    """Refuses objects in memory that the file only names, unless the command gives the flag."""
    for name, words in objects.items():
        if name not in given:
            raise InputError(
                f"the {name.replace('_', ' ')} of the run was an object in memory ({words}): hand it in again from "
                f"Python, or give {flag(name)}"
            )


def read_toml(file: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return tomllib.loads(read_bytes(file).decode())
    except UnicodeDecodeError:
        raise InputError("not a text file; give a TOML file, such as the run.toml of a run") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not TOML: {error}; write lines such as eps = 0.1, with texts in quotes") from None


def of_plugin(name: str, value: Any) -> bool:
    """Whether a value is the name of an installed data set, such as scrambled:cifar10."""
    return name == "data" and isinstance(value, str) and value.partition(":")[0] in plugins(PLUGINS)
