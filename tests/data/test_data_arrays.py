"""Arrays in .npz files: every accepted layout, and every refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orat.core.errors import InputError
from orat.data import arrays

RNG = np.random.default_rng(0)
GRAY = RNG.integers(0, 256, (5, 4, 6), dtype=np.uint8)
GRAY[0, 0, :2] = 0, 255
COLOR = RNG.integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)
POINTS = RNG.random((5, 2))
LABELS = np.array([0, 1, 2, 1, 0])


def save(folder: Path, **content: Any) -> Path:
    """An .npz file of these arrays."""
    file = folder / "data.npz"
    np.savez(file, **content)
    return file


def message(file: Path) -> str:
    """The error message of reading a file: one line with the name of the file."""
    with pytest.raises(InputError) as caught:
        arrays.read(file)
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        (GRAY, GRAY[:, None]),
        (GRAY[..., None], GRAY[:, None]),
        (GRAY[:, None], GRAY[:, None]),
        (COLOR, COLOR.transpose(0, 3, 1, 2)),
        (COLOR.transpose(0, 3, 1, 2), COLOR.transpose(0, 3, 1, 2)),
        (COLOR.astype(np.int64), COLOR.transpose(0, 3, 1, 2)),
    ],
)
def test_every_layout_of_images_ends_with_channels_first(tmp_path: Path, x: Any, wanted: Any) -> None:
    splits = arrays.read(save(tmp_path, x_train=x, y_train=LABELS))
    assert splits.train.images.dtype == torch.uint8
    assert splits.train.images.numpy().tolist() == wanted.tolist()
    assert splits.test is None


def test_test_part_true_labels_and_names_are_read(tmp_path: Path) -> None:
    file = save(
        tmp_path,
        x_train=GRAY,
        y_train=LABELS,
        x_test=GRAY[:2],
        y_test=np.array([3, 3]),
        true_y_train=LABELS[::-1],
        class_names=np.array(["ant", "bee", "cat", "dog"]),
    )
    splits = arrays.read(file)
    assert splits.train.classes == ("ant", "bee", "cat", "dog")
    assert splits.train.truth is not None
    assert splits.train.truth.tolist() == LABELS[::-1].tolist()
    assert splits.test is not None
    assert splits.test.labels.tolist() == [3, 3]


def test_names_become_numbers_in_the_order_of_the_alphabet_or_of_the_given_classes(tmp_path: Path) -> None:
    names = np.array(["dog", "cat", "ant", "cat", "dog"])
    train = arrays.read(save(tmp_path, x_train=GRAY, y_train=names)).train
    assert train.classes == tuple(sorted(set(names.tolist())))
    assert [train.classes[place] for place in train.labels.tolist()] == names.tolist()
    given = ("dog", "eel", "cat", "ant")
    other = arrays.read(save(tmp_path, x_train=GRAY, y_train=names, class_names=np.array(given))).train
    assert other.classes == given
    assert [given[place] for place in other.labels.tolist()] == names.tolist()


def test_one_hot_rows_are_their_argmax(tmp_path: Path) -> None:
    train = arrays.read(save(tmp_path, x_train=GRAY, y_train=np.eye(3)[LABELS])).train
    assert train.labels.tolist() == np.eye(3)[LABELS].argmax(1).tolist()


def test_classes_count_up_to_the_largest_label_of_any_part(tmp_path: Path) -> None:
    splits = arrays.read(save(tmp_path, x_train=GRAY, y_train=LABELS, x_test=GRAY[:1], y_test=np.array([4])))
    assert splits.train.classes == ("0", "1", "2", "3", "4")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_stay_floats(tmp_path: Path, dtype: Any) -> None:
    train = arrays.read(save(tmp_path, x_train=POINTS.astype(dtype), y_train=LABELS)).train
    assert train.images.dtype == torch.float32
    assert train.images.tolist() == POINTS.astype(np.float32).tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_pixels_divided_by_255_come_back_as_bytes(tmp_path: Path, dtype: Any) -> None:
    train = arrays.read(save(tmp_path, x_train=(COLOR / 255).astype(dtype), y_train=LABELS)).train
    assert train.images.dtype == torch.uint8
    assert (train.images.numpy() == COLOR.transpose(0, 3, 1, 2)).all()


def test_finer_float_images_stay_floats_in_both_parts(tmp_path: Path) -> None:
    fine = RNG.random((5, 1, 4, 6))
    splits = arrays.read(save(tmp_path, x_train=fine, y_train=LABELS, x_test=GRAY[:2], y_test=LABELS[:2]))
    assert splits.train.images.dtype == torch.float32
    assert splits.train.images.tolist() == fine.astype(np.float32).tolist()
    assert splits.test is not None
    assert splits.test.images.dtype == torch.float32
    assert splits.test.images.numpy() == pytest.approx(GRAY[:2, None] / 255)


@pytest.mark.parametrize("y", [LABELS[:, None], LABELS.astype(np.float32), LABELS.astype(np.uint8), LABELS.tolist()])
def test_labels_may_be_a_column_or_whole_floats(tmp_path: Path, y: Any) -> None:
    train = arrays.read(save(tmp_path, x_train=GRAY, y_train=y)).train
    assert train.labels.dtype == torch.int64
    assert train.labels.tolist() == LABELS.tolist()


@given(st.lists(st.integers(0, 255), min_size=6, max_size=6))
def test_any_bytes_survive_the_way_through_floats(values: list[int]) -> None:
    pixels = np.array(values, dtype=np.uint8).reshape(1, 1, 2, 3)
    assert (arrays.as_bytes({"x_train": (pixels / 255).astype(np.float32)})["x_train"] == pixels).all()


def test_arrays_of_other_names_are_named(tmp_path: Path) -> None:
    file = save(tmp_path, images=GRAY, y_train=LABELS)
    assert "has no 'x_train', only images, y_train: save it with x_train=... and y_train=..." in message(file)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (GRAY.astype(np.float32), "float32 from 0 to 255: store pixels as uint8"),
        (GRAY.astype(np.int64) + 1, "int64 from 1 to 256: rescale to [0, 1]"),
        (GRAY / 127.5 - 1, "float64 from -1 to 1: rescale to [0, 1]"),
        (GRAY * 100.0, "from 0 to 25500: rescale to [0, 1]"),
        (POINTS + np.nan, "NaN"),
        (POINTS * 1e300, "NaN or infinity"),
        (np.where(GRAY > 9, np.nan, 0.5), "NaN"),
        (np.where(GRAY > 9, np.inf, 0.5), "NaN or infinity"),
        (np.zeros((5, 4, 6, 4), np.uint8), "(5, 4, 6, 4): give 1 or 3 channels"),
        (np.zeros((5, 4, 6, 8), np.uint8), "(5, 4, 6, 8): give 1 or 3 channels"),
        (np.zeros((5, 3, 6, 3), np.uint8), "(5, 3, 6, 3): both ends could be channels"),
        (np.zeros((5, 3, 6, 3, 2), np.uint8), "has the shape (5, 3, 6, 3, 2)"),
        (np.zeros(5), "has the shape (5,)"),
        (np.zeros((5, 7), np.uint8), "uint8 of shape (5, 7)"),
        (np.zeros((0, 4, 6), np.uint8), "empty, of shape (0, 4, 6)"),
        (np.array(["a"] * 5), "holds <U1"),
        (np.zeros((5, 4, 6), bool), "holds bool"),
    ],
)
def test_samples_that_make_no_sense_are_refused(tmp_path: Path, x: Any, words: str) -> None:
    line = message(save(tmp_path, x_train=x, y_train=LABELS))
    assert "x_train" in line
    assert words in line


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.full((5, 3), 1 / 3), "(5, 3): give names or integers of shape (n,), or one-hot rows"),
        (np.zeros((5, 1, 1)), "(5, 1, 1): give names or integers"),
        (LABELS + 0.5, "fractions or NaN, from 0.5 to 2.5"),
        (np.array([0, 1, np.nan, 0, 1]), "fractions or NaN"),
        (LABELS - 1, "holds -1: give integers from 0 on"),
        (np.array([b"a"] * 5), "holds |S1: give names as texts, or integers"),
        (np.array([], dtype=int), "is empty"),
    ],
)
def test_labels_that_make_no_sense_are_refused(tmp_path: Path, y: Any, words: str) -> None:
    line = message(save(tmp_path, x_train=GRAY, y_train=y))
    assert "y_train" in line
    assert words in line


@pytest.mark.parametrize("missing", ["x_train", "y_train", "x_test", "y_test"])
def test_a_missing_array_is_named(tmp_path: Path, missing: str) -> None:
    content = {"x_train": GRAY, "y_train": LABELS, "x_test": GRAY, "y_test": LABELS}
    content.pop(missing)
    assert f"has no '{missing}', only " in message(save(tmp_path, **content))


def test_parts_of_different_shape_are_refused(tmp_path: Path) -> None:
    line = message(save(tmp_path, x_train=GRAY, y_train=LABELS, x_test=COLOR, y_test=LABELS))
    assert "x_train has samples of (1, 4, 6), x_test of (3, 4, 6)" in line


def test_as_many_labels_as_samples_are_wanted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="5 samples but labels of shape"):
        arrays.read(save(tmp_path, x_train=GRAY, y_train=LABELS[:4]))


@pytest.mark.parametrize("content", [b"", b"no zip file", b"PK\x03\x04" + bytes(60)])
def test_what_is_no_zip_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "data.npz"
    file.write_bytes(content)
    assert "cannot read" in message(file)


def test_a_cut_off_or_damaged_file_is_refused(tmp_path: Path) -> None:
    file = save(tmp_path, x_train=GRAY, y_train=LABELS)
    whole = file.read_bytes()
    file.write_bytes(whole[:-30])
    assert "cannot read" in message(file)
    file.write_bytes(whole[:200] + bytes([whole[200] ^ 255]) + whole[201:])
    assert "cannot read" in message(file)


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "data.npz"
    with file.open("wb") as stream:
        np.save(stream, GRAY)
    assert "single array" in message(file)


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    objects = np.array([{"a": 1}] * 5, dtype=object)
    assert "cannot read" in message(save(tmp_path, x_train=GRAY, y_train=objects))
