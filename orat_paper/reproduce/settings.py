"""Cell, protocol and seed -> Run: the paper's settings, as described or as in the authors' code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from orat.core.errors import InputError
from orat.core.options import number
from orat.methods import AT, GAIRAT, MAIL, ORAT, RAA, ST, WMMR, AoRR, Method
from orat.training.defaults import PAPER_CIFAR, scaled
from orat.training.run import Run
from orat_paper.authors import AuthorsAoRR, AuthorsORAT
from orat_paper.outlier_labels import FILE
from orat_paper.reproduce.artifacts import AUTOMATIC, MEASURED, PROTOCOLS, TOYS, Artifact
from orat_paper.reproduce.cells import Cell
from orat_paper.reproduce.reports import EVERY_EPOCH, Identity, Report
from orat_paper.scrambled import PREFIX as SCRAMBLED

PRETRAINED = "pre-trained AT"  # starts from given weights
METHODS: dict[str, Method] = {
    "ST": ST(), "AT": AT(), "AT w/o": AT(), PRETRAINED: AT(), "GAIRAT": GAIRAT(), "MAIL": MAIL(), "WMMR": WMMR(),
    "RAA": RAA(), AUTOMATIC: ORAT(),
}  # fmt: skip
# Methods with the k and m of the cell. The authors' code starts and moves the scalars of Algorithm 1 in its own way.
RANKED: dict[str, dict[str, type[ORAT | AoRR]]] = {
    "ours": {"ORAT": ORAT, "AoRR": AoRR, MEASURED: ORAT},
    "authors": {"ORAT": AuthorsORAT, "AoRR": AuthorsAoRR, MEASURED: ORAT},
}
FILTER = "AoRR"  # finds the outliers for AT w/o

BURN_IN = 1  # epochs of plain training before the first cut, as in the authors' code

# Toy sets are ranked exactly, at no cost: one batch holds all points. Algorithm 1 gives a kept loss the weight 1 / n,
# the objective (Eq. 3) 1 / (k - m). Here, with the paper's k and m, its steps are 9 % (k = 20, m = 2) or 2 % (k = 5,
# m = 1) of the steps of the objective; everywhere else they are more than 70 %. In the paper's 3000 iterations,
# Algorithm 1 solves the balanced set with 3 of 24 seeds, exact ranks with 12, and exact ranks at 9 % of the learning
# rate with 2.
TOY_SOLVER: dict[str, Any] = {"solver": "rank", "ramp": 0}
# Fields besides the defaults of the data set, which are the paper's. The authors hold nothing out and have no warm-up.
FIELDS: dict[str, dict[str, Any]] = {"ours": {}, "authors": {"validation": 0.0, "warmup": 0.0}}
MODELS = {"clothing1m": "small_cnn"}  # other networks than the default of the data set
AUTHORS_EPS = {"2/255": 0.0078, "8/255": 0.031}  # in their scripts
# Noise of a cell -> noise of a run. The labels of web pages come with the images.
NOISES = {"ours": {"web": "none"}, "authors": {"asymmetric": "asymmetric-authors"}}
# Rows whose numbers show scrambled images, as the authors' noise script writes them, and no augmentation: natural
# accuracy of ST falls from 92 to 62 % (CIFAR-10) and from 74 to 30 % (CIFAR-100) with a tenth of the labels flipped.
# The asymmetric rows of CIFAR-10 (90 %) and the rows of Wide ResNet (91 %) do not show scrambled images.
SCRAMBLED_ROWS = (("cifar10", "symmetric"), ("cifar100", "symmetric"), ("cifar100", "asymmetric"))


@dataclass(frozen=True)
class Places:
    """The folder of the runs, the places of data sets and weights, and the runs of other machines."""

    out: Path
    data: Mapping[str, str] = field(default_factory=dict)
    weights: str | None = None
    reported: Mapping[Identity, tuple[Report, ...]] = field(default_factory=dict)

    def of(self, cell: Cell) -> str:
        """The data set of a run of this cell: a name or a path."""
        if cell.data == "clothing1m":
            return str(self.clothing("noisy" if cell.noise == "web" else "clean"))
        return self.data.get(cell.data, cell.data)

    def clothing(self, kind: str) -> Path:
        """The file of a training set made from Clothing1M."""
        return self.out / "data" / f"clothing1m-{kind}.npz"


@dataclass(frozen=True)
class Trial:
    """A cell under one protocol with one seed: the run, the folder, and the trial to finish before."""

    cell: Cell
    protocol: str
    seed: int
    run: Run
    folder: Path
    every_epoch: bool
    before: Trial | None = None
    reported: tuple[Report, ...] = field(default=(), compare=False)


def run_of(cell: Cell, protocol: str, seed: int, places: Places, more: Mapping[str, Any] = MappingProxyType({})) -> Run:
    """The run of a cell, with the defaults of the cell's data set at any place and the fields of a table or figure."""
    data, whose = places.of(cell), PROTOCOLS[protocol]
    fields = (scaled(PAPER_CIFAR, None) if cell.data == "clothing1m" else {}) | FIELDS[whose] | dict(more)
    fields["eps"] = AUTHORS_EPS.get(cell.eps, number(cell.eps)) if whose == "authors" else number(cell.eps)
    if whose == "authors" and was_scrambled(cell):
        data, fields["augment"] = SCRAMBLED * (protocol == "authors") + data, "none"
    run = Run(
        data=cell.data,
        method=method_of(cell, whose),
        model=cell.model or MODELS.get(cell.data),
        noise=NOISES[whose].get(cell.noise, cell.noise),  # type: ignore[arg-type]
        noise_rate=0.0 if cell.noise == "web" else cell.rate / 100,
        init_from=places.weights if cell.method == PRETRAINED else None,
        seed=seed,
        **fields,
    )
    return run if data == cell.data else replace(run, data=data)


