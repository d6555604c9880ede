"""Features: vectors whose columns have their own bounds and units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from orat.core.domain import Columns, Domain
from orat.core.errors import InputError, unknown

MOST_NAMES = 5  # in a line; further names are counted

Places: TypeAlias = Mapping[str, Sequence[int]]  # by the name of a column: its features


def domain_of(
    parts: Sequence[Tensor], places: Places, columns: Columns, texts: Iterable[str] = ()
) -> tuple[Domain, str]:
    """The domain of features (n, d), and a line about it; the first part is for training.

    A feature counts in its standard deviations in the training part. Frozen are the columns asked for, columns of text
    and constant columns.
    """
    for name in columns.frozen:
        if name not in places:
            raise unknown("column of frozen:", name, places)
    train = parts[0]
    constant = (train.amin(0) == train.amax(0)).tolist()
    still = {
        "text": list(texts),
        "constant": [name for name, own in places.items() if name not in texts and all(constant[i] for i in own)],
        "as asked": list(columns.frozen),
    }
    scale = train.double().std(0, correction=0)
    frozen = torch.tensor(constant)
    frozen[[i for names in still.values() for name in names for i in places[name]]] = True
    if frozen.all():
        raise InputError(f"no feature is left that an attack can change ({words(still)}): keep a column of numbers")
    low, high = bounds_of(torch.cat(list(parts)), frozen, places, columns)
    line = (
        f"{int((~frozen).sum())} of {len(frozen)} features can be attacked, in standard deviations of each; "
        f"bounds: {bounds_in_words(columns)}{words(still, '; frozen: ')}"
    )
    return Domain(low, high, tuple(scale.masked_fill(frozen, 0).tolist()), columns), line


def bounds_of(
    features: Tensor, frozen: Tensor, places: Places, columns: Columns
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """The lower and the upper bound of each feature; a frozen feature has the bounds of its values."""
    if columns.bounds == "none":
        return None, None
    low, high = features.amin(0), features.amax(0)
    if isinstance(columns.bounds, tuple):
        least, most = columns.bounds
        outside = ~frozen & ((low < least) | (high > most))
        for name, own in places.items():
            if any(outside[i] for i in own):
                values = features[:, own]
                raise InputError(
                    f"column {name!r} runs from {values.min():g} to {values.max():g}, out of the bounds {least:g} to "
                    f"{most:g}: give wider bounds, or freeze the column"
                )
        low, high = torch.where(frozen, low, least), torch.where(frozen, high, most)
    return tuple(low.tolist()), tuple(high.tolist())


def bounds_in_words(columns: Columns) -> str:
    """The bounds for people."""
    if isinstance(columns.bounds, tuple):
        return "{:g} to {:g}".format(*columns.bounds)
    return "those of the data" if columns.bounds == "data" else "none"


def words(still: Mapping[str, Sequence[str]], before: str = "") -> str:
    """The frozen columns by their reasons; nothing if there are none."""
    found = [f"{listed(names)} ({reason})" for reason, names in still.items() if names]
    return before + ", ".join(found) if found else ""


def listed(names: Sequence[str]) -> str:
    """The first names, and the number of further names."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
