"""Labels as names or numbers -> numbers from 0 on, with the names of the classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from orat.core.errors import InputError, unknown

Array = npt.NDArray[Any]
Labels = dict[str, Array]  # by the part of a data set

SPARSE = 2  # numbers up to this multiple of how many occur are class numbers, with gaps


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Class names in their order: by value if all are whole numbers, else by the alphabet."""
    different = set(names)
    numbers = all(re.fullmatch("-?[0-9]+", name) for name in different)
    return tuple(sorted(different, key=(lambda name: (int(name), name)) if numbers else None))


def plain(labels: Array) -> Array:
    """Labels as texts or numbers: one-hot rows as the places of their ones, objects as the texts that they are."""
    if labels.ndim == 2 and labels.shape[1] > 1 and labels.dtype.kind in "biuf":
        ones = (labels == 1).sum(1) == 1
        return labels.argmax(1) if (ones & ((labels == 0).sum(1) == labels.shape[1] - 1)).all() else labels
    if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels.ravel()):
        return labels.astype(str)
    whole = labels.dtype.kind == "f" and (np.isfinite(labels) & (labels == np.rint(labels))).all()
    return labels.astype(np.int64) if whole else labels


def numbered(labels: Labels, names: Sequence[str] | None) -> tuple[Labels, Sequence[str] | None, tuple[str, ...]]:
    """Labels for a training as numbers, the class names unless numbers name them, and a line where numbers changed."""
    if are_texts(labels):
        names = in_order(text for own in labels.values() for text in own.ravel().tolist()) if names is None else names
        return {key: places_of(own, names) for key, own in labels.items()}, names, ()
    if names is not None or not labels or any(own.dtype.kind not in "iu" or own.size == 0 for own in labels.values()):
        return labels, names, ()
    values = np.unique(np.concatenate([own.ravel() for own in labels.values()]))
    if values[0] == 0 and values[-1] < SPARSE * len(values):
        return labels, None, ()
    line = f"{len(values)} different labels from {values[0]} to {values[-1]}: classes are numbered in this order"
    return {key: np.searchsorted(values, own) for key, own in labels.items()}, [str(value) for value in values], (line,)


def matched(labels: Labels, names: Sequence[str] | None, classes: Sequence[str] | None) -> Labels:
    """Labels as numbers of the classes of a network; names decide where there are any."""
    if are_texts(labels):
        if classes is None:
            raise InputError("labels are names: give numbers, in the order of the network's outputs")
        return {key: places_of(own, classes) for key, own in labels.items()}
    is_place = names is not None and all(own.dtype.kind in "iu" and own.max() < len(names) for own in labels.values())
    if is_place and classes is not None and set(names or ()) <= set(classes):
        return {key: places_of(np.asarray(names)[own], classes) for key, own in labels.items()}
    if classes is not None and is_numbers(classes):
        return {key: places_of(own.astype(str), classes) for key, own in labels.items()}
    return labels


def is_numbers(classes: Sequence[str]) -> bool:
    """Whether classes are named by numbers other than 0, 1, 2, ..."""
    usual = [str(number) for number in range(len(classes))]
    return list(classes) != usual and all(re.fullmatch("-?[0-9]+", name) for name in classes)


def are_texts(labels: Labels) -> bool:
    """Whether labels are names of classes."""
    return bool(labels) and all(own.dtype.kind == "U" for own in labels.values())


def places_of(texts: Array, classes: Sequence[str]) -> Array:
    """The place of each name among the classes."""
    found, inverse = np.unique(texts, return_inverse=True)
    if strangers := sorted(set(found.tolist()) - set(classes)):
        raise unknown("class", strangers[0], classes)
    places = {name: place for place, name in enumerate(classes)}
    return np.array([places[name] for name in found.tolist()], dtype=np.int64)[inverse.reshape(texts.shape)]
