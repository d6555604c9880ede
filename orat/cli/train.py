"""`orat train`: trains a network and tests it, or several that differ in the fields of `--vary`."""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from pathlib import Path
from typing import Any

from orat.cli.cards import title_of
from orat.cli.flags import add_command, add_many, add_run_flags, assignment, at_once_of, listed
from orat.cli.tables import decision_lines, print_accuracy, print_json, say, shares
from orat.core.errors import InputError
from orat.training.run import Run
from orat.training.text import run_from


def add(commands: Any) -> None:
    """Declares the flags: those of a run, and how it is executed."""
    text = "train a network and test it; the same command again resumes"
    one = add_command(commands, "train", run, text, goes_on=True)
    one.usage = f"{one.prog} --method METHOD [flags]"
    add_run_flags(one)
    execution = one.add_argument_group("execution")
    execution.add_argument(
        "--out", metavar="DIR", help="the run's folder (default: runs/ and a name made of the run; "
        "with --vary: the folder of all runs, runs/many)",
    )  # fmt: skip
    execution.add_argument(
        "--vary", action="append", default=[], metavar="FIELD=A,B,...",
        help="train a run for each value, such as seed=0,1,2; several --vary multiply",
    )  # fmt: skip
    add_many(execution, "with --vary: runs")


def run(arguments: Namespace) -> int:
    """Trains one run or several, and prints the results."""
    return train_several(arguments) if arguments.vary else train_one(arguments)


def train_one(arguments: Namespace) -> int:
    """Trains a run and prints its result."""
    wanted = run_from(arguments.texts)
    from orat.core.console import Display
    from orat.training.run_folder import default_folder
    from orat.training.train import train

    out = Path(arguments.out) if arguments.out else default_folder(wanted)
    result = train(wanted, out, arguments.data_dir, arguments.device, Display(not arguments.quiet), arguments.engine)
    if arguments.json:
        print_json(result | {"folder": str(out)})
    else:
        print_result(wanted, result, out)
    return 0


def print_result(run: Run, result: dict[str, Any], out: Path) -> None:
    """Prints the accuracy of the last and of the chosen epoch, and the removed and relabeled samples."""
    if result["examples"]:
        rows = {
            f"{which} (epoch {result[which]['epoch']})": shares(result[which])
            for which in ("last", "chosen")
            if result[which]
        }
        print_accuracy(f"{run.data}, {title_of(run.method)}", rows, result)
    else:
        say(f"{run.data} has no test part; the accuracy on validation is in history.jsonl")
    for line in decision_lines(result):
        say(line)
    say(f"run folder: {out}")


def train_several(arguments: Namespace) -> int:
    """Trains every combination of the varied fields and prints the results."""
    out = Path(arguments.out or "runs/many")
    runs = varied(arguments, out)
    at_once = at_once_of(arguments)
    from orat.core.console import Display
    from orat.sweeps.parallel import train_many

    display = Display(not arguments.quiet)
    results = train_many(runs, arguments.data_dir, arguments.device, display, arguments.engine, at_once)
    broken = {folder: result["error"] for folder, result in results.items() if "error" in result}
    if arguments.json:
        print_json({str(folder): result for folder, result in results.items()})
        return int(bool(broken))
    for folder, error in broken.items():
        say(f"{folder}: {error}")
    tested = [folder for folder in results if folder not in broken and results[folder]["examples"]]
    if tested:
        first = results[tested[0]]
        rows = {Path(folder).name: shares(results[folder]["last"]) for folder in tested}
        print_accuracy("last epoch", rows, first)
    say(f"run folders: {out}")
    return int(bool(broken))


def varied(arguments: Namespace, out: Path) -> dict[str | Path, Run]:
    """Every combination of the varied fields as a run, by the folder that is named after it."""
    fields: dict[str, tuple[str, ...]] = {}
    for text in arguments.vary:
        field, values = assignment("vary", text)
        if field in fields:
            raise InputError(f"--vary {field} is given twice: give all of its values in one")
        fields[field] = listed(values)
    runs: dict[str | Path, Run] = {}
    for combination in product(*fields.values()):
        chosen = dict(zip(fields, combination, strict=True))
        name = "-".join(f"{field}-{value}".replace("/", "_") for field, value in chosen.items())
        runs[out / name] = run_from(arguments.texts | chosen)
    return runs
