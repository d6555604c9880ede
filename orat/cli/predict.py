"""`orat predict`: the class of new images, vectors or rows of a table by a finished run."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orat.cli.flags import add_command
from orat.cli.tables import plain_table, print_json, print_table, say
from orat.core.errors import InputError
from orat.core.registry import check_trust
from orat.training.run import read_run

if TYPE_CHECKING:
    from orat.training.predict import Predictions

OUT = "predictions.csv"


def add(commands: Any) -> None:
    """Declares the flags: the run, the samples and the attack."""
    text = "class and confidence for new samples by a finished run, and whether an attack could change the class"
    one = add_command(commands, "predict", run, text)
    one.add_argument("run", metavar="RUN", help="the run's folder")
    one.add_argument(
        "paths", nargs="+", metavar="PATH", help="images, folders of images at any depth, or one .npy, .npz or table",
    )  # fmt: skip
    one.add_argument(
        "--out", default=OUT, metavar="FILE", help=f"the table to write, .csv or .parquet (default: {OUT} here)"
    )
    one.add_argument("--again", action="store_true", help="replace the table if there is one")
    one.add_argument(
        "--certain", metavar="ATTACK", help="add a column: false where this attack, such as pgd20, changes the class"
    )
    one.add_argument("--eps", help="with --certain: its radius (default: the run's), such as 8/255")
    one.add_argument("--weights", default="last", help="last or chosen epoch (default: last)")
    one.add_argument("--model", metavar="NAME", help="the network of a run whose network is code, named again")
    one.add_argument("--trust", action="store_true", help="run the code that the run's record names")
    one.add_argument("--device", default="auto", help="cpu, cuda or auto (default: auto)")
    one.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(arguments: Namespace) -> int:
    """Writes the table, and prints the samples by class; exit code 1 if images cannot be read."""
    out = Path(arguments.out)
    if out.exists() and not arguments.again:
        raise InputError(f"{out} exists already: give --out another file, or --again to replace it")
    if arguments.certain is None and arguments.eps is not None:
        raise InputError("--eps is the radius of --certain: give --certain too, such as --certain pgd20")
    from orat.core.console import Display
    from orat.core.files import check_table
    from orat.training.predict import predict

    check_table(out)
    if arguments.model is None:
        check_trust(read_run(Path(arguments.run)).model, "model", arguments.trust)
    found = predict(
        arguments.run, arguments.paths, arguments.certain, arguments.eps, arguments.weights, arguments.device,
        arguments.model, arguments.trust, Display(),
    )  # fmt: skip
    found.write(out)
    for line in found.broken:
        sys.stderr.write(f"orat: {line}\n")
    if arguments.json:
        print_json(found.summary() | {"file": str(out)})
    else:
        print_predictions(arguments.run, found)
        say(f"written to {out}")
    return 1 if found.broken else 0


def certain_words(certain: int, total: int, attack: str) -> str:
    """The line about the predictions that an attack changes."""
    if certain == total:
        return f"all {total:,} predictions are certain: {attack} changes none"
    others = "all" if certain == 0 else "the others"
    return f"{certain:,} of {total:,} predictions are certain: {attack} changes {others}"


def print_predictions(title: str, found: Predictions) -> None:
    """Prints the samples by predicted class, and the counts of certain, broken and skipped ones."""
    titles = {"class": "class", "samples": "samples", "mean_confidence": "mean confidence"}
    rows = [row | {"mean_confidence": f"{row['mean_confidence']:.1%}"} for row in found.by_class()]
    if found.certain is not None:
        titles["certain"] = "certain"
    print_table(plain_table(f"{title}: predictions for {len(found):,} samples", titles, rows))
    if found.certain is not None:
        say(certain_words(int(found.certain.sum()), len(found), found.attack or ""))
    if found.skipped:
        say(f"files that are no images, skipped: {found.skipped:,}")
    if found.broken:
        say(f"images that cannot be read, without a row: {len(found.broken):,}")
