"""`orat list`: the methods, attacks and networks by name."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from orat.cli.cards import card_of, card_table, cards, lines, markdown, methods_table
from orat.cli.flags import add_command
from orat.cli.tables import plain_table, print_json, say
from orat.core.console import plain
from orat.core.errors import InputError

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
    """Declares `list` and its three subjects."""
    text = "list the methods, attacks or networks (models)"
    below = commands.add_parser("list", help=text, description=text).add_subparsers(required=True, metavar="WHAT")
    one = add_command(below, "methods", list_methods, "training methods, or the card of one")
    one.add_argument("name", nargs="?", metavar="METHOD", help="print the card of this method, or of your module:Class")
    one.add_argument("--json", action="store_true", help="print as JSON")
    one.add_argument("--markdown", action="store_true", help="print the cards as a Markdown page")
    for kind, text in (("attacks", "attacks for `orat evaluate`"), ("models", "networks for `orat train`")):
        one = add_command(below, kind, list_lines, text)
        one.add_argument("--json", action="store_true", help="print as JSON")
        one.set_defaults(kind=kind)


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
