"""New samples without labels, in the shape that a network was trained on: image files, arrays and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from orat.core.console import SILENT, Display
from orat.core.errors import InputError, line_of
from orat.core.files import read_bytes
from orat.data.arrays import BROKEN, channels_first
from orat.data.decode import decode, in_threads
from orat.data.image_files import ENDINGS
from orat.data.prediction_files import csv_columns

ARRAYS, TABLES = (".npy", ".npz"), (".csv",)
KEYS = ("x", "x_test")  # of the samples in an .npz file with several arrays
KINDS = f"a folder of images, images ({', '.join(ENDINGS)}), or one array or table ({', '.join(ARRAYS + TABLES)})"

Columns = Mapping[str, Sequence[str]]


@dataclass(frozen=True, eq=False)
class Unlabeled:
    """New samples as they go into a network."""

    samples: Tensor  # (n, *shape), uint8 or floats
    paths: tuple[str, ...] | None = None  # of image files
    broken: tuple[str, ...] = ()  # a line for each image that cannot be read
    skipped: int = 0  # files of folders that are no images


def read(source: Any, shape: tuple[int, ...], features: Sequence[str] | None, display: Display = SILENT) -> Unlabeled:
    """The samples in files, an array, a tensor or a data frame; `features` are the names in a table."""
    if isinstance(source, Tensor):
        return Unlabeled(from_array("the tensor", source.detach().cpu().numpy(), shape))
    if isinstance(source, np.ndarray):
        return Unlabeled(from_array("the array", source, shape))
    if hasattr(source, "columns"):
        columns = {str(name): [str(cell) for cell in source[name]] for name in source.columns}
        return Unlabeled(from_columns("the data frame", columns, features))
    return from_files([source] if isinstance(source, str | Path) else source, shape, features, display)


def from_files(
    source: Iterable[Any], shape: tuple[int, ...], features: Sequence[str] | None, display: Display
) -> Unlabeled:
    """The samples in images and folders, or in one array or table."""
    given = list(source) if isinstance(source, Iterable) else [source]
    if not given or not all(isinstance(path, str | Path) for path in given):
        raise InputError(f"samples are a {type(source).__name__}: give paths, an array, a tensor or a data frame")
    paths = [Path(path).expanduser() for path in given]
    for path in paths:
        if not path.exists():
            raise InputError(f"there is no {path}: give {KINDS}")
    if len(paths) == 1 and paths[0].suffix in ARRAYS:
        return Unlabeled(from_array(str(paths[0]), array_in(paths[0]), shape))
    if len(paths) == 1 and paths[0].suffix in TABLES:
        return Unlabeled(from_columns(str(paths[0]), csv_columns(paths[0]), features))
    return from_images(paths, shape, display)


def from_images(paths: Iterable[Path], shape: tuple[int, ...], display: Display) -> Unlabeled:
    """The images in these files and folders, resized; a broken image is left out, and has a line."""
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise InputError(f"the network was trained on samples of shape {shape}, not on images: give an array or table")
    found = list(dict.fromkeys(file for path in paths for file in files_in(path)))
    files = [file for file in found if file.suffix.lower() in ENDINGS]
    if not files:
        raise InputError(f"there are no images ({', '.join(ENDINGS)}) in {', '.join(map(str, paths))}")
    samples = torch.empty(len(files), *shape, dtype=torch.uint8)
    rows = samples.numpy()

    def fill(item: tuple[int, Path]) -> str | None:
        row, file = item
        try:
            rows[row] = pixels_of(file, shape)
        except InputError as error:
            return str(error)
        return None

    lines = list(display.track(in_threads(fill, enumerate(files)), "reading images", len(files)))
    whole = [row for row, line in enumerate(lines) if line is None]
    broken = tuple(line for line in lines if line is not None)
    if not whole:
        raise InputError(f"none of {len(files):,} images can be read: {broken[0]}")
    return Unlabeled(
        samples[whole] if broken else samples, tuple(str(files[row]) for row in whole), broken, len(found) - len(files)
    )


def files_in(path: Path) -> Iterator[Path]:
    """The visible files of a folder at any depth, sorted; a file itself if it is an image."""
    if not path.is_dir():
        if path.suffix.lower() not in ENDINGS:
            raise InputError(f"{path} cannot be read with others or is of no known kind: give {KINDS}")
        yield path
        return
    for inside in sorted(path.iterdir()):
        if not inside.name.startswith("."):
            yield from files_in(inside) if inside.is_dir() else [inside]


def pixels_of(file: Path, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """The pixels (channels, height, width) of an image, turned gray for a network of gray images."""
    pixels = decode(read_bytes(file), file, (shape[1], shape[2]))
    if pixels.ndim == 3 and shape[0] == 1:
        pixels = np.asarray(Image.fromarray(pixels).convert("L"))
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def array_in(path: Path) -> npt.NDArray[Any]:
    """The array of a .npy file, or the samples among the arrays of an .npz file."""
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return content
            arrays = dict(content)
    except BROKEN as error:
        raise InputError(f"cannot read {path} ({line_of(error)}): save it again with np.save") from error
    key = next((key for key in KEYS if key in arrays), None)
    if key is None and len(arrays) != 1:
        raise InputError(f"{path} holds {', '.join(arrays) or 'no array'}: name the array of the samples x")
    return arrays[key] if key is not None else next(iter(arrays.values()))


def from_array(name: str, array: npt.NDArray[Any], shape: tuple[int, ...]) -> Tensor:
    """The samples of an array (n, *shape), or of images with channels last or without channels."""
    if array.dtype.kind not in "uif" or not array.size:
        raise InputError(f"{name} holds {array.dtype} of shape {array.shape}: give numbers, one row a sample")
    if array.dtype != np.uint8 or len(shape) == 1:
        array = array.astype(np.float32)
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds NaN or infinity: remove or mend these samples")
    if len(shape) == 3 and array.shape[1:] != shape and array.ndim in (3, 4):
        array = channels_first(name, array)
    if array.shape[1:] != shape:
        raise InputError(f"{name} has samples of shape {array.shape[1:]}: give the shape of the training, {shape}")
    return torch.from_numpy(np.ascontiguousarray(array))


def from_columns(name: str, columns: Columns, features: Sequence[str] | None) -> Tensor:
    """The features (n, d) of a table with the columns of the training; further columns are left out."""
    if features is None:
        raise InputError(f"{name} is a table, but the network was not trained on a table: give images or an array")
    for column in columns:
        check_texts(name, column, columns[column], features)
    return torch.from_numpy(np.stack([feature_of(name, columns, feature) for feature in features], 1))


def check_texts(name: str, column: str, cells: Sequence[str], features: Sequence[str]) -> None:
    """Refuses texts that the training did not have in a column of text."""
    known = {feature for feature in features if feature.startswith(f"{column}=") and column not in features}
    for row, cell in enumerate(cells if known else ()):
        if f"{column}={cell}" not in known:
            raise InputError(f"{name}, column {column!r}, row {row}: {cell!r} was not in the training: remove the row")


def feature_of(name: str, columns: Columns, feature: str) -> npt.NDArray[np.float32]:
    """The values of a feature: a column of numbers, or 0 and 1 for a feature `column=text`."""
    if feature in columns:
        return numbers_of(name, feature, columns[feature])
    column = next((column for column in columns if feature.startswith(f"{column}=")), None)
    if column is None:
        raise InputError(f"{name} has no column {feature.partition('=')[0]!r}: give all columns of the training")
    return np.array([f"{column}={cell}" == feature for cell in columns[column]], np.float32)


def numbers_of(name: str, column: str, cells: Sequence[str]) -> npt.NDArray[np.float32]:
    """The numbers in a column; missing, infinite and other values are refused."""
    values = np.full(len(cells), np.nan, np.float32)
    for row, cell in enumerate(cells):
        try:
            values[row] = float(cell)
        except ValueError:
            raise InputError(f"{name}, column {column!r}, row {row}: {cell!r} is no number: mend it") from None
    bad = (~np.isfinite(values)).nonzero()[0].tolist()
    if bad:
        raise InputError(f"{name}, column {column!r}, row {bad[0]}: {cells[bad[0]]!r} is no finite number: mend it")
    return values
