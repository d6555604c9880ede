"""The figures of `orat paper reproduce`, drawn from real runs on tiny data, against the files of the runs."""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from orat.cli.main import main
from orat.core.errors import InputError
from orat.data.catalog import load
from orat.evaluation.curves import BLUE
from orat.training.load import load_model
from orat_paper.reproduce import artifacts, every_epoch, settings
from orat_paper.reproduce.artifacts import Artifact
from orat_paper.reproduce.cells import Cell
from orat_paper.reproduce.figures import DRAWN, TOY, draw, pictures
from orat_paper.reproduce.toy_figures import Field, Learned, draw_sides

ROOT = Path(__file__).parents[2]
ATTACKS = {"natural": 99.0, "fgsm": 98.0, "pgd20": 97.0, "cw": 96.0}
PLACE: dict[str, Any] = {"data": "mnist", "eps": "0.1", "noise": "symmetric", "rate": 20, "theirs": ATTACKS}
AT = Cell(**PLACE, method="AT")
RANKS = ((300, 60), (300, 30), (290, 60))
ORAT, OTHER, FEWER = (Cell(**PLACE, method="ORAT", k=k, m=m) for k, m in RANKS)
UNFINISHED = (
    Cell(**PLACE | {"eps": "0.2"}, method="AT"),
    Cell(**PLACE | {"data": "cifar10", "eps": "2/255"}, method="ORAT", k=300, m=60),
)
CELLS = {
    "table1": (AT, ORAT), "stability": (AT, ORAT), "accuracy-curves": (AT, ORAT), "loss-curves": (ORAT,),
    "effect-of-m": (ORAT, OTHER), "effect-of-k": (ORAT, FEWER),
}  # fmt: skip
SHORT: dict[str, Any] = {"epochs": 3, "milestones": (2,), "batch_size": 64, "attack_steps": 2, "lr": 0.1}
TOYS: dict[str, Any] = {"epochs": 10, "attack_steps": 2, "lr": 0.2}


def picture(content: dict[str, Any], out: Path) -> Any:
    """The first picture of a table or figure."""
    return pictures(content, out)[content["name"]]()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of a few cells, which share their runs."""
    monkeypatch.setitem(settings.MODELS, "mnist", "mlp-16")
    monkeypatch.setitem(settings.FIELDS, "ours", SHORT)
    for name, cells in CELLS.items():
        one = Artifact(name, f"a small {name}", (*cells, *UNFINISHED), every_epoch=True, curves=True)
        monkeypatch.setitem(artifacts.artifacts(), name, one)


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy figure after a few steps: one seed of all cells, and a second seed of one cell."""
    out = tmp_path_factory.mktemp("toys")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(settings.FIELDS, "ours", TOYS)
        for flags in (["--seeds", "0"], ["--seeds", "1", "--only", "data=toy-balanced,method=AT"]):
            assert (
                main(
                    ["paper", "reproduce", TOY, *flags, "--out", str(out), "--device", "cpu", "--quiet", "--no-figure"]
                )
                == 0
            )
    return out


