"""docs/reproduced.md: the tables by hand, and the page from the results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import reproduced_cifar
import reproduced_effects
import reproduced_layouts
import reproduced_lost
import reproduced_page

ROOT = Path(__file__).parents[2]


def results(name: str) -> dict[str, Any]:
    """A file of measured numbers."""
    content: dict[str, Any] = json.loads((ROOT / "results" / f"{name}.json").read_text())
    return content


def row(method: str, ours: float | None, theirs: float | None, column: str = "pgd20", **more: Any) -> dict[str, Any]:
    """A row of a report."""
    place = {"data": "mnist", "eps": "0.1", "noise": "symmetric", "rate": 20, "method": method}
    difference = None if ours is None or theirs is None else ours - theirs
    figures = {"seeds": 1, "ours": ours, "sd": None, "theirs": theirs, "difference": difference}
    return (
        place
        | dict.fromkeys(("model", "k", "m"))
        | {"protocol": "ours", "epoch": "last", "column": column}
        | figures
        | more
    )


def page(
    rows: list[dict[str, Any]],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    runs: Sequence[dict[str, Any]] = ({},),
) -> str:
    runs = [run | {"origin": {"device": "NVIDIA H200", "commit": "0123456789abcdef"}} for run in runs]
    content = {"what": "Table 1", "name": "table1", "note": "", "rows": rows, "runs": runs}
    (folder / "reproduce-table1.json").write_text(json.dumps(content))
    monkeypatch.setattr(reproduced_page, "RESULTS", folder)
    reproduced_page.main()
    return capsys.readouterr().out


def test_numbers_stand_beside_the_papers_with_what_is_near_and_what_changes_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        row("AT", 97.1, 97.0), row("AT", 98.8, 99.0, "natural"), row("MAIL", 98.0, 97.2),
        row("ORAT", 97.0, 97.7, k=59950, m=6000, seeds=3, sd=0.2), row("ORAT", 99.5, 99.5, "natural", k=59950, m=6000),
        row("ORAT", 12.0, 97.7, k=59950, m=6000, epoch="chosen"), row("WMMR", None, 97.0),
    ]  # fmt: skip
    text = page(rows, tmp_path, monkeypatch, capsys)
    assert "| AT | ours | 2 | 2 | -0.05 | -0.20 | +0.10 |" in text
    assert "| ORAT | ours | 2 | 1 | -0.35 | -0.70 | +0.00 |" in text
    # MAIL and ORAT change their order; AT and ORAT do so by 0.1 points in ours; WMMR may be the best
    assert "| ours | last | 4 | 2 | 1 | - | - |" in text
    whole = [*rows[:-1], row("WMMR", 97.3, 97.0)]
    best = "| 1 of 1 | MAIL instead of ORAT in 1 |"
    assert best in page(whole, tmp_path, monkeypatch, capsys)
    assert "| AT | symmetric | ours | 2 | 1: -0.10 +0.30 +0.70 | 2: +0.50 +0.60 +0.70 |" in text  # ORAT less AT
    assert "| symmetric 20 % | ORAT | 59950 | 6000 | 3 | 99.50 (+0.00) | 97.00 ± 0.20 (-0.70) |" in text
    assert "| symmetric 20 % | MAIL | - | - | 1 | - | 98.00 (+0.80) |" in text
    assert "in the mean | epoch |" not in text  # it would repeat a table of one setting
    text = page([*rows, row("ORAT", 97.5, 97.7, rate=40)], tmp_path, monkeypatch, capsys)
    assert "| ORAT | last | 2 | +0.00 | -0.45 |" in text
    assert "| ORAT | chosen | 1 | - | -85.70 |" in text
    assert "**ours**: 4 of the 5 cells on mnist are measured: AT and MAIL and ORAT." in text
    assert "WMMR" not in text
    assert "Measured on NVIDIA H200 at 0123456789ab ([all numbers](../results/reproduce-table1.json))." in text


def test_protocols_are_counted_each_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    authors = {"protocol": "authors", "epoch": "best"}
    rows = [row("AT", 97.1, 97.0), row("ORAT", 97.0, 97.7, m=1), row("MAIL", 96.0, 97.2)]
    rows += [row("AT", 97.5, 97.0, **authors), row("ORAT", 97.6, 97.7, m=1, **authors)]
    text = page([*rows, row("MAIL", None, 97.2, **authors)], tmp_path, monkeypatch, capsys)
    assert "**authors**: 2 of the 3 cells on mnist are measured: AT and ORAT." in text
    assert "**ours**: 3 of the 3 cells" not in text
    assert "| ours | last | 3 | 2 | 0 |" in text
    assert "| authors | best | 1 | 0 | 0 | - | - |" in text
    assert "| AT | authors | 1 | 0 |" in text


def test_a_report_without_any_run_has_no_place_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Table 1" not in page([row("AT", None, 97.0)], tmp_path, monkeypatch, capsys)


def test_numbers_that_the_paper_does_not_print_stand_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row("AT", 97.0, 97.1), *(row("ORAT", 97.0 + m / 1000, None, k=60000, m=m) for m in (1, 2000))]
    text = page(rows, tmp_path, monkeypatch, capsys)
    assert "| symmetric 20 % | ORAT | 60000 | 2000 | 1 | 99.00 |" in text
    assert "ORAT minus" not in text
    assert "ORAT - AT" not in text


def test_orat_stands_beside_at_with_what_it_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = {"data": "mnist", "eps": "0.1", "noise": "symmetric", "rate": 20, "protocol": "ours"}
    found = {"cut": 120, "of": 1000, "flipped": 100, "flipped_and_cut": 80}
    runs = [
        place | {"method": "ORAT", "m": 60, "seed": 0, "outliers": found},
        place | {"method": "ORAT", "m": 60, "seed": 1, "outliers": found | {"cut": 130, "flipped_and_cut": 90}},
        place | {"method": "AT", "m": None, "seed": 0, "outliers": None},
        place | {"method": "ORAT", "m": 60, "seed": 0, "outliers": found, "rate": 40},
    ]
    rows = [row("AT", 96.0, 97.0), row("ORAT", 97.5, 97.75, m=60), row("ORAT", 97.5, 97.75, m=60, rate=40)]
    text = page(rows, tmp_path, monkeypatch, capsys, runs)
    assert "| symmetric | ours | 80.0 to 90.0 | +1.50 | +0.75 |" in text
    assert "| mnist, eps 0.1, ours | symmetric 20 % | 60 | 100 | 125 | 85 | +1.50 (+0.75) |" in text
    assert "| mnist, eps 0.1, ours | symmetric 40 % | 60 |" not in text  # there is no AT beside it


def test_curves_are_a_picture_and_the_epoch_of_the_least_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    curve = [{"epoch": epoch, "loss": loss} for epoch, loss in ((1, 2.0), (2, 0.5), (3, 0.75))]
    place = {"data": "mnist", "eps": "0.1", "noise": "symmetric", "rate": 20, "method": "ORAT"}
    text = page([row("ORAT", 97.0, 97.7)], tmp_path, monkeypatch, capsys, [place | {"curve": curve}])
    assert "| mnist, eps 0.1, symmetric 20 % | ORAT | 0.500 | 2 | 0.750 |" in text
    assert "| symmetric 20 % |" not in text


def test_curves_of_accuracy_are_a_table_of_best_and_last_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = {"data": "mnist", "eps": "0.1", "noise": "symmetric", "rate": 20, "protocol": "authors"}
    runs = [
        place | {"method": method, "curve": [
            {"epoch": epoch, "loss": 1.0, "natural": value} for epoch, value in enumerate(values, start=1)
        ]}
        for method, values in (("AT", (0.5, 0.9, 0.8)), ("ORAT", (0.4, 0.95, 0.93)))
    ]  # fmt: skip
    text = page([row("ORAT", 97.0, 97.7)], tmp_path, monkeypatch, capsys, runs)
    assert "| mnist, eps 0.1, symmetric 20 % | authors | AT | 90.00 (2), 80.00 |" in text
    assert "| mnist, eps 0.1, symmetric 20 % | authors | epochs with ORAT ahead | 2 of 3 |" in text
    assert "training loss" not in text


def test_cifar_rows_stand_beside_the_papers_and_holes_are_named(tmp_path: Path) -> None:
    start = {"noise": "symmetric", "rate": 0.2, "device": "NVIDIA H200", "commit": "0123456"}
    values = {"natural": 60.0, "fgsm": 40.0, "pgd20": 30.0, "cw": 20.0}
    rows = [
        start | values | {"arm": arm, "natural": natural}
        for arm, natural in (("at", 60.0), ("at", 62.0), ("oracle", 64.5))
    ]
    (tmp_path / f"{reproduced_cifar.NAME}.json").write_text(json.dumps({"rows": rows}))
    text = "\n".join(reproduced_cifar.section(tmp_path))
    # Table 1 of the paper: AT 56.96, 34.55, 25.54, 24.34
    assert "| symmetric 20 % | AT | 2 | 61.00 ± 1.41 (+4.04) | 40.00 ± 0.00 (+5.45) | 30.00 ± 0.00 (+4.46) |" in text
    assert "| symmetric 20 % | oracle: AT without the wrong labels | 1 | 64.50 | 40.00 | 30.00 | 20.00 |" in text
    assert "Not run yet: ORAT, the paper's k and m (symmetric 20 %), ORAT (automatic) (symmetric 20 %), AT (sym" in text
    assert "JPEG copies" in text
    assert reproduced_cifar.section(tmp_path / "nowhere") == []


def test_rows_on_scrambled_images_stand_beside_the_papers_and_right_images_below(tmp_path: Path) -> None:
    rows = [row("ST", 60.0, 57.28, "natural", eps="8/255"), row("ST", 13.5, 15.88, "fgsm", eps="8/255")]
    origin = {"device": "NVIDIA H200", "commit": "0123456789abcdef"}
    report = {"rows": [*rows, row("AT", None, 56.96, "natural", eps="8/255")], "runs": [{"origin": origin}]}
    (tmp_path / "scrambled-cifar10.json").write_text(json.dumps(report))
    assert reproduced_layouts.section(tmp_path) == []
    best = [("right", 0, 74.0), ("right", 1, 76.0), ("scrambled", 0, 60.2)]
    layouts = [{"layout": name, "rate": 20, "seed": seed, "best": value} | origin for name, seed, value in best]
    (tmp_path / "layouts.json").write_text(json.dumps({"rows": layouts}))
    lines = reproduced_layouts.section(tmp_path)
    assert "| 8/255 | symmetric 20 % | ST | 60.00 (+2.72) | 13.50 (-2.38) |" in lines
    assert "| 20 % | right | 2 | 75.00 ± 1.41 | 58.89 and 57.28 |" in lines
    assert "| 20 % | scrambled | 1 | 60.20 | 58.89 and 57.28 |" in lines
    assert not any("AT" in line for line in lines)


def test_runs_that_lost_a_class_are_counted(tmp_path: Path) -> None:
    assert reproduced_lost.section(tmp_path) == []
    reached = [("ours", 79.2, 2.4, ["7", "9"]), ("burn-in-2", 98.5, 2.8, []), ("ours", 98.4, 2.7, [])]
    rows = [
        {"arm": arm, "natural": value, "upper_cut": cut, "lost": lost, "device": "GPU"}
        for arm, value, cut, lost in [*reached, ("ours", 89.0, 2.5, ["3"])]
    ]
    setting = {"eps": "0.2", "noise": "symmetric", "rate": 40, "epochs": 6}
    (tmp_path / "lost-class.json").write_text(json.dumps({"setting": setting, "rows": rows}))
    lines = reproduced_lost.section(tmp_path)
    assert "| ours | 3 | 2 | 2.40 to 2.50 | 79.20 to 89.00 | 2.70 to 2.70 | 98.40 to 98.40 |" in lines
    assert "| ours, two epochs of burn-in | 1 | 0 | - | - | 2.80 to 2.80 | 98.50 to 98.50 |" in lines


def test_effects_stand_with_what_was_left_out_and_the_best_of_others() -> None:
    def run(method: str, natural: float, m: int | None, cut: int) -> dict[str, Any]:
        place = {"data": "mnist", "eps": "0.1", "noise": "symmetric", "rate": 20, "method": method, "m": m}
        return place | {
            "accuracy": {"last": {"natural": natural}},
            "outliers": {"cut": cut, "flipped_and_cut": cut // 2},
        }

    runs = [run("ORAT", 0.5, 1, 0), run("ORAT", 0.9, 10, 8), run("AT", 0.7, None, 0), run("ST", 0.8, None, 0)]
    lines = reproduced_effects.effects(runs, "m")
    assert lines[-4:] == [
        "| 1 | 0 | 0 | 50.00 |", "| 10 | 8 | 4 | 90.00 |",
        "| best other method | - | - | 80.00 (ST) |", "| ORAT ahead in | - | - | 1 of 2 |",
    ]  # fmt: skip


def test_all_cells_of_table_1_on_mnist_are_measured() -> None:
    rows = results("reproduce-table1")["rows"]
    assert reproduced_page.holes([row for row in rows if row["protocol"] == "ours"]) == []
    assert len({tuple(row[name] for name in (*reproduced_page.PLACE, "method")) for row in rows}) == 118


def test_the_page_is_what_the_results_give(capsys: pytest.CaptureFixture[str]) -> None:
    reproduced_page.main()
    assert (ROOT / "docs" / "reproduced.md").read_text() == capsys.readouterr().out
