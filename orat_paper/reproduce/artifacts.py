"""Every table and figure of the paper (Hu et al., 2023) as a list of cells."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from orat.core.errors import InputError, unknown
from orat_paper.reproduce.cells import Cell

PAPER = Path(__file__).parent / "paper"  # the numbers of the paper's tables
ACCURACY = ("natural", "fgsm", "pgd20", "cw")
PROTOCOLS = {"ours": "ours", "authors": "authors", "authors-right": "authors"}  # -> whose settings
OURS = ("ours",)
AUTOMATIC = "ORAT automatic"  # ORAT (automatic) in reports; not in the paper
MEASURED = "ORAT measured"  # ORAT with scalars from measured losses; not in the paper
RANKED = ("ORAT", "AT w/o")  # methods with the paper's k and m
OTHER_NOISES = (("none", 0), ("symmetric", 40), ("asymmetric", 40))  # without AutoAttack in the paper

OTHERS = ("ST", "AT", "GAIRAT", "MAIL", "WMMR", "RAA")  # the methods beside ORAT

RADII = {"mnist": ("0.1", "0.2"), "cifar10": ("2/255", "8/255"), "cifar100": ("2/255", "8/255")}
SIZES = {"mnist": 60_000, "cifar10": 50_000, "cifar100": 50_000}
# The paper draws the effects of m and of k without their values; these are ours.
EFFECT_OF_M = {
    "mnist": (1, 1000, 2000, 3000, 4000, 5000, 6000, 8000, 10_000, 12_000, 14_000),
    "cifar10": (1, 10, 50, 100, 200, 300, 500, 1000, 2000, 5000, 10_000),
    "cifar100": (1, 10, 50, 100, 200, 300, 500, 1000, 2000, 5000, 10_000),
}
EFFECT_OF_K = (0, 50, 100, 200, 500, 1000, 5000, 10_000)  # below the size of the training set
SHORT = {"epochs": 6, "warmup": 1.0}  # of Wide ResNet: eight minutes on one H200
TOYS = {"toy-balanced": (20, 2), "toy-imbalanced": (20, 1), "toy-imbalanced-2": (5, 1)}  # k and m


@dataclass(frozen=True)
class Artifact:
    """A table or a figure of the paper: its cells and what is measured in each."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    columns: tuple[str, ...] = ACCURACY
    seeds: tuple[int, ...] = (0,)
    protocols: tuple[str, ...] = tuple(PROTOCOLS)
    every_epoch: bool = False  # tests after every epoch under both protocols
    curves: bool = False  # a figure against epochs
    weights: bool = False  # starts from given weights
    fields: Mapping[str, Any] = field(default_factory=dict)  # of all runs, in place of the paper's
    note: str = ""  # how we read the paper where it is silent

    def check_protocol(self, protocol: str) -> None:
        """Refuses a protocol without cells."""
        if protocol not in self.protocols:
            raise InputError(f"{self.name} has no protocol {protocol!r} ({self.note}): use {', '.join(self.protocols)}")


@cache
def rows(file: str) -> tuple[dict[str, str], ...]:
    """The rows of one of the paper's tables."""
    with (PAPER / f"{file}.csv").open(newline="") as text:
        return tuple(csv.DictReader(text))


def ranks(data: str, eps: str, noise: str, rate: int) -> tuple[int, int]:
    """The paper's k and m."""
    place = (data, eps, noise, str(rate))
    row = next(row for row in rows("table_k_m") if (row["data"], row["eps"], row["noise"], row["rate"]) == place)
    return int(row["k"]), int(row["m"])


def cell_of(row: Mapping[str, str], columns: tuple[str, ...] = ACCURACY, model: str | None = None) -> Cell:
    """A row of one of the paper's tables as a cell."""
    place = row["data"], row["eps"], row["noise"], int(row["rate"])
    k, m = ranks(*place) if row["method"] in RANKED else (None, None)
    return Cell(*place, row["method"], k, m, model, {name: float(row[name]) for name in columns})


def table(file: str, columns: tuple[str, ...] = ACCURACY, model: str | None = None) -> tuple[Cell, ...]:
    """One of the paper's tables as cells."""
    return tuple(cell_of(row, columns, model) for row in rows(file))


def noisy(data: str, eps: str, rate: int, method: str) -> Cell:
    """A cell with symmetric noise and its numbers from Table 1."""
    place = {"data": data, "eps": eps, "noise": "symmetric", "rate": str(rate), "method": method}
    return next(cell_of(row) for row in rows("table1_accuracy") if place.items() <= row.items())


def loss_curves() -> tuple[Cell, ...]:
    """ORAT at every rate with the small radius, and at 20 % with the large one."""
    small = [noisy(data, eps, rate, "ORAT") for data, (eps, _) in RADII.items() for rate in (10, 20, 30, 40)]
    return *small, *(noisy(data, eps, 20, "ORAT") for data, (_, eps) in RADII.items())


def accuracy_curves() -> tuple[Cell, ...]:
    """AT and ORAT at 20 %."""
    return tuple(
        noisy(data, eps, 20, method) for data, radii in RADII.items() for eps in radii for method in ("AT", "ORAT")
    )


