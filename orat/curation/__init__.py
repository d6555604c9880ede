"""Predictions to corrected labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orat.core.registry import imported

if TYPE_CHECKING:
    from orat.curation.fix import Fix, plan_fix
    from orat.curation.undo import undo_fix

PLACES = {
    "Fix": "orat.curation.fix:Fix", "plan_fix": "orat.curation.fix:plan_fix",
    "undo_fix": "orat.curation.undo:undo_fix",
}  # fmt: skip

__all__ = ["Fix", "plan_fix", "undo_fix"]


def __getattr__(name: str) -> Any:
    """Imports a public name from its module."""
    return imported(__name__, PLACES, name)
