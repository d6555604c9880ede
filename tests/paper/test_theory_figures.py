"""The measured gap on a toy set lies below the bound, and both are drawn."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from orat.core.console import Display
from orat.core.errors import InputError
from orat.core.plots import write_figure
from orat.methods.ranked_range import ranked_range
from orat_paper.theory import Gap, Task, logistic, measured_gaps, worst_margins
from orat_paper.theory.figures import bounds_figure, class_bound, gap_figure
from orat_paper.theory.gap import distribution, draw, gap_bound, ranks, risk, train

TASK = Task()


@pytest.fixture(scope="module")
def gaps() -> list[Gap]:
    return measured_gaps(TASK, (50, 400), draws=4)


def test_a_tenth_of_the_distribution_has_the_wrong_label() -> None:
    clean, noisy = distribution(Task(outliers=0.0)), distribution(TASK)
    assert (clean.labels != noisy.labels).double().mean().item() == pytest.approx(0.1)
    assert set(noisy.labels.tolist()) == {-1.0, 1.0}
    assert torch.equal(clean.points, noisy.points)


def test_the_risk_of_a_linear_function_is_the_ranked_range_under_the_attack_of_every_corner() -> None:
    source, weights = distribution(TASK), torch.tensor([3.0, -2.0], dtype=torch.float64)
    corners = TASK.eps * torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    margins = source.labels[:, None] * ((source.points[:, None] + corners) @ weights)
    expected = ranked_range(logistic(margins).amax(1), 900, 100)
    assert risk(weights, source, TASK).item() == pytest.approx(expected.item())


def test_training_lowers_the_risk_and_stays_in_the_class() -> None:
    sample = draw(distribution(TASK), 200, torch.Generator().manual_seed(0))
    found = train(sample, TASK)
    assert risk(found, sample, TASK) < 0.8 * risk(torch.zeros(2, dtype=torch.float64), sample, TASK)
    small = Task(radius=2.0, p=1.0)
    assert train(sample, small).norm(1).item() <= 2 + 1e-9


def test_every_measured_gap_lies_below_the_bound_and_the_worst_shrinks(gaps: list[Gap]) -> None:
    for gap in gaps:
        assert len(gap.trained) == len(gap.largest) == 4
        assert max(*gap.trained, *gap.largest) < gap.bound.value
        assert min(gap.largest) > 0
    assert gaps[1].bound.value < gaps[0].bound.value / 2
    assert max(gaps[1].largest) < max(gaps[0].largest)


def test_the_bound_is_the_least_of_all_draws(gaps: list[Gap]) -> None:
    source, generator = distribution(TASK), torch.Generator().manual_seed(TASK.seed + 1)
    for gap in gaps:
        bounds = [gap_bound(source, draw(source, gap.n, generator), TASK).value for _ in range(4)]
        assert gap.bound.value == pytest.approx(min(bounds))
        assert min(bounds) < max(bounds)


def test_every_draw_is_a_step_of_the_bar() -> None:
    seen: list[tuple[Any, ...]] = []

    class Watched(Display):
        def track(self, items: Iterable[Any], label: str, total: int, start: int = 0) -> Iterator[Any]:
            for item in items:
                seen.append((label, total, len(item.labels)))
                yield item

    measured_gaps(TASK, (50, 100), draws=2, display=Watched())
    assert seen == [("draws of training points", 4, n) for n in (50, 50, 100, 100)]


def test_nonsense_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orat_paper.theory.gap.train", None)
    with pytest.raises(InputError, match="draws = 0: give 1 or more"):
        measured_gaps(TASK, (50,), draws=0)
    with pytest.raises(InputError, match="n = 55"):
        measured_gaps(TASK, (50, 55), draws=1)


def test_no_loss_of_the_class_is_above_the_one_that_the_bound_takes(gaps: list[Gap]) -> None:
    source = distribution(TASK)
    angles = torch.linspace(0, 6.2832, 100, dtype=torch.float64)
    for weights in TASK.radius * torch.stack([angles.cos(), angles.sin()], 1):
        losses = logistic(worst_margins(weights, source.points, source.labels, TASK.eps))
        assert losses.max().item() <= gaps[0].bound.loss_max


def test_shares_that_are_no_whole_numbers_are_refused() -> None:
    assert ranks(50, TASK) == (45, 5)
    with pytest.raises(InputError, match="n = 55"):
        ranks(55, TASK)
    with pytest.raises(InputError, match="nu = 0.9, mu = 0.2"):
        Task(nu=0.9, mu=0.2)


def test_the_three_panels_are_labeled_and_their_lines_are_the_bounds() -> None:
    figure = bounds_figure()
    assert [panel.get_xlabel().split()[0] for panel in figure.axes] == ["training", "share", "ε"]
    assert figure.axes[0].get_ylabel() == "bound of the gap (losses in 0..1)"
    for panel in figure.axes:
        assert len(panel.get_lines()) == 5
    first = figure.axes[2].get_lines()[0]
    assert first.get_ydata()[0] == pytest.approx(class_bound(1.0, 60_000, 0.8, 0.0).value)


def test_the_gap_is_drawn_below_its_bound(gaps: list[Gap]) -> None:
    (panel,) = gap_figure(gaps).axes
    bound, worst, trained = (line.get_ydata() for line in panel.get_lines()[:3])
    assert (bound > worst).all()
    assert (worst >= trained).all()
    assert panel.get_xlabel() == "training points n"


def test_a_gap_below_zero_has_no_place_on_a_logarithmic_axis(gaps: list[Gap]) -> None:
    negative = Gap(gaps[0].n, (-0.1,), (0.2,), gaps[0].bound)
    (panel,) = gap_figure([negative, Gap(400, (0.1,), (0.2,), gaps[1].bound)]).axes
    shown = panel.get_lines()[2].get_ydata().tolist()
    assert isnan(shown[0])
    assert shown[1] == 0.1
    assert panel.get_ylabel() == "gap of the ORAT risk, one draw"


def test_figures_are_written_as_pictures(gaps: list[Gap], tmp_path: Path) -> None:
    for name, make in (("bounds.png", bounds_figure), ("gap.png", lambda: gap_figure(gaps))):
        write_figure(make, tmp_path / "new" / name)
        with Image.open(tmp_path / "new" / name) as image:
            assert image.size[0] > 1000


def test_without_matplotlib_one_line_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(InputError, match="the picture bounds.png needs matplotlib"):
        write_figure(bounds_figure, tmp_path / "bounds.png")
