"""Default fields of a run: the paper's for its data sets, and for other data by kind, number and size of the samples.

Imports no torch, to keep help texts quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orat.data.catalog import plugin

# The paper's (appendix D.2); milestones are shares of the epochs. The warm-up is ours: without a warm-up, Small-CNN at
# 8/255 with lr 0.1 collapses.
PAPER_CIFAR: dict[str, Any] = {
    "eps": 8 / 255, "epochs": 100, "lr": 0.1, "milestones": (0.3, 0.6), "warmup": 5.0, "augment": "crop-flip",
    "validation": 0.05, "batch_size": 128,
}  # fmt: skip
DEFAULTS: dict[str, dict[str, Any]] = {
    "mnist": {
        "model": "lenet", "eps": 0.1, "epochs": 50, "lr": 0.03, "milestones": (0.4, 0.8), "warmup": 0.0,
        "augment": "none", "validation": 0.05, "batch_size": 128,
    },
    "sample": {
        "model": "demo_cnn", "eps": 0.1, "epochs": 22, "lr": 0.05, "milestones": (0.7,), "warmup": 1.0,
        "attack_warmup": 2.0, "attack_steps": 5, "augment": "none", "validation": 0.05, "batch_size": 64,
        "weight_decay": 0.0,
    },
    "cifar10": PAPER_CIFAR | {"model": "small_cnn"},
    "cifar100": PAPER_CIFAR | {"model": "resnet18"},
}  # fmt: skip
EVERYWHERE: dict[str, Any] = {"weight_decay": 2e-4, "attack_steps": 10, "attack_warmup": 0.0}
BY_DATA = ("model", "eps", "epochs", "lr", "milestones", "warmup", "augment", "validation", "batch_size")

ENOUGH_BATCHES = 50  # steps that an epoch should have
CPU_STEPS, FEWEST_EPOCHS = 2500, 20  # of a training on a CPU, or of features
VALIDATION_SAMPLES = 50  # at least, but no more than a fifth
LARGEST = {"cpu": 48, "cuda": 128}  # pixels of the longer side of images whose size is not given, by device
TABLE_EPS = 0.1  # in units of a feature, which are standard deviations unless given


@dataclass(frozen=True)
class Facts:
    """What the defaults of a run on a user's data depend on."""

    samples: int
    shape: tuple[int, ...]  # (channels, height, width), or (features,)
    classes: int
    device: str  # cpu or cuda

    @property
    def is_image(self) -> bool:
        """Whether samples are images."""
        return len(self.shape) == 3


def defaults_for(data: Any) -> dict[str, Any]:
    """The default fields that the name of a data set decides; a user's data decide most fields when they are read."""
    if not isinstance(data, str):
        return dict(EVERYWHERE)
    if (other := plugin(data)) is not None:
        return EVERYWHERE | PAPER_CIFAR | {"model": "resnet18"} | dict(other.defaults)
    return EVERYWHERE | DEFAULTS.get(data, {})


def fitting(facts: Facts) -> dict[str, Any]:
    """The default fields of a run on a user's data."""
    small = facts.device == "cpu" or not facts.is_image
    batch_size = next((size for size in (128, 64, 32) if facts.samples >= ENOUGH_BATCHES * size), 16)
    steps = -(-facts.samples // batch_size)
    schedule: dict[str, Any] = {"lr": 0.1, "milestones": (0.3, 0.6), "warmup": 5.0, "epochs": 100}
    if small:
        epochs = min(max(round(CPU_STEPS / steps), FEWEST_EPOCHS), 100)
        schedule = {"lr": 0.05, "milestones": (0.7,), "warmup": 1.0, "epochs": epochs}
    return schedule | {
        "model": model_for(facts),
        "eps": 8 / 255 if facts.is_image else TABLE_EPS,
        "augment": "crop-flip" if facts.is_image and facts.shape[0] == 3 else "none",
        "validation": min(max(0.05, VALIDATION_SAMPLES / facts.samples), 0.2),
        "batch_size": batch_size,
    }


def model_for(facts: Facts) -> str:
    """A network that learns such samples on this device."""
    if not facts.is_image or min(facts.shape[1:]) < 8:
        return "mlp-64"
    return "demo_cnn" if facts.device == "cpu" else "resnet18"


def scaled(defaults: Mapping[str, Any], epochs: int | None) -> dict[str, Any]:
    """Defaults with milestones in epochs instead of shares; a run of few epochs has no drop before its second."""
    if "milestones" not in defaults:
        return dict(defaults)
    epochs = defaults["epochs"] if epochs is None else epochs
    milestones = {round(share * epochs) for share in defaults["milestones"]} - {0, 1}
    return dict(defaults) | {"milestones": tuple(sorted(milestones))}
