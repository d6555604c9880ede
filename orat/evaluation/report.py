"""Model and test set -> report: accuracy under each attack, how sure it is, by class, by sample, and what to doubt."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn

from orat.attacks.pgd import frozen, slope
from orat.attacks.reference import AutoAttackReference
from orat.attacks.suite import PAPER, suite
from orat.core.console import SILENT, Display
from orat.core.errors import InputError, unknown
from orat.core.files import check_table, replace_file, write_table
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.evaluation.accuracy import Searchers, correct, device_of, predict
from orat.evaluation.breakdown import interval, per_class, sample_rows, worst_case, worst_class
from orat.evaluation.checks import check_gradients, check_model, check_results
from orat.evaluation.journal import Journal, JournalFile
from orat.evaluation.searchers import HALVES, PRECISIONS, quick

REFERENCE = "autoattack-reference"
VERDICTS = 1  # raised whenever an attack finds other things than before, so that old journals are left alone


@dataclass(frozen=True)
class Plan:
    """What to examine a model with."""

    eps: float
    norm: str = "linf"
    attacks: tuple[str, ...] = PAPER
    seed: int = 0
    precision: str = "auto"  # of the search; what it breaks is verified in float32
    batch_size: int | None = None
    table: Path | None = None  # where the per-sample table goes besides the folder

    def __post_init__(self) -> None:
        suite(self.eps, self.norm, self.attacks)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        if not -(2**63) <= self.seed < 2**63:
            raise InputError(f"seed = {self.seed}: give a whole number below 2^63")
        if self.batch_size is not None and self.batch_size < 1:
            raise InputError(f"batch_size = {self.batch_size}: give 1 or more")
        if self.table is not None:
            check_table(self.table)


def examine(
    model: nn.Module,
    data: Dataset,
    plan: Plan,
    folder: Path | None = None,
    display: Display = SILENT,
    again: bool = False,
    searchers: Searchers | None = None,
) -> dict[str, Any]:
    """The report; a folder gets it and the samples, and what was found there before is sought again only if wanted.

    `searchers` as in `correct`.
    """
    for attack in suite(plan.eps, plan.norm, plan.attacks).values():
        if isinstance(attack, AutoAttackReference):
            attack.check(data.shape, len(data.classes))
    warnings = check_model(model, data, model.training)
    began = time.perf_counter()
    with opened(folder, setting(model, data, plan), again) as journal:
        if journal.warnings is None:
            journal.warnings = check_gradients(model, data, plan.eps, plan.norm, plan.seed, display)
            journal.save()
        attacks = suite(plan.eps, plan.norm, plan.attacks)
        right = correct(model, data, attacks, plan.seed, display, plan.precision, plan.batch_size, journal, searchers)
        content = report(right, data, plan, [*warnings, *journal.warnings, *check_results(right)])
        content["seconds"] = round(time.perf_counter() - began, 1)
        content["device"] = str(device_of(model))
        columns = sample_rows(right, data.labels, data.classes, predict(model, data))
        if plan.table is not None:
            write_table(plan.table, columns)
        if folder is not None:
            write_table(folder / "samples.csv", columns)
            replace_file(folder / "report.json", json.dumps(content, indent=2).encode() + b"\n")
    return content


@contextmanager
def opened(folder: Path | None, about: dict[str, Any], again: bool) -> Iterator[Journal]:
    """The journal of a folder, which no other process may use meanwhile; one in memory without a folder."""
    if folder is None:
        yield Journal()
        return
    if folder.is_file():
        raise InputError(f"{folder} is a file: give --out a folder")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            if again:
                (folder / "journal.json").unlink(missing_ok=True)
            yield JournalFile(folder / "journal.json", about)
    except Timeout:
        raise InputError(f"{folder} is in use by another process that evaluates the same: wait for it") from None


def setting(model: nn.Module, data: Dataset, plan: Plan) -> dict[str, Any]:
    """All that decides the verdicts besides the attack: the weights, the data, the radius, the seed, the precision."""
    digest = hashlib.sha256(str(model).encode())
    for name, value in model.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    digest.update(repr(answers(model, data)).encode())
    device = device_of(model)
    halves = [str(dtype) for kind, dtype in HALVES.items() if quick(model, kind(0.0), plan.precision, device)]
    return {
        "model": digest.hexdigest()[:16], "data": data.fingerprint(), "eps": plan.eps, "norm": plan.norm,
        "seed": plan.seed, "halves": halves, "attacks": VERDICTS,
    }  # fmt: skip


def answers(model: nn.Module, data: Dataset) -> tuple[Any, Any]:
    """What the model says about a few samples, roughly, and whether it has a gradient there: code no weight shows."""
    device = device_of(model)
    x = as_input(data.images[:16].to(device)).requires_grad_()
    with frozen(model), torch.enable_grad(), torch.random.fork_rng([device] if x.is_cuda else []):
        logits = model(x)
        gradient = slope(logits.sum(1), x)
    return (100 * logits).round().tolist(), gradient.flatten(1).any(1).tolist()


def report_folder(where: Path, model: nn.Module, data: Dataset, plan: Plan) -> Path:
    """The folder whose journal holds this setting's verdicts."""
    return where / hashlib.sha256(json.dumps(setting(model, data, plan)).encode()).hexdigest()[:10]


def report(right: Mapping[str, Tensor], data: Dataset, plan: Plan, warnings: list[str]) -> dict[str, Any]:
    """What was found, in numbers; accuracies are fractions."""
    shown = {name: mask for name, mask in right.items() if ":" not in name} | {"worst-case": worst_case(right)}
    classes = per_class(right, data.labels, data.classes)
    return {
        "accuracy": {name: mask.double().mean().item() for name, mask in shown.items()},
        "intervals": {name: interval(int(mask.sum()), len(mask)) for name, mask in shown.items()},
        "after_part": {name: mask.double().mean().item() for name, mask in right.items() if ":" in name},
        "eps": plan.eps,
        "norm": plan.norm,
        "examples": len(data),
        "seed": plan.seed,
        "agreement": agreement(right),
        "classes": classes,
        "worst_class": worst_class(classes),
        "warnings": warnings,
    }


def agreement(right: Mapping[str, Tensor]) -> float | None:
    """On which share of the samples our AutoAttack and the reference say the same, where both were run."""
    if not {"autoattack", REFERENCE} <= right.keys():
        return None
    return (right["autoattack"] == right[REFERENCE]).double().mean().item()
