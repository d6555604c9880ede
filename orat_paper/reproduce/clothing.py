"""The folder of Clothing1M (Xiao et al., 2015) -> the two training sets of the paper.

The owners' folder has category_names_eng.txt; lists of images (clean_train_key_list.txt, clean_test_key_list.txt,
noisy_train_key_list.txt); and labels, one image and class a line (clean_label_kv.txt, noisy_label_kv.txt).
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt
from PIL import Image

from orat.core.console import Display
from orat.core.errors import InputError
from orat.core.files import replacing
from orat_paper.reproduce.settings import Places

TRAIN, TEST, NOISY = 30_000, 10_000, 6000  # images; NOISY of TRAIN have labels of web pages
SIDE = 32  # pixels, the size for Small-CNN; the paper gives none
SEED = 0
GROUP = 256  # images decoded at once

Labeled = list[tuple[str, int]]  # images and their classes


def make_clothing(places: Places, display: Display) -> None:
    """Writes both training sets to their places, unless both files are present."""
    if all(places.clothing(kind).is_file() for kind in ("clean", "noisy")):
        return
    folder = Path(places.data["clothing1m"]).expanduser()
    chance = random.Random(SEED)
    clean = drawn(labeled(folder, "clean_train", "clean"), TRAIN, chance)
    test = drawn(labeled(folder, "clean_test", "clean"), TEST, chance)
    noisy = clean[: len(clean) - NOISY] + drawn(labeled(folder, "noisy_train", "noisy"), NOISY, chance)
    names = text_of(folder / "category_names_eng.txt").splitlines()
    places.clothing("clean").parent.mkdir(parents=True, exist_ok=True)
    for kind, train in (("clean", clean), ("noisy", noisy)):
        display.line(f"reading {len(train) + len(test):,} images of Clothing1M ({kind})")
        write(places.clothing(kind), folder, train, test, names)


def write(file: Path, folder: Path, train: Labeled, test: Labeled, names: list[str]) -> None:
    """Writes one training set and the test set as arrays of an .npz file."""
    with replacing(file) as stream, ZipFile(stream, "w") as archive:
        write_array(archive, "class_names", np.array(names))
        for part, images in (("train", train), ("test", test)):
            write_array(archive, f"y_{part}", np.array([label for _, label in images]))
            write_images(archive, f"x_{part}", [folder / name for name, _ in images])


def write_array(archive: ZipFile, name: str, values: npt.NDArray[Any]) -> None:
    """Writes one array."""
    with archive.open(f"{name}.npy", "w") as member:
        np.lib.format.write_array(member, values, allow_pickle=False)


def write_images(archive: ZipFile, name: str, files: list[Path]) -> None:
    """Writes an array of images as it grows: only one group of images is in memory."""
    head = {"descr": "|u1", "fortran_order": False, "shape": (len(files), SIDE, SIDE, 3)}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member, ThreadPoolExecutor() as pool:
        np.lib.format.write_array_header_1_0(member, head)
        for start in range(0, len(files), GROUP):
            for image in pool.map(pixels, files[start : start + GROUP]):
                member.write(image.tobytes())


def labeled(folder: Path, keys: str, labels: str) -> Labeled:
    """The images of a list with their classes."""
    pairs = (line.split() for line in text_of(folder / f"{labels}_label_kv.txt").splitlines())
    classes = {name: int(label) for name, label in pairs}
    return [(name, classes[name]) for name in text_of(folder / f"{keys}_key_list.txt").split() if name in classes]


def drawn(images: Labeled, count: int, chance: random.Random) -> Labeled:
    """A number of the images in random order."""
    if len(images) < count:
        raise InputError(f"Clothing1M has {count:,} of these images, {len(images):,} are present: get all of its files")
    return chance.sample(images, count)


def text_of(file: Path) -> str:
    """The content of a list."""
    if not file.is_file():
        raise InputError(f"there is no {file}: give the owners' folder as --data clothing1m=FOLDER")
    return file.read_text()


def pixels(file: Path) -> npt.NDArray[np.uint8]:
    """A color image in the size for the network."""
    try:
        with Image.open(file, formats=("JPEG", "PNG")) as image:
            return np.asarray(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR))
    except OSError as error:
        raise InputError(f"cannot read {file} ({error}): get it again") from None
