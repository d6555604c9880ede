"""The fields of a run where nothing is given, by data set. Imports no torch, so that help texts are quick."""

from __future__ import annotations

from typing import Any

from orat.data.catalog import plugin

# What a run takes where nothing is said, by data set. The paper's (appendix D.2) where it has the data set; milestones
# are shares of the epochs. The warm-up is ours: Small-CNN at 8/255 with lr 0.1 collapses without one.
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
    "files": PAPER_CIFAR | {"model": "resnet18"},
}  # fmt: skip

EVERYWHERE: dict[str, Any] = {"weight_decay": 2e-4, "attack_steps": 10, "attack_warmup": 0.0}


def defaults_for(data: str) -> dict[str, Any]:
    """What a run on this data set takes where nothing is said."""
    if (other := plugin(data)) is not None:
        return EVERYWHERE | DEFAULTS["files"] | dict(other.defaults)
    return EVERYWHERE | DEFAULTS.get(data, DEFAULTS["files"])
