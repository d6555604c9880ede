"""Data sets by name or path: public sets, the bundled sample, plug-ins of other distributions, folders and files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orat.core.domain import USUAL, Columns
from orat.core.errors import InputError, unknown
from orat.core.registry import Registry, plugins

if TYPE_CHECKING:  # the command line lists the names in its help, which does not wait for torch
    from orat.data.folder import FolderSource
    from orat.data.source import Reader, Splits

READERS: Registry[Reader] = Registry(
    "public data set",
    {"mnist": "orat.data.idx:MNIST", "cifar10": "orat.data.cifar:CIFAR10", "cifar100": "orat.data.cifar:CIFAR100"},
)
FILES: Registry[Callable[..., Any]] = Registry(
    "kind of file",
    {
        "sample": "orat.data.idx:read_sample",
        "images": "orat.data.folder:read",
        "streamed images": "orat.data.folder:stream",
        "arrays": "orat.data.arrays:read",
        "table": "orat.data.table:read",
    },
)
PUBLIC = tuple(READERS)
NAMES = (*PUBLIC, "sample")
PLUGINS = "orat.data"  # the group of entry points
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
TABLE_ENDINGS = (".csv", ".tsv", ".parquet")

Size = tuple[int, int]  # height, width


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


def load(name: str, data_dir: str | Path | None = None, image_size: Size | None = None, **settings: Any) -> Splits:
    """The data set of this name, or at this path: a folder of images or IDX files, an .npz, a .tar or a table.

    `settings` are fields of `Columns`, such as the `target` of a table.
    """
    columns = Columns(**settings)
    if columns != USUAL and (name in names() or not name.endswith((".npz", *TABLE_ENDINGS))):
        raise InputError(f"target, bounds and frozen are for tables and vectors: leave them out for {name!r}")
    if (other := plugin(name)) is not None:
        return other.read(name.partition(":")[2], None if data_dir is None else Path(data_dir), image_size)
    path = Path(name).expanduser()
    if name not in NAMES and holds_images(path):
        return FILES["images"](path, image_size)
    if image_size is not None:
        height, width = image_size
        raise InputError(f"the image size {height}x{width} is for folders of images: leave it out for {name!r}")
    return load_named(name, data_dir) if name in NAMES else load_path(name, path, columns)


def stream(name: str, image_size: Size | None = None) -> tuple[FolderSource, FolderSource | None]:
    """The training and test part of an image folder, decoded on demand instead of held in memory."""
    path = Path(name).expanduser()
    if name in NAMES or not path.is_dir() or not holds_images(path):
        raise InputError(f"{name} cannot be streamed: give an image folder")
    parts: tuple[FolderSource, FolderSource | None] = FILES["streamed images"](path, image_size)
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


def load_named(name: str, data_dir: str | Path | None) -> Splits:
    """A public data set, or the bundled sample."""
    if name == "sample":
        return FILES["sample"]()
    folder = folder_of(name, data_dir)
    if folder is None:
        raise InputError(missing(name, data_dir))
    return READERS[name].read(folder)


def load_path(name: str, path: Path, columns: Columns) -> Splits:
    """The data set in a folder of IDX files, in an .npz file or in a table."""
    if not path.exists():
        error = unknown("data set", name, names())
        raise InputError(f"{error}; or give the path of an image folder, an .npz or a .tar file: there is no {path}")
    if path.is_dir():
        return READERS["mnist"].read(path)
    if path.suffix not in (".npz", *TABLE_ENDINGS):
        endings = ", ".join((*TABLE_ENDINGS, *TAR_ENDINGS))
        raise InputError(f"{path} is no data set: give an image folder, an .npz or a file ending in {endings}")
    return FILES["arrays" if path.suffix == ".npz" else "table"](path, columns)


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
    return (
        f"no files of {name} in {named} or {folder}: run `orat list data --download {name}`, or put them into {named}"
    )


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
