"""Attacks: `pgd` is the one projected-gradient core, `suite` has all by name."""

from orat.attacks.adversary import Adversary, Sight
from orat.attacks.apgd import APGD
from orat.attacks.autoattack import AutoAttack
from orat.attacks.carlini_wagner import CarliniWagner
from orat.attacks.fab import FAB
from orat.attacks.pgd import PGD, Attack
from orat.attacks.square import Square
from orat.attacks.suite import suite

__all__ = ["APGD", "FAB", "PGD", "Adversary", "Attack", "AutoAttack", "CarliniWagner", "Sight", "Square", "suite"]