def method_of(cell: Cell, whose: str) -> Method:
    """The method of a cell; ranked methods take the cell's k and m, by Algorithm 1 except on toy sets."""
    if cell.method not in RANKED[whose]:
        return METHODS[cell.method]
    if cell.k is None:
        raise InputError(f"{cell.words()}: {cell.method} needs k and m")
    solver = TOY_SOLVER if cell.data in TOYS else {"solver": "minmax-measured" if cell.method == MEASURED else "minmax"}
    return RANKED[whose][cell.method](k=cell.k, m=cell.m, burn_in=BURN_IN, **solver)


def was_scrambled(cell: Cell) -> bool:
    """Whether the paper's number shows scrambled images."""
    return cell.model is None and (cell.data, cell.noise) in SCRAMBLED_ROWS


def trial_of(artifact: Artifact, cell: Cell, protocol: str, seed: int, places: Places) -> Trial:
    """The trial of a cell in a table or figure."""
    artifact.check_protocol(protocol)
    every_epoch = artifact.every_epoch or protocol != "ours"
    run, before = run_of(cell, protocol, seed, places, artifact.fields), None
    if cell.method == "AT w/o":
        before = filter_of(cell, protocol, seed, places)
        run = replace(run, labels=str(before.folder / FILE), noise="none", noise_rate=0.0)
    identity = Identity(cell, protocol, seed, every_epoch, portable(run)["data"], run.epochs)
    reported = tuple(run for run in places.reported.get(identity, ()) if "curve" in run or not artifact.curves)
    folder = places.out / folder_name(cell, run, protocol, every_epoch)
    return Trial(cell, protocol, seed, run, folder, every_epoch, before, reported)


def filter_of(cell: Cell, protocol: str, seed: int, places: Places) -> Trial:
    """The AoRR trial that finds the outliers for AT w/o."""
    source = replace(cell, method=FILTER)
    run = run_of(source, protocol, seed, places)
    return Trial(source, protocol, seed, run, places.out / folder_name(source, run, protocol, False), False)


def folder_name(cell: Cell, run: Run, protocol: str, every_epoch: bool) -> str:
    """The cell in words and a hash of the run; the same on every machine."""
    parts = [cell.data, cell.eps, cell.noise, str(cell.rate), cell.method, protocol, f"seed{run.seed}"]
    parts += [EVERY_EPOCH] if every_epoch else []
    parts.append(hashlib.sha256(json.dumps(portable(run), sort_keys=True).encode()).hexdigest()[:10])
    return "-".join(parts).replace("/", "_").replace(" ", "-")


def portable(run: Run) -> dict[str, Any]:
    """The run as plain JSON, with names of files and folders in place of paths."""
    prefix = SCRAMBLED if run.data.startswith(SCRAMBLED) else ""
    data = prefix + Path(run.data.removeprefix(SCRAMBLED)).name
    labels = run.labels and Path(run.labels).parent.name  # the folder of the AoRR run
    return run.record() | {"data": data, "init_from": run.init_from and Path(run.init_from).name, "labels": labels}
