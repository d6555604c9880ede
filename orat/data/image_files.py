"""Which files of a folder or a tar file are images of the data set, and of which part and class."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orat.core.errors import InputError, counted
from orat.data.packed import packed

ENDINGS = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
TRAIN = "train"
FOLDERS = {  # names of the folders of parts
    "train": TRAIN, "training": TRAIN, "val": "validation", "valid": "validation", "validation": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip
LAYOUT = "an image folder holds train/<class>/*.png (or .jpg, .bmp, .tif, .webp)"
RECORD = "labels-fix.json"  # in a copy by `orat labels fix`: no image, and no file to speak of
NAMED = 3  # files in a line; further files are counted

Classes = dict[tuple[str, str], str]  # part and class: the path of the folder


@dataclass(frozen=True)
class File:
    """One image file: part, class, name below the folder of the class, and path from the root."""

    part: str
    label: str
    name: str
    path: str


@dataclass(frozen=True)
class Found:
    """The images of a data set, sorted by part, class and name."""

    files: tuple[File, ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    top: str = ""  # the folder in a tar file around the data set, with a slash at its end
    skipped: tuple[str, ...] = ()  # files that are no images of the data set

    def part(self, name: str) -> tuple[File, ...]:
        """The images of one part."""
        return tuple(file for file in self.files if file.part == name)


def is_image(path: str) -> bool:
    """Whether a file is an image, by its ending."""
    return path.lower().endswith(ENDINGS)


def found_in(root: Path, depth: int) -> Found:
    """The images of a folder or a tar file."""
    return arranged(root, paths_in(root) if root.is_dir() else [name for name, _ in packed(root)], depth)


def contents(root: Path, found: Found) -> Iterator[tuple[File, bytes | None]]:
    """Every image, with its bytes if they come from a tar file, in the order of the folder or the tar file."""
    if root.is_dir():
        yield from ((file, None) for file in found.files)
        return
    inside = {found.top + file.path: file for file in found.files}
    yield from ((inside[name], raw) for name, raw in packed(root, is_image) if name in inside)


def paths_in(root: Path) -> list[str]:
    """The visible files of a folder as paths from the root, and its folders with a slash at the end.

    Beside the folders of parts, if there are any, no folder is looked into.
    """
    parts = {path.name for path in root.iterdir() if path.name.lower() in FOLDERS and path.is_dir()}
    found: list[str] = []
    for place, folders, names in os.walk(root, followlinks=True):
        below = Path(place).relative_to(root).as_posix().removeprefix(".")
        below = f"{below}/" if below else ""
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [f"{below}{name}/" for name in folders]
        found += [f"{below}{name}" for name in names if not name.startswith(".")]
        if not below and parts:
            folders[:] = [name for name in folders if name in parts]
    return found


def arranged(root: Path, paths: Collection[str], depth: int) -> Found:
    """The images among these paths; a class is the first `depth` folders of a part, with all files below."""
    top = "" if root.is_dir() else top_of(paths)
    paths = sorted(path.removeprefix(top) for path in paths if path != top)
    start = 1 if has_parts(root, paths) else 0
    files, skipped, classes = [], [], Classes()
    for path in paths:
        *folders, name = path.split("/")
        part = (FOLDERS.get(folders[0].lower()) if folders else None) if start else TRAIN
        if part is None:
            skipped.append(f"{folders[0]}/" if folders else name)
            continue
        label, end = "/".join(folders[start : start + depth]), start + depth
        if len(folders) >= end:
            classes.setdefault((part, label), "/".join(folders[:end]))
        if len(folders) >= end and is_image(name):
            files.append(File(part, label, "/".join([*folders[end:], name]), path))
        elif name:
            skipped.append(path)
    files.sort(key=lambda file: (file.part, file.label, file.name))
    skipped = list(dict.fromkeys(path for path in skipped if path != RECORD))
    notes = [*without_parts(root, classes, start), *nested(files, depth), *skipped_words(skipped)]
    return Found(tuple(files), checked(root, classes, files, depth), tuple(notes), top, tuple(skipped))


def has_parts(root: Path, paths: Collection[str]) -> bool:
    """Whether the root has a folder of training images; other parts alone are refused."""
    there = {path.partition("/")[0] for path in paths if "/" in path}
    parts = {name: FOLDERS[name.lower()] for name in sorted(there) if name.lower() in FOLDERS}
    if parts and TRAIN not in parts.values():
        raise InputError(f"{root} has {next(iter(parts))}/ but no train/: name the folder of training images train")
    return bool(parts)


def checked(root: Path, folders: Mapping[tuple[str, str], str], files: Sequence[File], depth: int) -> tuple[str, ...]:
    """The sorted class names; empty classes and classes that the training part does not have are refused."""
    classes = tuple(sorted(label for part, label in folders if part == TRAIN))
    if not classes:
        levels = "" if depth == 1 else f" at a depth of {depth} (--class-depth)"
        raise InputError(f"{root} has no class folders{levels}: {LAYOUT}")
    filled = {(file.part, file.label) for file in files}
    for (part, label), path in sorted(folders.items()):
        if label not in classes:
            raise InputError(f"{root / path} is a class that train/ does not have: rename or remove it")
        if (part, label) not in filled:
            raise InputError(f"{root / path} has no images ({', '.join(ENDINGS)}): fill or remove it")
    return classes


def without_parts(root: Path, classes: Classes, start: int) -> list[str]:
    """The line about a root without parts."""
    words = f"{root} has no folder train: its {len(classes)} folders are the classes, and all images are for training"
    return [] if start else [words]


def nested(files: Sequence[File], depth: int) -> list[str]:
    """The line about images in folders below the folder of their class."""
    deep = [file for file in files if "/" in file.name]
    if not deep:
        return []
    example = f"{counted(len(deep), 'image')} in deeper folders, such as {deep[0].path} of class {deep[0].label}"
    return [f"{example}: for classes by more levels of folders, give --class-depth {depth + 1}"]


def skipped_words(skipped: Sequence[str]) -> list[str]:
    """The line about files that are no images of the data set."""
    return [f"{counted(len(skipped), 'file')} skipped: {first(skipped)}"] if skipped else []


def first(names: Sequence[str]) -> str:
    """The first names, and the number of further names."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def top_of(paths: Collection[str]) -> str:
    """The one folder in a tar file that holds the folders of the data set, if there is one."""
    tops = {path.partition("/")[0] for path in paths}
    inside = {path.partition("/")[2] for path in paths}
    if len(tops) > 1 or tops & FOLDERS.keys() or not any("/" in path for path in inside):
        return ""
    return f"{tops.pop()}/"
