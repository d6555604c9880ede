"""Data in memory, or from a user's code: arrays, tensors, torch data sets, and functions that return them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import IterableDataset, TensorDataset

from orat.core.console import Display
from orat.core.domain import PLAIN, Reading
from orat.core.errors import InputError, line_of, unknown
from orat.core.registry import as_input_error, resolve
from orat.data import arrays, table
from orat.data.arrays import KEYS, Array, pixels
from orat.data.classes import Labels, matched, numbered, plain
from orat.data.decode import gray_or_color
from orat.data.image_sizes import of_one_size
from orat.data.source import Dataset, Splits

GIVEN = "the data given"  # in error messages
FORMS = (
    "(x, y), ((x, y), (x_test, y_test)), a dict of arrays as in a .npz, a torch data set of (image, label), "
    "a pair (train, test) of them, orat.data.Dataset or orat.data.Splits"
)

TABLE = ("target", "bounds", "frozen")  # settings of a table

Names = Sequence[str] | None
Coding = Callable[[Labels, Names], tuple[Labels, Names, tuple[str, ...]]]  # of labels as numbers


def read_code(spec: str, reading: Reading = PLAIN) -> Splits:
    """The data at module:attribute or file.py:attribute: an object, or what a function without arguments returns."""
    found = resolve(spec)
    if callable(found) and not is_items(found):
        with as_input_error(f"calling {spec}", "give a function that needs no arguments"):
            found = found()
    return splits_of(found, spec, reading)


def read(data: Any, reading: Reading = PLAIN) -> Splits:
    """The parts of an object in memory."""
    return splits_of(data, reading=reading)


def splits_of(data: Any, name: str = GIVEN, reading: Reading = PLAIN) -> Splits:
    """The parts of data in memory, for a training; `name` is what error messages call the data."""
    if is_frame(data):
        reading.check(name, TABLE)
        return table.read_frame(data, reading.columns, table.FRAME if name == GIVEN else name)
    if (splits := ready(data)) is not None:
        reading.check(name, ("bounds", "frozen"))
        return splits
    return assembled(data, name, reading, numbered)


def dataset_of(data: Any, classes: Sequence[str] | None = None) -> Dataset:
    """Samples in memory for a network with these classes: the test part, or the only part.

    Numbers are the places of the network's outputs. Names, and numbers that are names, are found in `classes`.
    """

    def coding(labels: Labels, names: Names) -> tuple[Labels, Names, tuple[str, ...]]:
        return matched(labels, names, classes), classes or names, ()

    splits = ready(data) or assembled(data, GIVEN, PLAIN, coding)
    if splits.test is None and isinstance(data, Splits):
        raise InputError(f"{GIVEN} have no test part: give one, or the part itself")
    return splits.train if splits.test is None else splits.test


def is_frame(data: Any) -> bool:
    """Whether the data are a data frame, by its looks: neither pandas nor polars is imported."""
    return hasattr(data, "columns") and len(getattr(data, "shape", ())) == 2


def ready(data: Any) -> Splits | None:
    """The parts of data that need no reading."""
    if isinstance(data, Splits):
        return data
    if isinstance(data, Dataset):
        return Splits(data, None)
    if not is_pair(data) or not all(isinstance(part, Dataset) for part in data):
        return None
    train, test = data
    if (train.shape, train.classes) != (test.shape, test.classes):
        raise InputError(f"both parts of {GIVEN} differ in shape or classes: give samples of the same kind")
    return Splits(train, test)


def assembled(data: Any, name: str, reading: Reading, coding: Coding) -> Splits:
    """The parts of arrays or torch data sets, with labels as numbers; Pillow images are brought to one size."""
    content, size, said = of_one_size(by_key(data, name), reading)
    if size is None:
        reading.check(name, ("bounds", "frozen"))
    labels = {key: plain(own) for key, own in content.items() if "y_" in key}
    samples = {key: pixels(f"{key} in {name}", own) for key, own in content.items() if key.startswith("x_")}
    names = content.get("class_names")
    coded, classes, notes = coding(labels, None if names is None else [str(one) for one in names.ravel().tolist()])
    if classes is not None:
        content["class_names"] = np.asarray(classes)
    splits = arrays.splits(name, content | samples | coded, reading.columns)
    chosen = size if said else None
    return replace(splits, notes=(*said, *splits.notes, *notes), image_size=chosen)


def by_key(data: Any, name: str) -> dict[str, Any]:
    """The arrays of the data, or their lists of Pillow images, by the keys of a .npz file."""
    if isinstance(data, Mapping):
        if strangers := [str(key) for key in data if key not in KEYS]:
            raise unknown(f"array in {name}:", strangers[0], KEYS)
        return {key: array_of(f"{key} in {name}", value) for key, value in data.items()}
    has_test = is_pair(data) and all(is_pair(part) or is_items(part) for part in data)
    content: dict[str, Any] = {}
    for part, own in zip(("train", "test"), data if has_test else (data,), strict=False):
        x, y, names = columns_of(own, name)
        content |= {f"x_{part}": x, f"y_{part}": y}
        if names is not None and content.setdefault("class_names", names).tolist() != names.tolist():
            raise InputError(f"both parts of {name} have classes, but not the same: give both the same in one order")
    return content


def columns_of(data: Any, name: str) -> tuple[Any, Array, Array | None]:
    """The samples of one part, an array or a list of Pillow images; its labels, and the class names if it has any."""
    if isinstance(data, TensorDataset):
        data = data.tensors
    if is_items(data):
        return *stacked(data, name), classes_in(data)
    if not isinstance(data, tuple | list) or len(data) != 2:
        kind = f"{len(data)} values" if isinstance(data, tuple | list) else type(data).__name__
        raise InputError(f"cannot read {name}, {kind}: give {FORMS}")
    return array_of(f"x in {name}", data[0]), array_of(f"y in {name}", data[1]), None


def is_pair(data: Any) -> bool:
    """Whether the data are a tuple of two."""
    return isinstance(data, tuple) and len(data) == 2


def is_items(data: Any) -> bool:
    """Whether the data give samples one by one: a torch data set, or a list of (image, label)."""
    if isinstance(data, list):
        return bool(data) and isinstance(data[0], tuple)
    if isinstance(data, type | str | bytes | Mapping | Sequence | Tensor) or hasattr(data, "__array__"):
        return False
    return isinstance(data, IterableDataset) or (hasattr(data, "__getitem__") and hasattr(data, "__len__"))


def array_of(name: str, value: Any) -> Array:
    """An array, a tensor on any device, a list or a column of a table as an array."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} is no array ({line_of(error)}): give samples of one shape") from error


