"""`orat train`: trains a network and tests it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from orat.cli.arguments import add_command, add_places
from orat.cli.flags import add_run_flags, run_from
from orat.cli.output import print_json, say


def add(commands: Any) -> None:
    """The flags: where things are, and a run."""
    one = add_command(
        commands, "train", run, "train a network and test it; the same command again resumes", goes_on=True
    )
    one.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/ and a name made from the run)")
    one.add_argument(
        "--engine", default="auto", help="how steps are executed: plain, replica, recorded, compiled (default: auto)"
    )
    one.add_argument("--quiet", action="store_true", help="no progress")
    add_places(one)
    add_run_flags(one)


def run(arguments: Namespace) -> int:
    """Trains a run and prints its result."""
    wanted = run_from(arguments)
    from orat.cli.cards import cards
    from orat.cli.tables import correction_line, outlier_line, print_accuracy, shares
    from orat.core.console import Display
    from orat.training.run_folder import default_folder
    from orat.training.train import train

    out = Path(arguments.out) if arguments.out else default_folder(wanted)
    result = train(wanted, out, arguments.data_dir, arguments.device, Display(not arguments.quiet), arguments.engine)
    if arguments.json:
        print_json(result | {"folder": str(out)})
        return 0
    rows = {
        f"{which} (epoch {result[which]['epoch']})": shares(result[which])
        for which in ("last", "chosen")
        if result[which]
    }
    if result["examples"]:
        title = f"{wanted.data}, {cards()[wanted.method_name].title}"
        print_accuracy(title, rows, wanted.eps, wanted.norm, result["examples"])
    else:
        say(f"{wanted.data} has no test part; accuracy on what was held out is in history.jsonl")
    if result["outliers"]:
        say(outlier_line(result["outliers"]))
    if result["corrections"]:
        say(correction_line(result["corrections"]))
    say(f"run folder: {out}")
    return 0
