"""Batches have every sample once an epoch; crops and flips equal crops and flips by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from orat.data.loader import ResidentLoader, as_input, augmented, divided, flipped, moved, shuffled, steps_per_epoch
from orat.data.source import Dataset


def numbered(n: int) -> Dataset:
    """Images whose pixels are the number of the sample."""
    images = torch.arange(n, dtype=torch.uint8)[:, None, None, None].expand(n, 1, 4, 4).contiguous()
    return Dataset(images, torch.arange(n) % 3, ("a", "b", "c"))


@pytest.mark.parametrize(
    ("n", "size", "sizes"),
    [
        (12, 3, [3, 3, 3, 3]),
        (10, 3, [3, 3, 2, 2]),
        (129, 128, [65, 64]),
        (7, 7, [7]),
        (5, 100, [5]),
        (11, 4, [4, 4, 3]),
    ],
)
def test_an_epoch_has_every_sample_once_in_full_batches_but_for_two_halves_of_the_rest(
    n: int, size: int, sizes: list[int]
) -> None:
    parts = divided(shuffled(n, 0, 1), size)
    assert torch.cat(parts).sort().values.tolist() == list(range(n))
    assert [len(part) for part in parts] == sizes


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5, 8, 32, 45, 64, 100, 128])
def test_any_division_is_in_order_and_in_full_batches_but_for_two_of_half_one_or_more(batch_size: int) -> None:
    for n in range(1, 300):
        order = torch.arange(n)
        parts = divided(order, batch_size)
        sizes = [len(part) for part in parts]
        assert torch.equal(torch.cat(parts), order)
        assert len(parts) == steps_per_epoch(n, batch_size)
        last = sizes if n < batch_size else [size for size in sizes if size != batch_size]
        assert sizes == [batch_size] * (len(sizes) - len(last)) + last
        assert len(last) <= 2
        assert n < batch_size or all(2 * size >= batch_size for size in last)
        assert max(last, default=0) - min(last, default=0) <= 1


def test_a_batch_has_its_samples_images_and_labels() -> None:
    part = ResidentLoader(numbered(20), 3, 0, torch.device("cpu")).batch((torch.tensor([7, 3, 11]),), torch.Generator())
    assert (part.x[:, 0, 0, 0] * 255).round().tolist() == part.id.tolist() == [7, 3, 11]
    assert part.y.tolist() == [1, 0, 2]


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    assert torch.equal(shuffled(50, 3, 4), shuffled(50, 3, 4))
    assert not torch.equal(shuffled(50, 3, 4), shuffled(50, 3, 5))
    assert not torch.equal(shuffled(50, 3, 4), shuffled(50, 4, 4))


def crop_by_hand(image: Tensor, down: int, right: int) -> Tensor:
    padded = torch.zeros(image.shape[0], image.shape[1] + 8, image.shape[2] + 8, dtype=image.dtype)
    padded[:, 4:-4, 4:-4] = image
    return padded[:, down : down + image.shape[1], right : right + image.shape[2]]


def test_every_crop_is_a_window_of_the_padded_image() -> None:
    images = torch.randint(1, 256, (30, 3, 6, 9), dtype=torch.uint8)
    windows = []
    for image, crop in zip(images, moved(images, 4, torch.Generator().manual_seed(0)), strict=True):
        found = [(d, r) for d in range(9) for r in range(9) if torch.equal(crop, crop_by_hand(image, d, r))]
        assert len(found) == 1
        windows += found
    assert len(set(windows)) > 15


def test_flips_mirror_about_half_of_the_images() -> None:
    images = torch.randint(0, 256, (400, 1, 3, 5), dtype=torch.uint8)
    result = flipped(images, torch.Generator().manual_seed(0))
    mirrored = (result == images.flip(3)).flatten(1).all(1)
    kept = (result == images).flatten(1).all(1)
    assert (mirrored | kept).all()
    assert 150 < mirrored.sum() < 250


def test_a_nudge_moves_images_by_a_sixteenth_at_most_and_leaves_small_ones_and_points_alone() -> None:
    images = torch.randint(1, 256, (60, 1, 40, 33), dtype=torch.uint8)
    borders = []
    for image in augmented(images, "none-nudge", torch.Generator().manual_seed(0)):
        rows, columns = (image[0] > 0).any(1), (image[0] > 0).any(0)
        borders.append((int(rows.sum()), int(columns.sum())))
    assert {rows for rows, _ in borders} == {38, 39, 40}
    assert {columns for _, columns in borders} == {31, 32, 33}
    for alone in (images[:, :, :15], torch.rand(5, 2)):
        assert torch.equal(augmented(alone, "none-nudge", torch.Generator()), alone)


def test_no_augmentation_draws_no_randomness() -> None:
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    augmented(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), "none", generator)
    assert torch.equal(before, generator.get_state())


def test_bytes_become_floats_in_the_unit_interval_and_floats_stay() -> None:
    assert as_input(torch.tensor([[[[0, 255]]]], dtype=torch.uint8)).flatten().tolist() == [0.0, 1.0]
    points = torch.rand(3, 2)
    assert torch.equal(as_input(points), points)
