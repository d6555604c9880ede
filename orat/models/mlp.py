"""The multi-layer perceptrons of the paper's toy examples."""

from __future__ import annotations

from itertools import pairwise

from torch import nn


class MLP(nn.Sequential):
    """Linear layers with a ReLU between any two: `mlp-3` has one hidden layer of three units."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], classes: int) -> None:
        layers: list[nn.Module] = []
        for old, new in pairwise((inputs, *hidden)):
            layers += [nn.Linear(old, new), nn.ReLU()]
        super().__init__(nn.Flatten(), *layers, nn.Linear(hidden[-1], classes))
