"""How exactly a GPU computes products of float32, in matrices and convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def products(exact: bool) -> Iterator[None]:
    """With all 23 bits of the fraction, or, where the GPU is quicker with them, with ten (TF32).

    By default torch takes all of them in matrices, and ten in convolutions.
    """
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32
    cudnn.allow_tf32 = matmul.allow_tf32 = not exact
    try:
        yield
    finally:
        cudnn.allow_tf32, matmul.allow_tf32 = before
