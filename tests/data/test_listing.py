"""A .csv file of paths and labels: every accepted form, and every refusal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from refusals import assert_refused_in_one_line

from orat.data import catalog, listing
from orat.data.source import Splits

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 5, 7, 3), dtype=np.uint8)
NAMES = ("b.png", "sub/a.png", "c.png", "d.png")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Four images, one in a folder of its own."""
    (tmp_path / "sub").mkdir()
    for name, image in zip(NAMES, IMAGES, strict=True):
        Image.fromarray(image).save(tmp_path / name)
    return tmp_path


def read(folder: Path, text: str) -> Splits:
    """The data set that a file in this folder lists, by the way of its name."""
    (folder / "labels.csv").write_text(text, encoding="utf-8")
    return catalog.load(str(folder / "labels.csv"))


def four(labels: str, title: str = "path,label") -> str:
    """A line for each image."""
    return f"{title}\n" + "".join(f"{name},{label}\n" for name, label in zip(NAMES, labels.split(), strict=True))


def test_semicolons_may_stand_between_the_columns(photos: Path) -> None:
    commas = read(photos, four("dog cat dog ape")).train
    semicolons = read(photos, four("dog cat dog ape").replace(",", ";")).train
    assert semicolons.fingerprint() == commas.fingerprint()


def test_images_and_labels_come_in_the_order_of_the_file(photos: Path) -> None:
    train = read(photos, four("dog cat dog ape")).train
    assert train.paths == NAMES
    assert train.classes == ("ape", "cat", "dog")
    assert train.labels.tolist() == [2, 1, 2, 0]
    assert (train.images.numpy() == IMAGES.transpose(0, 3, 1, 2)).all()


def test_numbers_are_classes_in_the_order_of_their_values(photos: Path) -> None:
    train = read(photos, four("10 9 -1 10")).train
    assert (train.classes, train.labels.tolist()) == (("-1", "9", "10"), [2, 1, 0, 2])


@pytest.mark.parametrize("title", ["Path,Label", "FILE,class", "filename,Category", "image,target", "\ufeffimg,y"])
def test_usual_titles_are_known_in_any_case(photos: Path, title: str) -> None:
    assert read(photos, four("a b a b", title)).train.labels.tolist() == [0, 1, 0, 1]


def test_a_column_says_the_part(photos: Path) -> None:
    parts = ("train", "Val", "test", "training")
    rows = "".join(f"{part},{name},x\n" for name, part in zip(NAMES, parts, strict=True))
    splits = read(photos, "split,path,label\n" + rows)
    found = (splits.train, splits.validation, splits.test)
    assert [part and part.paths for part in found] == [("b.png", "d.png"), ("sub/a.png",), ("c.png",)]


def test_a_path_may_lead_from_the_root_of_the_disk(photos: Path) -> None:
    train = read(photos, f"path,label\n{photos / 'c.png'},x\n").train
    assert (train.images[0].numpy() == IMAGES[2].transpose(2, 0, 1)).all()


def test_images_of_mixed_sizes_are_resized_as_those_of_a_folder(photos: Path) -> None:
    Image.new("RGB", (70, 50)).save(photos / "d.png")
    splits = read(photos, four("a b a b"))
    assert splits.image_size == splits.train.shape[1:] == (5, 7)
    assert len(splits.notes) == 1
    assert catalog.load(str(photos / "labels.csv"), image_size=(3, 4)).train.shape == (3, 3, 4)


REFUSED = {
    "no paths": ("a,b\n1,2\n", "has no column of paths: its columns are a, b; name one 'path'; for a table of numbers"),
    "no labels": ("path,kind\nb.png,x\n", "has no column of labels: its columns are path, kind; name one 'label'"),
    "nothing": ("", "has no column of paths: its columns are none"),
    "titles alone": ("path,label\n", "lists no images: give one a line"),
    "an empty label": ("path,label\nb.png,\n", "line 2: the label is empty"),
    "an empty path": ("path,label\n,x\n", "line 2: the path is empty"),
    "a cell too few": ("path,label\nb.png\n", "line 2: 1 cells for 2 columns"),
    "an unknown part": ("path,label,split\nb.png,x,tset\n", "labels.csv, line 2: 'tset': did you mean 'test'?"),
    "one image twice": ("path,label\nb.png,x\nb.png,y\n", "line 3: b.png is listed in line 2 too: remove one"),
    "a class for the test alone": (
        "path,label,split\nb.png,x,train\nc.png,y,test\n",
        "class 'y' has no image for training, only in test",
    ),
    "missing files": (
        "path,label\n" + "".join(f"{i}.png,x\n" for i in range(6)),
        "6 images of 6 in {file} not found (paths start at {folder}): 0.png, 1.png, 2.png and 3 more",
    ),
    "an open quote": ('path,label\n"b.png,x\n', "is no .csv file (unexpected end of data)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_makes_no_sense_is_refused(photos: Path, case: str) -> None:
    text, words = REFUSED[case]
    words = words.format(file=photos / "labels.csv", folder=photos)
    assert_refused_in_one_line(lambda: read(photos, text), words)


def test_a_file_that_is_no_text_is_refused(photos: Path) -> None:
    (photos / "labels.csv").write_bytes(b"path,label\n\xff\xfe,x\n")
    assert_refused_in_one_line(lambda: listing.read(photos / "labels.csv"), "labels.csv is no .csv file ('utf-8' codec")


def test_a_broken_image_is_refused_by_name(photos: Path) -> None:
    (photos / "c.png").write_bytes(b"no image")
    assert_refused_in_one_line(lambda: read(photos, four("a b a b")), f"cannot read the image {photos / 'c.png'}")
