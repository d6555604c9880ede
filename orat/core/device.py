"""Devices: choice by name, waiting, and the precision of their arithmetic."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

import orat
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


def hardware(device: torch.device) -> dict[str, Any]:
    """The name of the device and the number of threads."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()
    return {"device": name, "threads": torch.get_num_threads()}


def cpu_name() -> str:
    """The name of the CPU."""
    if not hasattr(torch.cpu, "get_capabilities"):  # before torch 2.10
        return platform.processor() or platform.machine()
    return str(torch.cpu.get_capabilities()["cpu_name"])


def versions() -> dict[str, str]:
    """The versions of orat, torch and Python."""
    return {"orat": orat.__version__, "torch": torch.__version__, "python": platform.python_version()}


def commit() -> str:
    """The commit of the checkout, marked if files differ from the commit; `unknown` for an installed copy."""
    here = Path(__file__).parent
    if not git(here, "ls-files", "__init__.py"):  # an installed copy may lie inside of another checkout
        return "unknown"
    return git(here, "describe", "--always", "--dirty", "--abbrev=12") or "unknown"


def git(folder: Path, *command: str) -> str:
    """The output of a git command in a folder; empty without git."""
    try:
        done = subprocess.run(["git", *command], capture_output=True, text=True, cwd=folder, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def device_of(model: nn.Module) -> torch.device:
    """The device of the parameters."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def operations_of(work: Callable[[], object]) -> int:
    """The floating-point operations of the matrix products and convolutions in some work.

    torch's FlopCounterMode has module hooks that prevent gradients by the input.
    """
    total = 0

    class Operations(TorchDispatchMode):
        """Sums torch's counts."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal total
            result = func(*args, **(kwargs or {}))
            if func.overloadpacket in flop_registry:
                total += flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=result)
            return result

    with Operations():
        work()
    return total
