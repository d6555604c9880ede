"""Training methods, one a file; a new method is a file, a line in METHODS and a card in `orat/cli/cards.toml`.

The classes are imported at their first use, because their modules import torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orat.methods.aorr import AoRR
    from orat.methods.at import AT
    from orat.methods.base import Method, Scouts, Setting
    from orat.methods.gairat import GAIRAT
    from orat.methods.mail import MAIL
    from orat.methods.mart import MART
    from orat.methods.orat import ORAT
    from orat.methods.raa import RAA
    from orat.methods.st import ST
    from orat.methods.trades import TRADES
    from orat.methods.wmmr import WMMR


class Methods(Mapping[str, "type[Method]"]):
    """Method classes by name, imported when they are asked for."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = places

    def __getitem__(self, name: str) -> type[Method]:
        module, _, attribute = self.places[name].partition(":")
        return getattr(import_module(module), attribute)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def name_of(self, cls: type) -> str:
        """The name of a class; its import path, module:attribute, if it has no name."""
        path = f"{cls.__module__}:{cls.__qualname__}"
        return next((name for name, place in self.places.items() if place == path), path)


METHODS = Methods(
    {
        "st": "orat.methods.st:ST",
        "at": "orat.methods.at:AT",
        "trades": "orat.methods.trades:TRADES",
        "mart": "orat.methods.mart:MART",
        "gairat": "orat.methods.gairat:GAIRAT",
        "mail": "orat.methods.mail:MAIL",
        "wmmr": "orat.methods.wmmr:WMMR",
        "raa": "orat.methods.raa:RAA",
        "aorr": "orat.methods.aorr:AoRR",
        "orat": "orat.methods.orat:ORAT",
    }
)

__all__ = [
    "AT", "GAIRAT", "MAIL", "MART", "METHODS", "ORAT", "RAA", "ST", "TRADES", "WMMR", "AoRR", "Method", "Scouts",
    "Setting",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports a public name from its module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    places = (place.partition(":") for place in METHODS.places.values())
    module = next((module for module, _, attribute in places if attribute == name), "orat.methods.base")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    """The public names, for completion."""
    return __all__
