"""The CIFAR readers against files written byte by byte and pickles written in CIFAR's way."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from orat.core.errors import InputError
from orat.data import cifar

# Red counts up row by row, green is constant, blue is constant: any other order of the planes shows.
PICTURE = bytes(i % 256 for i in range(1024)) + bytes([100]) * 1024 + bytes([200]) * 1024


def binary10(folder: Path) -> Path:
    """Five training batches of two images and a test batch of one, in the binary version."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(5):
        (folder / f"data_batch_{i + 1}.bin").write_bytes(bytes([i]) + PICTURE + bytes([9 - i]) + PICTURE[::-1])
    (folder / "test_batch.bin").write_bytes(bytes([7]) + PICTURE)
    return folder


def binary100(folder: Path) -> Path:
    """Two training images and a test image, in the binary version."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.bin").write_bytes(bytes([4, 30]) + PICTURE + bytes([19, 99]) + PICTURE)
    (folder / "test.bin").write_bytes(bytes([1, 2]) + PICTURE)
    return folder


def dump(file: Path, content: Any) -> None:
    """Writes a pickle with CIFAR's protocol, 2."""
    file.write_bytes(pickle.dumps(content, protocol=2))


def pixels(n: int) -> np.ndarray[Any, Any]:
    """The same picture n times, a row each."""
    return np.frombuffer(PICTURE * n, dtype=np.uint8).reshape(n, 3072)


