"""A streamed folder gives the pixels of the resident one, and trains on the same batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import assert_refused_in_one_line
from torch import Generator

from orat.core.domain import Reading
from orat.data import catalog, folder
from orat.data.folder import FolderSource
from orat.data.loader import ResidentLoader, StreamedLoader, loader
from orat.data.source import Source

CPU = torch.device("cpu")


def pets(root: Path, mode: str = "RGB", size: tuple[int, int] = (9, 8)) -> Path:
    """Noise as 12 cats, 15 dogs and 3 dogs to test on, every third in gray, every fifth as a JPEG."""
    generator = np.random.default_rng(0)
    for part, label, n in (("train", "cat", 12), ("train", "dog", 15), ("test", "dog", 3)):
        (root / part / label).mkdir(parents=True)
        for i in range(n):
            image = Image.fromarray(generator.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
            image = image.convert("L" if i % 3 == 0 else mode)
            image.save(root / part / label / f"{i}.{'jpg' if i % 5 == 0 else 'png'}")
    return root


def parts(root: Path, size: tuple[int, int] | None = None) -> tuple[FolderSource, FolderSource]:
    """Both parts, streamed."""
    train, test = folder.stream(root, Reading(size))
    assert isinstance(train, Source)
    assert test is not None
    return train, test


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("size", [None, (5, 6)])
def test_streamed_images_are_the_resident_ones(tmp_path: Path, mode: str, size: tuple[int, int] | None) -> None:
    resident, streamed = folder.read(pets(tmp_path, mode), Reading(size)), parts(tmp_path, size)
    for whole, part in zip((resident.train, resident.test), streamed, strict=True):
        assert whole is not None
        assert (part.shape, part.classes, part.paths, len(part)) == (
            whole.shape,
            whole.classes,
            whole.paths,
            len(whole),
        )
        assert torch.equal(part.labels, whole.labels)
        ids = torch.randperm(len(whole), generator=Generator().manual_seed(2)).tolist()
        assert torch.equal(part.__getitems__(ids), whole.images[ids])


def test_both_train_on_the_same_batches(tmp_path: Path) -> None:
    whole, (part, _) = folder.read(pets(tmp_path)).train, parts(tmp_path)
    resident, streamed = ResidentLoader(whole, 4, 0, CPU, "crop-flip"), loader(part, 4, 0, CPU, "crop-flip")
    assert isinstance(streamed, StreamedLoader)
    one, other = (Generator().manual_seed(3) for _ in range(2))
    for epoch in (1, 2):
        for ids, ticket in zip(resident.epoch(epoch), streamed.epoch(epoch), strict=True):
            left, right = resident.batch(ids, one), streamed.batch(ticket, other)
            assert torch.equal(left.x, right.x)
            assert torch.equal(left.y, right.y)
            assert torch.equal(left.id, right.id)


def test_some_samples_of_a_source_keep_their_images_and_labels(tmp_path: Path) -> None:
    part, _ = parts(pets(tmp_path))
    ids = torch.tensor([20, 3])
    some = part.take(ids)
    assert torch.equal(some.__getitems__([0, 1]), part.__getitems__([20, 3]))
    assert torch.equal(some.labels, part.labels[ids])


def test_the_fingerprint_knows_paths_sizes_and_labels(tmp_path: Path) -> None:
    part, test = parts(pets(tmp_path))
    assert part.fingerprint() == parts(tmp_path)[0].fingerprint()
    others = {test.fingerprint(), replace(part, labels=1 - part.labels).fingerprint()}
    with (tmp_path / part.paths[4]).open("ab") as file:
        file.write(b"one more")
    assert part.fingerprint() not in others | {parts(tmp_path)[0].take(torch.arange(5)).fingerprint()}
    assert len(others) == 2


def test_what_reading_refuses_streaming_refuses_too(tmp_path: Path) -> None:
    file = pets(tmp_path) / "train" / "dog" / "15.png"
    file.write_bytes(b"no image")
    assert_refused_in_one_line(lambda: folder.stream(tmp_path), f"cannot read the image {file}")
    file.unlink()
    (tmp_path / "test" / "mouse").mkdir()
    assert_refused_in_one_line(lambda: folder.stream(tmp_path), "is a class that train/ does not have")


def test_an_image_that_breaks_later_is_refused_at_its_batch(tmp_path: Path) -> None:
    part, _ = parts(pets(tmp_path))
    file = tmp_path / part.paths[4]
    file.write_bytes(file.read_bytes()[:60])
    part.__getitems__([0, 1])
    assert_refused_in_one_line(lambda: part.__getitems__([4]), f"cannot read the image {file}")


def test_a_folder_is_streamed_by_its_path_and_nothing_else_is(tmp_path: Path) -> None:
    train, test = catalog.stream(str(pets(tmp_path)), (4, 4))
    assert train.shape == (3, 4, 4)
    assert test is not None
    for name in ("mnist", "nowhere"):
        assert_refused_in_one_line(lambda name=name: catalog.stream(name), f"{name} cannot be streamed: give an image")
