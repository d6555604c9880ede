"""Data sets by name, path or import path, or in memory: public sets, plug-ins, folders, files, code and objects."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orat.core.domain import Reading, Size
from orat.core.errors import InputError
from orat.core.registry import IN_MEMORY, Registry, names_code, plugins

if TYPE_CHECKING:  # the command line lists the names in its help, which does not wait for torch
    from orat.data.folder import FolderSource
    from orat.data.source import Reader, Splits

READERS: Registry[Reader] = Registry(
    "public data set",
    {"mnist": "orat.data.idx:MNIST", "cifar10": "orat.data.cifar:CIFAR10", "cifar100": "orat.data.cifar:CIFAR100"},
)
FILES: Registry[Callable[..., Any]] = Registry(
    "kind of data",
    {
        "sample": "orat.data.idx:read_sample",
        "images": "orat.data.folder:read",
        "streamed images": "orat.data.folder:stream",
        "listing": "orat.data.listing:read",
        "table": "orat.data.table:read",
        "arrays": "orat.data.arrays:read",
        "code": "orat.data.own:read_code",
        "objects": "orat.data.own:read",
    },
)
ANY_OBJECT = ("image_size", "target", "bounds", "frozen")  # which of them depends on the object
USED = {  # settings that a kind of data has
    "images": ("image_size", "class_depth"), "listing": ("image_size",), "table": ("target", "bounds", "frozen"),
    "arrays": ("bounds", "frozen"), "code": ANY_OBJECT, "objects": ANY_OBJECT,
}  # fmt: skip
PUBLIC = tuple(READERS)
NAMES = (*PUBLIC, "sample")
PLUGINS = "orat.data"  # the group of entry points
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
TABLE_ENDINGS = (".csv", ".tsv", ".parquet")
ENDINGS = "a .npz, .csv, .tsv, .parquet or .tar file"


@dataclass(frozen=True)
class Plugin:
    """A data set of another distribution; `rest` is the part of its name after a colon, such as cifar10."""

    read: Callable[[str, Path | None, Size | None], Splits]  # rest, data_dir, image_size
    defaults: Mapping[str, Any] = field(default_factory=dict)  # default fields of a run on this data set


@dataclass(frozen=True)
class Found:
    """The result of the search for one public data set."""

    name: str
    status: Literal["found", "missing", "damaged"]
    folder: Path | None
    message: str
    train: int = 0
    test: int = 0
    shape: tuple[int, ...] = ()
    classes: int = 0


def names() -> tuple[str, ...]:
    """The names of all data sets: built-in, then plug-ins."""
    return (*NAMES, *plugins(PLUGINS))


def plugin(name: str) -> Plugin | None:
    """The plug-in of a data set, if the name has a plug-in."""
    point = plugins(PLUGINS).get(name.partition(":")[0])
    return None if point is None else point.load()


def is_published(data: Any) -> bool:
    """Whether data have a name, so that their labels count as true; nobody vouches for the labels of other data."""
    return isinstance(data, str) and (data in NAMES or plugin(data) is not None)


def load(data: Any, data_dir: str | Path | None = None, image_size: Size | None = None, **settings: Any) -> Splits:
    """The data set of a name, at a path, at module:attribute or file.py:attribute, or in memory.

    `settings` are fields of `Reading`: `class_depth` of an image folder, `target` of a table, and others.
    """
    name = os.fspath(data) if isinstance(data, os.PathLike) else data
    if isinstance(name, str) and name in NAMES and image_size is None and not settings.keys() - {"largest"}:
        return load_named(name, data_dir)
    reading = Reading(image_size, **settings)
    if not isinstance(name, str):
        return read_as("objects", data, type(data).__name__, reading)
    if (other := plugin(name)) is not None:
        reading.check(name, ("image_size",))
        return other.read(name.partition(":")[2], None if data_dir is None else Path(data_dir), image_size)
    path = Path(name).expanduser()
    if name in NAMES:
        reading.check(name)
        return load_named(name, data_dir)
    if names_code(name) and not path.exists():
        return read_as("code", name, name, reading)
    return load_path(name, path, reading)


def read_as(kind: str, data: Any, name: str, reading: Reading) -> Splits:
    """The data of this kind; settings of other kinds are refused."""
    reading.check(name, USED[kind])
    return FILES[kind](data, reading.columns if kind in ("table", "arrays") else reading)


def stream(name: str, image_size: Size | None = None) -> tuple[FolderSource, FolderSource | None]:
    """The training and test part of an image folder, decoded on demand instead of held in memory."""
    path = Path(name).expanduser()
    if name in NAMES or not path.is_dir() or not holds_images(path):
        raise InputError(f"{name} cannot be streamed: give an image folder")
    parts: tuple[FolderSource, FolderSource | None] = FILES["streamed images"](path, Reading(image_size))
    return parts


def found(data_dir: str | Path | None = None) -> list[Found]:
    """The state of every public data set; each one found is read to check its files."""
    return [search(name, data_dir) for name in PUBLIC]


def data_folder(data_dir: str | Path | None = None) -> Path:
    """The folder of the data sets: the folder given, else $ORAT_DATA, else ./data."""
    return Path(data_dir or os.environ.get("ORAT_DATA") or "data").expanduser()


def holds_images(path: Path) -> bool:
    """Whether the path is a folder of images, or a .tar file of a folder of images."""
    if path.is_dir():
        return not READERS["mnist"].present(path)
    return path.name.endswith(TAR_ENDINGS) and path.is_file()


def lists_images(path: Path, target: str | None) -> bool:
    """Whether the path is a .csv file that lists images; a table of numbers comes with its target."""
    return path.suffix == ".csv" and target is None and path.is_file()


def is_path(name: str) -> bool:
    """Whether a name is the path of data, not a data set with a name and not code."""
    path = Path(name).expanduser()
    return plugin(name) is None and name not in NAMES and (path.exists() or not names_code(name))


def load_named(name: str, data_dir: str | Path | None) -> Splits:
    """A public data set, or the bundled sample."""
    if name == "sample":
        return FILES["sample"]()
    folder = folder_of(name, data_dir)
    if folder is None:
        raise InputError(missing(name, data_dir))
    return READERS[name].read(folder)


def load_path(name: str, path: Path, reading: Reading) -> Splits:
    """The data set in a folder or in a file."""
    if holds_images(path):
        return read_as("images", path, name, reading)
    if path.is_dir():
        reading.check(name)
        return READERS["mnist"].read(path)
    if name.startswith(IN_MEMORY):
        raise InputError(f"the data were handed in as an object ({name}): hand the object in again")
    if not path.exists():
        near = get_close_matches(name, names(), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        known = f"known are {', '.join(sorted(names()))}"
        remedy = f"give an image folder, {ENDINGS}; {known}"
        raise InputError(f"there is no {path}, nor a data set of this name: {hint}{remedy}")
    if path.suffix in TABLE_ENDINGS:
        return read_as("listing" if lists_images(path, reading.target) else "table", path, name, reading)
    if path.suffix == ".py":
        raise InputError(f"{path} is a file of code: name a function or an object in it, as in {path}:ATTRIBUTE")
    if path.suffix != ".npz":
        raise InputError(f"{path} is no data set: give an image folder, {ENDINGS}")
    return read_as("arrays", path, name, reading)


def places(name: str, data_dir: str | Path | None) -> tuple[Path, ...]:
    """The folders in which a public data set is looked for."""
    folder = data_folder(data_dir)
    return (folder / name, folder)


def folder_of(name: str, data_dir: str | Path | None) -> Path | None:
    """The first folder with files of a public data set, if any."""
    return next((place for place in places(name, data_dir) if READERS[name].present(place)), None)


def missing(name: str, data_dir: str | Path | None) -> str:
    """The message for a public data set without files."""
    named, folder = places(name, data_dir)
    return f"no files of {name} in {named} or {folder}: run `orat data --download {name}`, or put them into {named}"


def search(name: str, data_dir: str | Path | None) -> Found:
    """The state of one public data set."""
    folder = folder_of(name, data_dir)
    if folder is None:
        return Found(name, "missing", None, missing(name, data_dir))
    try:
        splits = READERS[name].read(folder)
    except InputError as error:
        return Found(name, "damaged", folder, str(error))
    train, test = splits.train, splits.test
    return Found(
        name, "found", folder, "whole", len(train), 0 if test is None else len(test), train.shape, len(train.classes)
    )
