"""Small networks of the tests of attacks: linear, or fitted to points."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def linear(weight: Tensor, bias: float, classes: int = 2) -> nn.Module:
    """Class 1 leads class 0 by weight x + bias; the others are far behind, so that only that lead can grow."""
    model = nn.Linear(len(weight), classes).to(weight.dtype)
    with torch.no_grad():
        model.weight.zero_()[1] = weight
        model.bias.copy_(-1000 - torch.arange(classes))
        model.bias[:2] = torch.tensor([0.0, bias])
    return model.requires_grad_(False)


def fitted(x: Tensor, y: Tensor, classes: int, lr: float = 0.02, weight_decay: float = 0.0) -> nn.Module:
    """A network with one hidden layer, fitted to all points at once."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = (nn.Flatten(), nn.Linear(x[0].numel(), 32), nn.ReLU(), nn.Linear(32, classes))
        model = nn.Sequential(*layers).to(x.dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
    for _ in range(150):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval()
