"""`orat list`: the methods, attacks, networks and data sets by name."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from orat.cli.cards import card_of, card_table, cards, lines, markdown, methods_table
from orat.cli.flags import add_command
from orat.cli.tables import plain_table, print_json, say
from orat.core.console import Display, plain
from orat.core.errors import InputError, unknown
from orat.core.options import size
from orat.core.registry import plugins

NOTES = {
    "methods": "`orat list methods NAME` prints a method's card: idea, cost, defaults, weaknesses, flags.\n"
    "Your own: --method package.module:Class or file.py:Class, derived from orat.Method; also as NAME here.\n"
    "Pre-trained AT of the ORAT paper: --method at --init-from RUN_OR_FILE. AT without outliers:\n"
    "train aorr, orat_paper.outlier_labels.labels_without_outliers(RUN), then --method at --labels FILE.",
    "attacks": "pgdN is PGD with N steps of eps/4 from a random start, pgdNxR the same with R restarts.\n"
    "Your own: package.module:name or file.py:name, as --attack in `orat train` and in --attacks of `orat evaluate`.",
    "models": "Every network takes inputs in [0, 1] and any number of classes.",
}


def add(commands: Any) -> None:
    """Declares `list` and its four subjects."""
    text = "list the methods, attacks, networks (models) or data sets"
    below = commands.add_parser("list", help=text, description=text).add_subparsers(required=True, metavar="WHAT")
    one = add_command(below, "methods", list_methods, "training methods, or the card of one")
    one.add_argument("name", nargs="?", metavar="METHOD", help="print the card of this method, or of your module:Class")
    one.add_argument("--json", action="store_true", help="print as JSON")
    one.add_argument("--markdown", action="store_true", help="print the cards as a Markdown page")
    for kind, text in (("attacks", "attacks for `orat evaluate`"), ("models", "networks for `orat train`")):
        one = add_command(below, kind, list_lines, text)
        one.add_argument("--json", action="store_true", help="print as JSON")
        one.set_defaults(kind=kind)
    one = add_command(below, "data", list_data, "data sets with their sizes; check or download one")
    one.add_argument("path", nargs="?", metavar="PATH", help="check only this data set: as --data of `orat train`")
    one.add_argument("--image-size", metavar="HxW", help="resize the folder's images to this")
    one.add_argument("--data-dir", metavar="DIR", help="folder of the data sets (default: $ORAT_DATA, else ./data)")
    one.add_argument("--download", metavar="NAME", help="download mnist, cifar10 or cifar100 into that folder")
    one.add_argument("--json", action="store_true", help="print as JSON")


def list_methods(arguments: Namespace) -> int:
    """Prints the table of methods, or cards."""
    chosen = cards() if arguments.name is None else {arguments.name: card_of(arguments.name)}
    if arguments.json and arguments.markdown:
        raise InputError("both --json and --markdown: give one of them")
    if arguments.json:
        print_json([card.record() for card in chosen.values()])
    elif arguments.markdown:
        say(markdown(chosen.values()).rstrip())
    elif arguments.name is not None:
        plain().print(card_table(chosen[arguments.name]))
    else:
        plain().print(methods_table(chosen.values()))
        say(NOTES["methods"])
    return 0


def list_lines(arguments: Namespace) -> int:
    """Prints one line for every attack or network."""
    rows = [{"name": name, "description": text} for name, text in lines(arguments.kind).items()]
    if arguments.json:
        print_json(rows)
    else:
        titles = {"name": arguments.kind.removesuffix("s"), "description": "description"}
        plain().print(plain_table("", titles, rows))
        say(NOTES[arguments.kind])
    return 0


def list_data(arguments: Namespace) -> int:
    """Prints the data sets, after a download if one is asked for."""
    image_size = None if arguments.image_size is None else size(arguments.image_size)
    folder = None if arguments.data_dir is None else Path(arguments.data_dir)
    if arguments.download:
        download(arguments.download, folder)
    rows = [read_row(arguments.path, arguments.path, image_size)] if arguments.path else data_rows(folder)
    if arguments.json:
        print_json(rows)
        return 0
    plain().print(plain_table("", {name: name for name in ROW}, [shown(row) for row in rows]))
    for row in rows:
        for line in [row["message"]] if row["status"] != "found" else row.get("notes", ()):
            say(line)
    if not arguments.path and (others := plugins("orat.data")):
        say(f"from plug-ins: {', '.join(sorted(others))}")
    return 0


ROW = ("name", "status", "train", "test", "shape", "classes", "where")  # the columns of the table


def data_rows(data_dir: Path | None) -> list[dict[str, Any]]:
    """One row for each data set; public data sets are read and checked, bundled data sets are always present."""
    from orat.data.catalog import NAMES, PUBLIC, found

    public = [
        {
            "name": one.name, "status": one.status, "train": one.train, "test": one.test,
            "shape": list(one.shape), "classes": one.classes, "where": str(one.folder or ""), "message": one.message,
        }
        for one in found(data_dir)
    ]  # fmt: skip
    return public + [read_row(name, "bundled", None) for name in NAMES[len(PUBLIC) :]]


def read_row(name: str, where: str, image_size: tuple[int, int] | None) -> dict[str, Any]:
    """The row of a data set, after reading all its files."""
    from orat.data.catalog import load

    splits = load(name, image_size=image_size)
    train, test = splits.train, splits.test
    return {
        "name": name, "status": "found", "train": len(train), "test": len(test) if test else 0,
        "shape": list(train.shape), "classes": len(train.classes), "where": where, "message": "whole",
        "notes": list(splits.notes),
    }  # fmt: skip


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row for people: dashes for the numbers of a data set that is missing or damaged."""
    if row["status"] != "found":
        return row | dict.fromkeys(("train", "test", "shape", "classes"), "-")
    return row | {"shape": "x".join(map(str, row["shape"]))}


def download(name: str, data_dir: Path | None) -> Path:
    """Downloads a public data set with a bar, and returns its folder."""
    from orat.data.catalog import PUBLIC, data_folder
    from orat.data.download import fetch

    if name not in PUBLIC:
        raise unknown("public data set", name, PUBLIC)
    with Display().bar() as bar:
        return fetch(name, data_folder(data_dir), bar.set)
