"""The theorems of the paper as functions (Hu et al., 2023, sections 3 and 4), with their errata."""

from __future__ import annotations

from orat_paper.theory.calibration import (
    Condition,
    OratLoss,
    error_at_most,
    failing,
    hinge,
    is_calibrated,
    is_calibrated_convex,
    logistic,
    needed_conditions,
    stated_conditions,
)
from orat_paper.theory.calibration_function import (
    Counterexample,
    Hypotheses,
    all_functions,
    calibration_function,
    counterexample,
    linear_functions,
)
from orat_paper.theory.complexity import attack_complexity, linear_complexity, network_complexity, worst_margins
from orat_paper.theory.gap import Gap, Task, measured_gaps
from orat_paper.theory.generalization import Bound, Setting, bound, linear_bound, network_bound, samples_needed
from orat_paper.theory.ranked_range import (
    Gradients,
    Optimum,
    Slopes,
    best_over_width,
    difference,
    gradients,
    objective,
    optimum,
    slopes,
    wrong_at_most,
)

__all__ = [
    "Bound", "Condition", "Counterexample", "Gap", "Gradients", "Hypotheses", "Optimum", "OratLoss", "Setting",
    "Slopes", "Task", "all_functions", "attack_complexity", "best_over_width", "bound", "calibration_function",
    "counterexample", "difference", "error_at_most", "failing", "gradients", "hinge", "is_calibrated",
    "is_calibrated_convex", "linear_bound", "linear_complexity", "linear_functions", "logistic", "measured_gaps",
    "needed_conditions", "network_bound", "network_complexity", "objective", "optimum", "samples_needed", "slopes",
    "stated_conditions", "worst_margins", "wrong_at_most",
]  # fmt: skip
