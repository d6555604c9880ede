"""`orat outliers`: which training labels of a run look wrong, as tables and as a page."""

from __future__ import annotations

from argparse import Namespace
from itertools import islice
from pathlib import Path
from typing import Any

from orat.cli.arguments import add_command, add_places, read
from orat.cli.flags import Parser
from orat.cli.output import print_json, say
from orat.core.errors import InputError, unknown
from orat.core.numbers import whole

FORMATS = ("csv", "parquet")
PRINTED = 10  # samples


def add(commands: Any) -> None:
    """The flags: whose labels, who judges them, and where to write."""
    text = "which training labels of a finished run look wrong, as tables and as a page of images"
    one = add_command(commands, "outliers", run, text)
    one.add_argument("run", metavar="RUN", help="the run's folder")
    one.add_argument("--out", metavar="DIR", help="where tables and page go (default: outliers in the run's folder)")
    one.add_argument("--top", default="100", metavar="N", help="images on the page (default: 100)")
    one.add_argument("--format", default="csv", help="of the table of samples: csv or parquet (default: csv)")
    add_judging(one)
    add_places(one)


def add_judging(one: Parser) -> None:
    """Flags for who judges the labels."""
    one.add_argument(
        "--held-out", action="store_true",
        help="train quick networks on all but one of several parts of the training set each, to judge that part. "
        "A network that has learned a wrong label agrees with it; one that never saw it does not",
    )  # fmt: skip
    one.add_argument("--folds", default="5", metavar="K", help="with --held-out: parts, and networks (default: 5)")
    one.add_argument(
        "--epochs", metavar="N", help="with --held-out: their epochs (default: 36, of few samples up to 100)"
    )


def judging_of(arguments: Namespace) -> dict[str, Any]:
    """Who judges the labels, as `orat.find_label_issues` takes it."""
    if not arguments.held_out and (arguments.epochs is not None or arguments.folds != "5"):
        raise InputError("--folds and --epochs are for --held-out: give it, too")
    folds, epochs = read(arguments, "folds", whole), read(arguments, "epochs", whole)
    return {"device": arguments.device, "held_out": arguments.held_out, "folds": folds, "epochs": epochs}


def run(arguments: Namespace) -> int:
    """Judges the labels, writes the files and prints the most suspicious."""
    top, judging = read(arguments, "top", whole), judging_of(arguments)
    if top < 0:
        raise InputError(f"--top: {top} images: give 0 or more")
    if arguments.format not in FORMATS:
        raise unknown("format", arguments.format, FORMATS)
    from orat.cli.tables import print_suspects
    from orat.core.console import Display
    from orat.core.files import replace_file, require
    from orat.curation.find import find_label_issues
    from orat.curation.page import page
    from orat.curation.tables import write_tables

    if arguments.format == "parquet":
        require("pyarrow", "parquet", "a .parquet table")
    out = Path(arguments.out) if arguments.out else Path(arguments.run) / "outliers"
    if out.is_file():
        raise InputError(f"{out} is a file: give --out a folder")
    found = find_label_issues(arguments.run, arguments.data_dir, display=Display(), **judging)
    out.mkdir(parents=True, exist_ok=True)
    written = [*write_tables(found, out, arguments.format), out / "outliers.html"]
    replace_file(written[-1], page(found, arguments.run, top).encode())
    if arguments.json:
        rows = list(islice(found, PRINTED))
        print_json(found.summary() | {"notes": found.notes(), "most_suspicious": rows, "files": [*map(str, written)]})
        return 0
    print_suspects(arguments.run, found, PRINTED)
    say(f"{', '.join(path.name for path in written)}: {out}")
    return 0
