"""Files to batches: data sets by name or path, readers, and the loader of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orat.core.registry import imported

if TYPE_CHECKING:
    from orat.data.catalog import Plugin, load, stream
    from orat.data.loader import Loader, ResidentLoader, StreamedLoader
    from orat.data.source import Dataset, Source, Splits

PLACES = {
    "Dataset": "orat.data.source:Dataset", "Loader": "orat.data.loader:Loader", "Plugin": "orat.data.catalog:Plugin",
    "ResidentLoader": "orat.data.loader:ResidentLoader", "Source": "orat.data.source:Source",
    "Splits": "orat.data.source:Splits", "StreamedLoader": "orat.data.loader:StreamedLoader",
    "load": "orat.data.catalog:load", "stream": "orat.data.catalog:stream",
}  # fmt: skip

__all__ = [
    "Dataset", "Loader", "Plugin", "ResidentLoader", "Source", "Splits", "StreamedLoader", "load", "stream",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports a public name from its module."""
    return imported(__name__, PLACES, name)
