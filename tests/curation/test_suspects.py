"""Which training labels look wrong: the table, its scores against planted flips, the files and the page."""

from __future__ import annotations

import csv
import io
import json
import shutil
from base64 import b64decode
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from html_page import Page
from PIL import Image
from quick_runs import NOISE, quick
from refusals import assert_refused_in_one_line

import orat
from orat.cli.main import main
from orat.core.console import SILENT
from orat.core.errors import InputError
from orat.curation.page import page as page_of
from orat.noise.inject import symmetric
from orat.noise.judge import judge
from orat.noise.truth import area
from orat.training.run import Run
from orat.training.run_folder import RunFolder

COLUMNS = [
    "index", "path", "given_label", "predicted_label", "label_quality", "is_label_issue", "mean_loss", "times_cut",
    "rank",
]  # fmt: skip


@pytest.fixture(scope="module")
def plain(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of adversarial training on the same labels."""
    folder = tmp_path_factory.mktemp("suspects") / "at"
    orat.train(quick(tiny, orat.AT(), **NOISE), folder, device="cpu", display=SILENT)
    return folder


def planted(tiny: str) -> tuple[np.ndarray, np.ndarray]:
    """The true labels of the whole training set, and the noisy ones, by their definitions."""
    true = np.load(tiny)["y_train"]
    return true, symmetric(torch.from_numpy(true), 3, 0.2, 0).numpy()


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def test_every_trained_sample_has_a_row_with_what_the_run_remembered(automatic: Path, tiny: str) -> None:
    assert main(["labels", "find", str(automatic), "--device", "cpu"]) == 0
    rows = rows_of(automatic / "outliers" / "outliers.csv")
    state = RunFolder(automatic).load_tensors("state")
    place = {index: i for i, index in enumerate(state["index"].tolist())}
    _, noisy = planted(tiny)
    assert list(rows[0]) == COLUMNS
    assert sorted(int(row["index"]) for row in rows) == state["index"].tolist()
    assert [int(row["rank"]) for row in rows] == list(range(1, 271))
    for row in rows:
        i = place[int(row["index"])]
        assert row["path"] == ""
        assert row["given_label"] == str(noisy[int(row["index"])])
        assert float(row["label_quality"]) == pytest.approx(1 - state["wrong"][i].item(), abs=1e-6)
        assert row["is_label_issue"] == str(bool(state["weights"][i] == 0 or state["restored"][i]))
        assert float(row["mean_loss"]) == pytest.approx(state["mean_loss"][i].item(), abs=1e-4)
        assert int(row["times_cut"]) == state["times_cut"][i]


def test_a_run_of_an_earlier_version_is_refused(automatic: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(automatic, tmp_path / "earlier")
    state = RunFolder(folder).load_tensors("state")
    RunFolder(folder).save_tensors("state", {name: state[name] for name in state if name not in ("restored", "sure")})
    with pytest.raises(
        InputError, match="of an earlier version of orat, which remembered other things: train it again"
    ):
        orat.suspects(folder, device="cpu")


def test_what_is_remembered_is_the_verdict_on_the_averaged_answers(automatic: Path) -> None:
    state = RunFolder(automatic).load_tensors("state")
    found = orat.suspects(automatic, device="cpu")
    again = judge(state["answers"], state["given"], state["own_answers"])
    wrong = again.wrong
    torch.testing.assert_close(found.verdict.wrong, wrong, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.verdict.matrix, again.matrix, atol=1e-6, rtol=0)
    assert found.verdict.looks_like.equal(again.looks_like)
    assert (found.judged_by, found.verdict.rate) == ("scouts and network", pytest.approx(again.rate))


def test_doubted_labels_come_first_and_suspects_are_given_another_class(automatic: Path) -> None:
    rows = list(orat.suspects(automatic, device="cpu"))
    quality = [row["label_quality"] for row in rows]
    assert all(0 <= value <= 1 for value in quality)
    assert [value < 0.5 for value in quality] == sorted((value < 0.5 for value in quality), reverse=True)
    tenth = len(quality) // 10
    assert sum(quality[:tenth]) < sum(quality[tenth : 2 * tenth]) < sum(quality[-tenth:])
    doubted = [row for row in rows if row["is_label_issue"] or row["label_quality"] < 0.5]
    assert doubted
    assert all(row["given_label"] != row["predicted_label"] for row in doubted)


@pytest.mark.parametrize("again", [False, True])
def test_planted_flips_come_first(automatic: Path, plain: Path, tiny: str, again: bool) -> None:
    true, noisy = planted(tiny)
    found = orat.suspects(plain if again else automatic, device="cpu", held_out=again)
    rows = list(found)
    wrong = int((true != noisy)[[row["index"] for row in rows]].sum())
    first = [row["index"] for row in rows[:wrong]]
    hits = int((true != noisy)[first].sum())
    assert hits / wrong > 0.8
    names = [row["predicted_label"] for row in rows[: wrong // 2]]
    assert names == [str(true[index]) for index in first[: wrong // 2]]
    truth = found.truth()
    assert truth is not None
    assert truth["wrong"] == wrong
    assert truth["auc"] > 0.9
    assert abs(found.verdict.rate - wrong / len(rows)) < 0.15


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    score, wrong = torch.tensor([3.0, 1.0, 2.0, 1.0, 0.0]), torch.tensor([True, True, False, False, False])
    pairs = [(a > b) + (a == b) / 2 for a in (3.0, 1.0) for b in (2.0, 1.0, 0.0)]
    assert area(score, wrong) == pytest.approx(sum(pairs) / 6)
    assert area(score, torch.zeros(5, dtype=torch.bool)) is None


def test_a_plain_run_is_judged_by_its_own_network_which_is_said(
    plain: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["labels", "find", str(plain), "--out", str(tmp_path / "new" / "a"), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "in-sample" in printed
    assert "--held-out is better" in printed
    assert "30 of 300 samples were not trained on and are not judged." in printed
    rows = rows_of(tmp_path / "new" / "a" / "outliers.csv")
    assert {row["times_cut"] for row in rows} == {""}
    assert all((row["is_label_issue"] == "True") == (float(row["label_quality"]) < 0.5) for row in rows)


@pytest.mark.parametrize("method", [orat.ORAT(m=0.2), orat.AoRR(m=40), orat.ORAT(m=0.2, solver="minmax", burn_in=1)])
def test_issues_of_a_ranked_run_are_what_it_cut(tiny: str, tmp_path: Path, method: orat.ORAT) -> None:
    result = orat.train(quick(tiny, method, **NOISE), tmp_path / "a", device="cpu", display=SILENT)
    found = orat.suspects(tmp_path / "a", device="cpu")
    truth = found.truth()
    assert truth is not None
    assert int(found.cut.sum()) == result["outliers"]["cut"] > 0
    assert (truth["precision"], truth["recall"]) == (result["outliers"]["precision"], result["outliers"]["recall"])


def test_parquet_holds_the_same_table(automatic: Path, tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        assert (
            main(["labels", "find", str(automatic), "--out", str(tmp_path), "--format", ending, "--device", "cpu"]) == 0
        )
    table = pyarrow.parquet.read_table(tmp_path / "outliers.parquet").to_pydict()
    rows = rows_of(tmp_path / "outliers.csv")
    assert list(table) == COLUMNS
    for name in COLUMNS:
        assert [str(value) for value in table[name]] == [row[name] for row in rows]
    assert table["is_label_issue"][0] in (True, False)


def test_classes_and_matrix_are_written(automatic: Path, tmp_path: Path) -> None:
    assert main(["labels", "find", str(automatic), "--out", str(tmp_path), "--device", "cpu"]) == 0
    state, rows = RunFolder(automatic).load_tensors("state"), rows_of(tmp_path / "classes.csv")
    assert [row["class"] for row in rows] == ["0", "1", "2"]
    assert [int(row["given"]) for row in rows] == state["given"].bincount().tolist()
    shares = 1 - state["matrix"].diagonal()
    assert [float(row["estimated_share"]) for row in rows] == pytest.approx(shares.tolist(), abs=1e-5)
    with (tmp_path / "matrix.csv").open(newline="") as text:
        first, *lines = csv.reader(text)
    assert first == ["given \\ true", "0", "1", "2"]
    assert [line[0] for line in lines] == ["0", "1", "2"]
    assert [[float(cell) for cell in line[1:]] for line in lines] == [
        pytest.approx(row, abs=1e-5) for row in state["matrix"].tolist()
    ]


def test_the_page_holds_the_images_and_needs_nothing_else(automatic: Path, tiny: str, tmp_path: Path) -> None:
    assert main(["labels", "find", str(automatic), "--out", str(tmp_path), "--top", "7", "--device", "cpu"]) == 0
    text = (tmp_path / "outliers.html").read_text()
    page = Page(text)
    sources = [attributes["src"] for tag, attributes in page.elements if tag == "img"]
    images, rows = np.load(tiny)["x_train"], rows_of(tmp_path / "outliers.csv")
    assert len(sources) == 7
    for source, row in zip(sources, rows, strict=False):
        assert source is not None
        picture = Image.open(io.BytesIO(b64decode(source.removeprefix("data:image/png;base64,"))))
        assert (np.asarray(picture) == images[int(row["index"])]).all()
    assert "http" not in text
    assert not any(tag in ("script", "link", "iframe") for tag, _ in page.elements)
    words = " ".join(page.text)
    assert f"{rows[0]['given_label']} → " in words
    assert "AUC" in words
    assert "precision" in words
    assert "prefers-color-scheme: dark" in text
    assert "pixelated" in text


def test_the_summary_is_printed_for_people_and_for_machines(
    automatic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["labels", "find", str(automatic), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    for words in (
        "estimated wrong labels by class",
        "the 10 most suspicious",
        "estimated to be wrong",
        "AUC",
        "mostly",
        "outliers.html",
    ):
        assert words in printed
    assert main(["labels", "find", str(automatic), "--device", "cpu", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["samples"], content["not_judged"], content["judged_by"]) == (270, 30, "scouts and network")
    assert [row["rank"] for row in content["most_suspicious"]] == list(range(1, 11))
    assert all(Path(file).is_file() for file in content["files"])


def test_points_have_no_pictures_and_an_unknown_truth_is_not_told(tmp_path: Path) -> None:
    run = Run(data="toy-balanced", method=orat.AT(), epochs=3, seed=1)
    orat.train(run, tmp_path / "a", device="cpu", display=SILENT)
    found = orat.suspects(tmp_path / "a", device="cpu")
    text = page_of(found, "<toy>")
    assert "no pictures" in text
    assert "&lt;toy&gt;" in text
    assert ("AUC" in text) == (found.train.true_labels is not None)
    assert not [tag for tag, _ in Page(text).elements if tag == "img"]


def test_names_are_escaped_and_paths_are_told(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for label, name in enumerate(("a<b", "c&d")):
        folder = tmp_path / "data" / "train" / name
        folder.mkdir(parents=True)
        for i in range(30):
            pixels = generator.integers(0, 100, (6, 8, 3), dtype=np.uint8)
            pixels[:, 4 * label : 4 * label + 4] += 120
            Image.fromarray(pixels).save(folder / f"{i}.png")
    run = quick(str(tmp_path / "data"), orat.ST())
    orat.train(run, tmp_path / "a", device="cpu", display=SILENT)
    found = orat.suspects(tmp_path / "a", device="cpu", held_out=True)
    rows = list(found)
    assert all(row["path"].startswith(f"train/{row['given_label']}/") for row in rows)
    assert found.truth() is None
    page = Page(page_of(found, "x", top=3))
    assert "a<b" in page.text
    sizes = {(attributes["width"], attributes["height"]) for tag, attributes in page.elements if tag == "img"}
    assert sizes == {("128", "96")}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--format", "xlsx"], "unknown format 'xlsx'"),
        (["--top", "-1"], "give 0 or more"),
        (["--top", "few"], "--top: 'few' is not a whole number"),
        (["--folds", "3"], "--folds and --epochs are for --held-out"),
        (["--held-out", "--folds", "1"], "folds = 1: give 2 to 20"),
        (["--held-out", "--folds", "9999"], "folds = 9999"),
        (["--held-out", "--epochs", "0"], "epochs = 0: give 1 or more"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(
    automatic: Path, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    assert main(["labels", "find", str(automatic), "--device", "cpu", *more]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_other_data_and_unfinished_runs_are_refused(tiny: str, tmp_path: Path) -> None:
    arrays = dict(np.load(tiny))
    np.savez(tmp_path / "own.npz", **arrays)
    orat.train(quick(str(tmp_path / "own.npz"), orat.ST()), tmp_path / "a", device="cpu", display=SILENT)
    arrays["x_train"] = arrays["x_train"][::-1]
    np.savez(tmp_path / "own.npz", **arrays)
    assert_refused_in_one_line(lambda: orat.suspects(tmp_path / "a"), "other images or labels")
    (tmp_path / "a" / "result.json").unlink()
    assert_refused_in_one_line(lambda: orat.suspects(tmp_path / "a"), "is not finished")
    assert_refused_in_one_line(lambda: orat.suspects(tmp_path), "is not a run folder")
