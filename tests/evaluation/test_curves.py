"""Curves of a model whose accuracy under attack is known in closed form, and of one that defends itself far out."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from threshold import points, threshold_model
from torch import Tensor, nn

from orat.attacks import PGD, Threat, suite
from orat.core.errors import InputError
from orat.core.options import in_pixels
from orat.data.source import Dataset
from orat.evaluation import interval
from orat.evaluation.curves import STEPS, attack_of, check_plotting, curve, default_places, rises, write_curve


class RightFarOut(nn.Module):
    """Wrong between 0.06 and 0.18 from the middle, right elsewhere, with a gradient that always leads outward."""

    def forward(self, x: Tensor) -> Tensor:
        distance = (x[:, 0] - 0.5).abs()
        wrong = (distance > 0.06) & (distance < 0.18)
        score = wrong.float() + distance - distance.detach()
        return torch.stack([0.5 - score, score - 0.5], 1)


def middle(n: int = 100) -> Dataset:
    return Dataset(torch.full((n, 2), 0.5), torch.zeros(n, dtype=torch.long), ("here", "elsewhere"))


def test_the_eps_curve_of_a_threshold_is_the_share_of_right_points_farther_than_eps() -> None:
    data = points(400)
    drawn = curve(threshold_model(), data, "eps", 0.1)
    natural = (data.images[:, 0] > 0.5).long() == data.labels
    assert [point["eps"] for point in drawn["points"]] == pytest.approx(
        [0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4]
    )
    for point in drawn["points"]:
        standing = natural & ((data.images[:, 0] - 0.5).abs() > point["eps"])
        assert point["accuracy"] == pytest.approx(standing.double().mean().item())
        assert (point["low"], point["high"]) == interval(int(standing.sum()), len(data))
    assert drawn["examples"] == 400
    assert drawn["attack"] == "pgd20-madry"
    assert drawn["warnings"] == []


def test_more_steps_never_help_the_model_and_two_reach_the_closed_form() -> None:
    data = points(400)
    drawn = curve(threshold_model(), data, "steps", 0.1)
    accuracy = [point["accuracy"] for point in drawn["points"]]
    standing = ((data.images[:, 0] > 0.5).long() == data.labels) & ((data.images[:, 0] - 0.5).abs() > 0.1)
    assert [point["steps"] for point in drawn["points"]] == list(STEPS)
    assert accuracy == sorted(accuracy, reverse=True)
    assert accuracy[1:] == [pytest.approx(standing.double().mean().item())] * 7
    assert drawn["attack"] == "pgd"
    assert drawn["warnings"] == []


def test_one_step_is_fgsm_and_twenty_are_madrys_pgd20() -> None:
    named = suite(["fgsm", "pgd20-madry"])
    assert attack_of("steps", 1) == replace(named["fgsm"], inward=False)  # the textbook's step in l2, as all of a curve
    assert attack_of("steps", 20) == named["pgd20-madry"]
    assert attack_of("eps", 0.3) == named["pgd20-madry"]
    assert attack_of("steps", 2) == PGD(2, step=1.0, inward=False)


def test_radii_stop_at_the_range_of_a_pixel_but_not_in_l2() -> None:
    assert default_places("eps", Threat(0.5)) == [0, 0.125, 0.25, 0.375, 0.5, 0.75, 1]
    assert default_places("eps", Threat(0.5, "l2"))[-3:] == [1, 1.5, 2]


def test_values_of_ones_own_come_in_order_and_once() -> None:
    drawn = curve(threshold_model(), points(50), "steps", 0.1, values=[5, 1, 5.0])
    assert [point["steps"] for point in drawn["points"]] == [1, 5]


def test_a_model_that_is_right_again_far_out_draws_a_warning() -> None:
    drawn = curve(RightFarOut(), middle(), "eps", 0.1)
    assert [point["accuracy"] for point in drawn["points"]] == [1, 1, 1, 0, 0, 0, 1, 1, 1]
    assert drawn["warnings"] == [
        "accuracy rises from 0.0% at eps 0.075 to 100.0% at eps 0.2: gradients are masked or the attack is stuck, "
        "so add attacks without gradients (square)"
    ]


def test_a_slow_rise_is_held_against_the_lowest_point_and_chance_is_forgiven() -> None:
    accuracies = [0.9, 0.50, 0.52, 0.54, 0.56, 0.58, 0.6]
    slow = [{"steps": steps, "accuracy": accuracy} for steps, accuracy in enumerate(accuracies, 1)]
    (warning,) = rises(slow, "steps", Threat(0.1), 1000)
    assert warning.startswith("accuracy rises from 50.0% at 2 steps to 56.0% at 5 steps:")
    assert rises(slow, "steps", Threat(0.1), 100) == []


def test_only_quotients_without_a_short_name_are_in_pixels() -> None:
    assert in_pixels(8 / 255, "linf")
    assert in_pixels(0.0313725, "linf")
    assert not any(
        in_pixels(eps, norm) for eps, norm in [(0.2, "linf"), (0.3, "linf"), (0.031, "linf"), (8 / 255, "l2")]
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"against": "epss", "threat": 0.1}, "did you mean 'eps'"),
        ({"against": "eps", "threat": 8.0}, "8/255"),
        ({"against": "eps", "threat": 0.0}, "more than 0"),
        ({"against": "eps", "threat": 0.1, "values": []}, "one value or more"),
        ({"against": "eps", "threat": 0.1, "values": [0.1, 2]}, "2/255"),
        ({"against": "steps", "threat": 0.1, "values": [0]}, "whole numbers of 1 or more"),
        ({"against": "steps", "threat": 0.1, "values": [2.5]}, "whole numbers of 1 or more"),
    ],
)
def test_what_makes_no_curve_is_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        curve(threshold_model(), points(10), **arguments)


@pytest.mark.parametrize("against", ["eps", "steps"])
def test_a_curve_is_written_as_json_csv_and_png(against: str, tmp_path: Path) -> None:
    drawn = curve(threshold_model(), points(50), against, 8 / 255)
    folder = tmp_path / "new" / "folder"
    files = write_curve(drawn, folder)
    assert [file.name for file in files] == [f"curve-{against}.{suffix}" for suffix in ("json", "csv", "png")]
    assert sorted(files) == sorted(folder.iterdir())
    assert json.loads(files[0].read_text()) == drawn
    with files[1].open() as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    assert rows == drawn["points"]
    with Image.open(files[2]) as image:
        image.load()
        assert image.size == (1050, 660)


@pytest.mark.parametrize(("against", "value"), [("eps", 0.0), ("eps", 0.2), ("steps", 7)])
def test_a_curve_of_one_point_is_drawn(against: str, value: float, tmp_path: Path) -> None:
    drawn = curve(threshold_model(), points(50), against, Threat(0.1, "l2"), [value])
    assert write_curve(drawn, tmp_path)[2].is_file()


def test_drawing_leaves_pyplot_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    write_curve(curve(threshold_model(), points(10), "eps", 0.1), tmp_path)
    assert "matplotlib.pyplot" not in sys.modules


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.backends.backend_agg", raising=False)
    with pytest.raises(InputError, match=r"a curve needs matplotlib: pip install 'orat\[plots\]'"):
        check_plotting()
    with pytest.raises(InputError, match="plots"):
        write_curve({}, tmp_path)
    assert not list(tmp_path.iterdir())
