"""Cross-fitted predictions of weak models, for labels with known noise of many kinds.

    python experiments/feature_predictions.py mnist pair:0.45 human:0.2 --out predictions

A model is multinomial logistic regression on random convolution features: 200 whitened patches of 6x6 pixels of random
images, the positive and the negative likeness beyond 0.25, averaged in 2x2 parts of the image. `weak` models see 120 of
these 1,600 features, `mid` models 800; ridges are 1e-5 and 3e-5. Each sample has two predictions: other patches, other features, other folds.
Files are named DATA_STRENGTH_KINDrate.npz and hold `log_probs` (2, n, classes), `noisy`, `true` and `wrong`.

| kind | wrong labels |
|---|---|
| sym | any other class |
| pair | the next class |
| asym | of even classes only: the class three further |
| inst | a class drawn by a random linear map of the pixels, with a chance that varies by sample (Xia et al., 2020) |
| human | drawn from a linear model that sees 4x4 pixels and is told the right class a little; three tenths any class |
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional

import orat

SAMPLES, CLASSES = 20_000, 10
SIDE, FILTERS, DRAWN, BEYOND = 6, 200, 20_000, 0.25
STRENGTHS = {"weak": (120, 1e-5), "mid": (800, 3e-5)}  # features, ridge
FOLDS, ROUNDS = 3, 60
ANNOTATOR_PIXELS, ANNOTATOR_RIDGE, ANNOTATOR_ROUNDS, ANNOTATOR_SEED = 4, 1e-4, 100, 7
CARELESS = 0.3  # share of the wrong labels of people that may be any class
STEEP = 5.0  # of the random maps of instance-dependent noise


def main() -> None:
    """Writes a file for each kind of noise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("kinds", nargs="+", help="noise and rate, such as pair:0.45")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--name", help="of the data in file names (default: DATA)")
    parser.add_argument("--strength", choices=STRENGTHS, default="weak")
    parser.add_argument("--features", type=int, help="seen by a model, in place of those of the strength")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    train = orat.load_data(arguments.data, arguments.data_dir).train
    chosen = torch.from_numpy(np.random.default_rng(1).permutation(len(train.labels))[:SAMPLES])
    x, true = train.images[chosen].float() / 255, train.labels[chosen]
    count, ridge = STRENGTHS[arguments.strength]
    count = arguments.features or count
    sets = [features(x, seed) for seed in range(2)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    for kind, rate in (words.split(":") for words in arguments.kinds):
        given = torch.from_numpy(NOISES[kind](true.numpy(), x, float(rate), np.random.default_rng(5)))
        log_probs = torch.stack([predicted(one, given, seed, count, ridge) for seed, one in enumerate(sets)])
        file = (
            arguments.out
            / f"{arguments.name or arguments.data}_{arguments.strength}_{kind}{round(100 * float(rate))}.npz"
        )
        np.savez(file, log_probs=log_probs.half(), noisy=given, true=true, wrong=given != true)


def features(x: Tensor, seed: int) -> Tensor:
    """The likeness of images to whitened patches of their own, standardized."""
    generator = torch.Generator().manual_seed(seed)
    patches = drawn(x, generator)
    mean = patches.mean(0)
    axes, variances, _ = torch.linalg.svd((patches - mean).T @ (patches - mean) / len(patches))
    whiten = axes @ torch.diag((variances + 0.1).rsqrt()) @ axes.T
    white = ((patches - mean) @ whiten)[torch.randperm(len(patches), generator=generator)[:FILTERS]]
    filters = functional.normalize(white, dim=1)
    found = []
    for part in x.split(500):
        seen = even(functional.unfold(part, SIDE).transpose(1, 2))
        likeness = (((seen - mean) @ whiten) @ filters.T).movedim(2, 1)
        both = torch.cat([likeness - BEYOND, -likeness - BEYOND], 1).relu()
        places = both.unflatten(2, [side - SIDE + 1 for side in x.shape[2:]])
        found.append(functional.adaptive_avg_pool2d(places, 2).flatten(1))
    return standard(torch.cat(found), 1e-4)


def drawn(x: Tensor, generator: Generator) -> Tensor:
    """Patches of random images at random places, without flat patches, with equal brightness and contrast."""
    which = torch.randint(len(x), (DRAWN,), generator=generator)
    rows, columns = (torch.randint(side - SIDE + 1, (DRAWN,), generator=generator) for side in x.shape[2:])
    places = zip(x[which], rows.tolist(), columns.tolist(), strict=True)
    patches = torch.stack([image[:, i : i + SIDE, j : j + SIDE].flatten() for image, i, j in places])
    return even(patches[patches.std(1) > 0.02])


def even(patches: Tensor) -> Tensor:
    """Patches with mean 0 and variance 1, nearly."""
    centered = patches - patches.mean(-1, keepdim=True)
    return centered / (patches.var(-1, keepdim=True) + 0.01).sqrt()


def standard(columns: Tensor, least: float) -> Tensor:
    """Columns with mean 0 and standard deviation 1."""
    return (columns - columns.mean(0)) / columns.std(0).clamp(min=least)


def predicted(columns: Tensor, labels: Tensor, seed: int, count: int, ridge: float) -> Tensor:
    """Predictions by some of the features."""
    some = torch.randperm(columns.shape[1], generator=torch.Generator().manual_seed(seed))[:count]
    return cross_fitted(columns[:, some], labels, ridge, ROUNDS, seed + 11)


def cross_fitted(x: Tensor, labels: Tensor, ridge: float, rounds: int, seed: int) -> Tensor:
    """Log-probabilities of samples by models of the other folds."""
    fold = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)) % FOLDS
    found = x.new_zeros(len(labels), CLASSES)
    for number in range(FOLDS):
        learned = fold != number
        weight, bias = logistic(x[learned], labels[learned], ridge, rounds)
        found[~learned] = (x[~learned] @ weight + bias).log_softmax(1)
    return found


