"""Where a run computes: the device of a name, and data on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from orat.core.errors import InputError


def choose_device(name: str) -> torch.device:
    """The device of this name; `auto` is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} cannot be used ({reason}): give cpu, cuda or auto") from None


def until_done(device: torch.device) -> Iterator[None]:
    """Yields until the device has done all that it was told on this stream; meanwhile it may be told other things."""
    if device.type == "cuda":
        told = torch.cuda.current_stream(device).record_event()
        while not told.query():
            yield


@contextmanager
def products(exact: bool) -> Iterator[None]:
    """With all 23 bits of the fraction, or, where the GPU is quicker with them, with ten (TF32).

    By default torch takes all of them in matrices, and ten in convolutions.
    """
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32
    cudnn.allow_tf32 = matmul.allow_tf32 = not exact
    try:
        yield
    finally:
        cudnn.allow_tf32, matmul.allow_tf32 = before


# What a CPU needs so that a half is quicker than a whole.
CPU_ABLE = {torch.bfloat16: ("avx512_bf16", "amx_bf16"), torch.float16: ("avx512_fp16", "amx_fp16")}


def able(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the device computes in this type itself, instead of imitating it slowly."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if not hasattr(torch.cpu, "get_capabilities"):  # before torch 2.10
        return False
    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in CPU_ABLE[dtype])
