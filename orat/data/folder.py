"""Image folders and tar files of image folders: read into memory, or decoded on demand."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from orat.core.domain import PLAIN, Reading, Size
from orat.core.errors import InputError, counted
from orat.core.files import read_bytes
from orat.core.types import Labels
from orat.data.decode import Head, decode, header, in_threads, put
from orat.data.image_files import NAMED, TRAIN, File, Found, arranged, contents, first, found_in, is_image
from orat.data.image_sizes import chosen_size, size_words
from orat.data.packed import packed
from orat.data.source import Dataset, Splits, check_labels

STREAMED_GROUP = 8  # images of a batch that one thread decodes
PARTS = (TRAIN, "test", "validation")

Heads = Mapping[str, Head | InputError]  # by path


@dataclass(frozen=True)
class Shape:
    """The shape that all images of a data set are brought to."""

    channels: int
    size: Size
    is_chosen: bool  # whether images are resized to a size that was not asked for
    notes: tuple[str, ...]  # lines about the changes


def read(root: Path, reading: Reading = PLAIN) -> Splits:
    """The images of a folder or a tar file in memory."""
    if root.is_dir():
        found = found_in(root, reading.class_depth)
        return resident(root, found, heads_of(root, found), reading)

    def looked(member: tuple[str, bytes]) -> tuple[str, Head | InputError | None]:
        name, raw = member
        return name, head_of(io.BytesIO(raw), root / name) if is_image(name) else None

    members = dict(in_threads(looked, packed(root, is_image)))
    found = arranged(root, members, reading.class_depth)
    heads = {file.path: head for file in found.files if (head := members[found.top + file.path]) is not None}
    return resident(root, found, heads, reading)


def heads_of(root: Path, found: Found) -> Heads:
    """The headers of the images of a folder."""
    heads = in_threads(lambda file: head_of(root / file.path, root / file.path), found.files)
    return {file.path: head for file, head in zip(found.files, heads, strict=True)}


def head_of(file: io.BytesIO | Path, path: Path) -> Head | InputError:
    """The header of an image file, or the error of a broken one."""
    try:
        return header(file, path)
    except InputError as error:
        return error


def common_shape(found: Found, heads: Heads, reading: Reading) -> Shape:
    """The shape for these images; the training images decide the size, unless a size is given."""
    whole = {path: head for path, head in heads.items() if isinstance(head, Head)}
    if not whole:
        raise unreadable(heads)
    sizes = [head.size for head in whole.values()]
    size = reading.image_size or chosen_size(
        [whole[file.path].size for file in found.part(TRAIN) if file.path in whole] or sizes, reading.largest
    )
    is_chosen = reading.image_size is None and set(sizes) != {size}
    transparent = [path for path, head in whole.items() if head.has_alpha]
    notes = [size_words(sizes, size, reading.largest)] if is_chosen else []
    alpha = f"{counted(len(transparent), 'image')} with an alpha channel: pixels that are transparent are laid on white"
    notes += [alpha] if transparent else []
    return Shape(1 if all(head.is_gray for head in whole.values()) else 3, size, is_chosen, tuple(notes))


def unreadable(heads: Heads) -> InputError:
    """The error for broken images: all of them, by number and first names, with the reason of the first."""
    broken = {path: head for path, head in heads.items() if isinstance(head, InputError)}
    error = broken[min(broken)]
    if len(broken) == 1:
        return error
    rest = "; `orat data PATH` lists all" if len(broken) > NAMED else ""
    return InputError(f"{len(broken)} of {len(heads):,} images are broken: {first(sorted(broken))}; {error}{rest}")


def resident(root: Path, found: Found, heads: Heads, reading: Reading) -> Splits:
    """The images in memory; all broken images are named at once."""
    shape = common_shape(found, heads, reading)
    files = {part: found.part(part) for part in PARTS}
    images = {
        part: torch.empty(len(own), shape.channels, *shape.size, dtype=torch.uint8) for part, own in files.items()
    }
    rows = {file.path: row for part, own in files.items() for file, row in zip(own, images[part].numpy(), strict=True)}

    def fill(item: tuple[File, bytes | None]) -> tuple[str, Head | InputError]:
        path, raw = item[0].path, item[1]
        head = heads[path]
        try:
            if isinstance(head, Head):
                put(decode(read_bytes(root / path) if raw is None else raw, root / path, shape.size), rows[path])
        except InputError as error:
            return path, error
        return path, head

    after = dict(in_threads(fill, contents(root, found)))
    if any(isinstance(head, InputError) for head in after.values()):
        raise unreadable(after)
    train, test, validation = (dataset(found, part, images[part]) for part in PARTS)
    assert train is not None
    chosen = shape.size if shape.is_chosen else None
    return Splits(train, test, validation, (*found.notes, *shape.notes), chosen)


def dataset(found: Found, part: str, images: Tensor) -> Dataset | None:
    """A part of the data set in memory, if there is any image."""
    paths, labels = paths_and_labels(found, part)
    return Dataset(images, labels, found.classes, paths=paths) if paths else None


def paths_and_labels(found: Found, part: str) -> tuple[tuple[str, ...], Labels]:
    """The paths and the labels of a part."""
    number = {label: i for i, label in enumerate(found.classes)}
    files = found.part(part)
    return tuple(file.path for file in files), torch.tensor([number[file.label] for file in files], dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class FolderSource:
    """The streamed source: one part of an image folder, decoded on demand to a fixed shape."""

    root: Path
    paths: tuple[str, ...]
    labels: Labels
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    truth: Labels | None = None

    def __post_init__(self) -> None:
        for name, labels in (("labels", self.labels), ("true labels", self.truth)):
            if labels is not None:
                check_labels(name, labels, len(self), len(self.classes))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitems__(self, ids: list[int]) -> Tensor:
        """The raw images with these ids, decoded in threads."""
        images = torch.empty(len(ids), *self.shape, dtype=torch.uint8)

        def fill(place: int) -> None:
            path = self.root / self.paths[ids[place]]
            put(decode(read_bytes(path), path, self.shape[1:]), images[place].numpy())

        for _ in in_threads(fill, range(len(ids)), STREAMED_GROUP):
            pass
        return images

    def take(self, ids: Tensor) -> FolderSource:
        """The source of the samples with these ids, in the order given."""
        paths = tuple(self.paths[i] for i in ids.tolist())
        return replace(
            self, paths=paths, labels=self.labels[ids], truth=None if self.truth is None else self.truth[ids]
        )

    def fingerprint(self) -> str:
        """A hash of the paths, file sizes, labels and class names; the pixels are not read."""
        digest = hashlib.sha256(repr((self.shape, self.classes, self.labels.tolist())).encode())
        for path in self.paths:
            digest.update(f"{path} {(self.root / path).stat().st_size}\n".encode())
        return digest.hexdigest()[:16]


def stream(root: Path, reading: Reading = PLAIN) -> tuple[FolderSource, FolderSource | None]:
    """The training and test part of a folder, decoded on demand; only the headers of the images are read now."""
    found = found_in(root, reading.class_depth)
    heads = heads_of(root, found)
    if any(isinstance(head, InputError) for head in heads.values()):
        raise unreadable(heads)
    shape = common_shape(found, heads, reading)
    (paths, labels), (test_paths, test_labels) = (paths_and_labels(found, part) for part in (TRAIN, "test"))
    train = FolderSource(root, paths, labels, found.classes, (shape.channels, *shape.size))
    return train, replace(train, paths=test_paths, labels=test_labels) if test_paths else None
