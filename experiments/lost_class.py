"""How often ORAT by Algorithm 1 loses a class in a cell of Table 1: the first epochs with many seeds.

    python experiments/lost_class.py --eps 0.2 --noise symmetric --rate 40 --seeds 0,1,2,3,4,5,6,7,8,9 \
        --arms ours,authors,burn-in-2,measured,measured+burn-in-2 --out results/lost-class.json

An arm is a protocol of `orat paper reproduce`, or `ours` with a longer burn-in, with scalars from measured losses, or
both. The choice among arms is made by the accuracies on the validation part. A class is lost if the network predicts
it for fewer than half of its test images. The upper cut is lambda + lambda-hat after the last epoch.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import torch
from study import Cell, Row, add_flags, fields_of, fill, is_known

import orat
from orat.core.errors import unknown
from orat.evaluation.accuracy import predict
from orat.methods import ORAT
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat_paper.reproduce import cells as paper
from orat_paper.reproduce.artifacts import MEASURED, PROTOCOLS, table
from orat_paper.reproduce.settings import Places, run_of

BURN_IN, START = "burn-in-", "measured"


def main() -> None:
    """Trains missing runs, and prints the number of runs with a lost class."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eps", default="0.2")
    parser.add_argument("--noise", default="symmetric")
    parser.add_argument("--rate", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument(
        "--arms",
        default="ours,authors",
        help=f"ours, authors, {BURN_IN}N, {START} or {START}+{BURN_IN}N, with commas between",
    )
    add_flags(parser, "runs/lost-class")
    arguments = parser.parse_args()
    setting = {"eps": arguments.eps, "noise": arguments.noise, "rate": arguments.rate, "epochs": arguments.epochs}
    rows = fill(arguments, setting, partial(missing, arguments), partial(row_of, arguments))
    for arm in dict.fromkeys(row["arm"] for row in rows):
        own = [row for row in rows if row["arm"] == arm]
        print(f"{arm}: {sum(bool(row['lost']) for row in own)} of {len(own)} runs lost a class")


def missing(arguments: argparse.Namespace, rows: list[Row]) -> Iterator[Cell]:
    """The cells without a row."""
    wanted = {"data": ["mnist"], "method": ["ORAT"], "eps": [arguments.eps], "noise": [arguments.noise]}
    cell = paper.choose(table("table1_accuracy"), wanted | {"rate": [str(arguments.rate)]}, "Table 1")[0]
    for seed, arm in product(arguments.seeds.split(","), arguments.arms.split(",")):
        columns = {"arm": arm, "seed": int(seed)}
        if not is_known(columns, rows):
            run = replace(run_for(arm, cell, int(seed)), epochs=arguments.epochs, **fields_of(arguments))
            yield Cell(columns, arguments.runs / f"{arm}-{seed}-{run.id}", run)


def run_for(arm: str, cell: paper.Cell, seed: int) -> Run:
    """The run of an arm with all its epochs."""
    if arm in PROTOCOLS:
        return run_of(cell, arm, seed, Places(Path()))
    start, burn_in = arm.startswith(START), arm.removeprefix(START).removeprefix("+")
    run = run_of(replace(cell, method=MEASURED) if start else cell, "ours", seed, Places(Path()))
    assert isinstance(run.method, ORAT)
    if start and not burn_in:
        return run
    if not burn_in.startswith(BURN_IN):
        raise unknown("arm", arm, (*PROTOCOLS, f"{BURN_IN}2", START, f"{START}+{BURN_IN}2"))
    return replace(run, method=replace(run.method, burn_in=int(burn_in.removeprefix(BURN_IN))))


def row_of(arguments: argparse.Namespace, cell: Cell, result: Row) -> Row:
    """The accuracy of every class on the test images, and the removed samples."""
    test = orat.load_data("mnist", arguments.data_dir).test
    last = RunFolder(cell.folder).history()[-1]
    assert test is not None
    right = predict(orat.load_model(cell.folder, device=arguments.device), test) == test.labels
    classes = torch.stack([right[test.labels == label].double().mean() for label in range(len(test.classes))])
    return {
        "natural": round(100 * result["last"]["natural"], 2),
        "pgd20": round(100 * result["last"]["pgd20"], 2),
        "classes": [round(100 * share, 2) for share in classes.tolist()],
        "lost": [test.classes[label] for label in (classes < 0.5).nonzero().flatten().tolist()],
        "upper_cut": round(last["state"]["lambda"] + last["state"]["lambda_hat"], 2),
        "validation": {name: round(100 * share, 2) for name, share in last["validation"].items()},
        "outliers": result["outliers"],
        "run": result["run"],
        "seconds": result["seconds"],
    }


if __name__ == "__main__":
    main()
