"""Features of samples -> two independent sets of cross-fitted predictions, in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orat.core.console import Display
from orat.core.errors import InputError
from orat.core.registry import as_input_error, resolve
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.models.adapted import logits_of
from orat.models.external import checked_name, load_external
from orat.models.patches import Patches
from orat.training.head import neighbor_log_probs, ridge_log_probs, stacked
from orat.training.plan import SETS

BATCH = 64
DRAWN = 4000  # images that patches come from


def patch_log_probs(train: Dataset, device: torch.device, flips: bool, seed: int, display: Display) -> Tensor:
    """Log-probabilities (sets, n, classes) by random patches of the images; each set has other patches and folds."""
    sets = []
    for number in range(SETS):
        drawn = SETS * seed + number
        generator = torch.Generator().manual_seed(drawn)
        some = torch.randperm(len(train), generator=generator)[:DRAWN]
        patches = Patches(as_input(train.images[some].cpu()), generator).to(device)
        found = features_of(patches, train, device, flips, display, f"patches {number + 1}/{SETS}")
        sets.append(ridge_log_probs(found, train.labels.to(device), len(train.classes), drawn).cpu())
    return torch.stack(sets)


def given_log_probs(
    network: nn.Module, train: Dataset, device: torch.device, flips: bool, seed: int, display: Display
) -> Tensor:
    """Log-probabilities (sets, n, classes) by a user's network of features: a linear head, and neighbors."""
    with as_input_error(f"the network of features on inputs of shape {train.shape}", "let it take such inputs"):
        found = features_of(network, train, device, flips, display, "features")
    if not found.isfinite().all():
        raise InputError("the network of features gives NaN or infinite values: check its weights for inputs in [0, 1]")
    labels, classes = train.labels.to(device), len(train.classes)
    return torch.stack(
        [ridge_log_probs(found, labels, classes, seed), neighbor_log_probs(found, labels, classes)]
    ).cpu()


def check_named(features: Any) -> None:
    """Refuses a name that leads to nothing, before the data are read."""
    if isinstance(features, str):
        resolve(checked_name(features))


def loaded(features: Any, weights: Path | None, train: Dataset, device: torch.device) -> nn.Module:
    """The network of features: named as code, with its weights, or in memory."""
    if isinstance(features, str):
        return load_external(features, weights, device, train.shape, len(train.classes))
    if not isinstance(features, nn.Module):
        raise InputError(f"features = {type(features).__name__}: give a network, or its name as module:function")
    if weights is not None:
        raise InputError(
            f"both a network in memory and weights = {weights}: load them into the network, and leave them out"
        )
    return features.to(device).eval()


@torch.no_grad()
def features_of(
    network: nn.Module, train: Dataset, device: torch.device, flips: bool, display: Display, label: str
) -> Tensor:
    """The features (n, d) of all samples; with flips, the mean of an image and its mirror image."""
    found = []
    places = torch.arange(len(train)).split(BATCH)
    for ids in display.track(places, label, len(places)):
        x = as_input(train.images[ids].to(device))
        views = [x, x.flip(3)] if flips else [x]
        found.append(torch.stack([flat(logits_of(network(view))) for view in views]).mean(0))
    return torch.cat(found)


def flat(features: Tensor) -> Tensor:
    """Features (n, d); maps (n, d, height, width) are averaged over their places."""
    return features.float().mean((2, 3)) if features.dim() == 4 else features.float().flatten(1)


def combined(kinds: Sequence[Tensor], labels: Tensor) -> Tensor:
    """Several kinds of predictions (sets, n, classes) as one kind, set by set."""
    if len(kinds) == 1:
        return kinds[0]
    return torch.stack([stacked([kind[number] for kind in kinds], labels) for number in range(len(kinds[0]))])
