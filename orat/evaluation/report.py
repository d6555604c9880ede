"""Network and test set -> report: accuracy under each attack with intervals, by class, by sample, and warnings."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn

from orat.attacks.base import frozen
from orat.attacks.own import try_out
from orat.attacks.pgd import PAPER
from orat.attacks.suite import suite
from orat.attacks.threat import Norm, Threat
from orat.core.console import SILENT, Display
from orat.core.device import device_of
from orat.core.errors import InputError, unknown
from orat.core.files import check_table, replace_file, write_table
from orat.core.losses import cut_graph, reaching
from orat.core.registry import digest_of, names_code
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.evaluation.accuracy import Searchers, correct, predict
from orat.evaluation.checks import check_gradients, check_model, check_results
from orat.evaluation.progress import Journal, JournalFile
from orat.evaluation.searchers import PRECISIONS, searches_in
from orat.evaluation.subject import prepared

TRIED = 4  # samples to try an attack of the user on
REFERENCE = "autoattack-reference"
HALVES = (torch.bfloat16, torch.float16)  # of searches
# Raised when attacks find other adversarial inputs than before, so that old journals are refused.
# l2: textbook attacks with the plain gradient; l1: an exact projection where a bound holds just eps
VERDICTS: dict[Norm, int] = {"linf": 1, "l2": 2, "l1": 2}


@dataclass(frozen=True)
class Plan:
    """The settings of an examination."""

    threat: Threat  # also a radius, such as 0.1 or "8/255"
    attacks: tuple[str, ...] = tuple(PAPER)
    seed: int = 0
    precision: str = "auto"  # of the search; results are verified in float32
    batch_size: int | None = None
    table: Path | None = None  # a second file for the table of samples

    def __post_init__(self) -> None:
        object.__setattr__(self, "threat", Threat.of(self.threat))
        for attack in suite(self.attacks).values():
            attack.check_threat(self.threat)
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
    data: Any,
    plan: Plan,
    folder: Path | None = None,
    display: Display = SILENT,
    again: bool = False,
    searchers: Searchers | None = None,
) -> dict[str, Any]:
    """The report. A folder receives report, table of samples and journal; `again` drops the journal found there."""
    if torch.is_inference_mode_enabled():  # which also the checks of gradients cannot see through
        raise cut_graph()
    attacks, mode_given = suite(plan.attacks), model.training
    model, data = prepared(model, data, attacks, plan.seed)
    for attack in attacks.values():
        attack.check_data(plan.threat, data.shape, len(data.classes))
    few = data.first(TRIED).to(device_of(model))
    own = {name: attack for name, attack in attacks.items() if names_code(name)}
    try_out(own, model, as_input(few.images), few.labels, plan.threat)
    warnings = check_model(model, data, mode_given)
    began = time.perf_counter()
    with opened(folder, setting(model, data, plan), again) as journal:
        if journal.warnings is None:
            journal.warnings = check_gradients(model, data, plan.threat, plan.seed, display)
            journal.save()
        right = correct(
            model, data, attacks, plan.threat, plan.seed, display, plan.precision, plan.batch_size, journal, searchers
        )
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
    """The journal of a folder, locked against other processes; without a folder, a journal in memory."""
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
        raise InputError(f"{folder} is in use by another process: wait for its end") from None


def setting(model: nn.Module, data: Dataset, plan: Plan) -> dict[str, Any]:
    """All inputs of the verdicts besides the attacks: weights, data, threat, seed and precision."""
    digest = hashlib.sha256(str(model).encode())
    for name, value in model.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    digest.update(repr(fingerprint(model, data)).encode())
    code = {name: digest_of(name) for name in filter(names_code, plan.attacks)}
    halves = [str(dtype) for dtype in HALVES if searches_in(dtype, plan.precision, device_of(model), model)]
    return {
        "model": digest.hexdigest()[:16], "data": data.fingerprint(), **plan.threat.record(), "seed": plan.seed,
        "halves": halves, "attacks": VERDICTS[plan.threat.norm],
    } | ({"code": code} if code else {})  # fmt: skip


def fingerprint(model: nn.Module, data: Dataset) -> tuple[Any, Any]:
    """Rounded logits of a few samples, and whether gradients reach them: changes of code that no weight shows."""
    device = device_of(model)
    x = as_input(data.images[:16].to(device)).requires_grad_()
    with frozen(model), torch.enable_grad(), torch.random.fork_rng([device] if x.is_cuda else []):
        logits = model(x)
        gradient = reaching(logits.sum(1), x)
    reached = torch.zeros_like(x) if gradient is None else gradient.nan_to_num(0, 0, 0)
    return (100 * logits).round().tolist(), reached.flatten(1).any(1).tolist()


def report_folder(where: Path, model: nn.Module, data: Any, plan: Plan) -> Path:
    """The folder for the reports of this setting."""
    model, data = prepared(model, data, {}, plan.seed)
    return where / hashlib.sha256(json.dumps(setting(model, data, plan)).encode()).hexdigest()[:10]


def report(right: Mapping[str, Tensor], data: Dataset, plan: Plan, warnings: list[str]) -> dict[str, Any]:
    """The results as JSON; accuracies are fractions."""
    shown = {name: mask for name, mask in right.items() if not is_part(right, name)} | {"worst-case": worst_case(right)}
    classes = per_class(right, data.labels, data.classes)
    return {
        "accuracy": {name: mask.double().mean().item() for name, mask in shown.items()},
        "intervals": {name: interval(int(mask.sum()), len(mask)) for name, mask in shown.items()},
        "after_part": {name: mask.double().mean().item() for name, mask in right.items() if is_part(right, name)},
        **plan.threat.record(),
        "examples": len(data),
        "seed": plan.seed,
        "agreement": agreement(right),
        "classes": classes,
        "worst_class": worst_class(classes),
        "warnings": warnings,
    }


def agreement(right: Mapping[str, Tensor]) -> float | None:
    """The share of samples with equal verdicts by our AutoAttack and the reference, if both ran."""
    if not {"autoattack", REFERENCE} <= right.keys():
        return None
    return (right["autoattack"] == right[REFERENCE]).double().mean().item()


def worst_case(right: Mapping[str, Tensor]) -> Tensor:
    """Which samples withstand every attack."""
    return torch.stack(list(right.values())).all(0)


def interval(count: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """The score interval of a share (Wilson, 1927), as fractions; from 0 to 1 without samples."""
    if not 0 <= count <= total:
        raise InputError(f"{count} of {total}: a count lies between 0 and its total")
    if not 0 < level < 1:
        raise InputError(f"level = {level}: give a fraction between 0 and 1")
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, weight = count / total, 1 + z * z / total
    center = (share + z * z / (2 * total)) / weight
    spread = z / weight * sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2)
    # The formula is exact at both ends, but for rounding.
    return 0.0 if count == 0 else center - spread, 1.0 if count == total else center + spread


def per_class(right: Mapping[str, Tensor], labels: Tensor, classes: Sequence[str]) -> list[dict[str, Any]]:
    """One row per class: the number of samples, and natural and worst-case accuracy."""
    robust = worst_case(right)
    rows = []
    for number, name in enumerate(classes):
        members = labels == number
        row = {"class": name, "examples": int(members.sum())}
        rows.append(row | {"natural": share(right["natural"][members]), "robust": share(robust[members])})
    return rows


def share(mask: Tensor) -> float | None:
    """The share of True; None for an empty mask."""
    return mask.double().mean().item() if len(mask) else None


def worst_class(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The first row of lowest robust accuracy; among equals, of lowest natural accuracy."""
    seen = [dict(row) for row in rows if row["examples"]]
    return min(seen, key=lambda row: (row["robust"], row["natural"]), default=None)


