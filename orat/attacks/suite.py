"""Attacks by name: the paper's, their textbook forms, and the parts of AutoAttack."""

from __future__ import annotations

import re
from collections.abc import Iterable

from orat.attacks.apgd import APGD
from orat.attacks.autoattack import STANDARD, AutoAttack
from orat.attacks.base import Attack
from orat.attacks.carlini_wagner import CarliniWagner
from orat.attacks.own import as_attack
from orat.attacks.pgd import PAPER, PGD
from orat.attacks.reference import AutoAttackReference
from orat.core.errors import InputError, unknown
from orat.core.losses import margin
from orat.core.registry import names_code, resolve

ATTACKS: dict[str, Attack] = {
    "fgsm": PAPER["fgsm"],
    "pgd10": PGD(10),
    "pgd20": PAPER["pgd20"],
    "cw": PAPER["cw"],
    # Goodfellow et al. (2015): no random start. Madry et al. (2018): steps of 2.5 radii in all. CW: plain margin.
    # In l2, their steps do not see the bounds.
    "fgsm-plain": PGD(1, step=1.0, start="none", inward=False),
    "pgd20-madry": PGD(20, step=2.5 / 20, inward=False),
    "cw-margin": PGD(30, step=2.5 / 30, loss=margin, inward=False),
    # Carlini & Wagner (2017), the nearest adversarial point in l2.
    "cw-l2": CarliniWagner(),
    # AutoAttack and its parts; APGD-DLR belongs to its longer version.
    **STANDARD,
    "apgd-dlr": APGD(loss="dlr"),
    "autoattack": AutoAttack(),
    "autoattack-reference": AutoAttackReference(),
}
ANY_PGD = re.compile(r"pgd([1-9]\d{0,4})(?:x([1-9]\d{0,2}))?")  # steps, restarts


def suite(names: Iterable[str] = PAPER) -> dict[str, Attack]:
    """The attacks with these names; by default the paper's."""
    return {name: attack(name) for name in names}


def attack(name: str) -> Attack:
    """The attack with this name or at this import path; pgd50x10 is PGD with 50 steps and 10 restarts."""
    check_names([name])
    if names_code(name):
        return as_attack(resolve(name), name)
    if match := ANY_PGD.fullmatch(name):
        return PGD(int(match[1]), restarts=int(match[2] or 1))
    return ATTACKS[name]


def check_names(names: Iterable[str]) -> None:
    """Refuses unknown names."""
    for name in names:
        if name not in ATTACKS and not ANY_PGD.fullmatch(name) and not names_code(name):
            error = unknown("attack", name, ATTACKS)
            raise InputError(f"{error}; also pgd50x10 (PGD: steps, restarts), and yours: module:name or file.py:name")
