"""Networks: by name, from weights, a user's own, and folded copies for attacks."""

from orat.models.catalog import NAMES, build

__all__ = ["NAMES", "build"]
