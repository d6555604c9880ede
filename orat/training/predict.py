"""Finished run and new samples -> class, confidence, and whether an attack could change the class."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks.base import Attack
from orat.attacks.threat import Threat
from orat.core.console import SILENT, Display
from orat.core.domain import Domain, unit_of
from orat.core.errors import InputError
from orat.core.files import write_table
from orat.core.options import number, radius
from orat.core.types import Labels, Logits
from orat.data import unlabeled
from orat.data.source import Dataset
from orat.evaluation.accuracy import BATCH, correct, logits_of, named
from orat.training.load import finished_run, load_model

DIGITS = 6  # of a confidence in a file


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of a network for new samples, one row a sample."""

    logits: Logits  # (n, classes)
    classes: tuple[str, ...]
    certain: Tensor | None = None  # (n,) bool: whether the attack found nothing that changes the class
    attack: str | None = None  # with its radius and norm, in words
    paths: tuple[str, ...] | None = None  # of image files
    broken: tuple[str, ...] = ()  # a line for each image that cannot be read, and has no row
    skipped: int = 0  # files of folders that are no images

    def __len__(self) -> int:
        return len(self.logits)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows of the table."""
        columns = self.columns()
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    @cached_property
    def probabilities(self) -> Tensor:
        """The softmax of the logits, which is not calibrated."""
        return self.logits.double().softmax(1)

    @property
    def labels(self) -> Labels:
        """The index of the predicted class."""
        return self.logits.argmax(1)

    @property
    def names(self) -> list[str]:
        """The name of the predicted class."""
        return [self.classes[label] for label in self.labels.tolist()]

    @property
    def confidence(self) -> Tensor:
        """The probability of the predicted class."""
        return self.probabilities.amax(1)

    def columns(self) -> dict[str, list[Any]]:
        """The table by columns."""
        rows = {"index": list(range(len(self)))} if self.paths is None else {"path": list(self.paths)}
        confidence = [round(value, DIGITS) for value in self.confidence.tolist()]
        certain = {} if self.certain is None else {"certain": self.certain.tolist()}
        return {**rows, "class": self.names, "confidence": confidence, **certain}

    def by_class(self) -> list[dict[str, Any]]:
        """One row a predicted class, the most frequent first: samples, mean confidence and certain samples."""
        rows = []
        for label, name in enumerate(self.classes):
            mask = self.labels == label
            if count := int(mask.sum()):
                certain = {} if self.certain is None else {"certain": int(self.certain[mask].sum())}
                mean = round(float(self.confidence[mask].mean()), DIGITS)
                rows.append({"class": name, "samples": count, "mean_confidence": mean, **certain})
        return sorted(rows, key=lambda row: -row["samples"])

    def summary(self) -> dict[str, Any]:
        """The counts, and the predicted classes."""
        certain = None if self.certain is None else int(self.certain.sum())
        counts = {"samples": len(self), "attack": self.attack, "certain": certain, "skipped": self.skipped}
        return counts | {"broken": list(self.broken), "classes": self.by_class()}

    def write(self, path: str | Path) -> None:
        """Writes the table as .csv or .parquet."""
        write_table(Path(path), self.columns())


class BarsAlone(Display):
    """Bars without lines."""

    def line(self, text: str) -> None:
        """Prints nothing."""


def predict(
    run_folder: str | Path,
    samples: Any,
    certain: str | Attack | None = None,
    eps: float | str | None = None,
    weights: str = "last",
    device: str = "auto",
    model: Any = None,
    trust: bool = False,
    display: Display = SILENT,
) -> Predictions:
    """The predictions of a finished run for new samples without labels.

    `samples` are paths of images, folders of images, an array or a table, or an array, tensor or data frame itself;
    images are resized as in the training. `certain` names an attack, such as pgd20, of the radius `eps`, by default the
    radius of the training. `model` is the network of a run that had it in memory or in code; `trust` runs the code
    that the record names.
    """
    if certain is None and eps is not None:
        raise InputError(f"eps = {eps} is the radius of an attack: name the attack too, such as pgd20")
    folder = Path(run_folder)
    run = finished_run(folder)
    config = json.loads((folder / "config.json").read_text())
    shape, classes = tuple(config["shape"]), tuple(config["classes"])
    threat = threat_of(config, run.threat, eps)
    attack = None if certain is None else checked_attack(certain, threat, shape, len(classes))
    network = load_model(folder, weights, device, model, trust)
    features = config["inputs"] if isinstance(config["inputs"], list) else None
    found = unlabeled.read(samples, shape, features, display)
    threat = wide_enough(threat, found.samples)
    domain = Domain(threat.low, threat.high, threat.scale)
    data = Dataset(found.samples, torch.zeros(len(found.samples), dtype=torch.int64), classes, domain=domain)
    logits = logits_in_batches(network, data, display).cpu()
    predictions = Predictions(logits, classes, paths=found.paths, broken=found.broken, skipped=found.skipped)
    if attack is None:
        return predictions
    data, bars = replace(data, labels=predictions.labels), BarsAlone(display.shown)
    name = certain if isinstance(certain, str) else type(certain).__name__
    stands = correct(network, data, {name: attack}, threat, run.seed, bars, precision="auto")[name]
    return replace(predictions, certain=stands, attack=attack_words(name, threat))


def attack_words(name: str, threat: Threat) -> str:
    """An attack with its radius and norm."""
    return f"{name} of radius {radius(threat.eps)}{unit_of(threat.scale)} in {threat.norm}"


def threat_of(config: dict[str, Any], usual: Threat, eps: float | str | None) -> Threat:
    """The threat of the training in the bounds of its inputs, or with another radius."""
    record: dict[str, Any] = config.get("threat", usual.record())
    values: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in record.items()}
    threat = Threat(**values)
    return threat if eps is None else replace(threat, eps=number(eps) if isinstance(eps, str) else float(eps))


def checked_attack(certain: str | Attack, threat: Threat, shape: tuple[int, ...], classes: int) -> Attack:
    """The attack of a name; refuses an attack that does not support the threat or the data."""
    attacks = named([certain] if isinstance(certain, str) else {"attack": certain})
    for attack in attacks.values():
        attack.check_threat(threat)
        attack.check_data(threat, shape, classes)
    return attack


def wide_enough(threat: Threat, samples: Tensor) -> Threat:
    """The threat with bounds that hold new samples, too: new features may be larger than those of the training."""
    if threat.plain or samples.dim() != 2:
        return threat
    lowest, highest = samples.amin(0), samples.amax(0)
    low = None if threat.low is None else tuple(torch.minimum(torch.tensor(threat.low), lowest).tolist())
    high = None if threat.high is None else tuple(torch.maximum(torch.tensor(threat.high), highest).tolist())
    return replace(threat, low=low, high=high)


def logits_in_batches(network: nn.Module, data: Dataset, display: Display) -> Logits:
    """The logits of each sample, with a bar."""
    batches = torch.arange(len(data)).split(BATCH)
    return torch.cat([logits_of(network, data.take(ids)) for ids in display.track(batches, "predicting", len(batches))])
