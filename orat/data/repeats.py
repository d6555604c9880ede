"""Images that a data set holds more than once: under two labels, in two parts, or twice in one class."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeVar

from orat.core.errors import counted
from orat.data.image_files import TRAIN, File, first
from orat.data.source import Dataset, Splits

DIGEST = 16  # bytes of a hash
Sample = TypeVar("Sample")


@dataclass(frozen=True)
class Repeat:
    """Samples with the same pixels."""

    files: tuple[File, ...]
    is_same_file: bool = False  # whether the files agree in every byte

    @property
    def labels(self) -> tuple[str, ...]:
        """The different labels, in the order of the files."""
        return tuple(dict.fromkeys(file.label for file in self.files))

    @property
    def parts(self) -> tuple[str, ...]:
        """The different parts, in the order of the files."""
        return tuple(dict.fromkeys(file.part for file in self.files))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the repeat: under two labels, in two parts, twice in one class."""
        return tuple(kind for kind, belongs in KINDS.items() if belongs(self))

    @property
    def words(self) -> str:
        """The kinds, labels and paths in one line."""
        equal = "identical files" if self.is_same_file else "equal pixels"
        return f"{', '.join(self.kinds)} ({equal}): {', '.join(file.path for file in self.files)}"

    def record(self) -> dict[str, Any]:
        """The repeat as plain JSON."""
        files = [{"path": file.path, "part": file.part, "label": file.label} for file in self.files]
        return {"kinds": list(self.kinds), "identical_files": self.is_same_file, "files": files}


UNDER_TWO_LABELS, IN_TWO_PARTS, IN_ONE_CLASS = "under two labels", "in two parts", "twice in one class"
KINDS: dict[str, Callable[[Repeat], bool]] = {
    UNDER_TWO_LABELS: lambda repeat: len(repeat.labels) > 1,
    IN_TWO_PARTS: lambda repeat: len(repeat.parts) > 1,
    IN_ONE_CLASS: lambda repeat: len(repeat.files) > len({(file.part, file.label) for file in repeat.files}),
}


def same(samples: Iterable[tuple[str, Sample]]) -> list[list[Sample]]:
    """The samples with a key that another sample has too, by key."""
    groups: dict[str, list[Sample]] = defaultdict(list)
    for key, sample in samples:
        groups[key].append(sample)
    return [group for group in groups.values() if len(group) > 1]


def in_memory(splits: Splits) -> tuple[Repeat, ...]:
    """The repeated images of a data set in memory; samples of tables may be equal, and are no repeats."""
    if len(splits.train.shape) != 3:
        return ()
    parts = {TRAIN: splits.train, "validation": splits.validation, "test": splits.test}
    images = {part: own.images.cpu().contiguous().numpy() for part, own in parts.items() if own is not None}
    keys = (
        (blake2b(row, digest_size=DIGEST).hexdigest(), (part, place))
        for part, rows in images.items()
        for place, row in enumerate(rows)
    )
    return tuple(
        Repeat(tuple(file_of(part, parts[part], place) for part, place in group))  # type: ignore[arg-type]
        for group in same(keys)
    )


def file_of(part: str, dataset: Dataset, place: int) -> File:
    """A sample as a file: by its path, or by its part and place."""
    path = f"{part}[{place}]" if dataset.paths is None else dataset.paths[place]
    return File(part, dataset.classes[int(dataset.labels[place])], path, path)


def by_kind(repeats: Sequence[Repeat]) -> Mapping[str, list[Repeat]]:
    """The repeats of each kind."""
    return {kind: [repeat for repeat in repeats if kind in repeat.kinds] for kind in KINDS}


def warning(name: str, repeats: Sequence[Repeat], depth: int = 1) -> list[str]:
    """The line about images under two labels or in two parts, which spoil a training or its test; else no line."""
    found = by_kind(repeats)
    texts = [
        f"{counted(len(found[kind]), 'image')} {kind} ({first([file.path for file in found[kind][0].files])})"
        for kind in (UNDER_TWO_LABELS, IN_TWO_PARTS)
        if found[kind]
    ]
    command = shlex.join(["orat", "data", name, *(["--class-depth", str(depth)] if depth > 1 else [])])
    return [f"{name} holds {' and '.join(texts)}: `{command}` lists all"] if texts else []
