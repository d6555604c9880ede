"""Loaders: resident and streamed batches are equal to the bit, in the same order, however an epoch is cut short."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from refusals import assert_refused_in_one_line
from torch import Generator, Tensor

from orat.core.types import Batch
from orat.data.loader import AHEAD, Loader, ResidentLoader, StreamedLoader, as_input, divided, loader, shuffled
from orat.data.source import Dataset

CPU = torch.device("cpu")
N, SIZE, SEED = 77, 8, 5
LOADERS: tuple[Callable[..., Loader], ...] = (ResidentLoader, StreamedLoader)


def images_of(dtype: torch.dtype = torch.uint8) -> Dataset:
    """Random images in color."""
    pixels = torch.randint(0, 256, (N, 3, 9, 7), generator=Generator().manual_seed(1), dtype=torch.uint8)
    images = pixels if dtype == torch.uint8 else pixels / 255
    return Dataset(images, torch.arange(N) % 4, ("a", "b", "c", "d"))


class Counted:
    """A source that is not a Dataset, and keeps the ids of every fetch."""

    def __init__(self, data: Dataset, broken: int | None = None) -> None:
        self.data, self.broken = data, broken
        self.labels, self.truth, self.classes, self.shape = data.labels, data.truth, data.classes, data.shape
        self.fetched: list[list[int]] = []

    def __len__(self) -> int:
        return len(self.data)

    def __getitems__(self, ids: list[int]) -> Tensor:
        if self.broken in ids:
            raise OSError("the disk is gone")
        self.fetched.append(ids)
        return self.data.images[ids]

    def fingerprint(self) -> str:
        return self.data.fingerprint()


def batches(one: Loader, epochs: int, **options: Any) -> list[Batch]:
    """The batches of the first epochs, with one generator for all."""
    generator = Generator().manual_seed(SEED)
    return [one.batch(ticket, generator) for epoch in range(epochs) for ticket in one.epoch(epoch, **options)]


def assert_equal(left: list[Batch], right: list[Batch]) -> None:
    """The batches agree to the bit, and in memory layout."""
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert torch.equal(one.x, other.x)
        assert one.x.stride() == other.x.stride()
        assert torch.equal(one.y, other.y)
        assert torch.equal(one.id, other.id)


@pytest.mark.parametrize("augment", ["none", "crop-flip", "none-nudge"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_streamed_batches_equal_resident_ones_to_the_bit(augment: str, dtype: torch.dtype) -> None:
    data = images_of(dtype)
    resident = batches(ResidentLoader(data, SIZE, SEED, CPU, augment), 3)
    assert_equal(batches(StreamedLoader(Counted(data), SIZE, SEED, CPU, augment), 3), resident)
    assert len(resident) == 3 * ResidentLoader(data, SIZE, SEED, CPU).steps


@pytest.mark.parametrize("make", LOADERS)
def test_batches_are_the_shuffled_samples_by_hand(make: Callable[..., Loader]) -> None:
    data = images_of()
    for epoch in (-1, 0, 1):
        order = torch.randperm(N, generator=Generator().manual_seed(1_000_003 * SEED + epoch))
        one = make(data, SIZE, SEED, CPU)
        found = [one.batch(ticket, Generator()) for ticket in one.epoch(epoch)]
        assert torch.equal(torch.cat([batch.id for batch in found]), order)
        assert torch.equal(torch.cat([batch.x for batch in found]), as_input(data.images[order]))
        assert torch.equal(torch.cat([batch.y for batch in found]), data.labels[order])
        assert [len(batch.y) for batch in found] == [len(ids) for ids in divided(order, SIZE)]


@pytest.mark.parametrize("make", LOADERS)
def test_a_skip_leaves_out_the_first_steps_alone(make: Callable[..., Loader]) -> None:
    one = make(images_of(), SIZE, SEED, CPU)
    assert_equal(batches(one, 1, skip=4), batches(one, 1)[4:])
    assert batches(one, 1, skip=one.steps) == []


@pytest.mark.parametrize("make", LOADERS)
def test_two_processes_share_every_batch(make: Callable[..., Loader]) -> None:
    parts = [batches(make(images_of(), SIZE, SEED, CPU, rank=rank, world_size=2), 2) for rank in (0, 1)]
    for left, right, whole in zip(*parts, batches(make(images_of(), SIZE, SEED, CPU), 2), strict=True):
        assert torch.equal(torch.cat([left.id, right.id]), whole.id)
        assert torch.equal(torch.cat([left.x, right.x]), whole.x)


def test_a_batch_smaller_than_the_number_of_processes_is_refused() -> None:
    data = images_of()
    assert_refused_in_one_line(
        lambda: ResidentLoader(data, 5, SEED, CPU, world_size=4), "a batch of 3 samples for 4 processes"
    )


def test_a_streamed_epoch_fetches_a_few_batches_in_advance_and_stops_with_its_reader() -> None:
    threads, source = threading.active_count(), Counted(images_of())
    epoch = StreamedLoader(source, SIZE, SEED, CPU).epoch(1)
    next(epoch)
    assert threading.active_count() == threads + 1
    epoch.close()  # type: ignore[attr-defined]
    assert threading.active_count() == threads
    assert 1 <= len(source.fetched) <= AHEAD + 1
    expected = [ids.tolist() for ids in divided(shuffled(N, SEED, 1), SIZE)]
    assert source.fetched == expected[: len(source.fetched)]


def test_an_error_of_the_source_is_raised_at_its_step_and_ends_the_thread() -> None:
    threads, data = threading.active_count(), images_of()
    broken = int(shuffled(N, SEED, 1)[3 * SIZE])
    epoch = StreamedLoader(Counted(data, broken), SIZE, SEED, CPU).epoch(1)
    assert [len(next(epoch)[1]) for _ in range(3)] == [SIZE] * 3
    with pytest.raises(OSError, match="the disk is gone"):
        next(epoch)
    assert threading.active_count() == threads


def test_what_fits_is_resident_and_what_is_no_data_set_is_streamed() -> None:
    assert isinstance(loader(images_of(), SIZE, SEED, CPU), ResidentLoader)
    assert isinstance(loader(Counted(images_of()), SIZE, SEED, CPU), StreamedLoader)
