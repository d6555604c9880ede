"""The attacks by name: as the paper evaluates them, their textbook forms, and those of AutoAttack."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from orat.attacks.apgd import APGD
from orat.attacks.autoattack import STANDARD, AutoAttack
from orat.attacks.carlini_wagner import CarliniWagner
from orat.attacks.pgd import PGD, Attack
from orat.attacks.reference import AutoAttackReference
from orat.core.errors import unknown
from orat.core.losses import cw, margin

PAPER = ("fgsm", "pgd20", "cw")

# name: eps, norm -> attack. Paper: a random start everywhere, steps of eps/4 (FGSM: eps), CW with confidence 50.
ATTACKS: dict[str, Callable[[float, str], Attack]] = {
    "fgsm": lambda eps, norm: PGD(eps, 1, eps, norm),
    "pgd10": lambda eps, norm: PGD(eps, 10, eps / 4, norm),
    "pgd20": lambda eps, norm: PGD(eps, 20, eps / 4, norm),
    "cw": lambda eps, norm: PGD(eps, 30, eps / 4, norm, loss=cw),
    # Goodfellow et al. (2015): no random start. Madry et al.: steps of 2.5 eps / steps. Carlini-Wagner: plain margin.
    "fgsm-plain": lambda eps, norm: PGD(eps, 1, eps, norm, start="none"),
    "pgd20-madry": lambda eps, norm: PGD(eps, 20, 2.5 * eps / 20, norm),
    "cw-margin": lambda eps, norm: PGD(eps, 30, 2.5 * eps / 30, norm, loss=margin),
    # Carlini & Wagner (2017), the nearest adversarial point in l2.
    "cw-l2": lambda eps, norm: CarliniWagner(eps, norm),
    # AutoAttack and its parts; APGD-DLR is in its longer version.
    **STANDARD,
    "apgd-dlr": lambda eps, norm: APGD(eps, norm, "dlr", restarts=5 if norm == "l1" else 1),
    "autoattack": AutoAttack,
    "autoattack-reference": AutoAttackReference,
}
ANY_PGD = re.compile(r"pgd([1-9]\d{0,4})(?:x([1-9]\d{0,2}))?")  # steps, restarts


def suite(eps: float, norm: str = "linf", names: Iterable[str] = PAPER) -> dict[str, Attack]:
    """The named attacks at one radius; the paper's three by default. pgd50x10 is PGD with 50 steps and 10 restarts."""
    return {name: attack(name, eps, norm) for name in names}


def attack(name: str, eps: float, norm: str) -> Attack:
    """One attack by its name."""
    check_names([name])
    if match := ANY_PGD.fullmatch(name):
        return PGD(eps, int(match[1]), eps / 4, norm, restarts=int(match[2] or 1))
    return ATTACKS[name](eps, norm)


def check_names(names: Iterable[str]) -> None:
    """Refuses a name that no attack has."""
    for name in names:
        if name not in ATTACKS and not ANY_PGD.fullmatch(name):
            raise unknown("attack", name, [*ATTACKS, "pgd50x10 (PGD: steps, restarts)"])
