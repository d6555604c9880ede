"""Cards: idea, formula, cost, weaknesses and options of each method, and one line for each attack and network."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from orat.cli.flags import default_text
from orat.core.errors import unknown
from orat.core.options import field_types, flag, has_text
from orat.core.registry import names_code
from orat.methods import METHODS
from orat.training.text import method_class

if TYPE_CHECKING:
    from orat.methods import Method

CARDS = Path(__file__).with_name("cards.toml")
WRITTEN = "Written by `orat list methods --markdown` from orat/cli/cards.toml and the fields of the methods."
HEADINGS = {
    "idea": "Idea", "formula": "Formula", "paper": "Paper", "ours": "Not in the paper", "passes": "Cost of a step",
    "defaults": "Defaults", "weaknesses": "Known weaknesses", "differences": "Our changes",
}  # fmt: skip


@dataclass(frozen=True)
class Card:
    """The facts to know about a method before using it."""

    name: str
    title: str
    idea: str  # in two sentences; of a user's method, its docstring
    objective: str = ""  # in a line
    formula: str = ""
    paper: str = ""
    defaults: str = ""  # and their sources
    weaknesses: str = ""
    differences: str = ""
    attacks: bool = True
    forward: int = 0  # passes of a training step, without those of the attack; 0: unknown
    backward: int = 0
    ours: str = ""

    def cost(self, steps: int) -> tuple[int, int]:
        """Forward and backward passes of a training step with this many attack steps."""
        attack = steps if self.attacks else 0
        return attack + self.forward, attack + self.backward

    @property
    def passes(self) -> str:
        """The cost in words, with K attack steps."""
        if not self.forward:
            return ""
        if not self.attacks:
            return f"{self.forward} forward and {self.backward} backward pass; no attack"
        return f"K + {self.forward} forward and K + {self.backward} backward passes, K being the steps of the attack"

    @property
    def options(self) -> list[dict[str, str]]:
        """The method's flags with defaults and help texts."""
        cls = method_class(self.name)
        return [
            {"flag": flag(field.name), "default": default_text(field), "help": field.metadata.get("help", "")}
            for field in fields(cls)
            if has_text(field, field_types(cls)[field.name])
        ]

    @property
    def parts(self) -> dict[str, str]:
        """The texts under their headings."""
        texts = {heading: getattr(self, name) for name, heading in HEADINGS.items()}
        return {heading: text for heading, text in texts.items() if text}

    def record(self) -> dict[str, Any]:
        """The card as plain JSON."""
        return {**vars(self), "passes": self.passes, "options": self.options}


@cache
def content() -> dict[str, Any]:
    """The file of the cards."""
    return tomllib.loads(CARDS.read_text())


def cards() -> dict[str, Card]:
    """The cards of all methods, in the order of the methods."""
    return {name: Card(name=name, **content()[name]) for name in METHODS}


def card_of(name: str) -> Card:
    """The card of a method; that of a user's method has its docstring and its fields."""
    if name not in METHODS and not names_code(name):
        raise unknown("method", name, METHODS)
    if name in METHODS:
        return cards()[name]
    cls = method_class(name)
    said = inspect.cleandoc(cls.__doc__ or "")
    made = said.startswith(f"{cls.__name__}(")  # by the decorator of dataclasses
    return Card(name, cls.__name__, f"A docstring of {cls.__name__} would stand here." if made or not said else said)


def title_of(method: Method) -> str:
    """The title of a method's card; ORAT without m is automatic."""
    name = METHODS.name_of(type(method))
    title = str(content()[name]["title"]) if name in METHODS else name
    automatic = getattr(method, "finds_m", False) and getattr(method, "m", None) is None
    return f"{title} (automatic)" if automatic else title


def lines(kind: str) -> dict[str, str]:
    """One line for every name of this kind: attacks or models."""
    return dict(content()[kind])


def methods_table(chosen: Iterable[Card]) -> Table:
    """A row for each method: objective and passes of a training step."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("method", no_wrap=True)
    table.add_column("objective")
    table.add_column("forward", justify="right", no_wrap=True)
    table.add_column("backward", justify="right", no_wrap=True)
    for card in chosen:
        attack = "K + " if card.attacks else ""
        table.add_row(card.name, card.objective, f"{attack}{card.forward}", f"{attack}{card.backward}")
    table.caption = "forward and backward passes of a training step, K attack steps"
    table.caption_justify = "left"
    return table


def card_table(card: Card) -> Table:
    """The card in two columns: heading and text."""
    title = f"{card.name}: {card.title}\n"
    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 2, 1, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for heading, text in card.parts.items():
        table.add_row(heading, text)
    if card.options:
        table.add_row("Flags", "\n".join(map(flag_line, card.options)))
    return table


def flag_line(one: dict[str, str]) -> str:
    """A flag with its default and meaning."""
    line = f"{one['flag']} (default: {one['default'] or 'none'})"
    return f"{line}: {one['help']}" if one["help"] else line


def markdown(chosen: Iterable[Card]) -> str:
    """The cards as a page."""
    return "\n".join([f"<!-- {WRITTEN} -->\n# Methods\n", *(section(card) for card in chosen)])


def section(card: Card) -> str:
    """The card as a section of a page."""
    parts = card.parts | ({HEADINGS["formula"]: f"`{card.formula}`"} if card.formula else {})
    text = [f"## {card.name}: {card.title}", ""]
    for heading, part in parts.items():
        text += [f"**{heading}.** {part}", ""]
    if card.options:
        text += ["| flag | default | meaning |", "|---|---|---|"]
        text += [f"| `{one['flag']}` | {one['default'] or 'none'} | {one['help']} |" for one in card.options]
        text.append("")
    return "\n".join(text)
