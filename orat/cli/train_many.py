"""`orat train-many`: several runs that differ in what is named, at once on a GPU."""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from pathlib import Path
from typing import Any

from orat.cli.arguments import add_command, add_many, at_once_of
from orat.cli.flags import add_run_flags, run_from
from orat.cli.output import print_json, say
from orat.core.errors import InputError, unknown
from orat.training.run import Run


def add(commands: Any) -> None:
    """The flags: what varies, and a run."""
    text = "train several runs, at once on a GPU; the same command again goes on"
    one = add_command(commands, "train-many", run, text, goes_on=True)
    one.add_argument(
        "--vary", action="append", default=[], metavar="FIELD=A,B,...",
        help="a flag and its values, such as seed=0,1,2; each one more multiplies the runs",
    )  # fmt: skip
    one.add_argument("--out", default="runs/many", metavar="DIR", help="where the run folders go (default: runs/many)")
    add_many(one, "runs")
    add_run_flags(one)


def run(arguments: Namespace) -> int:
    """Trains all runs and prints their results."""
    runs = varied(arguments)
    at_once = at_once_of(arguments)
    from orat.cli.tables import print_accuracy, shares
    from orat.core.console import Display
    from orat.sweeps.parallel import train_many

    display = Display(not arguments.quiet)
    results = train_many(runs, arguments.data_dir, arguments.device, display, arguments.engine, at_once)
    if arguments.json:
        print_json({str(folder): result for folder, result in results.items()})
        return int(any("error" in result for result in results.values()))
    good = {folder: result for folder, result in results.items() if "error" not in result}
    for folder, result in results.items():
        if "error" in result:
            say(f"{folder}: {result['error']}")
    tested = {Path(folder).name: shares(result["last"]) for folder, result in good.items() if result["examples"]}
    if tested:
        first = next(iter(good.values()))
        print_accuracy("last epoch", tested, first["eps"], first["norm"], first["examples"])
    say(f"run folders: {arguments.out}")
    return int(len(good) < len(results))


def varied(arguments: Namespace) -> dict[str | Path, Run]:
    """Every combination of what varies, by the folder that is named after it."""
    fields = dict(read_vary(text, arguments) for text in arguments.vary)
    runs: dict[str | Path, Run] = {}
    for values in product(*fields.values()):
        chosen = dict(zip(fields, values, strict=True))
        name = "-".join(f"{field}-{value}".replace("/", "_") for field, value in chosen.items()) or "run"
        runs[Path(arguments.out) / name] = run_from(Namespace(**vars(arguments) | chosen))
    return runs


def read_vary(text: str, arguments: Namespace) -> tuple[str, list[str]]:
    """A field and its values."""
    name, _, values = text.partition("=")
    field = name.strip().removeprefix("--").replace("-", "_")
    own = {"vary", "out", "at_once", "engine", "quiet", "data_dir", "device", "json", "command", "parser"}
    if field in own or field not in vars(arguments):
        raise unknown("field to vary:", name, sorted(vars(arguments).keys() - own), listed=False)
    listed = [value.strip() for value in values.split(",") if value.strip()]
    if not listed:
        raise InputError(f"--vary {text} names no values: write it as seed=0,1,2")
    return field, listed
