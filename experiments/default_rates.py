"""The learning rate and the rise of the attack's radius among the defaults for a user's images on a CPU.

    python experiments/default_rates.py --data-dir data --runs runs/default-rates --out results/default-rates.json

Samples drawn from CIFAR-10 and MNIST stand for a user's images: every other field has its default for such data. The
accuracies are those of the last epoch on the validation part.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from markdown import table_head, table_line
from study import Cell, Row, add_flags, fields_of, fill, is_known

import orat
from orat.training.run_folder import RunFolder

SAMPLES = 500
SETS = ("cifar10", "mnist")
RATES = (0.01, 0.02, 0.05, 0.1)
RISES = (0.0, 0.2)  # share of the epochs in which the radius rises
EPOCHS = 62  # the default for 500 and for 1,000 images
VALIDATION = 0.2


def part_of(name: str, data_dir: Path | None) -> orat.data.Dataset:
    """Training samples drawn from a data set: files that are sorted by class begin with a single class."""
    train = orat.load_data(name, data_dir).train
    return train.take(torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:SAMPLES])


def cells(arguments: argparse.Namespace, known: list[Row]) -> Iterable[Cell]:
    """The missing runs."""
    parts = {name: part_of(name, arguments.data_dir) for name in SETS}
    for seed, name, lr, rise in product(map(int, arguments.seeds.split(",")), SETS, RATES, RISES):
        columns = {"data": name, "lr": lr, "attack_warmup": rise, "seed": seed}
        if is_known(columns, known):
            continue
        run = orat.Run(data=parts[name], method=orat.methods.AT(), lr=lr, attack_warmup=rise * EPOCHS, seed=seed)
        folder = arguments.runs / f"{name}-{lr}-{rise}-{seed}"
        yield Cell(columns, folder, replace(run, validation=VALIDATION, **fields_of(arguments)))


def row_of(cell: Cell, result: Row) -> Row:
    """The accuracies of the last epoch on the validation part; a collapsed run has the reason of its end."""
    history = RunFolder(cell.folder).history()
    row: Row = {"epoch": history[-1]["epoch"], "validation": history[-1]["validation"]}
    row["seconds"] = round(sum(record["seconds"] for record in history), 1)
    return row | {"error": result.get("error")}


def lines(content: dict[str, Any]) -> list[str]:
    """The measured accuracies as a table in Markdown, one cell a seed."""
    sets, rises = {"cifar10": "CIFAR-10", "mnist": "MNIST"}, {0.0: "no rise", 0.2: "rise"}
    page = table_head(("lr", *(f"{title}, {rise}" for title in sets.values() for rise in rises.values())))
    for lr in RATES:
        cells = []
        for name, rise in product(sets, rises):
            rows = [
                row for row in content["rows"] if (row["data"], row["lr"], row["attack_warmup"]) == (name, lr, rise)
            ]
            cells.append(", ".join(map(outcome, rows)))
        page.append(table_line((f"{lr:g}", *cells)))
    return page


def outcome(row: Row) -> str:
    """Natural and PGD-10 accuracy of a run in %, or its collapse."""
    natural, attacked = (f"{100 * row['validation'][name]:.0f}" for name in ("natural", "pgd10"))
    return "collapse" if row["error"] else f"{natural} / {attacked}"


def main() -> None:
    """Fills the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser, "runs/default-rates")
    arguments = parser.parse_args()
    setting = {"samples": SAMPLES, "validation": VALIDATION, "method": "AT", "fields": fields_of(arguments)}
    fill(arguments, setting, partial(cells, arguments), row_of, failures=True)


if __name__ == "__main__":
    main()
