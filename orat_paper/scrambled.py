"""Images as the authors' noise script lays them out: pixel by pixel with their colors, read as three planes."""

from __future__ import annotations

from dataclasses import replace

from orat.core.errors import InputError
from orat.data.catalog import Plugin, load
from orat.data.source import Dataset, Splits

PREFIX = "scrambled:"  # before a name or path


def scrambled(splits: Splits) -> Splits:
    """Both parts in the authors' layout, in which almost no value is where it was."""
    return Splits(_scrambled(splits.train), None if splits.test is None else _scrambled(splits.test))


def _scrambled(dataset: Dataset) -> Dataset:
    if len(dataset.shape) != 3:
        raise InputError(f"samples of shape {dataset.shape} have no layout to scramble: give images")
    return replace(dataset, images=dataset.images.permute(0, 2, 3, 1).reshape(dataset.images.shape))


# Runs take the defaults of files, not of the set whose images are scrambled: the authors' settings are given in full.
PLUGIN = Plugin(lambda rest, data_dir, image_size: scrambled(load(rest, data_dir, image_size)))
