"""Devices: choice by name, waiting, and the precision of their arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from orat.core.errors import InputError


def choose_device(name: str) -> torch.device:
    """The device of this name; `auto` is a GPU if the machine has a GPU, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} cannot be used ({reason}): give cpu, cuda or auto") from None


def until_done(device: torch.device) -> Iterator[None]:
    """Yields until the device has finished the work of the current stream, so that other runs use the time."""
    if device.type == "cuda":
        submitted = torch.cuda.current_stream(device).record_event()
        while not submitted.query():
            yield


@contextmanager
def products(exact: bool) -> Iterator[None]:
    """Float32 products with all 23 bits of the fraction, or with ten bits (TF32) on a GPU.

    By default, torch uses 23 bits in matrix products and ten bits in convolutions.
    """
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32
    cudnn.allow_tf32 = matmul.allow_tf32 = not exact
    try:
        yield
    finally:
        cudnn.allow_tf32, matmul.allow_tf32 = before


# The instructions with which a CPU computes faster in 16 bits than in 32 bits.
CPU_ABLE = {torch.bfloat16: ("avx512_bf16", "amx_bf16"), torch.float16: ("avx512_fp16", "amx_fp16")}


def able(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the hardware computes in this type; a software emulation is slow."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if not hasattr(torch.cpu, "get_capabilities"):  # before torch 2.10
        return False
    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in CPU_ABLE[dtype])
