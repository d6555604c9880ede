"""The judgement of given predictions: files of each form, figures by hand, the page; and predictions of weak models."""

from __future__ import annotations

import json
from pathlib import Path

import feature_predictions
import judging
import numpy as np
import pytest
import torch
from planted_noise import flipped, logits, truth

ROOT = Path(__file__).parents[2]
TRUE = truth(400)
GIVEN = flipped(TRUE, 0.2)


def test_files_of_each_form_are_read(tmp_path: Path) -> None:
    one = logits(TRUE, 5.0).log_softmax(1).half().numpy()
    noisy, wrong = GIVEN.numpy().astype(np.uint8), (GIVEN != TRUE).numpy()
    np.savez(tmp_path / "plain.npz", log_probs=one, noisy=noisy, true=TRUE.numpy())
    np.savez(tmp_path / "sets.npz", log_probs=np.stack([one, one]), noisy=noisy, wrong=wrong)
    np.savez(tmp_path / "groups.npz", **{"a/log_probs": one, "a/noisy": noisy, "a/wrong": wrong})
    read = [found for name in ("plain", "sets", "groups") for found in judging.read(tmp_path / f"{name}.npz")]
    assert [(found.name, len(found.sets)) for found in read] == [("plain", 1), ("sets", 2), ("a", 1)]
    for found in read:
        assert torch.equal(found.labels, GIVEN)
        assert torch.equal(found.wrong, GIVEN != TRUE)
        torch.testing.assert_close(found.sets.exp().sum(2), torch.ones(len(found.sets), 400, dtype=torch.float64))
    assert [row["sets"] for row in judging.measured(read[1])] == [1, 2]


def test_figures_are_those_by_hand() -> None:
    wrong = torch.tensor([True, True, False, False])
    assert judging.f1(torch.tensor([True, False, True, False]), wrong) == 0.5
    assert judging.f1(torch.zeros(4, dtype=torch.bool), torch.zeros(4, dtype=torch.bool)) == 0
    assert judging.best_f1(torch.tensor([3.0, 1.0, 2.0, 0.0]), wrong) == pytest.approx(0.8)


def test_the_page_has_the_measured_numbers_of_each_file() -> None:
    content = json.loads((ROOT / "results" / "judging.json").read_text())
    page = (ROOT / "docs" / "automatic.md").read_text()
    networks = [row for row in content["rows"] if judging.data_of(row) == judging.NETWORKS]
    assert len(networks) == 5
    assert "\n".join(judging.table(networks)) in page
    assert "\n".join(judging.summary(content["rows"], judging.data_of)) in page
    for count in (1, 2):
        own = [row for row in content["rows"] if row["sets"] == count]
        covered = sum(row["covered"] for row in own)
        width = sum(row["high"] - row["low"] for row in own) / len(own)
        assert f"{covered} of {len(own)} | {width:.3f} |" in page


@pytest.mark.parametrize("kind", [kind for kind in feature_predictions.NOISES if kind != "none"])
def test_noise_has_its_rate(kind: str) -> None:
    true = np.arange(2000) % 10
    x = torch.rand(2000, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    given = feature_predictions.NOISES[kind](true, x, 0.3, np.random.default_rng(5))
    assert given.min() >= 0
    assert given.max() < 10
    expected = 0.15 if kind == "asym" else 0.3  # half of the classes
    assert (given != true).mean() == pytest.approx(expected, abs=0.04)


def test_features_are_standard_and_predictions_know_the_classes() -> None:
    labels = torch.arange(300) % 10
    x = 0.1 * torch.rand(300, 1, 14, 14, generator=torch.Generator().manual_seed(0))
    for sample, label in enumerate(labels.tolist()):
        x[sample, 0, label : label + 4] += 0.8
    columns = feature_predictions.features(x, 0)
    assert columns.shape == (300, 1600)
    assert columns.mean(0).abs().max() < 1e-4
    seen = feature_predictions.predicted(columns, labels, 0, 120, 1e-5)
    assert (seen.argmax(1) == labels).double().mean() > 0.9
    torch.testing.assert_close(seen.exp().sum(1), torch.ones(300))
