"""`orat labels`: finds wrong labels, writes a training set without them, and undoes it."""

from __future__ import annotations

from typing import Any

from orat.cli.labels_find import add_find
from orat.cli.labels_fix import add_fix, add_undo


def add(commands: Any) -> None:
    """Declares `labels find`, `labels fix` and `labels undo`."""
    text = "find wrong labels in data or in a run's training set, write a training set without them, or undo it"
    below = commands.add_parser("labels", help=text, description=text).add_subparsers(required=True, metavar="ACTION")
    for add_action in (add_find, add_fix, add_undo):
        add_action(below)
