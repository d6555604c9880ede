"""What a data set holds: samples by class and part, sizes, and files that need a look; nothing is changed."""

from __future__ import annotations

import io
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from orat.core.console import SILENT, Display
from orat.core.domain import PLAIN, Reading, Size
from orat.core.errors import InputError
from orat.core.files import read_bytes
from orat.data import catalog, listing
from orat.data.decode import Head, Pixels, decode, header, in_threads
from orat.data.folder import PARTS, common_shape
from orat.data.image_files import TRAIN, File, Found, contents, found_in
from orat.data.pictures import drawable, image_of
from orat.data.repeats import DIGEST, Repeat, in_memory, same
from orat.data.source import Dataset, Splits

GROUP = 4  # images in one task of the pool: they are decoded in full
PICTURES, MOST_PICTURES = 8, 600  # of a class, and in all
THUMBNAIL = 160  # pixels of the longer side


@dataclass(frozen=True, eq=False)
class Inspection:
    """The content of a data set."""

    classes: tuple[str, ...]
    counts: Mapping[str, tuple[int, ...]]  # by part: the samples of each class
    shape: tuple[int, ...] | None  # of a sample in a training; None if no image can be read
    sizes: Mapping[Size, int] = field(default_factory=dict)  # images by (height, width) in their files
    notes: tuple[str, ...] = ()  # how the data are read
    skipped: tuple[str, ...] = ()  # files that are no images of the data set
    broken: Mapping[str, str] = field(default_factory=dict)  # by path: the reason
    repeats: tuple[Repeat, ...] = ()
    pictures: Mapping[str, tuple[Image.Image, ...]] = field(default_factory=dict)  # a few of each class

    def rows(self) -> list[dict[str, Any]]:
        """One row a class: the samples of each part."""
        parts = self.counts.items()
        return [
            {"class": name, **{part: counts[place] for part, counts in parts}}
            for place, name in enumerate(self.classes)
        ]

    @property
    def total(self) -> dict[str, int]:
        """The samples of each part."""
        return {part: sum(counts) for part, counts in self.counts.items()}

    def record(self) -> dict[str, Any]:
        """The content as plain JSON, without pictures."""
        return {
            **self.total, "shape": None if self.shape is None else list(self.shape), "classes": self.rows(),
            "sizes": [{"height": size[0], "width": size[1], "images": n} for size, n in sorted(self.sizes.items())],
            "notes": list(self.notes), "skipped": list(self.skipped),
            "broken": [{"path": path, "reason": reason} for path, reason in self.broken.items()],
            "repeats": [repeat.record() for repeat in self.repeats],
        }  # fmt: skip


def inspect(
    data: str | os.PathLike[str],
    data_dir: str | Path | None = None,
    reading: Reading = PLAIN,
    display: Display = SILENT,
) -> Inspection:
    """The content of a data set; images in files are read one by one, and broken ones do not stop it."""
    name = os.fspath(data)
    path = Path(name).expanduser()
    if catalog.is_path(name) and catalog.holds_images(path):
        reading.check(name, catalog.USED["images"])
        return of_files(path, found_in(path, reading.class_depth), reading, display)
    if catalog.is_path(name) and catalog.lists_images(path, reading.target):
        reading.check(name, catalog.USED["listing"])
        return of_files(path.parent, listing.found_in(path), reading, display)
    return of_splits(catalog.load(name, data_dir, **vars(reading)))


@dataclass(frozen=True, eq=False)
class Look:
    """One image file: its header and hashes, or the reason why it cannot be read."""

    file: File
    head: Head | InputError
    content: str = ""  # hash of the bytes
    pixels: str = ""  # hash of the decoded pixels
    thumbnail: Image.Image | None = None


def of_files(root: Path, found: Found, reading: Reading, display: Display) -> Inspection:
    """The content of image files, each decoded in full and dropped again."""
    wanted = {file.path for files in samples_of_classes(found).values() for file in files}

    def look(item: tuple[File, bytes | None]) -> Look:
        file, raw = item
        try:
            return look_at(file, read_bytes(root / file.path) if raw is None else raw, root, file.path in wanted)
        except InputError as error:
            return Look(file, error)

    looks = list(display.track(in_threads(look, contents(root, found), GROUP), "reading images", len(found.files)))
    whole = {one.file.path: one.head for one in looks if isinstance(one.head, Head)}
    shape = common_shape(found, whole, reading) if whole else None
    return Inspection(
        found.classes,
        {part: counts for part in PARTS if any(counts := counts_of(found, part))},
        None if shape is None else (shape.channels, *shape.size),
        Counter(head.size for head in whole.values()),
        (*found.notes, *(() if shape is None else shape.notes)),
        found.skipped,
        {one.file.path: str(one.head) for one in looks if isinstance(one.head, InputError)},
        repeats_of(looks),
        {label: thumbnails(looks, label) for label in shown(found.classes)},
    )


