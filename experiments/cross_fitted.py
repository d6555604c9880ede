"""Cross-fitted predictions of a data set under many kinds of label noise, for studies of `judge`.

    python experiments/cross_fitted.py cifar10 --data-dir data --noises symmetric-20,pair-45 --seeds 0,1 --out predictions
    python experiments/cross_fitted.py cifar10 --data-dir data --human cifar10-human.npz --noises human --out predictions

Each noise and seed gives one file DATA-NOISE-FOLDS-EPOCHS-SEED.npz: `log_probs` (sets, n, classes) as float16, `noisy`
and `true`. The two sets are independent predictions. A present file is not made again.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import orat
from orat.core.console import Display
from orat.core.device import choose_device
from orat.data.source import Dataset, relabel
from orat.noise.inject import inject
from orat.training.cross_fit import cross_fit
from orat.training.setup import Parts, read_data, standardized

NOISES = "none-0,symmetric-20,symmetric-40,asymmetric-40,pair-20,pair-45,instance-20,instance-40"
NOISE_SEED = 0


def main() -> None:
    """Makes the missing files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--noises", default=NOISES, help="with commas between")
    parser.add_argument("--human", type=Path, help="the file of human labels, for the noise `human`")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--model", default=None, help="the network, if not the quickest")
    parser.add_argument("--samples", type=int, help="only the first after a shuffle")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    run = orat.Run(
        data=arguments.data, method=orat.methods.ORAT(), augment="none" if "mnist" in arguments.data else "crop-flip"
    )
    run, splits = read_data(run, arguments.data_dir, choose_device(arguments.device))
    train = splits.train
    if arguments.samples:
        train = train.take(torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[: arguments.samples])
    for noise in arguments.noises.split(","):
        noisy = noisy_labels(train, noise, arguments.human)
        for seed in map(int, arguments.seeds.split(",")):
            file = arguments.out / f"{arguments.data}-{noise}-{arguments.folds}-{arguments.epochs}-{seed}.npz"
            if file.exists():
                continue
            started = time.monotonic()
            log_probs = predicted(replace(run, seed=seed), relabel(train, noisy), arguments)
            wrong = (log_probs.mean(0).argmax(1) != train.labels).double().mean()
            values = {
                "log_probs": log_probs.half(),
                "noisy": noisy.to(torch.uint8),
                "true": train.labels.to(torch.uint8),
            }
            np.savez_compressed(file, **{name: value.numpy() for name, value in values.items()})
            print(f"{file}: {wrong:.3f} of the predictions wrong, {time.monotonic() - started:.0f} s", flush=True)


def noisy_labels(train: Dataset, noise: str, human: Path | None) -> Tensor:
    """The labels of a training set with noise KIND-RATE."""
    if noise == "human":
        assert human is not None
        with np.load(human) as file:
            assert np.array_equal(file["true"], train.labels.numpy()), "the human labels are in another order"
            return torch.from_numpy(file["noisy"].astype(np.int64))
    kind, rate = noise.split("-")
    share = int(rate) / 100
    if kind == "pair":
        generator = torch.Generator().manual_seed(NOISE_SEED)
        flipped = torch.rand(len(train), generator=generator) < share
        return torch.where(flipped, (train.labels + 1) % len(train.classes), train.labels)
    inputs = standardized(train) if kind == "instance" else None
    return inject(kind, train.labels, train.classes, share, NOISE_SEED, inputs)


def predicted(run: orat.Run, train: Dataset, arguments: argparse.Namespace) -> Tensor:
    """Cross-fitted predictions (sets, n, classes) in the order of the data; folds depend on the seed."""
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(1000 + run.seed))
    parts = Parts(train.take(order), None, None, torch.arange(len(train)), len(train))
    sets = cross_fit(run, parts, arguments.folds, arguments.epochs, arguments.model, arguments.device, Display())
    return torch.empty_like(sets).index_copy(1, order, sets)


if __name__ == "__main__":
    main()