def sample_rows(
    right: Mapping[str, Tensor], labels: Tensor, classes: Sequence[str], predicted: Tensor
) -> dict[str, list[Any]]:
    """The columns of a table of samples: 1 for correct, 0 for broken, None for not attacked."""
    return {
        "index": list(range(len(labels))),
        "label": [classes[number] for number in labels.tolist()],
        "predicted": [classes[number] for number in predicted.tolist()],
        **{name: outcomes(right, name) for name in right},
        "robust": worst_case(right).int().tolist(),
        "broken_by": broken_by(right),
    }


def outcomes(right: Mapping[str, Tensor], name: str) -> list[int | None]:
    """The column of an attack; a part of an ensemble does not attack samples broken before."""
    outcome: list[int | None] = right[name].int().tolist()
    if not is_part(right, name):
        return outcome
    siblings = parts(right, name.partition(":")[0])
    former = ["natural", *siblings[: siblings.index(name)]]
    attacked = worst_case({sibling: right[sibling] for sibling in former}).tolist()
    return [value if was else None for value, was in zip(outcome, attacked, strict=True)]


def broken_by(right: Mapping[str, Tensor]) -> list[str]:
    """The first attack that breaks each sample, parts before their ensemble; empty for robust samples."""
    names = [part for name in right if not is_part(right, name) for part in (*parts(right, name), name)]
    masks = torch.stack([right[name] for name in names])
    first = (~masks).int().argmax(0).tolist()
    standing = masks.all(0).tolist()
    return ["" if stands else names[place] for place, stands in zip(first, standing, strict=True)]


def is_part(right: Mapping[str, Tensor], name: str) -> bool:
    """Whether a name such as autoattack:square belongs to an ensemble in the same report."""
    composite, colon, _ = name.partition(":")
    return bool(colon) and composite in right


def parts(right: Mapping[str, Tensor], name: str) -> list[str]:
    """The names of the parts of an ensemble, in order."""
    return [part for part in right if part.startswith(f"{name}:")]
