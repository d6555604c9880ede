"""`orat methods`: the training methods, and the card of each."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from orat.cli.arguments import add_command
from orat.cli.output import print_json, say
from orat.core.errors import InputError, unknown

VARIATIONS = """`orat methods NAME` prints a card. Two more of the paper's rows are flags of a run:
  AT w/o outliers: orat train --method at --without-outliers-of RUN, on what a finished aorr run left
  pre-trained AT:  orat train --method at --init-from FILE_OR_RUN, where a head of another size is replaced"""


def add(commands: Any) -> None:
    """The flags: which method, and in which form."""
    one = add_command(commands, "methods", run, "list the training methods, or print the card of one")
    one.add_argument("name", nargs="?", metavar="METHOD", help="print its card: idea, formula, cost, weaknesses, ...")
    one.add_argument("--json", action="store_true", help="print as JSON")
    one.add_argument("--markdown", action="store_true", help="print as Markdown")


def run(arguments: Namespace) -> int:
    """Prints the list of methods, or one card."""
    from rich.console import Console

    from orat.cli.cards import card_table, cards, markdown, methods_table

    chosen = cards()
    if arguments.name is not None:
        if arguments.name not in chosen:
            raise unknown("method", arguments.name, chosen)
        chosen = {arguments.name: chosen[arguments.name]}
    if arguments.json and arguments.markdown:
        raise InputError("both --json and --markdown: give one of them")
    if arguments.json:
        print_json([card.record() for card in chosen.values()])
    elif arguments.markdown:
        say(markdown(chosen.values()).rstrip())
    elif arguments.name is not None:
        Console(highlight=False).print(card_table(chosen[arguments.name]))
    else:
        Console(highlight=False).print(methods_table(chosen.values()))
        say(VARIATIONS)
    return 0
