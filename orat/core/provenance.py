"""The origin of a measured number: hardware, versions and commit."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import orat


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