@pytest.fixture(scope="module")
def runs(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All runs of the small figures, with two seeds."""
    out = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(settings.MODELS, "mnist", "mlp-16")
        patch.setitem(settings.FIELDS, "ours", SHORT)
        one = Artifact("all", "all runs", (AT, ORAT, OTHER, FEWER), every_epoch=True)
        patch.setitem(artifacts.artifacts(), "all", one)
        flags = ["--data", f"mnist={tiny}", "--seeds", "0,1", "--out", str(out), "--device", "cpu", "--quiet"]
        assert main(["paper", "reproduce", "all", *flags]) == 0
    return out


def report(name: str, out: Path, tiny: str, *more: str) -> int:
    """Reports the finished runs and draws the figure."""
    return main(["paper", "reproduce", name, "--report", "--data", f"mnist={tiny}", "--out", str(out), *more])


def content(name: str, out: Path, tiny: str) -> dict[str, Any]:
    """The report behind a figure."""
    assert report(name, out, tiny, "--no-figure") == 0
    found: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
    return found


def values(panel: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The lines of a panel by their labels, as points."""
    return {line.get_label(): line.get_xydata() for line in panel.get_lines()}


def test_the_toy_figure_is_written_as_pdf_and_png_that_show_something(
    toys: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(settings.FIELDS, "ours", TOYS)
    assert main(["paper", "reproduce", TOY, "--report", "--out", str(toys)]) == 0
    text = capsys.readouterr().out
    assert text.endswith(f"figure: {toys / 'toy.pdf'} and {toys / 'toy.png'}\n")
    written = (toys / "toy.pdf").read_bytes()
    assert written.startswith(b"%PDF-")
    assert written.rstrip().endswith(b"%%EOF")
    with Image.open(toys / "toy.png") as image:
        image.load()
        colors = image.convert("RGB").getcolors(1 << 24)
        assert image.size[0] > 1500
        assert colors is not None
        assert len(colors) > 100


def toy_content(toys: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The report behind the toy figure."""
    monkeypatch.setitem(settings.FIELDS, "ours", TOYS)
    assert main(["paper", "reproduce", TOY, "--report", "--out", str(toys), "--no-figure"]) == 0
    found: dict[str, Any] = json.loads((toys / "toy.json").read_text())
    return found


def test_the_toy_figure_has_a_panel_for_each_set_and_method_with_points_and_accuracy_of_all_seeds(
    toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = toy_content(toys, monkeypatch)
    panels = picture(whole, toys).axes
    heads = [panel.get_title().partition(":")[0] for panel in panels]
    assert heads == ["ST", "AT", "ORAT"] * 3
    for panel, name in zip(panels[::3], artifacts.TOYS, strict=True):
        train = load(name).train
        there = values(panel)
        assert train.wrong is not None
        outliers = np.concatenate([points for label, points in there.items() if label.startswith("outlier")])
        assert sorted(outliers.tolist()) == sorted(train.images[train.wrong].tolist())
        assert sum(len(points) for label, points in there.items() if label.startswith("training")) == 200 - len(
            outliers
        )
    shares = [
        run["accuracy"]["last"] for run in whole["runs"] if (run["data"], run["method"]) == ("toy-balanced", "AT")
    ]
    assert len(shares) == 2
    written = ", ".join(
        f"{word} {' / '.join(f'{round(100 * share[name], 1):g}' for share in shares)} %"
        for name, word in (("natural", "natural"), ("pgd20", "PGD-20"))
    )
    assert written in panels[1].get_title()
    assert {"decision boundary, seed 0", "decision boundary, seed 1"} <= values(panels[1]).keys()
    assert "decision boundary, seed 1" not in values(panels[0])


def test_accuracy_of_each_class_in_a_toy_title_is_what_the_network_says(
    toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = toy_content(toys, monkeypatch)
    run = next(run for run in whole["runs"] if (run["data"], run["method"]) == ("toy-imbalanced-2", "ORAT"))
    test = load(run["data"]).test
    assert test is not None
    answers = load_model(toys / run["folder"])(test.images).argmax(1)
    blue, red = (100 * (answers[test.labels == label] == label).float().mean().item() for label in (0, 1))
    assert f"blue {round(blue, 1):g} %, red {round(red, 1):g} %" in picture(whole, toys).axes[8].get_title()


def test_toy_panels_without_a_run_are_left_out(toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = toy_content(toys, monkeypatch)
    kept = [run for run in whole["runs"] if (run["data"], run["method"]) != ("toy-balanced", "AT")]
    assert len(picture(whole | {"runs": kept}, toys).axes) == 8
    kept = [run for run in whole["runs"] if run["method"] == "ST"]
    assert len(picture(whole | {"runs": kept}, toys).axes) == 3


@pytest.mark.parametrize("seeds", [1, 6, 10])
def test_no_words_of_the_toy_figure_cover_others(seeds: int, toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    whole = toy_content(toys, monkeypatch)
    more = [run | {"seed": 2 + number} for run in whole["runs"] if run["seed"] == 0 for number in range(seeds - 1)]
    figure = picture(whole | {"runs": whole["runs"] + more}, toys)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    words = [part for panel in figure.axes for part in (panel.title, panel.xaxis.label, panel.yaxis.label)]
    boxes = [part.get_window_extent(renderer) for part in [*words, *figure.legends, figure.texts[0]]]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)


class Slope(nn.Module):
    """A network with its boundary at one value of the first coordinate, or outside of the plane."""

    def __init__(self, where: float) -> None:
        super().__init__()
        self.where = where

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.zeros(len(x)), x[:, 0] - self.where], 1)


def test_the_boundary_lies_where_the_network_changes_sides_and_a_constant_one_has_none() -> None:
    from matplotlib.figure import Figure

    field = Field.around(torch.tensor([[0.2, 0.3], [0.8, 0.7]]))
    panel = Figure().add_subplot()
    draw_sides(panel, field, Learned([{"seed": 0}, {"seed": 1}], [Slope(0.6), Slope(7.0)], []))
    regions, *lines = panel.collections
    assert len(lines) == 1
    (path,) = (path for path in lines[0].get_paths() if len(path))
    assert path.vertices[:, 0] == pytest.approx(0.6, abs=1e-5)
    areas = [path.get_extents() for path in regions.get_paths()]
    assert [round(area.x0, 3) for area in areas] == [0.14, 0.6]


def test_accuracy_curves_are_the_mean_of_the_seeds_with_a_band_and_only_finished_places_have_a_panel(
    runs: Path, tiny: str
) -> None:
    whole = content("accuracy-curves", runs, tiny)
    (panel,) = picture(whole, runs).axes
    assert (panel.get_title(), panel.get_xlabel()) == ("MNIST, eps 0.1", "epoch")
    lines = values(panel)
    assert len(lines) == 2 * 4 + 1
    folders = [run["folder"] for run in whole["runs"] if run["method"] == "AT"]
    tested = [every_epoch.tested(runs / folder) for folder in folders]
    assert len(tested) == 2
    wanted = [[epoch + 1, 100 * mean(one[epoch]["cw"] for one in tested)] for epoch in range(3)]
    assert lines["CW, AT"].tolist() == pytest.approx(np.array(wanted))
    natural = [[100 * line["natural"] for line in one] for one in tested]
    band = panel.collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == pytest.approx((np.min(natural), np.max(natural)))


def test_loss_curves_have_the_losses_of_the_history_and_mark_where_the_rate_falls(runs: Path, tiny: str) -> None:
    whole = content("loss-curves", runs, tiny)
    one = whole | {"runs": [run for run in whole["runs"] if run["seed"] == 1]}
    (panel,) = picture(one, runs).axes
    history = (runs / one["runs"][0]["folder"] / "history.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in history]
    lines = values(panel)
    assert lines["20 % noise"][:, 1].tolist() == losses[-3:]
    assert lines["learning rate divided by 10"][:, 0].tolist() == [2, 2]
    assert not panel.collections


@pytest.mark.parametrize(("name", "places"), [("effect-of-m", [30, 60]), ("effect-of-k", [59_700, 59_710])])
def test_effects_are_drawn_against_what_is_dropped_with_the_papers_choice(
    name: str, places: list[int], runs: Path, tiny: str
) -> None:
    whole = content(name, runs, tiny)
    (panel,) = picture(whole, runs).axes
    lines = values(panel)
    assert lines.keys() == {"Natural", "FGSM", "PGD-20", "CW", "the paper's choice"}
    assert lines["PGD-20"][:, 0].tolist() == places
    last = [run["accuracy"]["last"]["pgd20"] for run in whole["runs"] if (run["k"], run["m"]) == (300, 60)]
    at = places.index(60 if name == "effect-of-m" else 59_700)
    assert lines["PGD-20"][at, 1] == pytest.approx(100 * mean(last))
    assert lines["the paper's choice"][0, 0] == {"effect-of-m": 6000, "effect-of-k": 50}[name]


def test_orat_that_is_given_no_ranks_is_a_line_at_one_height(runs: Path, tiny: str) -> None:
    whole = content("effect-of-m", runs, tiny)
    own = [run | {"method": "ORAT automatic", "k": None, "m": None} for run in whole["runs"][:2]]
    row = whole["rows"][0] | {"k": None, "m": None}
    (panel,) = picture(whole | {"runs": whole["runs"] + own, "rows": [*whole["rows"], row]}, runs).axes
    lines = values(panel)
    height = 100 * mean(run["accuracy"]["last"]["cw"] for run in own)
    assert lines["CW, ORAT automatic"][:, 1] == pytest.approx([height, height])
    assert len(lines["CW"]) == 2
    (panel,) = picture(whole | {"runs": own, "rows": [row]}, runs).axes
    assert not len(values(panel)["CW"])


def test_the_best_of_the_other_methods_is_a_line_at_one_height_in_each_column(runs: Path, tiny: str) -> None:
    whole = content("effect-of-m", runs, tiny)
    accuracy = {"AT": {"natural": 0.9, "cw": 0.3}, "RAA": {"natural": 0.8, "cw": 0.5}}
    ranked = [run | {"accuracy": {"last": {"natural": 0.7, "cw": 0.4}}} for run in whole["runs"]]
    others = [
        ranked[0] | {"method": method, "k": None, "m": None, "accuracy": {"last": values}}
        for method, values in accuracy.items()
    ]
    rows = [*whole["rows"], whole["rows"][0] | {"k": None, "m": None}]
    figure = picture(whole | {"runs": ranked + others, "rows": rows}, runs)
    lines = values(figure.axes[0])
    assert lines["Natural, best other method"][:, 1] == pytest.approx([90, 90])
    assert lines["CW, best other method"][:, 1] == pytest.approx([50, 50])
    assert "best other method: of AT, RAA, in each column by itself" in figure.legends[0].get_title().get_text()


def test_crowded_values_get_a_logarithmic_axis_that_holds_0(runs: Path, tiny: str) -> None:
    whole = content("effect-of-m", runs, tiny)
    rows = [row | {"m": m} for row, m in zip(whole["rows"], [0, 1, 10, 100, 10_000] * 9, strict=False)]
    (panel,) = picture(whole | {"rows": rows}, runs).axes
    assert panel.get_xscale() == "symlog"
    assert panel.get_xticks().tolist() == [0, 1, 10, 100, 1000, 10_000]
    left, right = panel.get_xlim()
    assert -1 < left < 0, "no empty room left of 0"
    assert 10_000 < right < 20_000


def test_numbers_stand_against_the_papers_and_their_differences_below(runs: Path, tiny: str) -> None:
    whole = content("table1", runs, tiny)
    above, below = picture(whole, runs).axes
    rows = [row for row in whole["rows"] if row["epoch"] == "last" and row["ours"] is not None]
    assert len(rows) == 8
    for panel, name in ((above, "ours"), (below, "difference")):
        marks = [line for line in panel.get_lines() if line.get_linestyle() == "None" and len(line.get_xdata())]
        points = [point for line in marks for point in line.get_xydata().tolist()]
        assert sorted(points) == pytest.approx(np.array(sorted([row["theirs"], row[name]] for row in rows)))
    near = sum(abs(row["difference"]) <= 0.4 for row in rows)
    assert below.get_title() == f"{near} of 8 within 0.4 points"
    authors = [row | {"protocol": "authors", "epoch": "best"} for row in rows]
    assert len(picture(whole | {"rows": rows + authors}, runs).axes) == 4
    with pytest.raises(InputError, match="the paper has no numbers"):
        picture(whole | {"rows": [row | {"difference": None} for row in rows]}, runs)


def test_stability_shows_both_execution_with_their_deviations(runs: Path, tiny: str) -> None:
    whole = content("stability", runs, tiny)
    panels = picture(whole, runs).axes
    assert [panel.get_title().partition(": ")[2] for panel in panels] == ["Natural", "FGSM", "PGD-20", "CW"]
    ours, theirs = panels[2].containers
    row = next(row for row in whole["rows"] if (row["method"], row["column"], row["epoch"]) == ("AT", "pgd20", "last"))
    error = 100 - row["ours"]
    assert ours.lines[0].get_ydata()[0] == pytest.approx(error)
    ends = ours.lines[2][0].get_segments()[0][:, 1]
    assert ends == pytest.approx([error - row["sd"], error + row["sd"]])
    assert theirs.lines[0].get_ydata().tolist() == [3.0, 3.0]
    assert theirs.lines[2][0].get_segments()[0][:, 1] == pytest.approx([3 - 1.31, 3 + 1.31])
    assert panels[2].yaxis_inverted()
    assert panels[0].containers[0].lines[0].get_ydata()[0] == 0.01  # no error at all has no place on the scale


def test_clothing_has_a_panel_an_attack_and_the_papers_three_lines(runs: Path, tiny: str) -> None:
    whole = content("accuracy-curves", runs, tiny)
    trained = [run | {"data": "clothing1m", "eps": "8/255"} for run in whole["runs"]]
    plain = [run | {"noise": "none", "rate": 0} for run in trained if run["method"] == "AT"]
    panels = picture(whole | {"name": "clothing1m", "runs": plain + trained}, runs).axes
    assert [panel.get_title() for panel in panels][::3] == ["Natural, eps 8/255", "CW, eps 8/255"]
    assert [line.get_label() for line in panels[0].get_lines()][:3] == [
        "AT (no noise)", "AT (20 % noise)", "ORAT (20 % noise)",
    ]  # fmt: skip


def test_errors_of_all_methods_are_drawn_against_the_rate_of_wrong_labels_beside_the_papers(tmp_path: Path) -> None:
    whole = json.loads((ROOT / "results" / "reproduce-table1.json").read_text())
    figure = pictures(whole, tmp_path)["table1-rates"]()
    titles = [panel.get_title() for panel in figure.axes]
    kinds = [
        [f"MNIST, eps {eps}{protocol}{noise}" for noise in ("symmetric", "asymmetric")]
        for protocol in (", ", ", as the authors,\n")
        for eps in ("0.1", "0.2")
    ]
    assert titles == [title for kind in kinds for title in 2 * kind]  # natural, then PGD-20
    assert all(len(panel.get_yticks()) >= 3 for panel in figure.axes)
    place = {
        "eps": "0.2",
        "noise": "asymmetric",
        "column": "pgd20",
        "method": "AT",
        "epoch": "last",
        "protocol": "ours",
    }
    start = place | {"noise": "none"}
    rows = [row for row in whole["rows"] if any(kind.items() <= row.items() for kind in (start, place))]
    panel = figure.axes[len(titles) - 1 - titles[::-1].index("MNIST, eps 0.2, asymmetric")]
    lines = [line for line in panel.get_lines() if line.get_color() == BLUE]
    for line, side in zip(lines, ("ours", "theirs"), strict=True):
        assert line.get_xdata().tolist() == [0, 10, 20, 30, 40]
        assert line.get_ydata().tolist() == pytest.approx([100 - row[side] for row in rows])
    assert [line.get_linestyle() for line in lines] == ["-", ":"]
    low, high = panel.get_ylim()
    assert low > high  # small errors above
    clean = whole | {"rows": [row for row in whole["rows"] if row["noise"] == "none"]}
    assert [panel.get_title() for panel in pictures(clean, tmp_path)["table1-rates"]().axes] == [
        f"MNIST, eps {eps}, {protocol}none"
        for protocol in ("", "as the authors,\n")
        for eps in ("0.1", "0.1", "0.2", "0.2")
    ]
    methods = {text.get_text() for text in figure.legends[0].get_texts()}
    assert methods == {row["method"] for row in whole["rows"]} | {"the paper's"}


@pytest.mark.parametrize("name", [*DRAWN, TOY])
def test_a_figure_without_a_finished_run_is_not_written_and_one_line_says_so(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", "reproduce", name, "--report", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith(f"no figure of {name}: it has no finished run\n")
    assert {file.suffix for file in tmp_path.iterdir()} == {".json"}


def test_every_figure_of_the_paper_is_drawn_and_tables_that_are_none_say_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {*DRAWN, TOY} >= {one.name for one in artifacts.artifacts().values() if one.curves} | {"toy", "stability"}
    assert {*DRAWN, TOY} <= artifacts.artifacts().keys()
    assert main(["paper", "reproduce", "k-m", "--report", "--out", str(tmp_path)]) == 0
    assert "figure:" not in capsys.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == ["k-m.json"]


def test_without_matplotlib_the_report_comes_and_one_line_says_how_to_get_the_figure(
    runs: Path, tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    assert report("loss-curves", runs, tiny) == 0
    text = capsys.readouterr().out
    assert text.endswith(
        "no figure of loss-curves: the picture loss-curves.pdf needs matplotlib: pip install 'orat[plots]'\n"
    )
    assert "Natural" in text
    assert not list(runs.glob("loss-curves.p*"))


def test_the_line_about_a_figure_stands_beside_json_and_no_figure_leaves_it_out(
    runs: Path, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report("stability", runs, tiny, "--no-figure") == 0
    assert "figure" not in capsys.readouterr().out
    assert not list(runs.glob("stability.p*"))
    assert report("stability", runs, tiny, "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["name"] == "stability"
    assert captured.err == f"figure: {runs / 'stability.pdf'} and {runs / 'stability.png'}\n"
    assert sorted(file.suffix for file in runs.glob("stability.*")) == [".json", ".pdf", ".png"]
    first = (runs / "stability.pdf").read_bytes()
    assert report("stability", runs, tiny, "--json", "--quiet") == 0
    assert capsys.readouterr().err == ""
    assert (runs / "stability.pdf").read_bytes() == first  # the same runs, the same file


@pytest.mark.parametrize("name", [name for name in CELLS if name != "stability"])
def test_every_small_figure_is_written(name: str, runs: Path, tiny: str) -> None:
    line = draw(content(name, runs, tiny), runs)
    names = [name + more for more in DRAWN[name]]
    assert line == "figure: " + " and ".join(f"{runs / each}.{kind}" for each in names for kind in ("pdf", "png"))
    for each in names:
        with Image.open(runs / f"{each}.png") as image:
            colors = image.convert("RGB").getcolors(1 << 24)
            assert colors is not None
            assert len(colors) > 100
        assert (runs / f"{each}.pdf").read_bytes().startswith(b"%PDF-")
    for file in runs.glob(f"{name}*.p*"):
        file.unlink()
