"""The points in the plane on which the paper shows the effect of outliers (Hu et al., 2023, Figure 1, appendix).

The paper gives the numbers of points, classes and outliers, but no means or variances. Ours were picked among 4 to 7
tries a set, with a look at the trained networks, so the sets illustrate ORAT and are no evidence for it. The Gaussians
are cut at 2.5 deviations: without its outliers, every set keeps a margin well above 2 eps = 0.02.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orat.core.errors import InputError, unknown
from orat.data.catalog import Plugin
from orat.data.source import Dataset, Splits

CLASSES = ("blue", "red")
BLUE, RED = 0, 1
SEED = 0
CUT = 2.5
TEST_POINTS = 1000
DEFAULTS: dict[str, Any] = {
    "eps": 0.01, "milestones": (), "warmup": 0.0, "augment": "none", "validation": 0.0, "batch_size": 200,
    "weight_decay": 0.0,
}  # fmt: skip


@dataclass(frozen=True)
class Cluster:
    """A Gaussian of one class with its number of training points."""

    label: int
    mean: tuple[float, float]
    std: tuple[float, float]
    n: int


@dataclass(frozen=True)
class Outlier:
    """A point inside the clusters of one class with the label of the other class."""

    label: int
    point: tuple[float, float]


@dataclass(frozen=True)
class Toy:
    """A set of clusters and its outliers."""

    clusters: tuple[Cluster, ...]
    outliers: tuple[Outlier, ...]


TOYS = {
    # Three clusters in a row; without the small one on the right, one line separates the classes.
    "toy-balanced": Toy(
        clusters=(
            Cluster(BLUE, mean=(0.25, 0.50), std=(0.05, 0.05), n=79),
            Cluster(RED, mean=(0.55, 0.50), std=(0.05, 0.05), n=99),
            Cluster(BLUE, mean=(0.80, 0.50), std=(0.02, 0.05), n=20),
        ),
        outliers=(Outlier(RED, point=(0.20, 0.50)), Outlier(BLUE, point=(0.55, 0.50))),
    ),
    # Few red points in a narrow strip between many blue ones.
    "toy-imbalanced": Toy(
        clusters=(
            Cluster(BLUE, mean=(0.30, 0.50), std=(0.05, 0.08), n=97),
            Cluster(BLUE, mean=(0.70, 0.50), std=(0.05, 0.08), n=97),
            Cluster(RED, mean=(0.50, 0.50), std=(0.012, 0.02), n=5),
        ),
        outliers=(Outlier(RED, point=(0.20, 0.50)),),
    ),
    # Few red points close above many blue ones; the outlier lies on the far side.
    "toy-imbalanced-2": Toy(
        clusters=(
            Cluster(BLUE, mean=(0.45, 0.45), std=(0.08, 0.05), n=194),
            Cluster(RED, mean=(0.55, 0.64), std=(0.03, 0.012), n=5),
        ),
        outliers=(Outlier(RED, point=(0.40, 0.36)),),
    ),
}


def read(name: str) -> Splits:
    """The 200 training points with their outliers, and 1,000 clean test points of the same clusters."""
    if name not in TOYS:
        raise unknown("toy set", name, TOYS)
    toy = TOYS[name]
    generator = torch.Generator().manual_seed(SEED)
    points = [drawn(cluster, cluster.n, generator) for cluster in toy.clusters]
    true = [torch.full((cluster.n,), cluster.label) for cluster in toy.clusters]
    outliers = torch.tensor([outlier.point for outlier in toy.outliers])
    given = torch.tensor([outlier.label for outlier in toy.outliers])
    train = Dataset(
        images=torch.cat([*points, outliers]),
        labels=torch.cat([*true, given]),
        classes=CLASSES,
        truth=torch.cat([*true, 1 - given]),
    )
    return Splits(train=train, test=clean_points(toy, generator))


def clean_points(toy: Toy, generator: torch.Generator) -> Dataset:
    """The clean test points, drawn from the clusters by their sizes."""
    weights = torch.tensor([float(cluster.n) for cluster in toy.clusters])
    chosen = torch.multinomial(weights, TEST_POINTS, replacement=True, generator=generator)
    counts = chosen.bincount(minlength=len(toy.clusters)).tolist()
    parts = list(zip(toy.clusters, counts, strict=True))
    labels = torch.cat([torch.full((n,), cluster.label) for cluster, n in parts])
    points = torch.cat([drawn(cluster, n, generator) for cluster, n in parts])
    return Dataset(images=points, labels=labels, classes=CLASSES, truth=labels)


def drawn(cluster: Cluster, n: int, generator: torch.Generator) -> Tensor:
    """Points of a cluster, (n, 2)."""
    normal = torch.nn.init.trunc_normal_(torch.empty(n, 2), a=-CUT, b=CUT, generator=generator)
    return torch.tensor(cluster.mean) + torch.tensor(cluster.std) * normal


def plugin(name: str, **defaults: Any) -> Plugin:
    """The data set of this name with its defaults for runs."""

    def read_points(rest: str, data_dir: Path | None, image_size: tuple[int, int] | None) -> Splits:
        if image_size is not None:
            height, width = image_size
            raise InputError(f"the image size {height}x{width} is for folders of images: leave it out for {name!r}")
        return read(name)

    return Plugin(read_points, DEFAULTS | defaults)


BALANCED = plugin("toy-balanced", model="mlp-3", epochs=3000, lr=0.02)
IMBALANCED = plugin("toy-imbalanced", model="mlp-20-20-20", epochs=100_000, lr=0.02)
IMBALANCED_2 = plugin("toy-imbalanced-2", model="mlp-64", epochs=100_000, lr=0.1)