def thumbnails(looks: Sequence[Look], label: str) -> tuple[Image.Image, ...]:
    """The small pictures of a class."""
    return tuple(one.thumbnail for one in looks if one.thumbnail is not None and one.file.label == label)


def look_at(file: File, raw: bytes, root: Path, has_thumbnail: bool) -> Look:
    """The header, hashes and thumbnail of an image; broken images are refused."""
    head = header(io.BytesIO(raw), root / file.path)
    pixels = decode(raw, root / file.path, None)
    thumbnail = None
    if has_thumbnail:
        thumbnail = Image.fromarray(pixels)
        thumbnail.thumbnail((THUMBNAIL, THUMBNAIL))
    return Look(file, head, blake2b(raw, digest_size=DIGEST).hexdigest(), hash_of(pixels), thumbnail)


def hash_of(pixels: Pixels) -> str:
    """A hash of decoded pixels; gray pixels count as colored ones with equal channels."""
    color = np.broadcast_to(pixels[..., None], (*pixels.shape, 3)) if pixels.ndim == 2 else pixels
    digest = blake2b(repr(color.shape).encode(), digest_size=DIGEST)
    digest.update(color.tobytes())
    return digest.hexdigest()


def repeats_of(looks: Iterable[Look]) -> tuple[Repeat, ...]:
    """The images that stand in several files, in the order of the first file."""
    groups = same((one.pixels, one) for one in looks if one.pixels)
    return tuple(Repeat(tuple(one.file for one in group), len({one.content for one in group}) == 1) for group in groups)


def counts_of(found: Found, part: str) -> tuple[int, ...]:
    """The images of each class in a part."""
    counts = Counter(file.label for file in found.part(part))
    return tuple(counts[label] for label in found.classes)


def samples_of_classes(found: Found) -> dict[str, Sequence[File]]:
    """A few training images of each class, evenly spaced."""
    by_class = defaultdict(list)
    for file in found.part(TRAIN):
        by_class[file.label].append(file)
    return {label: spaced(by_class[label], number_of_pictures(found.classes)) for label in shown(found.classes)}


def shown(classes: Sequence[str]) -> Sequence[str]:
    """The classes with pictures: all of them, unless there are very many."""
    return classes[:MOST_PICTURES]


def number_of_pictures(classes: Sequence[str]) -> int:
    """The pictures of a class."""
    return max(1, min(PICTURES, MOST_PICTURES // len(classes)))


def spaced(items: Sequence[File], count: int) -> Sequence[File]:
    """At most `count` items with equal steps between them."""
    return [items[i * len(items) // count] for i in range(count)] if len(items) > count else items


def of_splits(splits: Splits) -> Inspection:
    """The content of a data set in memory."""
    parts = {TRAIN: splits.train, "validation": splits.validation, "test": splits.test}
    classes, train = splits.train.classes, splits.train
    counts = {
        part: tuple(own.labels.bincount(minlength=len(classes)).tolist())
        for part, own in parts.items()
        if own is not None
    }
    pictures = {name: pictures_of(train, label) for label, name in enumerate(shown(classes))}
    sizes = {(train.shape[1], train.shape[2]): sum(map(sum, counts.values()))} if len(train.shape) == 3 else {}
    return Inspection(
        classes, counts, train.shape, sizes, splits.notes, repeats=in_memory(splits),
        pictures=pictures if drawable(train.shape) else {},
    )  # fmt: skip


def pictures_of(train: Dataset, label: int) -> tuple[Image.Image, ...]:
    """A few training images of a class, evenly spaced."""
    if not drawable(train.shape):
        return ()
    ids = (train.labels == label).nonzero().flatten()
    count = min(number_of_pictures(train.classes), len(ids))
    return tuple(map(image_of, train.images[ids[torch.arange(count) * len(ids) // max(count, 1)]]))
