"""Attacks: `pgd` is the one projected-gradient core, `suite` its values by name."""

from orat.attacks.pgd import PGD, Attack
from orat.attacks.suite import suite

__all__ = ["PGD", "Attack", "suite"]
