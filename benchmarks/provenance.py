"""Where a measured number comes from: the hardware, the versions and the commit."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch


def hardware(device: torch.device) -> dict[str, Any]:
    """What it was measured on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.cpu.get_capabilities()["cpu_name"]
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit that was measured; a mark where the files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent, check=False)
    return done.stdout.strip() or "unknown"