def python10(folder: Path) -> Path:
    """The same images as binary10, in the Python version."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(5):
        rows = np.stack([pixels(1)[0], pixels(1)[0][::-1]])
        dump(folder / f"data_batch_{i + 1}", {b"batch_label": b"x", b"labels": [i, 9 - i], b"data": rows})
    dump(folder / "test_batch", {b"labels": [7], b"data": pixels(1)})
    return folder


def python100(folder: Path) -> Path:
    """The same images as binary100, in the Python version."""
    folder.mkdir(parents=True, exist_ok=True)
    dump(folder / "train", {b"fine_labels": [30, 99], b"coarse_labels": [4, 19], b"data": pixels(2)})
    dump(folder / "test", {b"fine_labels": [2], b"coarse_labels": [1], b"data": pixels(1)})
    return folder


def message(folder: Path, kind: cifar.Kind = "cifar10") -> str:
    """The error message of reading a folder, in one line."""
    with pytest.raises(InputError) as caught:
        cifar.read(folder, kind)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("write", [binary10, python10])
def test_cifar10_has_channels_first_in_red_green_blue(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    train = cifar.read(write(tmp_path), "cifar10").train
    assert train.images.shape == (10, 3, 32, 32)
    assert train.images.dtype == torch.uint8
    assert train.images[0, 0, 1, 0] == 32  # row 1, column 0 of the red plane
    assert train.images[0, 0, 0, 1] == 1
    assert (train.images[0, 1] == 100).all()
    assert (train.images[0, 2] == 200).all()
    assert train.labels.tolist() == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]


def test_both_versions_hold_the_same_data(tmp_path: Path) -> None:
    ten = [cifar.read(write(tmp_path / write.__name__), "cifar10") for write in (binary10, python10)]
    hundred = [cifar.read(write(tmp_path / write.__name__), "cifar100") for write in (binary100, python100)]
    for binary, python in (ten, hundred):
        assert binary.train.fingerprint() == python.train.fingerprint()
        assert binary.test is not None
        assert python.test is not None
        assert binary.test.fingerprint() == python.test.fingerprint()


@pytest.mark.parametrize("write", [binary100, python100])
def test_cifar100_uses_the_fine_labels(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    splits = cifar.read(write(tmp_path), "cifar100")
    assert splits.train.labels.tolist() == [30, 99]
    assert [splits.train.classes[i] for i in splits.train.labels] == ["dolphin", "worm"]


@pytest.mark.parametrize(
    ("kind", "write", "sub"),
    [
        ("cifar10", binary10, "cifar-10-batches-bin"),
        ("cifar10", python10, "cifar-10-batches-py"),
        ("cifar100", binary100, "cifar-100-binary"),
        ("cifar100", python100, "cifar-100-python"),
    ],
)
def test_the_usual_subfolder_is_found(
    tmp_path: Path, kind: cifar.Kind, write: Callable[[Path], Path], sub: str
) -> None:
    assert not cifar.present(tmp_path, kind)
    write(tmp_path / sub)
    assert cifar.present(tmp_path, kind)
    assert len(cifar.read(tmp_path, kind).train) in (2, 10)


def test_an_image_folder_called_train_is_no_cifar100(tmp_path: Path) -> None:
    (tmp_path / "train" / "cat").mkdir(parents=True)
    assert not cifar.present(tmp_path, "cifar100")
    assert "put the cifar100 files there" in message(tmp_path, "cifar100")


def test_built_in_names_are_ten_and_a_hundred_in_alphabetical_order() -> None:
    assert len(cifar.CIFAR10_CLASSES) == 10
    assert len(set(cifar.CIFAR100_CLASSES)) == 100
    assert list(cifar.CIFAR10_CLASSES) == sorted(cifar.CIFAR10_CLASSES)
    assert list(cifar.CIFAR100_CLASSES) == sorted(cifar.CIFAR100_CLASSES)


def test_class_names_come_from_the_files_where_they_are(tmp_path: Path) -> None:
    names = tuple(f"name{i}" for i in range(10))
    (binary10(tmp_path / "bin") / "batches.meta.txt").write_text("\n".join(names) + "\n\n")
    dump(python10(tmp_path / "py") / "batches.meta", {b"label_names": [name.encode() for name in names]})
    assert cifar.read(tmp_path / "bin", "cifar10").train.classes == names
    assert cifar.read(tmp_path / "py", "cifar10").train.classes == names


def test_too_few_class_names_are_refused(tmp_path: Path) -> None:
    (binary10(tmp_path) / "batches.meta.txt").write_text("cat\ndog\n")
    assert "batches.meta.txt names 2 classes, not 10" in message(tmp_path)


def test_a_cut_off_binary_batch_is_refused_with_its_bytes(tmp_path: Path) -> None:
    file = binary10(tmp_path) / "data_batch_3.bin"
    file.write_bytes(file.read_bytes()[:-1])
    assert f"{file} is cut off: 6145 bytes found, 6146 wanted" in message(tmp_path)
    file.write_bytes(b"")
    assert f"{file} is cut off: 0 bytes found, 3073 wanted" in message(tmp_path)


def test_a_batch_cut_off_between_two_images_is_refused(tmp_path: Path) -> None:
    file = binary10(tmp_path) / "data_batch_3.bin"
    file.write_bytes(file.read_bytes()[:3073])
    assert f"{file} is cut off: 1 images found, 2 wanted" in message(tmp_path)


@pytest.mark.parametrize(("write", "name"), [(binary10, "data_batch_2.bin"), (python10, "test_batch")])
def test_a_missing_batch_is_named(tmp_path: Path, write: Callable[[Path], Path], name: str) -> None:
    (write(tmp_path) / name).unlink()
    assert f"{tmp_path / name} is missing" in message(tmp_path)


def test_a_label_beyond_the_classes_is_refused(tmp_path: Path) -> None:
    (binary10(tmp_path) / "test_batch.bin").write_bytes(bytes([10]) + PICTURE)
    assert "test_batch.bin holds the label 10" in message(tmp_path)


class Malicious:
    """A pickle with a command, which an unpickler without restrictions runs."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    trace = tmp_path / "trace"
    file = python10(tmp_path) / "data_batch_1"
    file.write_bytes(pickle.dumps({b"data": Malicious(f"touch {trace}")}, protocol=protocol))
    line = message(tmp_path)
    assert str(file) in line
    assert f"{os.system.__module__}.system" in line
    assert "refused" in line
    assert not trace.exists()


def test_bytes_in_another_encoding_are_refused(tmp_path: Path) -> None:
    file = python10(tmp_path) / "data_batch_1"
    file.write_bytes(b"c_codecs\nencode\n(Vabc\nVrot13\ntR.")
    assert f"{file} is damaged" in message(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is damaged, 0 bytes found"),
        (b"no pickle at all", "is damaged"),
        (pickle.dumps({b"labels": [1]}, 2)[:-3], "is damaged"),
        (pickle.dumps([1, 2], 2), "holds a list, not a dictionary"),
        (pickle.dumps({b"labels": [1]}, 2), "has no 'data'"),
        (pickle.dumps({b"labels": [1], b"data": pixels(1)[:, :5]}, 2), "has no 'data'"),
        (pickle.dumps({b"labels": [1, 2], b"data": pixels(1)}, 2), "has no 'labels' for its 1 images"),
        (pickle.dumps({b"labels": [-1], b"data": pixels(1)}, 2), "has no 'labels'"),
    ],
)
def test_a_broken_pickle_is_refused_by_name(tmp_path: Path, content: bytes, words: str) -> None:
    file = python10(tmp_path) / "data_batch_4"
    file.write_bytes(content)
    line = message(tmp_path)
    assert str(file) in line
    assert words in line
