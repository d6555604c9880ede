"""Image folders as people have them: names of parts, nested classes, mixed sizes, files that are no images."""

from __future__ import annotations

import random
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from refusals import assert_refused_in_one_line

from orat.core.domain import Reading
from orat.data import catalog, folder
from orat.data.image_sizes import chosen_size
from orat.data.source import Dataset, Splits

CAT_DOG = ("cat", "dog")


def save(root: Path, *paths: str, size: tuple[int, int] = (6, 4)) -> Path:
    """Images of noise, by default 6 pixels wide and 4 high, at these paths."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(len(path)).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(noise).save(root / path)
    return root


def pack(root: Path, top: str = "") -> Path:
    """The folder as a tar file beside it."""
    archive = root.with_name(f"{root.name}.tar")
    with tarfile.open(archive, "w") as tar:
        tar.add(root, arcname=top or ".")
    return archive


def everywhere(root: Path, depth: int = 1) -> Splits:
    """The folder as read, which is equal when read from a tar file, with and without a folder around it."""
    splits = folder.read(root, Reading(class_depth=depth))
    for top in ("", "download"):
        packed = folder.read(pack(root, top), Reading(class_depth=depth))
        for name in ("train", "test", "validation"):
            one, other = getattr(splits, name), getattr(packed, name)
            assert (one is None) == (other is None)
            assert one is None or (one.fingerprint(), one.paths) == (other.fingerprint(), other.paths)
        assert [note for note in packed.notes if "has no folder" not in note] == [
            note for note in splits.notes if "has no folder" not in note
        ]
    return splits


def labels(dataset: Dataset | None) -> list[str]:
    """The class names of the samples."""
    assert dataset is not None
    return [dataset.classes[label] for label in dataset.labels.tolist()]


@pytest.mark.parametrize("name", ["val", "valid", "validation", "Val"])
def test_a_validation_folder_is_a_part(tmp_path: Path, name: str) -> None:
    root = save(tmp_path / "pets", "train/cat/1.png", "train/dog/1.png", f"{name}/dog/v.png", "test/cat/t.png")
    splits = everywhere(root)
    assert (labels(splits.train), labels(splits.validation), labels(splits.test)) == (["cat", "dog"], ["dog"], ["cat"])
    assert splits.validation is not None
    assert splits.validation.paths == (f"{name}/dog/v.png",)
    assert splits.notes == ()


def test_without_a_training_folder_the_class_folders_lie_in_the_root(tmp_path: Path) -> None:
    root = save(tmp_path / "pets", "cat/1.png", "dog/1.png", "dog/2.png")
    splits = everywhere(root)
    assert splits.train.classes == CAT_DOG
    assert splits.train.paths == ("cat/1.png", "dog/1.png", "dog/2.png")
    assert (splits.test, splits.validation) == (None, None)
    assert splits.notes == (
        f"{root} has no folder train: its 2 folders are the classes, and all images are for training",
    )


def test_a_test_folder_alone_is_refused(tmp_path: Path) -> None:
    root = save(tmp_path, "cat/1.png", "test/cat/1.png")
    assert_refused_in_one_line(lambda: folder.read(root), "has test/ but no train/: name the folder of training images")


NESTED = ("train/cat/home/1.png", "train/cat/wild/1.png", "train/cat/2.png", "train/dog/home/1.png")


def test_files_below_a_class_belong_to_it_as_in_torchvision_and_keras(tmp_path: Path) -> None:
    splits = everywhere(save(tmp_path / "pets", *NESTED))
    assert labels(splits.train) == ["cat", "cat", "cat", "dog"]
    assert splits.notes == (
        "3 images in deeper folders, such as train/cat/home/1.png of class cat: for classes by more levels of folders, "
        "give --class-depth 2",
    )


def test_two_levels_of_folders_make_a_class_if_asked_for(tmp_path: Path) -> None:
    splits = everywhere(save(tmp_path / "pets", *NESTED), 2)
    assert splits.train.classes == ("cat/home", "cat/wild", "dog/home")
    assert splits.notes == ("1 file skipped: train/cat/2.png",)
    assert catalog.load(str(tmp_path / "pets"), class_depth=2).train.classes == splits.train.classes


def test_a_depth_that_no_folder_has_is_refused(tmp_path: Path) -> None:
    root = save(tmp_path, "train/cat/1.png")
    refused = "has no class folders at a depth of 3 (--class-depth)"
    assert_refused_in_one_line(lambda: folder.read(root, Reading(class_depth=3)), refused)


def test_files_that_are_skipped_are_counted_and_named(tmp_path: Path) -> None:
    root = save(tmp_path / "pets", "train/cat/1.png", "train/dog/1.png", "extra/cat/1.png", "train/cover.png")
    for name in ("README.md", "train/cat/notes.txt", "train/dog/clip.mp4"):
        (root / name).write_text("no image")
    (root / "train/cat/.DS_Store").write_text("hidden")
    assert everywhere(root).notes == ("5 files skipped: README.md, extra/, train/cat/notes.txt and 2 more",)


def test_all_broken_images_are_named_at_once(tmp_path: Path) -> None:
    root = save(tmp_path / "pets", *(f"train/cat/{i}.png" for i in range(6)), "train/dog/1.png", "test/dog/1.png")
    (root / "train/cat/3.png").write_bytes(b"no image")
    for name in ("train/cat/1.png", "train/dog/1.png", "test/dog/1.png"):  # whole headers, cut pixels
        (root / name).write_bytes((root / name).read_bytes()[:60])
    for place in (root, pack(root)):
        refused = "4 of 8 images are broken: test/dog/1.png, train/cat/1.png, train/cat/3.png and 1 more; cannot read"
        assert_refused_in_one_line(lambda place=place: folder.read(place), refused)


def test_images_that_are_all_broken_are_refused(tmp_path: Path) -> None:
    root = save(tmp_path, "train/cat/1.png", "train/cat/2.png")
    for file in (root / "train/cat").iterdir():
        file.write_bytes(b"")
    assert_refused_in_one_line(lambda: folder.read(root), "2 of 2 images are broken: train/cat/1.png, train/cat/2.png")


def test_one_path_twice_in_a_tar_file_is_refused(tmp_path: Path) -> None:
    root = save(tmp_path / "pets", "train/cat/1.png")
    with tarfile.open(archive := tmp_path / "two.tar", "w") as tar:
        for _ in range(2):
            tar.add(root / "train/cat/1.png", arcname="train/cat/1.png")
    assert_refused_in_one_line(lambda: folder.read(archive), f"{archive} has two files train/cat/1.png: pack it again")


def mixed(root: Path) -> Path:
    """Three wide images and a high one to train on, and one of another size to test on."""
    for i, size in enumerate([(40, 30), (60, 40), (80, 60), (30, 50)]):
        save(root, f"train/{CAT_DOG[i % 2]}/{i}.png", size=size)
    return save(root, "test/cat/9.png", size=(500, 500))


def test_images_of_mixed_sizes_get_the_median_shape_of_the_training_images(tmp_path: Path) -> None:
    splits = everywhere(mixed(tmp_path / "pets"))
    # Longer sides are 40, 50, 60, 80; height by width is 2/3, 3/4, 3/4, 5/3.
    assert splits.image_size == (round(55 * 3 / 4), 55)
    assert splits.train.shape == (3, *splits.image_size)
    assert splits.notes == (
        "images of different sizes, 30x40 to 500x500, are resized to 41x55 (height x width), their median shape: or "
        "give --image-size HxW",
    )


def test_the_largest_side_bounds_the_chosen_size_even_of_equal_images(tmp_path: Path) -> None:
    assert folder.read(mixed(tmp_path / "mixed"), Reading(largest=48)).train.shape == (3, 36, 48)
    root = save(tmp_path / "large", "train/cat/1.png", size=(640, 480))
    splits = folder.read(root, Reading(largest=48))
    assert splits.image_size == (36, 48)
    assert splits.notes == (
        "images of 480x640 are resized to 36x48 (height x width), their median shape and at most 48 pixels a side: or "
        "give --image-size HxW",
    )
    with Image.open(root / "train/cat/1.png") as image:
        wanted = np.asarray(image.resize((48, 36), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert (splits.train.images[0].numpy() == wanted).all()


def test_images_of_one_small_size_stay_and_a_given_size_is_taken(tmp_path: Path) -> None:
    root = save(tmp_path, "train/cat/1.png", "test/cat/1.png", size=(48, 20))
    splits = folder.read(root, Reading(largest=48))
    assert (splits.train.shape, splits.image_size, splits.notes) == ((3, 20, 48), None, ())
    given_size = folder.read(root, Reading((7, 90), largest=48))
    assert (given_size.train.shape, given_size.image_size, given_size.notes) == ((3, 7, 90), None, ())


SIZES = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 500)), min_size=1, max_size=9)


@given(SIZES, st.integers(1, 200), st.randoms(use_true_random=False))
def test_the_same_images_give_the_same_size_in_any_order(
    sizes: list[tuple[int, int]], largest: int, random: random.Random
) -> None:
    wanted = chosen_size(sizes, largest)
    assert 1 <= min(wanted) <= max(wanted) <= largest
    random.shuffle(sizes)
    assert chosen_size(sizes, largest) == wanted
    turned = [(width, height) for height, width in sizes]
    assert chosen_size(turned, largest) == wanted[::-1]


def test_transparent_images_are_counted(tmp_path: Path) -> None:
    root = save(tmp_path, "train/cat/1.png")
    Image.new("RGBA", (6, 4)).save(root / "train/cat/2.png")
    splits = folder.read(root)
    assert splits.notes == ("1 image with an alpha channel: pixels that are transparent are laid on white",)
    assert splits.train.images[1].unique().tolist() == [255]


def test_streamed_images_of_mixed_sizes_and_nested_folders_are_the_resident_ones(tmp_path: Path) -> None:
    root = mixed(tmp_path / "pets")
    shutil.move(root / "train/cat/0.png", root / "train/cat/2.png")
    (train, test), splits = folder.stream(root, Reading(largest=20)), folder.read(root, Reading(largest=20))
    assert test is not None
    assert splits.test is not None
    for part, whole in ((train, splits.train), (test, splits.test)):
        assert (part.__getitems__(list(range(len(whole)))) == whole.images).all()
