"""Makes the bundled sample of MNIST from the official files: `python scripts/make_sample.py FOLDER_OF_MNIST`."""

from __future__ import annotations

import argparse
import gzip
import struct
from pathlib import Path

import torch
from torch import Tensor

from orat.data import idx
from orat.data.source import Dataset

SEED = 0
TRAIN_A_CLASS = 600
TEST_A_CLASS = 100


def choose(labels: Tensor, a_class: int, generator: torch.Generator) -> Tensor:
    """The positions of random samples, as many of each class, in their order."""
    order = torch.randperm(len(labels), generator=generator)
    chosen = [order[labels[order] == label][:a_class] for label in range(len(idx.CLASSES))]
    return torch.cat(chosen).sort().values


def write(tensor: Tensor, file: Path) -> None:
    """Writes a tensor of bytes as a gzipped IDX file without a time stamp."""
    header = struct.pack(f">{1 + tensor.dim()}I", 0x0800 + tensor.dim(), *tensor.shape)
    raw = header + tensor.to(torch.uint8).numpy().tobytes()
    file.write_bytes(gzip.compress(raw, compresslevel=9, mtime=0))


def write_part(data: Dataset, folder: Path, prefix: str) -> None:
    """Writes images and labels under the official file names."""
    write(data.images.squeeze(1), folder / f"{prefix}-images-idx3-ubyte.gz")
    write(data.labels, folder / f"{prefix}-labels-idx1-ubyte.gz")


def main() -> None:
    """Reads the official files, draws the sample and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="the folder of the official MNIST files")
    parser.add_argument("--out", type=Path, default=idx.SAMPLE, help="folder of the sample")
    options = parser.parse_args()
    splits = idx.read(options.source)
    assert splits.test is not None
    generator = torch.Generator().manual_seed(SEED)
    options.out.mkdir(parents=True, exist_ok=True)
    for data, prefix, a_class in ((splits.train, "train", TRAIN_A_CLASS), (splits.test, "t10k", TEST_A_CLASS)):
        write_part(data.take(choose(data.labels, a_class, generator)), options.out, prefix)
    print(f"wrote {sum(file.stat().st_size for file in options.out.glob('*.gz')):,} bytes to {options.out}")


if __name__ == "__main__":
    main()
