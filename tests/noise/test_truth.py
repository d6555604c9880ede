"""Precision, recall, lost classes and the area under the ROC curve, against counts by hand."""

from __future__ import annotations

import pytest
import torch

from orat.noise.truth import area, found_corrections, found_removed, lost_classes


def test_removals_are_counted_and_compared_with_the_wrong_labels() -> None:
    removed, wrong = (torch.tensor(mask, dtype=torch.bool) for mask in ([1, 1, 1, 0, 0], [1, 0, 1, 1, 1]))
    assert found_removed(removed, wrong) == {
        "cut": 3, "of": 5, "flipped": 4, "flipped_and_cut": 2, "precision": 2 / 3, "recall": 0.5,
    }  # fmt: skip
    assert found_removed(removed, None) == {"cut": 3, "of": 5}
    nothing = found_removed(~(removed | True), ~(wrong | True))
    assert (nothing["precision"], nothing["recall"]) == (None, None)


def test_corrections_are_counted_and_compared_with_the_truth() -> None:
    given, truth = torch.tensor([0, 1, 2, 0]), torch.tensor([0, 1, 0, 1])
    assert found_corrections(torch.tensor([0, 2, 0, 0]), given, truth) == {
        "changed": 2, "of": 4, "rightly": 1, "harmed": 1, "flipped": 2, "precision": 0.5, "recall": 0.5,
    }  # fmt: skip
    still_wrong_and_repaired = found_corrections(torch.tensor([0, 1, 1, 1]), given, truth)
    assert [still_wrong_and_repaired[key] for key in ("changed", "rightly", "harmed")] == [2, 1, 0]
    assert found_corrections(given, given, truth)["precision"] is None
    assert found_corrections(given, given, None) == {"changed": 0, "of": 4}


def test_classes_of_which_nothing_is_left_are_found() -> None:
    labels = torch.tensor([0] * 100 + [1] * 100 + [2] * 100 + [4])
    removed = torch.zeros(301, dtype=torch.bool)
    assert lost_classes(removed, labels) == []
    removed[2:100], removed[103:200], removed[200:300] = True, True, True  # 2 samples of class 0 are left, 3 of 1
    assert lost_classes(removed, labels) == [0, 2]


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    score, wrong = torch.tensor([3.0, 1.0, 2.0, 1.0, 0.0]), torch.tensor([True, True, False, False, False])
    pairs = [(a > b) + (a == b) / 2 for a in (3.0, 1.0) for b in (2.0, 1.0, 0.0)]
    assert area(score, wrong) == pytest.approx(sum(pairs) / 6)
    assert area(score, torch.zeros(5, dtype=torch.bool)) is None
