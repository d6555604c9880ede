"""Accuracy under each attack, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from orat.attacks.pgd import Attack, frozen
from orat.data.batches import as_input
from orat.data.dataset import Dataset
from orat.errors import InputError
from orat.progress import SILENT, Display

BATCH = 250  # samples at a time; the answer does not depend on it, but for the attacks' random starts


def predict(model: nn.Module, data: Dataset) -> Tensor:
    """The class the model gives to each sample."""
    device = device_of(model)
    with frozen(model), torch.no_grad():
        logits = [model(as_input(images.to(device))) for images in data.images.split(BATCH)]
    answer = torch.cat(logits)
    if answer.shape != (len(data), len(data.classes)):
        raise InputError(f"the model gives {tuple(answer.shape[1:])} numbers a sample for {len(data.classes)} classes")
    if not answer.isfinite().all():
        raise InputError("the model gives NaN or infinite logits: its training broke, or its inputs are not in [0, 1]")
    return answer.argmax(1).to(data.labels.device)


def correct(
    model: nn.Module,
    data: Dataset,
    attacks: Mapping[str, Attack],
    seed: int = 0,
    display: Display = SILENT,
) -> dict[str, Tensor]:
    """Which samples stay right, naturally and under each attack; a sample wrong by itself stays wrong under attack."""
    natural = predict(model, data) == data.labels
    right = {"natural": natural}
    for name, attack in attacks.items():
        right[name] = withstood(model, data, attack, name, natural, seed, display)
    return right


def withstood(
    model: nn.Module, data: Dataset, attack: Attack, name: str, natural: Tensor, seed: int, display: Display
) -> Tensor:
    """Which of the naturally right samples the attack does not break."""
    device = device_of(model)
    generator = torch.Generator(device).manual_seed(seed)
    standing = natural.clone()
    chunks = natural.nonzero().squeeze(1).split(BATCH)
    for index in display.track(chunks, name, len(chunks)):
        x, y = as_input(data.images[index].to(device)), data.labels[index].to(device)
        adv = attack(model, x, y, generator)
        with frozen(model), torch.no_grad():
            standing[index] = (model(adv).argmax(1) == y).to(standing.device)
    return standing


def evaluate(
    model: nn.Module,
    dataset: Dataset,
    attacks: Mapping[str, Attack],
    seed: int = 0,
    display: Display = SILENT,
) -> dict[str, float]:
    """The share of samples that stay right, naturally and under each attack."""
    right = correct(model, dataset, attacks, seed, display)
    return {name: mask.double().mean().item() for name, mask in right.items()}


def device_of(model: nn.Module) -> torch.device:
    """Where the model's parameters live."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))
