"""The tiny data and networks that the tests share, and where the real data lies."""

from __future__ import annotations

import os
import sys

# Two workers of pytest-xdist on two cores: a second torch thread in each would only fight.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from quick_runs import JUDGING, NOISE, SLOW, quick
from small_networks import fitted
from torch import Tensor, nn
from torch.nn import functional

import orat
from orat.core.console import SILENT
from orat.data.catalog import load

torch.set_num_threads(1)

REAL_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def mnist_dir() -> Path:
    """The folder of the official MNIST files."""
    folder = REAL_DATA / "mnist"
    if not folder.is_dir():
        pytest.skip(f"the real MNIST files are not at {folder}")
    return folder


@pytest.fixture(scope="session")
def human_dir() -> Path:
    """The folder of predictions for labels given by people."""
    folder = REAL_DATA / "human"
    if not folder.is_dir():
        pytest.skip(f"the predictions for labels given by people are not at {folder}")
    return folder


@pytest.fixture(scope="session")
def cifar_tar() -> Path:
    """All CIFAR-10 images as JPEG, an image folder in a tar.xz."""
    file = REAL_DATA / "cifar10-jpeg.tar.xz"
    if not file.is_file():
        pytest.skip(f"the real CIFAR-10 images are not at {file}")
    return file


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An .npz of 12x12 gray images: a bright stripe says the class, one of three."""
    generator = np.random.default_rng(0)
    arrays = {}
    for part, n in (("train", 300), ("test", 90)):
        labels = np.arange(n) % 3
        images = generator.integers(0, 120, (n, 12, 12), dtype=np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[4 * label : 4 * label + 4] += 100
        arrays |= {f"x_{part}": images, f"y_{part}": labels}
    file = tmp_path_factory.mktemp("data") / "tiny.npz"
    np.savez(file, **arrays)
    return str(file)


@pytest.fixture(scope="session")
def automatic(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of automatic ORAT on labels of which a fifth is wrong."""
    folder = tmp_path_factory.mktemp("automatic") / "run"
    orat.train(quick(tiny, JUDGING, **NOISE), folder, device="cpu", display=SILENT)
    return folder


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a user's file in it: the CODE of the test module."""
    (tmp_path / "own.py").write_text(request.module.CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 240 images of two classes, 20 of each in the wrong folder; both classes use the same file names."""
    root = tmp_path_factory.mktemp("cleaning") / "photos"
    generator = np.random.default_rng(0)
    for label, name in enumerate(("bar", "foo")):
        for part, n in (("train", 120), ("test", 10)):
            (root / part / name).mkdir(parents=True)
            for i in range(n):
                shown = 1 - label if part == "train" and i < 20 else label
                pixels = generator.integers(0, 100, (8, 8), dtype=np.uint8)
                pixels[4 * shown : 4 * shown + 4] += 120
                Image.fromarray(pixels).save(root / part / name / f"{i:03}.png")
    (root / "train" / "foo" / "notes.txt").write_text("not an image")
    return root


@pytest.fixture(scope="session")
def of_photos(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on that folder."""
    folder = tmp_path_factory.mktemp("cleaning") / "run"
    orat.train(quick(str(photos), JUDGING, **SLOW), folder, device="cpu", display=SILENT)
    return folder


@pytest.fixture(scope="session")
def digits() -> tuple[nn.Module, Tensor, Tensor]:
    """A small network and 80 digits of 10x10 pixels that it gets right."""
    sample = load("sample").train
    x = functional.adaptive_avg_pool2d(sample.images[:1500].float() / 255, 10)
    y = sample.labels[:1500]
    model = fitted(x, y, 10, lr=0.01, weight_decay=1e-3).requires_grad_(False)
    right = model(x).argmax(1) == y
    return model, x[right][:80], y[right][:80]
