"""Labels with planted noise, and predictions of a network that sees the truth through noise."""

from __future__ import annotations

import torch
from torch import Tensor

CLASSES = 5


def logits(true: Tensor, sharpness: float, seed: int = 0, classes: int = CLASSES) -> Tensor:
    """Logits of a network that sees the truth through noise: the larger the sharpness, the better."""
    noise = torch.randn(len(true), classes, generator=torch.Generator().manual_seed(seed))
    return noise + sharpness * torch.nn.functional.one_hot(true, classes)


def truth(n: int, classes: int = CLASSES) -> Tensor:
    return torch.arange(n) % classes


def flipped(true: Tensor, rate: float, classes: int = CLASSES, pairs: dict[int, int] | None = None) -> Tensor:
    """Labels with a share of wrong ones: any other class, or a certain class by pairs."""
    generator = torch.Generator().manual_seed(1)
    wrong = torch.rand(len(true), generator=generator) < rate
    if pairs is None:
        other = (true + 1 + torch.randint(classes - 1, (len(true),), generator=generator)) % classes
    else:
        goal = torch.tensor([pairs.get(label, label) for label in range(classes)])
        other = goal[true]
    return torch.where(wrong, other, true)
