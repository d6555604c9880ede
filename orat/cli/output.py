"""What commands print: text for people, JSON for machines."""

from __future__ import annotations

import json
import sys
from typing import Any


def say(text: str) -> None:
    """For people, on standard output."""
    sys.stdout.write(text + "\n")


def print_json(content: Any) -> None:
    """For machines, on standard output."""
    sys.stdout.write(json.dumps(content) + "\n")
