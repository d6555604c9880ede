"""`orat demo`: AT and ORAT side by side."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from orat.cli.arguments import add_command
from orat.cli.output import print_json
from orat.core.numbers import whole


def add(commands: Any) -> None:
    """The flags: seed, length and folder of the demo."""
    one = add_command(commands, "demo", run, "AT and ORAT side by side on bundled data with wrong labels", goes_on=True)
    one.add_argument("--out", default="runs/demo", metavar="DIR", help="where the run folders go (default: runs/demo)")
    one.add_argument("--seed", default="0", help="seed of the wrong labels and of the training (default: 0)")
    one.add_argument("--epochs", help="fewer for a quick look; AT needs some twenty to learn the wrong labels")
    one.add_argument("--json", action="store_true", help="print the results as JSON")


def run(arguments: Namespace) -> int:
    """Runs the demo and shows it."""
    seed = whole(arguments.seed)
    epochs = None if arguments.epochs is None else whole(arguments.epochs)
    from orat.cli.demonstration import demo, show

    results = demo(Path(arguments.out), seed, epochs)
    if arguments.json:
        print_json(results)
        return 0
    show(results)
    return 0
