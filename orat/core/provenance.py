"""Where a measured number comes from: the hardware, the versions and the commit."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import orat


def hardware(device: torch.device) -> dict[str, Any]:
    """What it was measured on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()
    return {"device": name, "threads": torch.get_num_threads()}


def cpu_name() -> str:
    """What the CPU calls itself."""
    if not hasattr(torch.cpu, "get_capabilities"):  # before torch 2.10
        return platform.processor() or platform.machine()
    return str(torch.cpu.get_capabilities()["cpu_name"])


def versions() -> dict[str, str]:
    """What it was measured with."""
    return {"orat": orat.__version__, "torch": torch.__version__, "python": platform.python_version()}


def commit() -> str:
    """The commit that was measured; a mark where the files differ from it; unknown where this is no checkout."""
    here = Path(__file__).parent
    if not git(here, "ls-files", "__init__.py"):  # an installed copy may lie inside of somebody else's checkout
        return "unknown"
    return git(here, "describe", "--always", "--dirty", "--abbrev=12") or "unknown"


def git(folder: Path, *command: str) -> str:
    """What git answers there; nothing where there is no git."""
    try:
        done = subprocess.run(["git", *command], capture_output=True, text=True, cwd=folder, check=False)
    except OSError:
        return ""
    return done.stdout.strip()
