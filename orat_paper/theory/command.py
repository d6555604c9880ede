"""`orat paper theory`: the paper's theorems in numbers and pictures."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orat.cli.flags import add_command, read
from orat.cli.tables import print_json, say
from orat.core.errors import InputError
from orat.core.options import whole

if TYPE_CHECKING:
    from rich.table import Table

GAPS = ("n", "bound of\nTheorem 3", "worst\nfunction", "trained\nfunction", "says\nnothing")
CALIBRATION = ("loss", "lambda", "lambda\n-hat", "nu", "risk", "condi-\ntions", "cali-\nbrated")


def add(commands: Any) -> None:
    """The flags: the folder of the pictures, and the number of draws."""
    one = add_command(commands, "theory", run, "the paper's theorems: measured gaps, calibration, and three pictures")
    one.add_argument("--out", default="runs/theory", metavar="DIR", help="pictures go here (default: runs/theory)")
    one.add_argument("--draws", metavar="N", help="training sets drawn of each size (default: 20)")
    one.add_argument("--json", action="store_true", help="print all numbers as JSON")


def run(arguments: Namespace) -> int:
    """Measures, draws and prints."""
    draws, out = read(arguments, "draws", whole, 20), Path(arguments.out)
    if draws < 1:
        raise InputError(f"--draws {draws}: give 1 or more")
    if out.is_file():
        raise InputError(f"{out} is a file: give --out a folder")
    from orat.core.console import Display
    from orat.core.files import require
    from orat_paper.theory import Task, measured_gaps
    from orat_paper.theory.pictures import write_pictures
    from orat_paper.theory.summary import SIZES, summary

    require("matplotlib.backends.backend_agg", "plots", "a picture of the theory")
    display, task = Display(), Task()
    gaps = measured_gaps(task, SIZES, draws, display)
    files = write_pictures(gaps, out, display)
    content = summary(task, gaps) | {"files": [str(file) for file in files]}
    if arguments.json:
        print_json(content)
        return 0
    show(content)
    say(f"{', '.join(file.name for file in files)}: {out}")
    return 0


def show(content: dict[str, Any]) -> None:
    """Prints both tables with an explanation."""
    from rich.console import Console

    task = content["task"]
    console = Console(highlight=False)
    console.print(gap_table(content["gaps"]))
    console.print(
        f"ORAT risk of {task['toy']} with {task['outliers']:.0%} of its labels wrong minus the risk of n drawn points: "
        f"the largest in {task['draws']} draws, seed {task['seed']}. Linear functions of l_{task['p']:g} norm up "
        f"to {task['radius']:g}; logistic loss, {task['largest_loss']:.2f} at most; nu = {task['nu']:g}, "
        f"mu = {task['mu']:g}, eps = {task['eps']:g}. The bound fails with probability {task['delta']:g} at most.\n"
    )
    console.print(calibration_table(content["calibration"]))
    console.print(
        "Theorem 2: whether its conditions hold; whether the ORAT loss is calibrated, by brute force over the "
        "functions on a ball; and the first false condition, of the theorem or else of its proof."
    )


def gap_table(rows: list[dict[str, Any]]) -> Table:
    """One row for every number of training points."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for title in GAPS:
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        numbers = f"{row['bound']:.3f}", f"{row['worst']:.4f}", f"{row['trained']:.4f}"
        table.add_row(f"{row['n']:,}", *numbers, yes_or_no(row["vacuous"]))
    return table


def calibration_table(rows: list[dict[str, Any]]) -> Table:
    """One row for every case of Theorem 2."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))  # 80 columns are enough
    for title in CALIBRATION:
        table.add_column(title, justify="left" if title == "loss" else "right", no_wrap=True)
    table.add_column("fails")
    for row in rows:
        numbers = (f"{row[name]:.3g}" for name in ("lambda", "lambda_hat", "nu", "risk"))
        table.add_row(
            row["loss"], *numbers, yes_or_no(row["stated"]), yes_or_no(row["calibrated"]), row["fails"] or "-"
        )
    return table


def yes_or_no(value: bool) -> str:
    """A truth value in a table."""
    return "yes" if value else "no"
