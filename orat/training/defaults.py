"""Default fields of a run: the paper's for its data sets, and for other data by kind, number and size of the samples.

Imports no torch, to keep help texts quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from orat.data.catalog import plugin

# The paper's (appendix D.2); milestones are shares of the epochs. The warm-up is ours: without a warm-up, Small-CNN at
# 8/255 with lr 0.1 collapses.
PAPER_CIFAR: dict[str, Any] = {
    "eps": 8 / 255, "epochs": 100, "lr": 0.1, "milestones": (0.3, 0.6), "warmup": 5.0, "attack_warmup": 0.0,
    "augment": "crop-flip", "validation": 0.05, "batch_size": 128,
}  # fmt: skip
DEFAULTS: dict[str, dict[str, Any]] = {
    "mnist": {
        "model": "lenet", "eps": 0.1, "epochs": 50, "lr": 0.03, "milestones": (0.4, 0.8), "warmup": 0.0,
        "attack_warmup": 0.0, "augment": "none", "validation": 0.05, "batch_size": 128,
    },
    "sample": {
        "model": "demo_cnn", "eps": 0.1, "epochs": 22, "lr": 0.05, "milestones": (0.7,), "warmup": 1.0,
        "attack_warmup": 2.0, "attack_steps": 5, "augment": "none", "validation": 0.05, "batch_size": 64,
        "weight_decay": 0.0,
    },
    "cifar10": PAPER_CIFAR | {"model": "small_cnn"},
    "cifar100": PAPER_CIFAR | {"model": "resnet18"},
}  # fmt: skip
EVERYWHERE: dict[str, Any] = {"weight_decay": 2e-4, "attack_steps": 10}
BY_DATA = (
    "model", "eps", "epochs", "lr", "milestones", "warmup", "attack_warmup", "augment", "validation", "batch_size",
)  # fmt: skip

# For other data, as docs/yours.md explains; warm-ups and milestones are shares of the epochs.
ON_CPU: dict[str, Any] = {"lr": 0.05, "milestones": (0.7,), "warmup": 0.05, "attack_warmup": 0.2}
ON_GPU: dict[str, Any] = {"lr": 0.1, "milestones": (0.3, 0.6), "warmup": 0.05, "attack_warmup": 0.05}
BATCHES = {"cpu": (64, 32, 16), "cuda": (128, 64, 32, 16)}
RATES = ((64, 0.05), (32, 0.03), (16, 0.02))  # on a CPU for images: least batch size -> learning rate
ENOUGH_STEPS = 30  # in an epoch, down to the smallest batch
STEPS = {"cpu": 2000, "cuda": 40_000}  # of a training, as far as epochs allow
FEWEST_EPOCHS, MOST_EPOCHS = {"cpu": 5, "cuda": 10}, {"cpu": 200, "cuda": 100}
FEWEST_OF_FEATURES = 20  # epochs, which cost little
VALIDATION_SAMPLES = 50  # at least, but no more than a fifth
CROPPED = 24  # pixels of the smaller side, from which a crop leaves most of the image
LARGEST = {"cpu": 48, "cuda": 128}  # pixels of the longer side of images whose size is not given, by device
TABLE_EPS = 0.1  # in units of a feature, which are standard deviations unless given
KINDS = {1: "gray", 3: "color"}  # of images, by channels


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

    @property
    def words(self) -> str:
        """The facts for people, such as: 1,200 color images of 48x48 on a CPU."""
        where = "on a CPU" if self.device == "cpu" else "on a GPU"
        if not self.is_image:
            return f"{self.samples:,} samples of {prod(self.shape)} features {where}"
        kind = KINDS.get(self.shape[0], f"{self.shape[0]}-channel")
        return f"{self.samples:,} {kind} images of {self.shape[1]}x{self.shape[2]} {where}"


def defaults_for(data: Any) -> dict[str, Any]:
    """The default fields that the name of a data set decides; a user's data decide most fields when they are read."""
    if not isinstance(data, str):
        return dict(EVERYWHERE)
    if (other := plugin(data)) is not None:
        return EVERYWHERE | PAPER_CIFAR | {"model": "resnet18"} | dict(other.defaults)
    return EVERYWHERE | DEFAULTS.get(data, {})


def fitting(facts: Facts, epochs: int | None = None, batch_size: int | None = None) -> dict[str, Any]:
    """The default fields of a run on a user's data; a given number of epochs and batch size are taken into account."""
    device = "cpu" if facts.device == "cpu" or not facts.is_image else "cuda"
    *larger, smallest = BATCHES[device]
    size = batch_size or next((size for size in larger if facts.samples >= ENOUGH_STEPS * size), smallest)
    enough = round(STEPS[device] / ceil(facts.samples / size))
    fewest = FEWEST_EPOCHS[device] if facts.is_image else FEWEST_OF_FEATURES
    epochs = epochs or min(max(enough, fewest), MOST_EPOCHS[device])
    schedule = ON_CPU if device == "cpu" else ON_GPU
    defaults = schedule | {
        "epochs": epochs,
        "batch_size": size,
        "model": model_for(facts),
        "eps": 8 / 255 if facts.is_image else TABLE_EPS,
        "augment": augmentation_for(facts),
        "validation": round(min(max(0.05, VALIDATION_SAMPLES / facts.samples), 0.2), 2),
        "lr": rate_for(facts, size),
        "warmup": schedule["warmup"] * epochs,
        "attack_warmup": schedule["attack_warmup"] * epochs,
    }
    return scaled(defaults, epochs)


def rate_for(facts: Facts, batch_size: int) -> float:
    """The learning rate: smaller batches learn images at lower rates, and collapse at higher rates."""
    if not facts.is_image:
        return float(ON_CPU["lr"])
    if facts.device != "cpu":
        return float(ON_GPU["lr"] * min(1.0, batch_size / BATCHES["cuda"][0]))
    return next((rate for least, rate in RATES if batch_size >= least), RATES[-1][1])


def model_for(facts: Facts) -> str:
    """A network that learns such samples on this device."""
    least = 4 if facts.device == "cpu" else 8  # pixels that the network needs
    if not facts.is_image or min(facts.shape[1:]) < least:
        return "mlp-64"
    return "demo_cnn" if facts.device == "cpu" else "resnet18"


def augmentation_for(facts: Facts) -> str:
    """Crops for images that stay recognizable; flips for photos, which have colors, but not for letters and digits."""
    if not facts.is_image:
        return "none"
    crop, flip = min(facts.shape[1:]) >= CROPPED, facts.shape[0] >= 3
    return "-".join(name for name, wanted in (("crop", crop), ("flip", flip)) if wanted) or "none"


def scaled(defaults: Mapping[str, Any], epochs: int | None) -> dict[str, Any]:
    """Defaults with milestones in epochs instead of shares; a run of few epochs has no drop before its second."""
    if "milestones" not in defaults:
        return dict(defaults)
    epochs = defaults["epochs"] if epochs is None else epochs
    milestones = {round(share * epochs) for share in defaults["milestones"]} - {0, 1}
    return dict(defaults) | {"milestones": tuple(sorted(milestones))}
