"""Where a run computes: the device of a name, and data on it."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from orat.data.dataset import Dataset
from orat.errors import InputError


def choose_device(name: str) -> torch.device:
    """The device of this name; `auto` is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} cannot be used ({reason}): give cpu, cuda or auto") from None


def on_device(dataset: Dataset, device: torch.device) -> Dataset:
    """The data set on the device as a whole where it takes at most half of what is free there, else where it is."""
    if device.type == "cuda" and dataset.images.nbytes > torch.cuda.mem_get_info(device)[0] / 2:
        return dataset
    return dataset.to(device)


def until_done(device: torch.device) -> Iterator[None]:
    """Yields until the device has done all that it was told on this stream; meanwhile it may be told other things."""
    if device.type == "cuda":
        told = torch.cuda.current_stream(device).record_event()
        while not told.query():
            yield
