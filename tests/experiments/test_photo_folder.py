"""The folder of photos with wrong labels: the planted mistakes, and how the list is compared with them."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import photo_folder
import pytest
import torch
from PIL import Image


def test_the_list_is_compared_with_the_wrong_labels() -> None:
    wrong = torch.tensor([True, True, False, True, False, False])
    found = photo_folder.quality(torch.tensor([True, False, True, False, False, False]), wrong)
    assert (found["found"], found["missed"], found["flagged"]) == (1, 2, 2)
    assert found["f1"] == pytest.approx(2 / 5)
    assert (found["best_f1"], found["flagged_at_best"]) == (pytest.approx(6 / 7, abs=1e-4), 4)


def test_the_folder_holds_each_image_in_the_folder_of_its_given_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (60, 3, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", x_train=images, y_train=np.arange(60) % 3)
    folder = tmp_path / "photos"
    words = ["make", str(folder), "--data", str(tmp_path / "own.npz"), "--classes", "3", "--per-class", "10"]
    monkeypatch.setattr(sys, "argv", ["photo_folder.py", *words])
    photo_folder.main()
    with photo_folder.truth_of(folder).open(newline="") as file:
        truth = {row["path"]: row["true_label"] for row in csv.DictReader(file)}
    files = [file.relative_to(folder) for file in folder.rglob("*.png")]
    assert {str(file) for file in files} == truth.keys()
    assert sum(file.parts[0] != truth[str(file)] for file in files) == 6  # 20 % of 30
    with Image.open(folder / files[0]) as image:
        assert image.size == (96, 96)
