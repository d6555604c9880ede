"""AutoAttack as its authors publish it, through the package pyautoattack: the number to hold ours against."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import nn

from orat.attacks.pgd import check_images, check_radius, frozen
from orat.core.errors import InputError
from orat.core.random import Source
from orat.core.types import Images, Labels

NAMES = {"linf": "Linf", "l2": "L2", "l1": "L1"}
LEAST_CLASSES = 4  # its targeted loss looks at the fourth logit


@dataclass(frozen=True)
class AutoAttackReference:
    """pyautoattack's standard version; slower, and its random numbers depend on the batch."""

    eps: float
    norm: str = "linf"
    seed: int = 0

    def __post_init__(self) -> None:
        check_radius(self.eps, self.norm)
        if find_spec("pyautoattack") is None:
            raise InputError("autoattack-reference needs pyautoattack: pip install 'orat[reference]'")

    def check(self, shape: tuple[int, ...], classes: int) -> None:
        """Refuses what the reference cannot attack."""
        if len(shape) != 3:
            raise InputError(f"autoattack-reference attacks images, not points of shape {shape}")
        if classes < LEAST_CLASSES:
            raise InputError(f"autoattack-reference needs {LEAST_CLASSES} classes or more, here are {classes}")
        if self.norm != "linf" and not tiles_fit(*shape[1:]):
            raise InputError(f"autoattack-reference cannot attack images of {shape[1]}x{shape[2]} in {self.norm}")

    def __call__(self, model: nn.Module, x: Images, y: Labels, generator: Source | None = None) -> Images:
        """The adversarial images that the reference finds, the clean ones where it finds none."""
        check_images(x)
        devices = [x.device] if x.is_cuda else []
        with frozen(model), torch.random.fork_rng(devices), warnings.catch_warnings(), kept_trace():
            warnings.simplefilter("ignore")  # our own checks say the same, with reasons
            with torch.no_grad():
                classes = model(x[:1]).shape[1]
            self.check(tuple(x.shape[1:]), classes)
            reference = import_module("pyautoattack").AutoAttack(
                model, eps=self.eps, norm=NAMES[self.norm], seed=self.seed, device=x.device
            )
            for part in (reference.fab, reference.apgd_targeted):
                part.n_target_classes = min(part.n_target_classes, classes - 1)
            adv, _ = reference.run_standard_evaluation(x.contiguous(), y, batch_size=len(x))
        return adv


def tiles_fit(height: int, width: int) -> bool:
    """Whether the tiles that its Square starts from in l2 and l1 fit into the image: otherwise it fails."""
    side = height // 5
    border = (height - 5 * side) // 2
    return side > 0 and all(border + side * (length // side) <= length for length in (height, width))


@contextmanager
def kept_trace() -> Iterator[None]:
    """Puts back the trace function of a debugger or of coverage, which a check of the reference switches off."""
    trace = sys.gettrace()
    try:
        yield
    finally:
        sys.settrace(trace)
