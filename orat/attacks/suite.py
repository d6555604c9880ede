"""The attacks by name: as the paper evaluates them, and their textbook forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from orat.attacks.pgd import PGD
from orat.errors import unknown
from orat.losses import cw, margin

PAPER = ("fgsm", "pgd20", "cw")

# name: eps, norm -> attack. Paper: a random start everywhere, steps of eps/4 (FGSM: eps), CW with confidence 50.
ATTACKS: dict[str, Callable[[float, str], PGD]] = {
    "fgsm": lambda eps, norm: PGD(eps, 1, eps, norm),
    "pgd10": lambda eps, norm: PGD(eps, 10, eps / 4, norm),
    "pgd20": lambda eps, norm: PGD(eps, 20, eps / 4, norm),
    "cw": lambda eps, norm: PGD(eps, 30, eps / 4, norm, loss=cw),
    # Goodfellow et al. (2015): no random start. Madry et al.: steps of 2.5 eps / steps. Carlini-Wagner: plain margin.
    "fgsm-plain": lambda eps, norm: PGD(eps, 1, eps, norm, start="none"),
    "pgd20-madry": lambda eps, norm: PGD(eps, 20, 2.5 * eps / 20, norm),
    "cw-margin": lambda eps, norm: PGD(eps, 30, 2.5 * eps / 30, norm, loss=margin),
}


def suite(eps: float, norm: str = "linf", names: Iterable[str] = PAPER) -> dict[str, PGD]:
    """The named attacks at one radius; the paper's three by default."""
    for name in (names := tuple(names)):
        if name not in ATTACKS:
            raise unknown("attack", name, ATTACKS)
    return {name: ATTACKS[name](eps, norm) for name in names}
