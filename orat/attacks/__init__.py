"""Attacks: a `Threat` is the set of allowed changes, an `Attack` searches in it, `suite` has all attacks by name."""

from orat.attacks.apgd import APGD
from orat.attacks.autoattack import AutoAttack
from orat.attacks.base import Adversary, Ascent, Attack, Sight
from orat.attacks.carlini_wagner import CarliniWagner
from orat.attacks.fab import FAB
from orat.attacks.pgd import PGD
from orat.attacks.square import Square
from orat.attacks.suite import attack, suite
from orat.attacks.threat import Threat
from orat.core.random import normal, uniform

__all__ = [
    "APGD", "FAB", "PGD", "Adversary", "Ascent", "Attack", "AutoAttack", "CarliniWagner", "Sight", "Square", "Threat",
    "attack", "normal", "suite", "uniform",
]  # fmt: skip
