"""Image folders and tar files of image folders, with images made in the test."""

from __future__ import annotations

import io
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import EpsImagePlugin, Image

from orat.core.domain import Reading
from orat.core.errors import InputError
from orat.data import folder
from orat.data.cifar import CIFAR10_CLASSES
from orat.data.source import Splits


def save(file: Path, mode: str = "RGB", size: tuple[int, int] = (6, 4), color: object = None) -> Path:
    """One image, by default 6 pixels wide and 4 high."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color or 0).save(file)
    return file


def two_classes(root: Path) -> Path:
    """A cat and two dogs to train on, a dog to test on."""
    save(root / "train" / "dog" / "b.png", color=(0, 0, 250))
    save(root / "train" / "dog" / "a.bmp", color=(0, 250, 0))
    save(root / "train" / "cat" / "z.png", color=(250, 0, 0))
    save(root / "test" / "dog" / "t.PNG", color=(9, 8, 7))
    return root


def pack(root: Path, archive: Path, top: str = "") -> Path:
    """The folder as a tar file, packed by its ending."""
    packing = {".xz": "w:xz", ".gz": "w:gz", ".tar": "w"}[archive.suffix]
    with tarfile.open(archive, packing) as tar:  # type: ignore[call-overload]
        tar.add(root, arcname=top or ".")
    return archive


def message(root: Path, size: tuple[int, int] | None = None) -> str:
    """The error message of reading a folder, in one line."""
    with pytest.raises(InputError) as caught:
        folder.read(root, Reading(size))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_classes_paths_and_labels_are_in_sorted_order(tmp_path: Path) -> None:
    splits = folder.read(two_classes(tmp_path))
    assert splits.train.classes == ("cat", "dog")
    assert splits.train.paths == ("train/cat/z.png", "train/dog/a.bmp", "train/dog/b.png")
    assert splits.train.labels.tolist() == [0, 1, 1]
    assert splits.test is not None
    assert splits.test.paths == ("test/dog/t.PNG",)
    assert splits.test.labels.tolist() == [1]


def test_channels_come_first_and_non_square_images_keep_their_shape(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    file = save(tmp_path / "train" / "cat" / "1.png")
    Image.fromarray(pixels).save(file)
    images = folder.read(tmp_path).train.images
    assert images.shape == (1, 3, 4, 6)
    assert images.dtype == torch.uint8
    assert (images[0].numpy() == pixels.transpose(2, 0, 1)).all()


def test_a_test_part_is_optional(tmp_path: Path) -> None:
    shutil.rmtree(two_classes(tmp_path) / "test")
    assert folder.read(tmp_path).test is None


def test_gray_images_have_one_channel_if_all_are_gray(tmp_path: Path) -> None:
    save(tmp_path / "train" / "a" / "1.png", mode="L", color=77)
    save(tmp_path / "train" / "b" / "1.png", mode="1", color=1)
    images = folder.read(tmp_path).train.images
    assert images.shape == (2, 1, 4, 6)
    assert images.flatten(1).float().mean(1).tolist() == [77, 255]


def test_gray_among_color_becomes_three_equal_channels(tmp_path: Path) -> None:
    save(tmp_path / "train" / "a" / "1.png", mode="L", color=77)
    save(tmp_path / "train" / "b" / "1.png", color=(1, 2, 3))
    images = folder.read(tmp_path).train.images
    assert images[0].unique().tolist() == [77]
    assert images[1, :, 0, 0].tolist() == [1, 2, 3]


def test_a_gray_training_part_follows_a_colored_test_part(tmp_path: Path) -> None:
    save(tmp_path / "train" / "a" / "1.png", mode="L")
    save(tmp_path / "test" / "a" / "1.png", mode="RGB")
    assert folder.read(tmp_path).train.shape == (3, 4, 6)


def test_hidden_files_and_other_endings_are_left_out(tmp_path: Path) -> None:
    two_classes(tmp_path)
    save(tmp_path / "train" / "cat" / ".hidden.png")
    save(tmp_path / "train" / ".thumbnails" / "1.png")
    (tmp_path / "train" / "cat" / "notes.txt").write_text("nothing")
    (tmp_path / "train" / "notes.txt").write_text("nothing")
    assert len(folder.read(tmp_path).train) == 3
    assert len(folder.read(pack(tmp_path, tmp_path.parent / "hidden.tar")).train) == 3


def same(left: Splits, right: Splits) -> bool:
    """Whether both parts agree in images, labels, classes and paths."""
    parts = ((left.train, right.train), (left.test, right.test))
    return all(a and b and a.fingerprint() == b.fingerprint() and a.paths == b.paths for a, b in parts)


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tar.xz"])
@pytest.mark.parametrize("top", ["", "pets"])
def test_a_tar_file_reads_as_its_folder(tmp_path: Path, ending: str, top: str) -> None:
    root = two_classes(tmp_path / "root")
    archive = pack(root, tmp_path / f"data.{ending}", top)
    before = sorted(tmp_path.rglob("*"))
    assert same(folder.read(archive), folder.read(root))
    assert sorted(tmp_path.rglob("*")) == before


def test_the_order_inside_a_tar_file_does_not_matter(tmp_path: Path) -> None:
    root = two_classes(tmp_path / "root")
    with tarfile.open(tmp_path / "data.tar", "w") as tar:
        for file in sorted((path for path in root.rglob("*") if path.is_file()), reverse=True):
            tar.add(file, arcname=str(file.relative_to(root)))
    assert same(folder.read(tmp_path / "data.tar"), folder.read(root))


def test_a_given_size_is_height_by_width_and_bilinear(tmp_path: Path) -> None:
    save(two_classes(tmp_path) / "train" / "dog" / "c.png", size=(5, 7), color=(10, 20, 30))
    image = Image.fromarray(np.arange(24, dtype=np.uint8).reshape(4, 6) * 10).convert("RGB")
    image.save(tmp_path / "train" / "cat" / "z.png")
    images = folder.read(tmp_path, Reading((3, 8))).train.images
    assert images.shape == (4, 3, 3, 8)
    wanted = np.asarray(image.resize((8, 3), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert (images[0].numpy() == wanted).all()
    assert images[3, :, 1, 1].tolist() == [10, 20, 30]


def test_a_size_of_nothing_is_refused(tmp_path: Path) -> None:
    assert "the image size is 0x8" in message(two_classes(tmp_path), (0, 8))


def test_a_class_only_in_the_test_part_is_refused(tmp_path: Path) -> None:
    save(two_classes(tmp_path) / "test" / "mouse" / "1.png")
    assert f"{tmp_path / 'test' / 'mouse'} is a class that train/ does not have" in message(tmp_path)


@pytest.mark.parametrize("part", ["train", "test"])
def test_an_empty_class_folder_is_refused(tmp_path: Path, part: str) -> None:
    (two_classes(tmp_path) / part / "cat" / "z.png").unlink(missing_ok=True)
    (tmp_path / part / "cat").mkdir(exist_ok=True)
    assert f"{tmp_path / part / 'cat'} has no images" in message(tmp_path)
    archive = pack(tmp_path, tmp_path.parent / f"empty-{part}.tar")
    assert f"{archive / part / 'cat'} has no images" in message(archive)


def test_a_folder_without_classes_is_refused(tmp_path: Path) -> None:
    assert f"{tmp_path} has no class folders" in message(tmp_path)
    save(tmp_path / "train" / "1.png")
    assert f"{tmp_path} has no class folders" in message(tmp_path)


@pytest.mark.parametrize("ending", ["jpg", "png", "bmp", "webp"])
def test_a_truncated_image_is_refused_by_name(tmp_path: Path, ending: str) -> None:
    file = two_classes(tmp_path) / "train" / "cat" / f"broken.{ending}"
    noise = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(noise).save(file)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert f"cannot read the image {file}" in message(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n" + bytes(40)])
def test_what_is_no_image_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    file = two_classes(tmp_path) / "train" / "dog" / "broken.png"
    file.write_bytes(content)
    assert f"cannot read the image {file}" in message(tmp_path)
    archive = pack(tmp_path, tmp_path.parent / "broken.tar.gz")
    assert f"cannot read the image {archive / 'train/dog/broken.png'}" in message(archive)


def test_postscript_is_refused_before_any_other_program_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", "/bin/true")
    monkeypatch.setattr("subprocess.check_call", lambda *command, **_: started.append(command))
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 4\n%%EndComments\nshowpage\n%%EOF\n"
    file = two_classes(tmp_path) / "train" / "cat" / "x.jpg"
    file.write_bytes(script)
    with Image.open(file) as image, suppress(OSError):
        image.load()  # without the list of formats, Pillow starts the program
    assert len(started) == 1
    assert f"cannot read the image {file}" in message(tmp_path)
    assert len(started) == 1


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tar.xz"])
def test_a_tar_file_cut_off_anywhere_is_refused_by_name(tmp_path: Path, ending: str) -> None:
    archive = pack(two_classes(tmp_path / "root"), tmp_path / f"data.{ending}")
    whole = archive.read_bytes()
    # A plain archive ends with many more empty blocks than the one that it needs.
    lengths = range(0, len(whole.rstrip(b"\0")), 128) if ending == "tar" else range(0, len(whole), 7)
    for length in lengths:
        archive.write_bytes(whole[:length])
        assert f"{archive} is no whole tar file" in message(archive)


def test_a_damaged_header_does_not_pass_for_the_end_of_a_tar_file(tmp_path: Path) -> None:
    archive = pack(two_classes(tmp_path / "root"), tmp_path / "data.tar")
    whole = bytearray(archive.read_bytes())
    whole[whole.rindex(b"ustar")] ^= 255
    archive.write_bytes(whole)
    assert f"{archive} is no whole tar file" in message(archive)


def test_links_in_a_tar_file_are_not_followed(tmp_path: Path) -> None:
    two_classes(tmp_path / "root")
    archive = tmp_path / "data.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(tmp_path / "root", arcname=".")
        link = tarfile.TarInfo("train/cat/link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link, io.BytesIO())
    assert len(folder.read(archive).train) == 3


@pytest.mark.slow
def test_the_real_cifar_tar_has_all_images(cifar_tar: Path) -> None:
    splits = folder.read(cifar_tar)
    assert splits.test is not None
    assert splits.train.images.shape == (50_000, 3, 32, 32)
    assert splits.test.images.shape == (10_000, 3, 32, 32)
    assert splits.train.classes == CIFAR10_CLASSES
    assert splits.train.labels.bincount().tolist() == [5000] * 10
    assert splits.test.labels.bincount().tolist() == [1000] * 10
    # The known channel means of CIFAR-10's training images; JPEG keeps them to a fraction of a level.
    means = splits.train.images.sum((0, 2, 3), dtype=torch.int64) / (50_000 * 32 * 32)
    assert means.tolist() == pytest.approx([125.31, 122.95, 113.87], abs=0.1)
