"""`orat paper`: the commands about the paper."""

from __future__ import annotations

from typing import Any

from orat.cli.flags import Parser
from orat_paper.reproduce import command as reproduce
from orat_paper.theory import command as theory


def add(commands: Any) -> None:
    """Adds `orat paper reproduce` and `orat paper theory`."""
    text = "the paper's tables, figures and theorems"
    one: Parser = commands.add_parser("paper", help=text, description=text)
    below = one.add_subparsers(required=True, metavar="COMMAND")
    for command in (reproduce, theory):
        command.add(below)
