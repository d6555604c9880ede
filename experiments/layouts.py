"""Natural accuracy of standard training on CIFAR-10 after every epoch: right images, and scrambled ones.

    python experiments/layouts.py --cifar10 cifar10.npz --rates 20 --layouts right,scrambled --out results/layouts.json

All other settings are the authors': no augmentation, nothing held out, their noise. The layout that reproduces the
paper's numbers is the layout of the paper's images.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

from study import Cell, Row, add_flags, fields_of, fill, is_known

from orat.evaluation.accuracy import evaluate
from orat.training.learner import RunLearner
from orat.training.train import Session
from orat_paper.reproduce import cells as paper
from orat_paper.reproduce.artifacts import table
from orat_paper.reproduce.every_epoch import EveryEpoch, tested
from orat_paper.reproduce.settings import Places, run_of
from orat_paper.scrambled import PREFIX as SCRAMBLED

LAYOUTS = {"right": "", "scrambled": SCRAMBLED}


class NaturalEveryEpoch(EveryEpoch):
    """Tests after every epoch without attacks, which take most of the time."""

    def accuracy(self, epoch: int) -> dict[str, float]:
        """Natural accuracy on the test part."""
        test = self.session.parts.test
        assert test is not None
        return evaluate(self.learner.model, test, [], self.session.run.eps)


def observers(session: Session, learner: RunLearner) -> list[EveryEpoch]:
    """The tests of a run."""
    return [NaturalEveryEpoch(session, learner)]


def main() -> None:
    """Trains missing runs, and prints the best epochs beside the paper's numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", required=True, help="CIFAR-10 as a folder, .npz or .tar")
    parser.add_argument("--rates", default="20", help="of symmetric noise, in percent, with commas between")
    parser.add_argument("--layouts", default="right,scrambled", help="with commas between")
    add_flags(parser, "runs/layouts")
    arguments = parser.parse_args()
    setting = {"data": Path(arguments.cifar10).name, "method": "ST", "noise": "symmetric"}
    rows = fill(arguments, setting, lambda rows: missing(arguments, rows), row_of, observers, hidden="natural")
    for row in rows:
        theirs = ", ".join(f"{cell.theirs['natural']:.2f}" for cell in cells(row["rate"]))
        print(f"{row['layout']}, {row['rate']} %, seed {row['seed']}: best {row['best']:.2f} (paper {theirs})")


def cells(rate: int) -> tuple[paper.Cell, ...]:
    """The cells of Table 1 with standard training and symmetric noise of this rate, one a radius."""
    wanted = {"data": ["cifar10"], "method": ["ST"], "noise": ["symmetric"], "rate": [str(rate)]}
    return paper.choose(table("table1_accuracy"), wanted, "Table 1")


def missing(arguments: argparse.Namespace, rows: list[Row]) -> Iterator[Cell]:
    """The cells without a row."""
    splits = (part.split(",") for part in (arguments.seeds, arguments.rates, arguments.layouts))
    for seed, rate, layout in product(*splits):
        columns = {"layout": layout, "rate": int(rate), "seed": int(seed)}
        if not is_known(columns, rows):
            run = run_of(cells(int(rate))[0], "authors", int(seed), Places(Path()))
            run = replace(run, data=LAYOUTS[layout] + arguments.cifar10, **fields_of(arguments))
            yield Cell(columns, arguments.runs / f"{layout}-{rate}-{seed}-{run.id}", run)


def row_of(cell: Cell, result: Row) -> Row:
    """Natural accuracy after every epoch, in the best and in the last."""
    natural = [round(100 * record["natural"], 2) for record in tested(cell.folder)]
    return {
        "best": max(natural), "last": natural[-1], "natural": natural, "run": result["run"],
        "seconds": result["seconds"],
    }  # fmt: skip


if __name__ == "__main__":
    main()
