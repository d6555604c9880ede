"""Images in the layout of the authors' noise script: written pixel by pixel with colors, read as three planes."""

from __future__ import annotations

from dataclasses import replace

from orat.core.errors import InputError
from orat.data.catalog import Plugin, load
from orat.data.source import Dataset, Splits

PREFIX = "scrambled:"  # before the name or path of a data set


def scrambled(splits: Splits) -> Splits:
    """Both parts of a data set in the authors' layout, which moves almost every value."""
    return Splits(scrambled_part(splits.train), None if splits.test is None else scrambled_part(splits.test))


def scrambled_part(dataset: Dataset) -> Dataset:
    """One part in the authors' layout."""
    if len(dataset.shape) != 3:
        raise InputError(f"samples of shape {dataset.shape} cannot be scrambled: give images")
    return replace(dataset, images=dataset.images.permute(0, 2, 3, 1).reshape(dataset.images.shape))


# Runs take the defaults of files, not of the scrambled data set: the authors' settings are given in full.
PLUGIN = Plugin(lambda rest, data_dir, image_size: scrambled(load(rest, data_dir, image_size)))