def logistic(x: Tensor, labels: Tensor, ridge: float, rounds: int) -> tuple[Tensor, Tensor]:
    """The weight and bias of multinomial logistic regression."""
    weight, bias = x.new_zeros(x.shape[1], CLASSES).requires_grad_(), x.new_zeros(CLASSES).requires_grad_()
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=rounds, history_size=10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(x @ weight + bias, labels) + ridge * weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return weight.detach(), bias.detach()


Noise = Callable[[np.ndarray, Tensor, float, np.random.Generator], np.ndarray]


def symmetric(true: np.ndarray, x: Tensor, rate: float, random: np.random.Generator) -> np.ndarray:
    moved = random.random(len(true)) < rate
    return np.where(moved, (true + random.integers(1, CLASSES, len(true))) % CLASSES, true)


def pair(true: np.ndarray, x: Tensor, rate: float, random: np.random.Generator) -> np.ndarray:
    return np.where(random.random(len(true)) < rate, (true + 1) % CLASSES, true)


def asymmetric(true: np.ndarray, x: Tensor, rate: float, random: np.random.Generator) -> np.ndarray:
    return np.where((random.random(len(true)) < rate) & (true % 2 == 0), (true + 3) % CLASSES, true)


def instance(true: np.ndarray, x: Tensor, rate: float, random: np.random.Generator) -> np.ndarray:
    random.random(len(true))  # files made earlier drew these, too
    chances = np.clip(random.normal(rate, 0.1, len(true)), 0, 1)
    pixels = x.flatten(1).numpy()
    pixels = (pixels - pixels.mean(0)) / (pixels.std(0) + 1e-3)
    maps = random.normal(size=(CLASSES, pixels.shape[1], CLASSES)).astype(np.float32)
    other = true.copy()
    for label in range(CLASSES):
        members = np.flatnonzero(true == label)
        scores = STEEP * (pixels[members] @ maps[label]) / np.sqrt(pixels.shape[1])
        scores[:, label] = -np.inf
        other[members] = draw(torch.from_numpy(scores).softmax(1).numpy(), random)
    return np.where(random.random(len(true)) < chances, other, true)


def human(true: np.ndarray, x: Tensor, rate: float, random: np.random.Generator) -> np.ndarray:
    random.random(len(true))  # files made earlier drew these, too
    labels = torch.from_numpy(true)
    pixels = standard(functional.adaptive_avg_pool2d(x, ANNOTATOR_PIXELS).flatten(1), 1e-3)
    seen = cross_fitted(pixels, labels, ANNOTATOR_RIDGE, ANNOTATOR_ROUNDS, ANNOTATOR_SEED).double()
    careless, told = CARELESS * rate, functional.one_hot(labels, CLASSES)

    def chances(knowledge: float) -> Tensor:
        return (1 - careless) * (seen + knowledge * told).softmax(1) + careless / CLASSES

    low, high = -10.0, 30.0
    for _ in range(50):
        middle = (low + high) / 2
        wrong = 1 - chances(middle).gather(1, labels[:, None]).mean()
        low, high = (middle, high) if wrong > rate else (low, middle)
    return draw(chances(low).numpy(), random)


def draw(chances: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A class of each row, by its chances."""
    return (random.random((len(chances), 1)) > chances.cumsum(1)).sum(1).clip(0, CLASSES - 1)


NOISES: dict[str, Noise] = {
    "none": lambda true, x, rate, random: true, "sym": symmetric, "pair": pair, "asym": asymmetric,
    "inst": instance, "human": human,
}  # fmt: skip


if __name__ == "__main__":
    main()
