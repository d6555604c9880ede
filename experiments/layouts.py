"""Natural accuracy of standard training on CIFAR-10 after every epoch: images in their right layout, and scrambled.

    python benchmarks/layouts.py --cifar10 cifar10.npz --rates 20 --layouts right,scrambled --out results/layouts.json

All else is as the authors have it: no augmentation, nothing held out, their noise. Which of both lands where the paper
does tells which images its numbers come from.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from filling import Row, add_flags, fields_of, filled, is_known, sitting_of

from orat.evaluation.accuracy import Searchers, evaluate
from orat.sweeps.parallel import Sitting
from orat_paper.reproduce.artifacts import table
from orat_paper.reproduce.cells import Cell, choose
from orat_paper.reproduce.every_epoch import EveryEpoch, EveryEpochSitting, tested
from orat_paper.reproduce.settings import Places, run_of
from orat_paper.scrambled import PREFIX as SCRAMBLED

LAYOUTS = {"right": "", "scrambled": SCRAMBLED}


class NaturalTests(EveryEpoch):
    """Tests without attacks, which take most of the time."""

    def accuracy(self, label: str, searchers: Searchers | None = None) -> dict[str, float]:
        """Natural accuracy on the test part."""
        assert self.parts.test is not None
        return evaluate(self.learner.model, self.parts.test, {}, self.run.eps, self.run.seed)


class NaturallyTested(EveryEpochSitting):
    """A run among others that is tested so."""

    kind = NaturalTests


def main() -> None:
    """Trains what is missing, and prints the best epochs beside the paper's numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", required=True, help="where CIFAR-10 lies: a folder, .npz or .tar")
    parser.add_argument("--rates", default="20", help="of symmetric noise, in percent, with commas between")
    parser.add_argument("--layouts", default="right,scrambled", help="with commas between")
    add_flags(parser, "runs/layouts")
    arguments = parser.parse_args()
    setting = {"data": Path(arguments.cifar10).name, "method": "ST", "noise": "symmetric"}
    rows = filled(arguments, setting, partial(missing, arguments), row_of, "natural")
    for row in rows:
        theirs = ", ".join(f"{cell.theirs['natural']:.2f}" for cell in cells(row["rate"]))
        print(f"{row['layout']}, {row['rate']} %, seed {row['seed']}: best {row['best']:.2f} (paper {theirs})")


def cells(rate: int) -> tuple[Cell, ...]:
    """Those of Table 1 with standard training and symmetric noise of this rate: one a radius, which it does not use."""
    wanted = {"data": ["cifar10"], "method": ["ST"], "noise": ["symmetric"], "rate": [str(rate)]}
    return choose(table("table1_accuracy"), wanted, "Table 1")


def missing(arguments: argparse.Namespace, rows: list[Row]) -> Iterator[tuple[Row, Sitting]]:
    """The runs that are no rows yet."""
    splits = (part.split(",") for part in (arguments.seeds, arguments.rates, arguments.layouts))
    for seed, rate, layout in product(*splits):
        row = {"layout": layout, "rate": int(rate), "seed": int(seed)}
        if not is_known(row, rows):
            run = run_of(cells(int(rate))[0], "authors", int(seed), Places(Path()))
            run = replace(run, data=LAYOUTS[layout] + arguments.cifar10, **fields_of(arguments))
            folder = arguments.runs / f"{layout}-{rate}-{seed}-{run.id}"
            yield row, sitting_of(arguments, folder, run, None, NaturallyTested)


def row_of(cell: Row, sitting: Sitting) -> dict[str, Any]:
    """Natural accuracy after every epoch, the best and the last of it."""
    natural = [round(100 * record["natural"], 2) for record in tested(Path(sitting.folder))]
    result = sitting.job.result
    return {
        "best": max(natural), "last": natural[-1], "natural": natural, "run": result["run"],
        "seconds": result["seconds"],
    }  # fmt: skip


if __name__ == "__main__":
    main()
