"""Your own arrays: saved as .npz, trained with ORAT (automatic), and the network loaded back."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import orat

random = np.random.default_rng(0)
labels = random.integers(0, 2, 600)
images = random.integers(0, 100, (600, 16, 16), dtype=np.uint8)
images[labels == 1, 4:12, 4:12] += 90  # class 1 has a bright square

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "squares.npz"
    np.savez(file, x_train=images[:500], y_train=labels[:500], x_test=images[500:], y_test=labels[500:])
    run = orat.Run(
        data=str(file), method=orat.methods.ORAT(), model="mlp-32", noise="symmetric", noise_rate=0.2, eps=8 / 255,
        epochs=15, lr=0.05, augment="none", batch_size=32,
    )  # fmt: skip
    result = orat.train(run, Path(folder) / "run")
    model = orat.load_model(Path(folder) / "run")
    print(result["last"], result["outliers"])
    print(model)