def effect_of(name: str) -> tuple[Cell, ...]:
    """ORAT at 20 % with k = n and several m, or with the paper's m and several k, beside the other methods.

    The paper prints no numbers of ORAT here; numbers of the other methods are in Table 1.
    """
    cells = []
    for data, radii in RADII.items():
        for cell in (noisy(data, eps, 20, "ORAT") for eps in radii):
            size = SIZES[data]
            tried = (
                [{"k": size, "m": m} for m in EFFECT_OF_M[data]]
                if name == "m"
                else [{"k": size - fewer, "m": cell.m} for fewer in EFFECT_OF_K]
            )
            cells += [replace(cell, **values, theirs={}) for values in tried]
            cells += [noisy(data, cell.eps, cell.rate, method) for method in OTHERS]
    return tuple(cells)


def toys() -> tuple[Cell, ...]:
    """The three sets of points with three methods."""
    return tuple(
        Cell(data, "0.01", "none", 0, method, *(ranks if method == "ORAT" else (None, None)))
        for data, ranks in TOYS.items()
        for method in ("ST", "AT", "ORAT")
    )


def clothing() -> tuple[Cell, ...]:
    """AT on images with checked labels; AT and ORAT with a fifth of the labels from web pages."""
    plain = Cell("clothing1m", "8/255", "none", 0, "AT")
    noise = replace(plain, noise="web", rate=20)
    return plain, noise, replace(noise, method="ORAT", k=30_000, m=300)


def stability() -> tuple[Cell, ...]:
    """The means of ten runs."""
    return table("table_stability")


def autoattack() -> tuple[Cell, ...]:
    """The paper's cells, and AT and ORAT on CIFAR at the large radius with other noises."""
    more = [
        replace(cell, theirs={})
        for cell in table("table1_accuracy")
        if cell.eps == "8/255" and cell.method in ("AT", "ORAT") and (cell.noise, cell.rate) in OTHER_NOISES
    ]
    return *table("table_autoattack", ("autoattack",)), *more


def beside_orat(cells: tuple[Cell, ...], forms: Iterable[str]) -> tuple[Cell, ...]:
    """The cells, and other forms of ORAT beside every ORAT of the paper: AUTOMATIC (without k and m) or MEASURED."""
    changes: dict[str, dict[str, Any]] = {AUTOMATIC: {"k": None, "m": None, "theirs": {}}, MEASURED: {}}
    ranked = [cell for cell in cells if cell.method == "ORAT"]
    own = (replace(cell, method=form, **changes[form]) for form in forms for cell in ranked)
    return *cells, *dict.fromkeys(own)  # one for all k and m of a place


@cache
def artifacts() -> dict[str, Artifact]:
    """All tables and figures by name, in the paper's order."""
    table1 = table("table1_accuracy")
    listed = (
        Artifact("table1", "Table 1: accuracy on MNIST, CIFAR-10 and CIFAR-100", table1),
        Artifact("autoattack", "AutoAttack", autoattack(), columns=("autoattack",), protocols=OURS,
                 note="their numbers are of 20 % symmetric noise; "
                 "the authors take the best of AutoAttack on the test set over all epochs"),
        Artifact("at-without", "AT without the outliers that AoRR finds", table("table_at_without_outliers"),
                 note="the paper gives no k and m for AoRR: ours are ORAT's"),
        Artifact("stability", "ten runs, 40 % symmetric noise", stability(), seeds=tuple(range(10)),
                 note="labels are flipped once for all runs, as in the authors' files"),
        Artifact("pretrained", "AT from weights of ImageNet, CIFAR-100", table("table_pretrained"), protocols=OURS,
                 weights=True, note="the paper does not say how it tunes the weights; ours is AT, from --weights"),
        Artifact("wide-resnet", "WRN-32-10 on CIFAR-10, 20 % symmetric noise",
                 table("table_wide_resnet", model="wrn-32-10"), note="the schedule is Small-CNN's"),
        Artifact("wide-resnet-short", "WRN-32-10 on CIFAR-10, 20 % symmetric noise, few epochs",
                 table("table_wide_resnet", model="wrn-32-10"), protocols=OURS, fields=SHORT,
                 note=f"{SHORT['epochs']} epochs of 100, for want of time: no reproduction"),
        Artifact("k-m", "the k and m of ORAT, and its accuracy",
                 tuple(cell for cell in table1 if cell.method == "ORAT")),
        Artifact("loss-curves", "the training loss of ORAT against epochs", loss_curves(), curves=True,
                 note="read as 10 to 40 % symmetric noise at the small radius, 20 % at the large one"),
        Artifact("accuracy-curves", "accuracy of AT and ORAT against epochs", accuracy_curves(), every_epoch=True,
                 curves=True),
        Artifact("effect-of-m", "ORAT with k = n and several m", effect_of("m"), note="the values of m are ours"),
        Artifact("effect-of-k", "ORAT with the paper's m and several k", effect_of("k"),
                 note="the values of k are ours; m is the paper's, from its table of k and m"),
        Artifact("toy", "three sets of points in the plane", toys(), protocols=OURS,
                 note="the authors' code has no toy sets; the points are ours; ORAT by exact ranks"),
        Artifact("clothing1m", "Clothing1M, Small-CNN", clothing(), protocols=OURS, curves=True, every_epoch=True,
                 note="the paper gives no radius, size of images, k or m: 8/255, 32x32, 30000 and 300 are ours"),
    )  # fmt: skip
    return {one.name: one for one in listed}


def artifact(name: str) -> Artifact:
    """The table or figure of this name."""
    if name not in artifacts():
        raise unknown("table or figure", name, artifacts())
    return artifacts()[name]
