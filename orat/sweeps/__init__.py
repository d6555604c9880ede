"""Several runs: at once, and searches over their fields."""

from orat.sweeps.parallel import train_many

__all__ = ["train_many"]
