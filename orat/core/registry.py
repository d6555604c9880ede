"""Names from outside of the package: entry points of installed distributions, and `module:attribute`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points


@cache
def plugins(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name; loading one imports its module."""
    return {point.name: point for point in entry_points(group=group)}
