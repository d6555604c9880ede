"""The bundled sample of MNIST: 600 training and 100 test digits a class, made by scripts/make_sample.py."""

from __future__ import annotations

from pathlib import Path

from orat.data import idx
from orat.data.source import Splits

FOLDER = Path(__file__).parent / "mnist_sample"


def read() -> Splits:
    """The 6,000 training and 1,000 test digits of the package."""
    return idx.read(FOLDER)