def stacked(data: Any, name: str) -> tuple[Any, Array]:
    """The samples of a data set, an array or a list of Pillow images, and its labels; read once."""
    name = f"{name} ({type(data).__name__})" if name == GIVEN else name
    samples: list[Any] = []
    labels: list[Array] = []
    for place, item in enumerate(items_of(data, name)):
        if not isinstance(item, tuple | list) or len(item) != 2:
            kind = f"{len(item)} values" if isinstance(item, tuple | list) else type(item).__name__
            raise InputError(f"item {place} of {name} is {kind}: give (image, label)")
        samples.append(sample_of(f"the image of item {place} of {name}", item[0]))
        labels.append(array_of(f"the label of item {place} of {name}", item[1]))
        if (shape := shape_of(samples[-1])) != (first := shape_of(samples[0])):
            seen = f"{first} in item 0, {shape} in item {place}"
            raise InputError(f"images of {name} differ in shape, {seen}: bring all to one, as by a transform")
        if labels[-1].shape != labels[0].shape or labels[-1].dtype.kind != labels[0].dtype.kind:
            raise InputError(f"labels of {name} differ in kind, {item[1]!r} in item {place}: give integers or names")
    if not samples:
        raise InputError(f"{name} is empty: give at least one sample")
    return samples if isinstance(samples[0], Image.Image) else np.stack(samples), np.stack(labels)


def shape_of(sample: Array | Image.Image) -> tuple[int, ...]:
    """The shape of an array; none for a Pillow image, which can be resized."""
    return () if isinstance(sample, Image.Image) else sample.shape


def items_of(data: Any, name: str) -> Iterator[Any]:
    """The items of a data set with a progress bar; an error of the user's code becomes one line."""
    total = None if isinstance(data, IterableDataset) else len(data)
    stream = iter(data) if total is None else (data[place] for place in range(total))
    with as_input_error(f"reading {name}", "mend the data set"):
        yield from stream if total is None else Display().track(stream, "reading the data", total)


def sample_of(name: str, sample: Any) -> Array | Image.Image:
    """One image as an array or in gray or color, or a vector."""
    if isinstance(sample, Image.Image):
        with as_input_error(f"reading {name}", "give images that Pillow can convert"):
            return gray_or_color(sample, name)
    return array_of(name, sample)


def classes_in(data: Any) -> Array | None:
    """The class names of a torch data set, or of the data set of which it is a part."""
    names = getattr(data, "classes", None)
    if isinstance(names, tuple | list):
        return np.asarray([str(name) for name in names])
    return classes_in(data.dataset) if hasattr(data, "dataset") else None
