"""Image files of every kind as pixels: against formulas in NumPy, and Pillow's own view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from refusals import assert_refused_in_one_line

from orat.data.decode import Pixels, decode, header

RNG = np.random.default_rng(0)
COLOR = RNG.integers(0, 256, (4, 6, 3), dtype=np.uint8)
ALPHA = RNG.integers(0, 256, (4, 6, 1), dtype=np.uint8)


def pixels(file: Path, size: tuple[int, int] | None = None) -> Pixels:
    """The pixels of a file, whose shape its header gives too."""
    found = decode(file.read_bytes(), file, size)
    head = header(file, file)
    assert head.is_gray == (found.ndim == 2)
    assert size is not None or head.size == found.shape[:2]
    return found


def saved(folder: Path, array: Any, mode: str | None = None, ending: str = "png", **how: Any) -> Path:
    """An array as an image file, converted to a mode if one is given."""
    image = Image.fromarray(array)
    file = folder / f"image.{ending}"
    (image if mode is None else image.convert(mode)).save(file, **how)
    return file


def on_white(color: Any, alpha: Any) -> Any:
    """The composite on white, in floats."""
    share = alpha / 255
    return color * share + 255 * (1 - share)


def test_transparent_color_lies_on_white(tmp_path: Path) -> None:
    file = saved(tmp_path, np.concatenate([COLOR, ALPHA], 2))
    assert header(file, file).has_alpha
    assert np.abs(pixels(file) - on_white(COLOR, ALPHA)).max() <= 1


def test_transparent_gray_stays_gray(tmp_path: Path) -> None:
    gray = COLOR[:, :, :1]
    file = saved(tmp_path, np.concatenate([gray, ALPHA], 2))
    assert np.abs(pixels(file) - on_white(gray, ALPHA)[:, :, 0]).max() <= 1


def test_opaque_alpha_changes_nothing(tmp_path: Path) -> None:
    file = saved(tmp_path, np.concatenate([COLOR, np.full_like(ALPHA, 255)], 2))
    assert (pixels(file) == COLOR).all()


def test_a_palette_becomes_its_colors_and_its_transparent_color_white(tmp_path: Path) -> None:
    palette = Image.new("RGB", (6, 4), (4, 5, 6)).quantize(4)
    palette.save(tmp_path / "opaque.png")
    palette.save(tmp_path / "clear.png", transparency=bytes([0]))
    assert pixels(tmp_path / "opaque.png")[0, 0].tolist() == [4, 5, 6]
    assert pixels(tmp_path / "clear.png")[0, 0].tolist() == [255, 255, 255]


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path: Path, ending: str) -> None:
    deep = np.array([[0, 128, 129, 32768, 40_000, 65535]] * 4, dtype=np.uint16)
    assert (pixels(saved(tmp_path, deep, ending=ending)) == np.rint(deep / 65535 * 255)).all()


def test_a_bitmap_of_one_bit_is_black_and_white(tmp_path: Path) -> None:
    assert (pixels(saved(tmp_path, COLOR[:, :, 0] > 99)) == np.where(COLOR[:, :, 0] > 99, 255, 0)).all()


@pytest.mark.parametrize("ending", ["jpg", "tif"])
def test_four_inks_become_the_colors_that_pillow_shows(tmp_path: Path, ending: str) -> None:
    file = saved(tmp_path, COLOR, "CMYK", ending)
    assert pixels(file).shape == (4, 6, 3)
    with Image.open(file) as image:
        assert (pixels(file) == np.asarray(image.convert("RGB"))).all()


TURNS = {  # by the EXIF tag of orientation: how the stored pixels were made from the upright ones
    1: lambda image: image, 2: np.fliplr, 3: lambda image: np.rot90(image, 2), 4: np.flipud,
    5: lambda image: image.transpose(1, 0, 2), 6: lambda image: np.rot90(image, 1),
    7: lambda image: np.rot90(image, 2).transpose(1, 0, 2), 8: lambda image: np.rot90(image, -1),
}  # fmt: skip


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("ending", ["png", "tif", "webp"])
def test_a_turned_image_stands_upright(tmp_path: Path, turn: int, ending: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = turn
    how = {"lossless": True} if ending == "webp" else {}
    file = saved(tmp_path, np.ascontiguousarray(TURNS[turn](COLOR)), ending=ending, exif=exif, **how)
    assert (pixels(file) == COLOR).all()


def test_a_large_photo_is_resized_as_pillow_does_to_two_levels(tmp_path: Path) -> None:
    rough = Image.fromarray(RNG.integers(0, 256, (30, 40, 3), dtype=np.uint8))
    file = saved(tmp_path, np.asarray(rough.resize((800, 600), Image.Resampling.BICUBIC)), ending="jpg", quality=95)
    with Image.open(file) as image:
        wanted = np.asarray(image.resize((48, 36), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(pixels(file, (36, 48)) - wanted).max() <= 2


def test_floats_of_unknown_range_are_refused(tmp_path: Path) -> None:
    file = saved(tmp_path, np.zeros((4, 6), np.float32), ending="tif")
    assert_refused_in_one_line(lambda: header(file, file), f"{file} holds floats of unknown range (mode 'F')")


def test_more_than_sixteen_bits_are_refused(tmp_path: Path) -> None:
    file = saved(tmp_path, np.full((4, 6), 70_000, np.int32), ending="tif")
    assert_refused_in_one_line(lambda: decode(file.read_bytes(), file, None), "70000 are not 16 bits): mend or remove")
