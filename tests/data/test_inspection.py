"""What a data set holds: against the files that the tests made, Pillow, and hashes of whole files."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from html_page import Page
from PIL import Image
from refusals import assert_refused_in_one_line

from orat.core.domain import Reading
from orat.data import catalog, inspection
from orat.data.contact_sheet import contact_sheet
from orat.data.inspection import Inspection, inspect
from orat.data.repeats import Repeat, in_memory, warning
from orat.data.source import Dataset, Splits

ENDINGS = ("png", "tif", "webp", "bmp", "jpg")
COUNTS = {"train": {"cat": 7, "dog": 6}, "test": {"cat": 2, "dog": 1}}
SIZES = ((9, 12), (10, 10))  # height, width


def noise(seed: int, size: tuple[int, int] = SIZES[0]) -> Image.Image:
    """An image of noise."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8))


def stored(file: Path) -> Image.Image:
    """The image in a file, which is closed again."""
    with Image.open(file) as image:
        image.load()
        return image


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """A folder of different images in five formats and two sizes."""
    root, seed = tmp_path / "pets", 0
    for part, counts in COUNTS.items():
        for label, count in counts.items():
            (root / part / label).mkdir(parents=True)
            for i in range(count):
                noise(seed, SIZES[i % 2]).save(root / part / label / f"{i}.{ENDINGS[i % 5]}")
                seed += 1
    return root


def packed(root: Path) -> Path:
    """The folder as a tar file beside it."""
    with tarfile.open(root.with_suffix(".tar"), "w") as tar:
        tar.add(root, arcname=root.name)
    return root.with_suffix(".tar")


def kinds(repeats: tuple[Repeat, ...]) -> dict[tuple[str, ...], tuple[tuple[str, ...], bool]]:
    """The kinds of repeats by their files, and whether the files are identical."""
    return {tuple(sorted(file.path for file in one.files)): (one.kinds, one.is_same_file) for one in repeats}


def test_classes_parts_and_sizes_are_those_of_the_files(pets: Path) -> None:
    files = [file for file in pets.rglob("*") if file.is_file()]
    sizes = Counter(stored(file).size[::-1] for file in files)
    for path in (pets, packed(pets)):
        found = inspect(path)
        assert found.classes == ("cat", "dog")
        assert found.counts == {part: tuple(counts.values()) for part, counts in COUNTS.items()}
        assert found.sizes == sizes
        assert (found.total, found.broken, found.repeats) == ({"train": 13, "test": 3}, {}, ())
        assert found.rows() == [{"class": "cat", "train": 7, "test": 2}, {"class": "dog", "train": 6, "test": 1}]
        splits = catalog.load(str(path), largest=9)
        assert inspect(path, reading=Reading(largest=9)).shape == splits.train.shape


def test_every_broken_and_every_skipped_file_is_named_and_the_whole_images_are_inspected(pets: Path) -> None:
    for i in range(6):
        (pets / "train" / "cat" / f"broken{i}.png").write_bytes((pets / "train" / "cat" / "0.png").read_bytes()[:60])
    for name in ("notes.txt", "train/cat/a.xml", "train/dog/b.mp4", "train/dog/c.gif"):
        (pets / name).write_text("x")
    found = inspect(pets)
    assert sorted(found.broken) == [f"train/cat/broken{i}.png" for i in range(6)]
    assert all("mend or remove it" in reason for reason in found.broken.values())
    assert found.skipped == ("notes.txt", "train/cat/a.xml", "train/dog/b.mp4", "train/dog/c.gif")
    assert sum(found.sizes.values()) == 16
    words = "6 of 22 images are broken: train/cat/broken0.png"
    assert_refused_in_one_line(lambda: catalog.load(str(pets)), words)
    assert_refused_in_one_line(lambda: catalog.load(str(pets)), "`orat data PATH` lists all")


def test_a_folder_of_broken_images_alone_has_no_shape(pets: Path) -> None:
    for file in pets.rglob("*.*"):
        file.write_bytes(b"no image")
    found = inspect(pets)
    assert (found.shape, len(found.broken), found.repeats) == (None, 16, ())


def test_repeated_images_are_told_by_label_part_and_class(pets: Path) -> None:
    shutil.copy(pets / "train/cat/0.png", pets / "train/dog/copy.png")
    stored(pets / "train/dog/1.tif").save(pets / "test/dog/other.bmp")
    shutil.copy(pets / "train/cat/3.bmp", pets / "train/cat/again.bmp")
    stored(pets / "train/cat/1.tif").save(pets / "test/dog/everywhere.png")
    repeats = {
        ("train/cat/0.png", "train/dog/copy.png"): (("under two labels",), True),
        ("test/dog/other.bmp", "train/dog/1.tif"): (("in two parts",), False),
        ("train/cat/3.bmp", "train/cat/again.bmp"): (("twice in one class",), True),
        ("test/dog/everywhere.png", "train/cat/1.tif"): (("under two labels", "in two parts"), False),
    }
    for path in (pets, packed(pets)):
        assert kinds(inspect(path).repeats) == repeats
    for files, (_, is_same) in repeats.items():
        assert (len({hashlib.sha256((pets / file).read_bytes()).hexdigest() for file in files}) == 1) == is_same


