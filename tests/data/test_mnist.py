"""AT and ORAT on the real MNIST files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import orat
from orat.core.console import SILENT

HEADERS = {"images-idx3": 16, "labels-idx1": 8}


def slice_of(source: Path, target: Path, part: str, n: int) -> None:
    """The first n samples of the official files, as official files."""
    for kind, header in HEADERS.items():
        content = gzip.decompress((source / f"{part}-{kind}-ubyte.gz").read_bytes())
        size = 784 if header == 16 else 1
        shortened = content[:4] + n.to_bytes(4, "big") + content[8 : header + n * size]
        (target / f"{part}-{kind}-ubyte").write_bytes(shortened)


@pytest.mark.slow
def test_at_and_orat_learn_from_the_real_files_in_two_epochs(mnist_dir: Path, tmp_path: Path) -> None:
    slice_of(mnist_dir, tmp_path, "train", 6000)
    slice_of(mnist_dir, tmp_path, "t10k", 500)
    results = {}
    for name, method in {"at": orat.methods.AT(), "orat": orat.methods.ORAT(m=0.15)}.items():
        run = orat.Run(
            data="mnist", method=method, model="demo_cnn", epochs=2, lr=0.05, milestones=(), batch_size=32,
            noise="symmetric", noise_rate=0.2, attack_steps=5, attack_warmup=1.0, warmup=0.5,
        )  # fmt: skip
        results[name] = orat.train(run, tmp_path / name, tmp_path, "cpu", SILENT)
    for result in results.values():
        assert result["examples"] == 500
        assert result["last"]["natural"] > 0.85
        assert 0.6 < result["last"]["pgd20"] < result["last"]["natural"]
    assert results["orat"]["outliers"]["precision"] > 0.7
