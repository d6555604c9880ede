"""`orat data`: the data sets that are there."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from orat.cli.arguments import add_command
from orat.cli.output import print_json
from orat.core.numbers import size


def add(commands: Any) -> None:
    """The flags: which data sets, and where they lie."""
    one = add_command(commands, "data", run, "list and check the data sets that are there, or download one")
    one.add_argument("path", nargs="?", metavar="PATH", help="check only this image folder, .npz or .tar file")
    one.add_argument("--image-size", metavar="HxW", help="resize the folder's images to this")
    one.add_argument("--data-dir", metavar="DIR", help="where data sets lie (default: $ORAT_DATA, else ./data)")
    one.add_argument("--download", metavar="NAME", help="download mnist, cifar10 or cifar100 there")
    one.add_argument("--json", action="store_true", help="print the list as JSON")


def run(arguments: Namespace) -> int:
    """Lists the data sets, after a download if one is wanted."""
    image_size = None if arguments.image_size is None else size(arguments.image_size)
    from orat.cli.listing import download, listing, row, table

    folder = None if arguments.data_dir is None else Path(arguments.data_dir)
    if arguments.download:
        download(arguments.download, folder)
    rows = [row(arguments.path, arguments.path, image_size)] if arguments.path else listing(folder)
    if arguments.json:
        print_json(rows)
        return 0
    from rich.console import Console

    Console(highlight=False).print(table(rows))
    return 0
