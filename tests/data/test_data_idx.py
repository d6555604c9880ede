"""The MNIST reader against files written byte by byte, and against known facts of the real files."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
import torch

from orat.core.errors import InputError
from orat.data import idx

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def images(n: int, side: int = 28) -> bytes:
    """An IDX file of images whose pixels count up."""
    body = bytes(i % 251 for i in range(n * side * side))
    return struct.pack(">IIII", 2051, n, side, side) + body


def labels(*values: int) -> bytes:
    """An IDX file of labels."""
    return struct.pack(">II", 2049, len(values)) + bytes(values)


def write(folder: Path, **changes: bytes) -> Path:
    """Two training images and one test image, with some of the files changed."""
    contents = dict(zip(NAMES, (images(2), labels(3, 9), images(1), labels(0)), strict=True))
    for name, content in contents.items():
        short = name.replace("-idx3-ubyte", "").replace("-idx1-ubyte", "").replace("-", "_")
        (folder / name).write_bytes(changes.get(short, content))
    return folder


def message(folder: Path) -> str:
    """The error message of reading a folder, in one line."""
    with pytest.raises(InputError) as caught:
        idx.read(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_pixels_and_labels_come_out_in_the_order_of_the_bytes(tmp_path: Path) -> None:
    splits = idx.read(write(tmp_path))
    assert splits.train.images.shape == (2, 1, 28, 28)
    assert splits.train.images.dtype == torch.uint8
    assert splits.train.images.flatten().tolist() == [i % 251 for i in range(2 * 28 * 28)]
    assert splits.train.labels.tolist() == [3, 9]
    assert splits.train.labels.dtype == torch.int64
    assert splits.test is not None
    assert splits.test.labels.tolist() == [0]
    assert splits.train.classes == tuple("0123456789")


@pytest.mark.parametrize("old_and_new", [("-idx", ".idx"), ("-idx", "-idx")])
@pytest.mark.parametrize("packed", [False, True])
def test_every_accepted_spelling_reads_the_same(tmp_path: Path, old_and_new: tuple[str, str], packed: bool) -> None:
    wanted = idx.read(write(tmp_path)).train.fingerprint()
    for name in NAMES:
        raw = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        new = tmp_path / (name.replace(*old_and_new) + ".gz" * packed)
        new.write_bytes(gzip.compress(raw) if packed else raw)
    assert idx.present(tmp_path)
    assert idx.read(tmp_path).train.fingerprint() == wanted


def test_a_folder_without_the_files_is_told_apart(tmp_path: Path) -> None:
    assert not idx.present(tmp_path)
    assert not idx.present(tmp_path / "nowhere")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (write(tmp_path) / NAMES[1]).unlink()
    assert f"{tmp_path} has no train-labels-idx1-ubyte" in message(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (images(2)[:-1], "is cut off: 1583 bytes found, 1584 wanted"),
        (images(2) + b"x", "is too long: 1585 bytes found, 1584 wanted"),
        (images(2)[:9], "is cut off: 9 bytes found, 16 wanted"),
        (b"", "is cut off: 0 bytes found, 16 wanted"),
        (labels(*range(10)) + bytes(10), "starts with 2049, not with 2051"),
        (b"<html>no such file</html>", f"starts with {int.from_bytes(b'<htm', 'big')}, not with 2051"),
        (images(2, side=20), "holds images of 20x20"),
        (images(3), "holds 3 images"),
        (gzip.compress(images(2), mtime=0)[:-20], "is a damaged gzip file"),
        (gzip.compress(images(2), mtime=0)[:12] + b"\xff" * 40, "is a damaged gzip file"),
        (gzip.compress(images(2), mtime=0)[:-8] + bytes(8), "is a damaged gzip file"),
    ],
)
def test_a_broken_image_file_is_refused_by_name(tmp_path: Path, content: bytes, words: str) -> None:
    line = message(write(tmp_path, train_images=content))
    assert str(tmp_path / NAMES[0]) in line
    assert words in line


def test_a_label_beyond_nine_is_refused(tmp_path: Path) -> None:
    assert "train-labels-idx1-ubyte holds the label 10" in message(write(tmp_path, train_labels=labels(3, 10)))


def test_a_set_without_images_is_refused(tmp_path: Path) -> None:
    assert "empty" in message(write(tmp_path, train_images=images(0), train_labels=labels()))


def test_the_real_mnist_has_its_known_counts_and_mean(mnist_dir: Path) -> None:
    splits = idx.read(mnist_dir)
    assert splits.test is not None
    assert splits.train.labels.bincount().tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert splits.test.labels.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert splits.train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    total = splits.train.images.sum(dtype=torch.int64).item() / splits.train.images.numel()
    assert total == pytest.approx(33.318, abs=1e-3)
