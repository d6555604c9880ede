"""The card of each method: what it does, what it costs, where it is weak, and where ours differs from the authors'."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from orat.cli.flags import default_of
from orat.methods import METHODS

CARDS = Path(__file__).with_name("cards.toml")
WRITTEN = "Written by `orat methods --markdown`; change orat/cards.toml or a method's fields, not this page."
HEADINGS = {
    "idea": "Idea", "formula": "Formula", "paper": "Paper", "passes": "Cost of a step", "defaults": "Defaults",
    "weaknesses": "Known weaknesses", "differences": "Ours and the authors'",
}  # fmt: skip


@dataclass(frozen=True)
class Card:
    """What to know of a method before it is used."""

    name: str
    title: str
    idea: str  # in two sentences
    formula: str
    paper: str
    defaults: str  # whose they are
    weaknesses: str
    differences: str  # from the authors' code
    attacks: bool
    forward: int  # passes of the network in a step, besides one for each step of the attack
    backward: int

    def cost(self, steps: int) -> tuple[int, int]:
        """Forward and backward passes of one training step whose attack has this many steps."""
        attack = steps if self.attacks else 0
        return attack + self.forward, attack + self.backward

    @property
    def passes(self) -> str:
        """The cost in words, for an attack of K steps."""
        if not self.attacks:
            return f"{self.forward} forward and {self.backward} backward pass; no attack"
        return f"K + {self.forward} forward and K + {self.backward} backward passes, K being the steps of the attack"

    @property
    def options(self) -> list[dict[str, str]]:
        """Its own flags, each with its default and what it does."""
        return [
            {"flag": f"--{field.name.replace('_', '-')}", "default": default_of(field), "help": field.metadata["help"]}
            for field in fields(METHODS[self.name])
        ]

    def record(self) -> dict[str, Any]:
        """The card as plain JSON."""
        return {**vars(self), "passes": self.passes, "options": self.options}


def cards() -> dict[str, Card]:
    """Every method's card, in the order of the methods."""
    content = tomllib.loads(CARDS.read_text())
    return {name: Card(name=name, **content[name]) for name in METHODS}


def methods_table(chosen: Iterable[Card]) -> Table:
    """One row a method: its name, what it is, and what a step costs."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("method", no_wrap=True)
    table.add_column("what it minimizes")
    table.add_column("forward", justify="right", no_wrap=True)
    table.add_column("backward", justify="right", no_wrap=True)
    for card in chosen:
        attack = "K + " if card.attacks else ""
        what = METHODS[card.name].__doc__ or ""
        table.add_row(card.name, escape(what), f"{attack}{card.forward}", f"{attack}{card.backward}")
    table.caption = "passes of the network in one training step, K steps of the attack"
    table.caption_justify = "left"
    return table


def card_table(card: Card) -> Table:
    """The card as two columns: what, and the text."""
    title = f"{card.name}: {card.title}\n"
    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 2, 1, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for field, heading in HEADINGS.items():
        table.add_row(heading, escape(getattr(card, field)))
    if card.options:
        flags = (f"{o['flag']} (default: {o['default'] or 'none, must be given'}): {o['help']}" for o in card.options)
        table.add_row("Flags", escape("\n".join(flags)))
    return table


def markdown(chosen: Iterable[Card]) -> str:
    """The cards as a page."""
    parts = [f"<!-- {WRITTEN} -->\n# Methods\n"]
    for card in chosen:
        lines = [f"## {card.name}: {card.title}", ""]
        for field, heading in HEADINGS.items():
            text = f"`{card.formula}`" if field == "formula" else getattr(card, field)
            lines += [f"**{heading}.** {text}", ""]
        if card.options:
            lines += ["| flag | default | what it does |", "|---|---|---|"]
            lines += [
                f"| `{o['flag']}` | {o['default'] or 'none: must be given'} | {o['help']} |" for o in card.options
            ]
            lines.append("")
        parts.append("\n".join(lines))
    return "\n".join(parts)
