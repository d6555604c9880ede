"""What an evaluation says beyond one number: by class, by sample, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from orat.core.errors import InputError


def worst_case(right: Mapping[str, Tensor]) -> Tensor:
    """Which samples stay right under every attack."""
    return torch.stack(list(right.values())).all(0)


def interval(count: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """The score interval of a share (Wilson, 1927), as fractions; everything is possible where nothing was seen."""
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
    # The ends are exact in the formula, but not in its rounding.
    return 0.0 if count == 0 else center - spread, 1.0 if count == total else center + spread


def per_class(right: Mapping[str, Tensor], labels: Tensor, classes: Sequence[str]) -> list[dict[str, Any]]:
    """One row a class: how many samples, and which share of them is right naturally and in the worst case."""
    robust = worst_case(right)
    rows = []
    for number, name in enumerate(classes):
        members = labels == number
        row = {"class": name, "examples": int(members.sum())}
        rows.append(row | {"natural": share(right["natural"][members]), "robust": share(robust[members])})
    return rows


def share(mask: Tensor) -> float | None:
    """The share of True; none of nothing."""
    return mask.double().mean().item() if len(mask) else None


def worst_class(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The row of lowest robust accuracy, of these the one of lowest natural accuracy, of these the first."""
    seen = [dict(row) for row in rows if row["examples"]]
    return min(seen, key=lambda row: (row["robust"], row["natural"]), default=None)


def sample_rows(
    right: Mapping[str, Tensor], labels: Tensor, classes: Sequence[str], predicted: Tensor
) -> dict[str, list[Any]]:
    """The columns of a table with one row a sample: 1 where it stays right, 0 where not, None where not attacked."""
    return {
        "index": list(range(len(labels))),
        "label": [classes[number] for number in labels.tolist()],
        "predicted": [classes[number] for number in predicted.tolist()],
        **{name: outcomes(right, name) for name in right},
        "robust": worst_case(right).int().tolist(),
        "broken_by": broken_by(right),
    }


def outcomes(right: Mapping[str, Tensor], name: str) -> list[int | None]:
    """One column: a part of a composite attack has no outcome where the sample was broken before it."""
    outcome: list[int | None] = right[name].int().tolist()
    if not is_part(right, name):
        return outcome
    siblings = parts(right, name.partition(":")[0])
    former = ["natural", *siblings[: siblings.index(name)]]
    attacked = worst_case({sibling: right[sibling] for sibling in former}).tolist()
    return [value if was else None for value, was in zip(outcome, attacked, strict=True)]


def broken_by(right: Mapping[str, Tensor]) -> list[str]:
    """The first that breaks each sample, in order and a part before its composite attack; empty where it stands."""
    names = [part for name in right if not is_part(right, name) for part in (*parts(right, name), name)]
    masks = torch.stack([right[name] for name in names])
    first = (~masks).int().argmax(0).tolist()
    standing = masks.all(0).tolist()
    return ["" if stands else names[place] for place, stands in zip(first, standing, strict=True)]


def is_part(right: Mapping[str, Tensor], name: str) -> bool:
    """Whether a name such as autoattack:square belongs to a composite attack beside it."""
    composite, colon, _ = name.partition(":")
    return bool(colon) and composite in right


def parts(right: Mapping[str, Tensor], name: str) -> list[str]:
    """The parts of a composite attack, in order; none of a plain one."""
    return [part for part in right if part.startswith(f"{name}:")]
