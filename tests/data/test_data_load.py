"""Data sets by name and path, the folders that are searched, and the bundled sample."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from orat.core.errors import InputError
from orat.data import catalog as data
from orat.data import idx
from orat.data.source import Dataset

ROOT = Path(__file__).parents[2]


def write_mnist(folder: Path) -> Path:
    """One image of each part."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix in ("train", "t10k"):
        images = struct.pack(">IIII", 2051, 1, 28, 28) + bytes(28 * 28)
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, 1) + bytes([4]))
    return folder


def message(name: str, data_dir: Path | None = None, image_size: tuple[int, int] | None = None) -> str:
    """The error message of loading a data set, in one line."""
    with pytest.raises(InputError) as caught:
        data.load(name, data_dir, image_size)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORAT_DATA", raising=False)


def test_names_are_offered_without_importing_torch() -> None:
    code = "import sys, orat.data.catalog; print(orat.data.catalog.names()); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "toy-imbalanced-2" in done.stdout


def test_a_folder_of_idx_files_is_a_data_set_by_its_path(tmp_path: Path) -> None:
    folder = str(write_mnist(tmp_path / "fashion"))
    assert data.load(folder).train.labels.tolist() == [4]
    assert "the image size 32x32 is for folders of images" in message(folder, image_size=(32, 32))
    (tmp_path / "fashion" / "train-labels-idx1-ubyte").unlink()
    assert "has no train-labels-idx1-ubyte" in message(folder)


def test_the_data_folder_may_be_a_string(tmp_path: Path) -> None:
    write_mnist(tmp_path / "store")
    assert data.load("mnist", str(tmp_path / "store")).train.labels.tolist() == [4]


@pytest.mark.parametrize("place", ["mnist", "."])
def test_mnist_is_found_in_its_folder_or_in_the_data_folder(tmp_path: Path, place: str) -> None:
    write_mnist(tmp_path / "store" / place)
    assert data.load("mnist", tmp_path / "store").train.labels.tolist() == [4]


def test_the_given_folder_goes_before_the_environment_and_that_before_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mnist(tmp_path / "data")
    assert data.load("mnist").train.shape == (1, 28, 28)
    monkeypatch.setenv("ORAT_DATA", str(tmp_path / "store"))
    assert f"{tmp_path / 'store' / 'mnist'} or {tmp_path / 'store'}" in message("mnist")
    assert data.load("mnist", tmp_path / "data").train.shape == (1, 28, 28)
    monkeypatch.setenv("ORAT_DATA", "")
    assert data.data_folder() == Path("data")


@pytest.mark.parametrize("name", data.PUBLIC)
def test_a_missing_set_says_where_it_was_looked_for_and_what_to_do(tmp_path: Path, name: str) -> None:
    line = message(name, tmp_path)
    assert f"no files of {name} in {tmp_path / name} or {tmp_path}" in line
    assert f"`orat data --download {name}`" in line


