"""The study of out-of-distribution images: its data sets, and its counts of flags."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import out_of_distribution
import pytest
import torch
from quick_runs import QUICK

from orat.core.errors import InputError
from orat.data.catalog import load
from orat.methods import ORAT

SHARE, FLIPS, N = 0.1, 0.2, 300


@pytest.fixture(scope="module")
def colored(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data set of 16x16 images with one color each."""
    colors = np.random.default_rng(1).integers(0, 256, (50, 3, 1, 1), dtype=np.uint8)
    file = tmp_path_factory.mktemp("other") / "colored.npz"
    np.savez(file, x_train=np.broadcast_to(colors, (50, 3, 16, 16)), y_train=np.zeros(50, dtype=np.int64))
    return str(file)


@pytest.fixture
def recipe(tiny: str, colored: str) -> Callable[..., Any]:
    """Recipes of foreign images among the tiny ones."""
    return lambda kind, flips=FLIPS: out_of_distribution.Recipe(tiny, None, None, colored, kind, SHARE, flips, 0)


@pytest.mark.parametrize("kind", ["noise", "inverted", "other"])
def test_the_file_differs_from_the_data_where_it_says(
    tiny: str, recipe: Callable[..., Any], kind: str, tmp_path: Path
) -> None:
    file = out_of_distribution.made(recipe(kind), tmp_path)
    before, after, (replaced, flipped) = load(tiny), load(str(file)), out_of_distribution.masks(file)
    assert replaced.sum() == SHARE * N
    assert torch.equal((after.train.images != before.train.images).flatten(1).any(1), replaced)
    assert torch.equal((after.train.labels != before.train.labels) & ~replaced, flipped)
    assert flipped.sum() == pytest.approx(FLIPS * (1 - SHARE) * N, abs=10)
    assert after.test is not None
    assert before.test is not None
    assert after.test.fingerprint() == before.test.fingerprint()


def test_inverted_images_are_the_negatives_with_their_true_labels(recipe: Any, tiny: str) -> None:
    before = load(tiny).train
    after = out_of_distribution.mixed(before, recipe("inverted"))
    own = after["foreign"]
    assert torch.equal(after["x_train"][own], 255 - before.images[own])
    assert torch.equal(after["y_train"][own], before.labels[own])


def test_other_images_come_gray_and_in_the_shape_of_the_data(recipe: Any, tiny: str, colored: str) -> None:
    after = out_of_distribution.mixed(load(tiny).train, recipe("other"))
    images = after["x_train"][after["foreign"]]
    assert images.shape[1:] == (1, 12, 12)
    red, green, blue = load(colored).train.images[:, :, 0, 0].double().unbind(1)
    grays = {round(gray) for gray in (0.299 * red + 0.587 * green + 0.114 * blue).tolist()}
    assert all(len(image.unique()) == 1 for image in images)
    assert set(images[:, 0, 0, 0].tolist()) <= grays


def test_the_same_samples_are_replaced_whatever_the_kind(recipe: Any, tiny: str) -> None:
    train = load(tiny).train
    mixtures = [
        out_of_distribution.mixed(train, recipe(*which)) for which in (("noise", 0.0), ("other", 0.0), ("noise", FLIPS))
    ]
    assert all(torch.equal(mixture["foreign"], mixtures[0]["foreign"]) for mixture in mixtures)
    assert torch.equal(mixtures[0]["y_train"], mixtures[1]["y_train"])
    assert torch.equal(mixtures[0]["x_train"], out_of_distribution.mixed(train, recipe("noise", 0.0))["x_train"])


def test_those_replaced_are_not_those_held_out(recipe: Any, tiny: str) -> None:
    """One seed draws both, with different generators."""
    own = out_of_distribution.mixed(load(tiny).train, recipe("noise"))["foreign"]
    held_out = torch.randperm(N, generator=torch.Generator().manual_seed(0))[:30]
    assert int(own[held_out].sum()) < 10


def test_too_few_other_images_are_refused(recipe: Any, tiny: str) -> None:
    with pytest.raises(InputError, match="give 150 images or more"):
        out_of_distribution.mixed(load(tiny).train, replace(recipe("other"), share=0.5))


def test_the_oracle_cuts_what_is_foreign_or_flipped_and_known_rows_stay(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.json"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(out_of_distribution.ARMS, "automatic", ORAT(scout_epochs=1))
    command = [
        "out_of_distribution.py",
        "--data",
        tiny,
        "--kinds",
        "noise",
        "--flips",
        str(FLIPS),
        "--device",
        "cpu",
        "--out",
        str(out),
    ]
    command += ["--fields", json.dumps({**QUICK, "epochs": 1, "milestones": []}), "--arms"]
    for arms in ("at", "at,automatic,oracle"):
        monkeypatch.setattr(sys, "argv", [*command, arms])
        out_of_distribution.main()
    rows = json.loads(out.read_text())["rows"]
    assert [row["arm"] for row in rows] == ["at", "automatic", "oracle"]
    assert len({(row["foreign"], row["flipped"], row["others"]) for row in rows}) == 1
    oracle = rows[-1]
    assert oracle["foreign"] + oracle["flipped"] + oracle["others"] == 0.9 * N
    assert [oracle[f"{name}_cut"] for name in ("foreign", "flipped")] == [oracle["foreign"], oracle["flipped"]]
    assert oracle["others_cut"] == 0
    assert 0 <= rows[1]["auc_foreign"] <= 1
    table = capsys.readouterr().out.splitlines()[-4:]
    assert len({len(line) for line in table}) == 1
