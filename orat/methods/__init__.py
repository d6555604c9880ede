"""Training methods, one a file; a new method is a file, a line in METHODS and a card in `orat/cli/cards.toml`.

The classes are imported at their first use, because their modules import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orat.core.registry import Registry

if TYPE_CHECKING:
    from orat.methods.aorr import AoRR
    from orat.methods.at import AT
    from orat.methods.base import Decision, Method, SampleTable, Scouts, Setting, State, Step
    from orat.methods.gairat import GAIRAT
    from orat.methods.mail import MAIL
    from orat.methods.mart import MART
    from orat.methods.orat import ORAT
    from orat.methods.raa import RAA
    from orat.methods.st import ST
    from orat.methods.trades import TRADES
    from orat.methods.wmmr import WMMR


METHODS: Registry[type[Method]] = Registry(
    "method",
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
    },
)

__all__ = [
    "AT", "GAIRAT", "MAIL", "MART", "METHODS", "ORAT", "RAA", "ST", "TRADES", "WMMR", "AoRR", "Decision", "Method",
    "SampleTable", "Scouts", "Setting", "State", "Step",
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