def test_cifar_is_found_in_the_data_folder(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    for name in ("train.bin", "test.bin"):
        (folder / name).write_bytes(bytes([1, 42]) + bytes(3072))
    assert data.load("cifar100", tmp_path).train.labels.tolist() == [42]


@pytest.mark.parametrize("name", ["sample", "toy-balanced", "toy-imbalanced"])
def test_sets_of_the_package_need_no_folder(name: str) -> None:
    assert data.load(name).test is not None


def test_a_folder_is_loaded_by_its_path_and_resized(tmp_path: Path) -> None:
    (tmp_path / "pets" / "train" / "cat").mkdir(parents=True)
    Image.new("RGB", (6, 4)).save(tmp_path / "pets" / "train" / "cat" / "1.png")
    assert data.load("pets").train.shape == (3, 4, 6)
    assert data.load(str(tmp_path / "pets"), image_size=(2, 5)).train.shape == (3, 2, 5)


def test_a_tar_file_and_an_npz_are_loaded_by_their_paths(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=np.zeros((2, 4, 6), np.uint8), y_train=np.array([0, 1]))
    assert data.load("a.npz").train.shape == (1, 4, 6)
    (tmp_path / "b.tar.xz").write_bytes(b"")
    assert "b.tar.xz is no whole tar file" in message("b.tar.xz")


def test_an_unknown_name_gets_the_nearest_one_and_the_hint_that_paths_go_too() -> None:
    line = message("mnits")
    assert "there is no mnits, nor a data set of this name: did you mean 'mnist'?" in line
    assert "give an image folder, a .npz, .csv, .tsv, .parquet or .tar file; known are cifar10, cifar100, mnist" in line


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("1,2")
    assert "notes.txt is no data set: give an image folder, a .npz, .csv, .tsv, .parquet or .tar file" in message(
        "notes.txt"
    )
    (tmp_path / "make.py").write_text("")
    assert "make.py is a file of code: name a function or an object in it, as in make.py:" in message("make.py")


@pytest.mark.parametrize("name", ["mnist", "sample", "toy-balanced"])
def test_a_size_is_refused_for_what_has_its_own(name: str) -> None:
    assert f"the image size 32x16 is for folders of images: leave it out for '{name}'" in message(name, None, (32, 16))


def test_found_tells_found_missing_and_damaged_apart(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "data_batch_1.bin").write_bytes(bytes(100))
    mnist, cifar10, cifar100 = data.found(tmp_path)
    assert (mnist.name, mnist.status, mnist.folder) == ("mnist", "found", tmp_path / "mnist")
    assert (mnist.train, mnist.test, mnist.shape, mnist.classes) == (1, 1, (1, 28, 28), 10)
    assert (cifar10.status, cifar10.folder) == ("damaged", tmp_path / "cifar10")
    assert "data_batch_1.bin is cut off: 100 bytes found" in cifar10.message
    assert (cifar100.status, cifar100.folder) == ("missing", None)
    assert "`orat data --download cifar100`" in cifar100.message


def test_the_sample_has_600_and_100_images_a_class_and_is_small() -> None:
    splits = idx.read_sample()
    assert splits.test is not None
    assert splits.train.labels.bincount().tolist() == [600] * 10
    assert splits.test.labels.bincount().tolist() == [100] * 10
    assert sum(file.stat().st_size for file in idx.SAMPLE.iterdir()) <= 2_000_000


def rows(dataset: Dataset) -> list[bytes]:
    """Every image with its label as bytes."""
    labels = dataset.labels.tolist()
    return [bytes([label]) + image.tobytes() for label, image in zip(labels, dataset.images.numpy(), strict=True)]


def test_the_sample_is_a_subset_of_the_real_mnist_part_by_part(mnist_dir: Path) -> None:
    few, all_of_it = idx.read_sample(), idx.read(mnist_dir)
    assert few.test is not None
    assert all_of_it.test is not None
    for part, whole in ((few.train, all_of_it.train), (few.test, all_of_it.test)):
        chosen = rows(part)
        assert len(set(chosen)) == len(chosen)
        assert set(chosen) <= set(rows(whole))


@pytest.mark.slow
def test_the_script_makes_the_sample_again(tmp_path: Path, mnist_dir: Path) -> None:
    script = [sys.executable, str(ROOT / "scripts" / "make_sample.py"), str(mnist_dir), "--out", str(tmp_path)]
    subprocess.run(script, check=True, capture_output=True, env={"PYTHONPATH": str(ROOT)})
    again, bundled = idx.read(tmp_path), idx.read_sample()
    assert again.train.fingerprint() == bundled.train.fingerprint()
    assert again.test is not None
    assert bundled.test is not None
    assert again.test.fingerprint() == bundled.test.fingerprint()


def test_some_samples_are_the_first_but_of_all_classes_where_sorted_by_class() -> None:
    labels = torch.tensor([0, 2, 1, 0, 1, 2, 1, 2, 0])
    data = Dataset(torch.linspace(0, 1, 9)[:, None], labels, ("a", "b", "c"))
    in_order = data.take(labels.argsort(stable=True))
    assert data.first(4).labels.tolist() == [0, 2, 1, 0]
    assert in_order.first(4).labels.tolist() == [0, 0, 1, 2]
    assert in_order.first(3).labels.tolist() == [0, 1, 2]
    assert data.first(100).labels.tolist() == labels.tolist()
    assert in_order.first(100).labels.tolist() == in_order.labels.tolist()
