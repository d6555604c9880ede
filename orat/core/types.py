"""Tensor shapes as types, and the batch of a training step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from jaxtyping import Float, Int64
from torch import Tensor

Images: TypeAlias = Float[Tensor, "n *shape"]  # values in [0, 1]; points of the plane are (n, 2)
Logits: TypeAlias = Float[Tensor, "n classes"]
Labels: TypeAlias = Int64[Tensor, "n"]
Indices: TypeAlias = Int64[Tensor, "n"]
PerSample: TypeAlias = Float[Tensor, "n"]
Scalar: TypeAlias = Float[Tensor, ""]


@dataclass(frozen=True)
class Batch:
    """Training samples with their labels and ids; an id is the same in every epoch."""

    x: Images
    y: Labels
    id: Indices
