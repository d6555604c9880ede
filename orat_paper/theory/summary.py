"""The numbers of `orat paper theory`: measured gaps beside Theorem 3, and cases of Theorem 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log
from typing import Any

from orat_paper.theory.calibration import (
    MarginLoss,
    OratLoss,
    failing,
    hinge,
    logistic,
    needed_conditions,
    stated_conditions,
)
from orat_paper.theory.calibration_function import all_functions, counterexample
from orat_paper.theory.gap import DELTA, Gap, Task

SIZES = (50, 100, 200, 400, 800, 1600, 3200)
LOSSES: dict[str, MarginLoss] = {"hinge": hinge, "logistic": logistic}


@dataclass(frozen=True)
class Case:
    """The numbers in the conditions of Theorem 2."""

    loss: str
    lower: float  # lambda
    width: float  # lambda-hat
    nu: float
    risk: float  # the least risk of the plain loss


CASES = (
    Case("hinge", 0.0, 1.0, nu=0.8, risk=0.2),
    Case("hinge", 0.0, 2.0, nu=0.8, risk=0.2),  # erratum 5
    Case("hinge", 0.4, 0.3, nu=0.8, risk=0.2),
    Case("hinge", 0.2, 0.9, nu=0.5, risk=0.6),
    Case("logistic", 0.1, 0.5, nu=0.8, risk=0.2),
    Case("logistic", log(2), 1.0, nu=0.75, risk=log(2)),  # erratum 4
    Case("logistic", 0.2, 1.5, nu=0.8, risk=0.2),
)


def summary(task: Task, gaps: Sequence[Gap]) -> dict[str, Any]:
    """All numbers, as plain JSON."""
    return {
        "task": asdict(task) | {"draws": len(gaps[0].trained), "delta": DELTA, "largest_loss": gaps[0].bound.loss_max},
        "gaps": [gap_row(gap) for gap in gaps],
        "calibration": [calibration_row(case) for case in CASES],
    }


def gap_row(gap: Gap) -> dict[str, Any]:
    """The bound, and the largest gap of all draws for the worst function of the class and for the trained function."""
    return {
        "n": gap.n,
        "bound": gap.bound.value,
        "worst": max(gap.largest),
        "trained": max(gap.trained),
        "vacuous": gap.bound.is_vacuous,
    }


def calibration_row(case: Case) -> dict[str, Any]:
    """Whether the printed Theorem 2 applies, whether its claim holds, and the first false condition.

    Conditions of the proof come after the conditions of the theorem.
    """
    phi = OratLoss(LOSSES[case.loss], case.lower, case.width)
    stated, needed = (conditions(phi, case.nu, case.risk) for conditions in (stated_conditions, needed_conditions))
    fails = next((condition for condition in (*stated, *needed) if not condition.holds), None)
    found = counterexample(phi, all_functions())
    return {
        "loss": case.loss,
        "lambda": case.lower,
        "lambda_hat": case.width,
        "nu": case.nu,
        "risk": case.risk,
        "stated": not failing(stated),
        "calibrated": found is None,
        "fails": fails and fails.name,
        "numbers": fails and fails.numbers,
        "counterexample": found and asdict(found),
    }
