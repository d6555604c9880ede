"""The modules that methods call, imported at their first use: `orat --help` must not wait two seconds for torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orat import losses, ranking
else:

    class OnFirstUse:
        """Stands for a module until one of its names is wanted."""

        def __init__(self, name: str) -> None:
            self.name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(self.name), attribute)

    losses, ranking = OnFirstUse("orat.losses"), OnFirstUse("orat.ranking")

__all__ = ["losses", "ranking"]
