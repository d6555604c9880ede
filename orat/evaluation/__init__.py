"""Evaluation: accuracy under attack with intervals, warnings and resumable reports."""

from orat.evaluation.accuracy import correct, evaluate, logits_of, predict
from orat.evaluation.checks import check_gradients, check_model, check_results
from orat.evaluation.curves import curve, write_curve
from orat.evaluation.report import Plan, examine, interval, per_class, report_folder, worst_case

__all__ = [
    "Plan", "check_gradients", "check_model", "check_results", "correct", "curve", "evaluate", "examine", "interval",
    "logits_of", "per_class", "predict", "report_folder", "worst_case", "write_curve",
]  # fmt: skip
