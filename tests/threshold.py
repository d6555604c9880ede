"""A model whose robust samples are known in closed form, and points around its border."""

from __future__ import annotations

import torch
from torch import nn

from orat.data.source import Dataset


def threshold_model() -> nn.Module:
    """Class 1 above 0.5 in the first coordinate, class 0 below."""
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        model.bias.copy_(torch.tensor([0.5, -0.5]))
    return model


def points(n: int = 700) -> Dataset:
    """Points of the square, every tenth with the wrong label."""
    x = torch.rand((n, 2), generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0.5).long()
    y[::10] = 1 - y[::10]
    return Dataset(x, y, ("low", "high"))
