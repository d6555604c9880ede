"""Arrays in an .npz file: x_train and y_train, optionally x_test, y_test, true_y_train and class_names."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from orat.core.domain import UNIT, USUAL, Columns, Domain
from orat.core.errors import InputError, line_of
from orat.data.classes import are_texts, numbered, plain
from orat.data.features import domain_of
from orat.data.source import Dataset, Splits

Array = npt.NDArray[Any]

CHANNELS = (1, 3)
KEYS = ("x_train", "y_train", "x_test", "y_test", "true_y_train", "class_names")
BROKEN = (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError)

PIXELS = (
    "vectors in [0, 1] are taken as pixels: eps counts in units of the values; for standard deviations of each "
    "feature, give bounds 0,1"
)

# The rounding error of pixels divided by 255 and saved as floats; half a level of 8 bits is 0.002.
LOSSLESS = 1e-3
LARGEST = float(np.finfo(np.float32).max)


def read(file: Path, columns: Columns = USUAL) -> Splits:
    """The parts in one .npz file."""
    return splits(str(file), with_numbers(load_arrays(file)), columns)


def with_numbers(content: dict[str, Array]) -> dict[str, Array]:
    """The arrays with numbers in place of names and of one-hot rows; the names become those of the classes."""
    labels = {key: plain(array) for key, array in content.items() if "y_" in key}
    if not are_texts(labels):
        return content | labels
    given = content.get("class_names")
    coded, names, _ = numbered(labels, None if given is None else classes_of(given, ()))
    return content | coded | {"class_names": np.asarray(names)}


def splits(file: str, arrays: dict[str, Array], columns: Columns = USUAL) -> Splits:
    """The parts in arrays with the names of `KEYS`; `file` is what error messages call them."""
    for key in ("x_train", "y_train", *(("x_test", "y_test") if {"x_test", "y_test"} & arrays.keys() else ())):
        if key not in arrays:
            raise InputError(f"{file} has no {key!r}, only {', '.join(sorted(arrays)) or 'nothing known'}: add it")
    samples = as_bytes({key: samples_of(file, key, arrays[key]) for key in ("x_train", "x_test") if key in arrays})
    shapes = [array.shape[1:] for array in samples.values()]
    if shapes[0] != shapes[-1]:
        raise InputError(f"{file}: x_train has samples of {shapes[0]}, x_test of {shapes[-1]}: give both one shape")
    labels = {key: labels_of(file, key, arrays[key]) for key in ("y_train", "y_test", "true_y_train") if key in arrays}
    classes = classes_of(arrays.get("class_names"), labels.values())
    domain, notes = domain_within(file, list(samples.values()), columns)
    train = dataset(samples["x_train"], labels["y_train"], classes, domain, labels.get("true_y_train"))
    test = dataset(samples["x_test"], labels["y_test"], classes, domain) if "x_test" in samples else None
    return Splits(train, test, notes=notes)


def domain_within(file: str, parts: list[Array], columns: Columns) -> tuple[Domain, tuple[str, ...]]:
    """The domain of the samples, and what to say: of features if they leave [0, 1] or the columns say so."""
    if columns.target is not None or (columns != USUAL and parts[0].ndim != 2):
        raise InputError(f"target is for tables, bounds and frozen for tables and vectors: leave them out for {file}")
    if parts[0].ndim != 2 or (columns == USUAL and all(part.min() >= 0 and part.max() <= 1 for part in parts)):
        return UNIT, (PIXELS,) if parts[0].ndim == 2 else ()
    places = {str(place): (place,) for place in range(parts[0].shape[1])}
    domain, line = domain_of([torch.from_numpy(part) for part in parts], places, columns)
    return domain, (line,)


def load_arrays(file: Path) -> dict[str, Array]:
    """The known arrays of an .npz file by name."""
    try:
        # np.load(path) does not close the file if the file is no zip archive.
        with file.open("rb") as stream:
            content = np.load(stream, allow_pickle=False)
            if isinstance(content, np.ndarray):
                raise InputError(f"{file} holds a single array: save with np.savez(file, x_train=..., y_train=...)")
            if "x_train" not in content.files:
                found = ", ".join(content.files) or "nothing"
                raise InputError(f"{file} has no 'x_train', only {found}: save it with x_train=... and y_train=...")
            return {key: content[key] for key in KEYS if key in content.files}
    except InputError:
        raise
    except BROKEN as error:
        raise InputError(f"cannot read {file} as .npz ({line_of(error)}): save it again with np.savez") from error


def samples_of(file: str, key: str, array: Array) -> Array:
    """Images (n, channels, height, width) as uint8 or float32 in [0, 1], or vectors (n, d) as float32."""
    name = f"{key} in {file}"
    if array.size == 0:
        raise InputError(f"{name} is empty, of shape {array.shape}: give at least one sample")
    if array.dtype != np.uint8:
        array = single(name, pixels(name, array))
    if array.ndim == 2:
        if array.dtype == np.uint8:
            raise InputError(f"{name} is uint8 of shape {array.shape}: give images 3 or 4 axes, and vectors as floats")
        return array
    return channels_first(name, array)


def pixels(name: str, array: Array) -> Array:
    """Integer images of 0 to 255 as uint8; all other arrays as they are."""
    if array.dtype.kind not in "iu" or array.ndim < 3 or array.size == 0:
        return array
    low, high = array.min(), array.max()
    if high == 1:
        raise InputError(f"{name} holds integers up to 1: give pixels as integers up to 255, or as floats in [0, 1]")
    return array.astype(np.uint8) if low >= 0 and high <= 255 else array


def single(name: str, array: Array) -> Array:
    """The array as float32; images outside of [0, 1] are refused."""
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} holds {array.dtype}: give pixels as uint8, or floats in [0, 1]")
    low, high = float(array.min()), float(array.max())
    if not (low >= -LARGEST and high <= LARGEST):
        raise InputError(f"{name} holds NaN or infinity: remove or mend these samples")
    if array.ndim == 2:
        return np.ascontiguousarray(array, np.float32)
    if array.dtype.kind != "f" or low < 0 or high > 1:
        advice = "store pixels as uint8" if low >= 0 and high <= 255 else "rescale to [0, 1]"
        raise InputError(f"{name} is {array.dtype} from {low:g} to {high:g}: {advice}")
    return array.astype(np.float32)


def channels_first(name: str, array: Array) -> Array:
    """Images as (n, channels, height, width)."""
    if array.ndim == 3:
        return array[:, None]
    if array.ndim != 4:
        raise InputError(f"{name} has the shape {array.shape}: give (n, H, W), (n, H, W, C), (n, C, H, W) or (n, d)")
    first, last = array.shape[1] in CHANNELS, array.shape[3] in CHANNELS
    if first and last:
        raise InputError(
            f"{name} has the shape {array.shape}: both ends could be channels; transpose, or pad the images"
        )
    if not first and not last:
        raise InputError(f"{name} has the shape {array.shape}: give 1 or 3 channels (drop a fourth, alpha)")
    return array if first else array.transpose(0, 3, 1, 2)


def as_bytes(samples: dict[str, Array]) -> dict[str, Array]:
    """The images of all parts as uint8 if no float image loses precision, else as float32."""
    if any(array.ndim == 2 for array in samples.values()):
        return samples
    floats = [array for array in samples.values() if array.dtype != np.uint8]
    if all(np.abs(np.rint(array * 255) / 255 - array).max() <= LOSSLESS for array in floats):
        return {key: levels(array) for key, array in samples.items()}
    return {
        key: array if array.dtype != np.uint8 else (array / 255).astype(np.float32) for key, array in samples.items()
    }


def levels(array: Array) -> Array:
    """The images as uint8."""
    return array if array.dtype == np.uint8 else np.rint(array * 255).astype(np.uint8)


def labels_of(file: str, key: str, array: Array) -> Array:
    """The labels as int64 of shape (n,)."""
    name = f"{key} in {file}"
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"{name} has the shape {array.shape}: give names or integers of shape (n,), or one-hot rows")
    if array.size == 0:
        raise InputError(f"{name} is empty: give one label a sample")
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} holds {array.dtype}: give names as texts, or integers")
    if array.dtype.kind == "f" and not (np.isfinite(array) & (array == np.floor(array))).all():
        raise InputError(f"{name} holds fractions or NaN, from {array.min():g} to {array.max():g}: give integers")
    if array.min() < 0:
        raise InputError(f"{name} holds {array.min():g}: give integers from 0 on")
    return array.astype(np.int64)


def classes_of(names: Array | None, labels: Iterable[Array]) -> tuple[str, ...]:
    """The class names given, or the numbers up to the largest label."""
    if names is None:
        return tuple(str(i) for i in range(1 + max(int(array.max()) for array in labels)))
    return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names.ravel().tolist())


def dataset(
    samples: Array, labels: Array, classes: tuple[str, ...], domain: Domain = UNIT, truth: Array | None = None
) -> Dataset:
    """One part as a data set."""
    return Dataset(
        images=torch.from_numpy(np.ascontiguousarray(samples)),
        labels=torch.from_numpy(labels),
        classes=classes,
        truth=None if truth is None else torch.from_numpy(truth),
        domain=domain,
    )
