"""Files -> tensors: `load` is the one place that says what the name of a data set means."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orat.core.errors import InputError, unknown
from orat.core.registry import plugins

# The readers are imported inside the functions: the command line's --help needs the names, but not torch's seconds.
if TYPE_CHECKING:
    from orat.data.source import Splits

PUBLIC = ("mnist", "cifar10", "cifar100")
NAMES = (*PUBLIC, "sample")
PLUGINS = "orat.data"  # the group of entry points
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


@dataclass(frozen=True)
class Found:
    """What became of the search for one public data set."""

    name: str
    status: Literal["found", "missing", "damaged"]
    folder: Path | None
    message: str
    train: int = 0
    test: int = 0
    shape: tuple[int, ...] = ()
    classes: int = 0


@dataclass(frozen=True)
class Plugin:
    """A data set of another distribution; `rest` is what follows a colon in its name, such as cifar10."""

    read: Callable[[str, Path | None, tuple[int, int] | None], Splits]  # rest, data_dir, image_size
    defaults: Mapping[str, Any] = field(default_factory=dict)  # fields of a run, where nothing is given


def plugin(name: str) -> Plugin | None:
    """The plug-in that reads the data set of this name, if there is one."""
    found = plugins(PLUGINS).get(name.partition(":")[0])
    return None if found is None else found.load()


def load(name: str, data_dir: str | Path | None = None, image_size: tuple[int, int] | None = None) -> Splits:
    """The data set of this name, or in the folder (of images, or of IDX files), .npz or .tar file at this path."""
    if (other := plugin(name)) is not None:
        return other.read(name.partition(":")[2], None if data_dir is None else Path(data_dir), image_size)
    path = Path(name).expanduser()
    if name not in NAMES and _holds_images(path):
        from orat.data import folder

        return folder.read(path, image_size)
    if image_size is not None:
        height, width = image_size
        raise InputError(f"the image size {height}x{width} is for folders of images: leave it out for {name!r}")
    return _load_named(name, data_dir) if name in NAMES else _load_file(name, path)


def found(data_dir: str | Path | None = None) -> list[Found]:
    """Every public data set: whether its files are there and whole, by reading them."""
    return [_search(name, data_dir) for name in PUBLIC]


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Where data sets are looked for: the folder given, else $ORAT_DATA, else ./data."""
    return Path(data_dir or os.environ.get("ORAT_DATA") or "data").expanduser()


def _holds_images(path: Path) -> bool:
    """Whether this is a folder of images or a .tar of one; a folder may also hold IDX files."""
    from orat.data import idx

    return not idx.present(path) if path.is_dir() else path.name.endswith(TAR_ENDINGS) and path.is_file()


def _load_named(name: str, data_dir: str | Path | None) -> Splits:
    from orat.data import sample

    if name == "sample":
        return sample.read()
    folder = _folder_of(name, data_dir)
    if folder is None:
        raise InputError(_missing(name, data_dir))
    return _reader(name).read(folder)


def _load_file(name: str, path: Path) -> Splits:
    if not path.exists():
        error = unknown("data set", name, NAMES)
        raise InputError(f"{error}; or give the path of an image folder, an .npz or a .tar file: there is no {path}")
    if path.is_dir():
        from orat.data import idx

        return idx.read(path)
    if path.suffix != ".npz":
        raise InputError(f"{path} is no data set: give an image folder, an .npz or a file ending in {TAR_ENDINGS}")
    from orat.data import arrays

    return arrays.read(path)


@dataclass(frozen=True)
class _Reader:
    """How one public data set is recognized in a folder and read from it."""

    present: Callable[[Path], bool]
    read: Callable[[Path], Splits]


def _reader(name: str) -> _Reader:
    from orat.data import cifar, idx

    return {
        "mnist": _Reader(idx.present, idx.read),
        "cifar10": _Reader(lambda at: cifar.present(at, "cifar10"), lambda at: cifar.read(at, "cifar10")),
        "cifar100": _Reader(lambda at: cifar.present(at, "cifar100"), lambda at: cifar.read(at, "cifar100")),
    }[name]


def _places(name: str, data_dir: str | Path | None) -> tuple[Path, ...]:
    folder = data_folder(data_dir)
    return (folder / name, folder)


def _folder_of(name: str, data_dir: str | Path | None) -> Path | None:
    reader = _reader(name)
    return next((place for place in _places(name, data_dir) if reader.present(place)), None)


def _missing(name: str, data_dir: str | Path | None) -> str:
    named, folder = _places(name, data_dir)
    return f"no files of {name} in {named} or {folder}: run `orat data --download {name}`, or put them into {named}"


def _search(name: str, data_dir: str | Path | None) -> Found:
    folder = _folder_of(name, data_dir)
    if folder is None:
        return Found(name, "missing", None, _missing(name, data_dir))
    try:
        splits = _reader(name).read(folder)
    except InputError as error:
        return Found(name, "damaged", folder, str(error))
    train, test = splits.train, splits.test
    return Found(
        name, "found", folder, "whole", len(train), 0 if test is None else len(test), train.shape, len(train.classes)
    )
