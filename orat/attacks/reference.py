"""AutoAttack by its authors, through the package pyautoattack: a reference for our AutoAttack."""

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

from orat.attacks.base import Attack, frozen
from orat.attacks.threat import Norm, Threat, ThreatLike
from orat.core.errors import InputError
from orat.core.random import Randomness
from orat.core.types import Images, Labels

NAMES: dict[Norm, str] = {"linf": "Linf", "l2": "L2", "l1": "L1"}
LEAST_CLASSES = 4  # the targeted loss reads the fourth logit


@dataclass(frozen=True)
class AutoAttackReference(Attack):
    """The standard version of pyautoattack; slower than ours, with random numbers that depend on the batch."""

    seed: int = 0

    def check_threat(self, threat: Threat) -> None:
        """Refuses other bounds, and a missing package."""
        super().check_threat(threat)
        if find_spec("pyautoattack") is None:
            raise InputError("autoattack-reference needs pyautoattack: pip install 'orat[reference]'")

    def check_data(self, threat: Threat, shape: tuple[int, ...], classes: int) -> None:
        """Refuses inputs that are no images, few classes, and small images in l2 and l1."""
        if len(shape) != 3:
            raise InputError(f"autoattack-reference attacks images, not points of shape {shape}: use autoattack")
        if classes < LEAST_CLASSES:
            raise InputError(
                f"autoattack-reference needs {LEAST_CLASSES} classes or more, here are {classes}: use autoattack"
            )
        if threat.norm != "linf" and not tiles_fit(*shape[1:]):
            size = f"{shape[1]}x{shape[2]}"
            raise InputError(f"autoattack-reference cannot attack images of {size} in {threat.norm}: use autoattack")

    def __call__(
        self, model: nn.Module, x: Images, y: Labels, threat: ThreatLike, draws: Randomness | None = None
    ) -> Images:
        """The adversarial images of the reference; the clean images where the reference fails."""
        threat, _ = self.prepared(threat, x, draws)
        devices = [x.device] if x.is_cuda else []
        with frozen(model), torch.random.fork_rng(devices), warnings.catch_warnings(), kept_trace():
            warnings.simplefilter("ignore")  # our own checks warn with reasons
            with torch.no_grad():
                classes = model(x[:1]).shape[1]
            self.check_data(threat, tuple(x.shape[1:]), classes)
            reference = import_module("pyautoattack").AutoAttack(
                model, eps=threat.eps, norm=NAMES[threat.norm], seed=self.seed, device=x.device
            )
            for part in (reference.fab, reference.apgd_targeted):
                part.n_target_classes = min(part.n_target_classes, classes - 1)
            adv, _ = reference.run_standard_evaluation(x.contiguous(), y, batch_size=len(x))
        return adv


def tiles_fit(height: int, width: int) -> bool:
    """Whether the start tiles of its Square attack in l2 and l1 fit into the image."""
    side = height // 5
    border = (height - 5 * side) // 2
    return side > 0 and all(border + side * (length // side) <= length for length in (height, width))


@contextmanager
def kept_trace() -> Iterator[None]:
    """Restores the trace function of a debugger or of coverage after the reference switched it off."""
    trace = sys.gettrace()
    try:
        yield
    finally:
        sys.settrace(trace)