def test_one_other_pixel_is_another_image_and_gray_stored_as_color_is_the_same(pets: Path) -> None:
    near = np.array(stored(pets / "train/cat/0.png"))
    near[0, 0, 0] ^= 1
    Image.fromarray(near).save(pets / "train/dog/near.png")
    gray = noise(99).convert("L")
    gray.save(pets / "train/cat/gray.png")
    gray.convert("RGB").save(pets / "train/dog/color.bmp")
    assert list(kinds(inspect(pets).repeats)) == [("train/cat/gray.png", "train/dog/color.bmp")]


def test_large_images_that_become_equal_only_when_resized_are_no_repeats(tmp_path: Path) -> None:
    pixels = np.full((400, 400, 3), 99, np.uint8)
    for label in ("cat", "dog"):
        (tmp_path / "pets" / label).mkdir(parents=True)
        pixels[0, 0] += 1
        Image.fromarray(pixels).save(tmp_path / "pets" / label / "1.png")
    assert inspect(tmp_path / "pets").repeats == ()


def test_a_listing_and_arrays_are_inspected_too(pets: Path, tiny: str) -> None:
    rows = ["train/cat/0.png,a,train", "train/cat/1.tif,b,train", "train/dog/0.png,a,train", "test/dog/0.png,b,test"]
    (pets / "images.csv").write_text("\n".join(["path,label,split", *rows]))
    shutil.copy(pets / "train/cat/1.tif", pets / "test/dog/0.png")
    found = inspect(pets / "images.csv")
    assert found.rows() == [{"class": "a", "train": 2, "test": 0}, {"class": "b", "train": 1, "test": 1}]
    assert kinds(found.repeats) == {("test/dog/0.png", "train/cat/1.tif"): (("in two parts",), True)}
    arrays = inspect(tiny)
    assert (arrays.shape, arrays.total, arrays.sizes) == ((1, 12, 12), {"train": 300, "test": 90}, {(12, 12): 390})


def test_settings_of_other_kinds_of_data_are_refused(pets: Path) -> None:
    assert_refused_in_one_line(lambda: inspect(pets, reading=Reading(target="y")), "the target y is for tables")


def test_repeats_in_memory_are_those_of_equal_arrays() -> None:
    images = torch.arange(5 * 3 * 4, dtype=torch.uint8).reshape(5, 1, 3, 4)
    images[3] = images[0]
    train = Dataset(images[:4], torch.tensor([0, 1, 0, 1]), ("cat", "dog"))
    test = Dataset(images[1:2], torch.tensor([1]), ("cat", "dog"))
    found = in_memory(Splits(train, test))
    assert kinds(found) == {
        ("train[0]", "train[3]"): (("under two labels",), False), ("test[0]", "train[1]"): (("in two parts",), False),
    }  # fmt: skip
    assert warning("pets", found, 2) == [
        "pets holds 1 image under two labels (train[0], train[3]) and 1 image in two parts (train[1], test[0]): "
        "`orat data pets --class-depth 2` lists all"
    ]
    assert warning("pets", found[:0]) == []


def sheet(found: Inspection) -> Page:
    return Page(contact_sheet(found, "<pets>"))


def test_the_contact_sheet_shows_evenly_spaced_images_of_each_class(pets: Path) -> None:
    for i in range(20):
        noise(100 + i).save(pets / "train/dog" / f"more{i:02}.png")
    (pets / "train/cat/notes.txt").write_text("x")
    (pets / "train/cat/broken.png").write_bytes(b"x")
    found = inspect(pets)
    assert {label: len(own) for label, own in found.pictures.items()} == {"cat": 7, "dog": 8}
    page = sheet(found)
    text = " ".join(page.text)
    assert "<pets>" in text
    for words in ("train/cat/broken.png (no image)", "train/cat/notes.txt", "train: 34, test: 3"):
        assert words in text
    pictures = [values for name, values in page.elements if name == "img"]
    assert len(pictures) == 15
    assert all(str(one["src"]).startswith("data:image/png;base64,") for one in pictures)
    assert not [values for _, values in page.elements if "href" in values]


def test_many_classes_have_fewer_pictures_each(monkeypatch: pytest.MonkeyPatch, tiny: str, pets: Path) -> None:
    monkeypatch.setattr(inspection, "MOST_PICTURES", 2)
    assert [len(own) for own in inspect(tiny).pictures.values()] == [1, 1]
    assert "the first 2 classes" in " ".join(sheet(inspect(tiny)).text)
    assert {label: len(own) for label, own in inspect(pets).pictures.items()} == {"cat": 1, "dog": 1}


def test_a_table_has_a_page_without_pictures(tmp_path: Path) -> None:
    lines = [f"{i},{i % 3},{'ab'[i % 2]}" for i in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y,kind", *lines]))
    found = inspect(tmp_path / "t.csv", reading=Reading(target="kind"))
    assert (found.classes, found.pictures, found.sizes) == (("a", "b"), {}, {})
    assert "no pictures" in " ".join(sheet(found).text)
