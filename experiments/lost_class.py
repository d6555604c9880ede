"""Whether ORAT loses a class in a cell of Table 1 where it did, and by chance: the first epochs of it, with many seeds.

    python benchmarks/lost_class.py --eps 0.2 --noise symmetric --rate 40 --seeds 0,1,2,3,4,5,6,7,8,9 \
        --arms ours,authors,burn-in-2 --out results/lost-class.json

An arm is a protocol of `orat reproduce`, or `ours` with a longer burn-in. A class is lost that the network gives to
fewer than half of its test images. The upper cut is lambda + lambda-hat after the last epoch.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from filling import Row, add_flags, fields_of, filled, is_known, sitting_of

from orat.data.catalog import load
from orat.evaluation.accuracy import predict
from orat.methods import ORAT
from orat.sweeps.parallel import Sitting
from orat.training.load import load_model
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat_paper.reproduce.artifacts import table
from orat_paper.reproduce.cells import Cell, choose
from orat_paper.reproduce.settings import SCALARS, Places, run_of

BURN_IN = "burn-in-"


def main() -> None:
    """Trains what is missing, and prints how often a class was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--eps", default="0.2")
    parser.add_argument("--noise", default="symmetric")
    parser.add_argument("--rate", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--arms", default="ours,authors", help=f"ours, authors or {BURN_IN}N, with commas between")
    add_flags(parser, "runs/lost-class")
    arguments = parser.parse_args()
    setting = {"eps": arguments.eps, "noise": arguments.noise, "rate": arguments.rate, "epochs": arguments.epochs}
    rows = filled(arguments, setting, partial(missing, arguments), partial(row_of, arguments))
    for arm in dict.fromkeys(row["arm"] for row in rows):
        own = [row for row in rows if row["arm"] == arm]
        print(f"{arm}: {sum(bool(row['lost']) for row in own)} of {len(own)} runs lost a class")


def missing(arguments: argparse.Namespace, rows: list[Row]) -> Iterator[tuple[Row, Sitting]]:
    """The runs that are no rows yet."""
    cell = cell_of(arguments)
    for seed, arm in product(arguments.seeds.split(","), arguments.arms.split(",")):
        row = {"arm": arm, "seed": int(seed)}
        if not is_known(row, rows):
            run = replace(run_for(arm, cell, int(seed)), epochs=arguments.epochs, **fields_of(arguments))
            yield row, sitting_of(arguments, arguments.runs / f"{arm}-{seed}-{run.id}", run, arguments.data_dir)


def cell_of(arguments: argparse.Namespace) -> Cell:
    """The cell of Table 1 that is meant."""
    wanted = {"data": ["mnist"], "method": ["ORAT"], "eps": [arguments.eps], "noise": [arguments.noise]}
    return choose(table("table1_accuracy"), wanted | {"rate": [str(arguments.rate)]}, "Table 1")[0]


def run_for(arm: str, cell: Cell, seed: int) -> Run:
    """The run of an arm, with all its epochs."""
    if arm in SCALARS:
        return run_of(cell, arm, seed, Places(Path()))
    run = run_of(cell, "ours", seed, Places(Path()))
    assert isinstance(run.method, ORAT)
    return replace(run, method=replace(run.method, burn_in=int(arm.removeprefix(BURN_IN))))


def row_of(arguments: argparse.Namespace, cell: Row, sitting: Sitting) -> dict[str, Any]:
    """What came of a run: accuracy of each class on the test images, and what was cut."""
    result, test = sitting.job.result, load("mnist", arguments.data_dir).test
    scalars = RunFolder(Path(sitting.folder)).history()[-1]["state"]
    assert test is not None
    right = predict(load_model(Path(sitting.folder), device=arguments.device), test) == test.labels
    classes = torch.stack([right[test.labels == label].double().mean() for label in range(len(test.classes))])
    return {
        "natural": round(100 * result["last"]["natural"], 2),
        "pgd20": round(100 * result["last"]["pgd20"], 2),
        "classes": [round(100 * share, 2) for share in classes.tolist()],
        "lost": [test.classes[label] for label in (classes < 0.5).nonzero().flatten().tolist()],
        "upper_cut": round(scalars["lambda"] + scalars["lambda_hat"], 2),
        "outliers": result["outliers"],
        "run": result["run"],
        "seconds": result["seconds"],
    }


if __name__ == "__main__":
    main()
