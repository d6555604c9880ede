"""Label issues of a run: table, scores against planted noise, files and page."""

from __future__ import annotations

import csv
import io
import json
import shutil
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from html_page import Page
from PIL import Image
from quick_runs import NOISE, quick
from refusals import assert_refused_in_one_line, wrong
from torch import Tensor

import orat
from orat.cli.main import main
from orat.core.console import SILENT
from orat.curation.find import decision_of, saved_tensors
from orat.curation.page import heat
from orat.curation.page import page as page_of
from orat.methods.automatic import average
from orat.noise.inject import symmetric
from orat.noise.judge import judge
from orat.training.run import Run, read_run
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare

COLUMNS = [
    "index", "line", "path", "given_label", "predicted_label", "label_quality", "is_label_issue", "mean_loss",
    "times_cut", "rank",
]  # fmt: skip


@pytest.fixture(scope="module")
def plain(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of adversarial training on the same noisy labels."""
    folder = tmp_path_factory.mktemp("suspects") / "at"
    orat.train(quick(tiny, orat.methods.AT(), **NOISE), folder, device="cpu", display=SILENT)
    return folder


def planted(tiny: str) -> tuple[np.ndarray, np.ndarray]:
    """The true and the noisy labels of the whole training set."""
    true = np.load(tiny)["y_train"]
    return true, symmetric(torch.from_numpy(true), 3, 0.2, 0).numpy()


def saved_by(folder: Path) -> tuple[dict[str, Tensor], Tensor]:
    """The tensors of a finished run, and its labels."""
    parts = prepare(read_run(folder))
    return saved_tensors(folder, parts), parts.train.labels


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def test_every_trained_sample_has_a_row_with_the_numbers_of_the_run(automatic: Path, tiny: str) -> None:
    assert main(["labels", "find", str(automatic), "--again", "--device", "cpu"]) == 0
    rows = rows_of(automatic / "label-issues" / "label-issues.csv")
    saved, labels = saved_by(automatic)
    place = {index: i for i, index in enumerate(saved["id"].tolist())}
    _, noisy = planted(tiny)
    assert list(rows[0]) == COLUMNS
    assert sorted(int(row["index"]) for row in rows) == saved["id"].tolist()
    assert [int(row["rank"]) for row in rows] == list(range(1, 271))
    for row in rows:
        i = place[int(row["index"])]
        assert row["path"] == ""
        assert row["given_label"] == str(noisy[int(row["index"])])
        assert float(row["label_quality"]) == pytest.approx(1 - saved["verdict_p_wrong"][i].item(), abs=1e-6)
        assert row["is_label_issue"] == str(bool(~saved["keep"][i] | (saved["labels"][i] != labels[i])))
        assert float(row["mean_loss"]) == pytest.approx(-average(saved["log_probs"])[i, labels[i]].item(), abs=1e-5)
        assert int(row["times_cut"]) == saved["memory.times_cut"][i]


def test_a_run_of_an_incompatible_version_is_refused(plain: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(plain, tmp_path / "earlier")
    RunFolder(folder).save_tensors("state", {"places": torch.arange(3)})
    words = "is from an incompatible version of orat: train it again"
    assert_refused_in_one_line(lambda: orat.find_label_issues(folder, device="cpu"), words)


def test_the_saved_verdict_is_that_on_the_averaged_predictions(automatic: Path) -> None:
    saved, labels = saved_by(automatic)
    found = orat.find_label_issues(automatic, device="cpu")
    again = judge(saved["log_probs"], labels, saved["memory.average"].double().log_softmax(1))
    wrong = again.p_wrong
    torch.testing.assert_close(found.verdict.p_wrong, wrong, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.verdict.noise_matrix, again.noise_matrix, atol=1e-6, rtol=0)
    assert found.verdict.predicted.equal(again.predicted)
    assert found.judged_by == "scout networks and network"
    assert found.verdict.noise_rate == pytest.approx(again.noise_rate)


def test_doubted_labels_come_first_and_have_another_predicted_class(automatic: Path) -> None:
    rows = list(orat.find_label_issues(automatic, device="cpu"))
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
    found = orat.find_label_issues(plain if again else automatic, device="cpu", held_out=again)
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
    assert abs(found.verdict.noise_rate - wrong / len(rows)) < 0.15


def test_a_plain_run_is_judged_by_its_own_network_and_a_note_says_so(
    plain: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["labels", "find", str(plain), "--out", str(tmp_path / "new" / "a"), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "in-sample" in printed
    assert "--held-out is better" in printed
    assert "Not judged: 30 of 300 samples of the training part, which the run held out for validation" in printed
    assert "A run with --validation 0 judges the former.\nNot judged: 90 samples of the test part." in printed
    rows = rows_of(tmp_path / "new" / "a" / "label-issues.csv")
    assert {row["times_cut"] for row in rows} == {""}
    assert all((row["is_label_issue"] == "True") == (float(row["label_quality"]) < 0.5) for row in rows)


@pytest.mark.parametrize(
    "method", [orat.methods.ORAT(m=0.2), orat.methods.AoRR(m=40), orat.methods.ORAT(m=0.2, solver="minmax", burn_in=1)]
)
def test_issues_of_a_ranked_run_are_its_removed_samples(tiny: str, tmp_path: Path, method: orat.methods.ORAT) -> None:
    result = orat.train(quick(tiny, method, **NOISE), tmp_path / "a", device="cpu", display=SILENT)
    found = orat.find_label_issues(tmp_path / "a", device="cpu")
    truth = found.truth()
    assert truth is not None
    assert int(found.flags.sum()) == result["outliers"]["cut"] > 0
    assert (truth["precision"], truth["recall"]) == (result["outliers"]["precision"], result["outliers"]["recall"])


def test_a_decision_flags_what_it_removes_or_relabels() -> None:
    labels, keep = torch.tensor([0, 1, 2]), torch.tensor([True, False, True])
    learned = torch.tensor([0, 1, 0])
    assert decision_of({"keep": keep, "labels": learned}, labels).tolist() == [False, True, True]
    assert decision_of({"id": labels}, labels) is None


def test_issues_of_a_run_that_relabels_are_its_relabeled_samples(tiny: str, tmp_path: Path) -> None:
    result = orat.train(quick(tiny, orat.methods.RAA(burn_in=1), **NOISE), tmp_path / "a", device="cpu", display=SILENT)
    found = orat.find_label_issues(tmp_path / "a", device="cpu")
    assert int(found.flags.sum()) == result["corrections"]["changed"] > 0


def test_parquet_holds_the_same_table(automatic: Path, tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        assert main(["labels", "find", str(automatic), "--out", str(tmp_path), "--format", ending, "--again"]) == 0
    table = pyarrow.parquet.read_table(tmp_path / "label-issues.parquet").to_pydict()
    rows = rows_of(tmp_path / "label-issues.csv")
    assert list(table) == COLUMNS
    for name in COLUMNS:
        assert ["" if value is None else str(value) for value in table[name]] == [row[name] for row in rows]
    assert table["is_label_issue"][0] in (True, False)


def test_tables_and_page_are_replaced_only_if_asked(
    automatic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["labels", "find", str(automatic), "--device", "cpu", "--out", str(tmp_path)]
    assert main(words) == 0
    (tmp_path / "label-issues.csv").write_text("notes of a person")
    capsys.readouterr()
    refusal = f"orat: {tmp_path} has label issues already: give --out another folder, or --again to replace them\n"
    assert wrong(capsys, *words) == refusal
    assert (tmp_path / "label-issues.csv").read_text() == "notes of a person"
    assert main([*words, "--again"]) == 0
    assert (tmp_path / "label-issues.csv").read_text().startswith("index,")


def test_classes_and_matrix_are_written(automatic: Path, tmp_path: Path) -> None:
    assert main(["labels", "find", str(automatic), "--out", str(tmp_path), "--device", "cpu"]) == 0
    (saved, labels), rows = saved_by(automatic), rows_of(tmp_path / "classes.csv")
    matrix = saved["verdict_noise_matrix"]
    assert [row["class"] for row in rows] == ["0", "1", "2"]
    assert [int(row["given"]) for row in rows] == labels.bincount().tolist()
    shares = 1 - matrix.diagonal()
    assert [float(row["estimated_share"]) for row in rows] == pytest.approx(shares.tolist(), abs=1e-5)
    with (tmp_path / "matrix.csv").open(newline="") as text:
        first, *lines = csv.reader(text)
    assert first == ["given \\ true", "0", "1", "2"]
    assert [line[0] for line in lines] == ["0", "1", "2"]
    assert [[float(cell) for cell in line[1:]] for line in lines] == [
        pytest.approx(row, abs=1e-5) for row in matrix.tolist()
    ]


def test_the_page_holds_the_images_and_needs_nothing_else(automatic: Path, tiny: str, tmp_path: Path) -> None:
    assert main(["labels", "find", str(automatic), "--out", str(tmp_path), "--top", "7", "--device", "cpu"]) == 0
    text = (tmp_path / "label-issues.html").read_text()
    page = Page(text)
    sources = [attributes["src"] for tag, attributes in page.elements if tag == "img"]
    images, rows = np.load(tiny)["x_train"], rows_of(tmp_path / "label-issues.csv")
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


def test_cells_are_colored_by_their_share_of_wrong_labels() -> None:
    cells = heat(torch.tensor([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0002, 0.9998]], dtype=torch.float64))
    assert [[cell["text"] for cell in row] for row in cells] == [
        ["80.0", "20.0", ""],
        ["10.0", "90.0", ""],
        ["", "", "100.0"],
    ]
    assert [[cell["strength"] for cell in row] for row in cells[:2]] == [
        ["0.000", "0.600", "0.000"],
        ["0.300", "0.000", "0.000"],
    ]
    assert heat(torch.eye(2))[0][1]["strength"] == "0.000"


def test_a_page_without_truth_or_with_many_classes_says_so(automatic: Path) -> None:
    found = orat.find_label_issues(automatic, device="cpu")
    unknown = replace(found, true_labels=None)
    assert "true label" in page_of(found, "x", top=3)
    assert "true label" not in page_of(unknown, "x", top=3)
    names = tuple(f"class {i}" for i in range(31))
    verdict = replace(found.verdict, noise_matrix=torch.eye(31, dtype=torch.float64))
    many = replace(found, names=names, verdict=verdict)
    assert "31 classes are too many for a page: see matrix.csv." in page_of(many, "x", top=3)


def test_the_summary_is_printed_for_people_and_for_machines(
    automatic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["labels", "find", str(automatic), "--again", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    for words in (
        "estimated wrong labels by class",
        "the 10 most suspicious",
        "estimated to be wrong",
        "AUC",
        "mostly",
        "label-issues.html",
    ):
        assert words in printed
    assert main(["labels", "find", str(automatic), "--again", "--device", "cpu", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["samples"], content["not_judged"], content["judged_by"]) == (270, 30, "scout networks and network")
    assert [row["rank"] for row in content["most_suspicious"]] == list(range(1, 11))
    assert all(Path(file).is_file() for file in content["files"])


def test_an_unreliable_verdict_gives_its_reason_and_a_remedy_instead_of_findings(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"train --data {tiny} --method orat --scout-epochs 1 --epochs 1 --model mlp-16 --device cpu"
    assert main([*words.split(), "--out", str(tmp_path / "a")]) == 0
    assert "estimated wrong" not in (printed := capsys.readouterr()).out + printed.err
    assert "cannot judge labels (their reliability is " in printed.err
    assert main(["labels", "find", str(tmp_path / "a"), "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("These predictions cannot judge the labels: their reliability is ")
    assert "flags need 50%. Give more samples, or more epochs (--scout-epochs" in lines[0]
    assert not any("estimated" in line or "suspicious" in line for line in lines)
    page = (tmp_path / "a" / "label-issues" / "label-issues.html").read_text()
    assert "cannot judge the labels" in page
    assert "<figure" not in page
    assert "<td" not in page
    assert main(["labels", "find", str(tmp_path / "a"), "--again", "--device", "cpu", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["unreliable"].startswith("their reliability is")
    assert content["most_suspicious"] == []


def test_points_have_no_pictures_and_an_unknown_truth_is_not_shown(tmp_path: Path) -> None:
    run = Run(data="toy-balanced", method=orat.methods.AT(), epochs=3, seed=1)
    orat.train(run, tmp_path / "a", device="cpu", display=SILENT)
    found = orat.find_label_issues(tmp_path / "a", device="cpu")
    found = replace(found, verdict=replace(found.verdict, reliability=0.9))
    text = page_of(found, "<toy>")
    assert "no pictures" in text
    assert "&lt;toy&gt;" in text
    assert ("AUC" in text) == (found.true_labels is not None)
    assert not [tag for tag, _ in Page(text).elements if tag == "img"]


def test_names_are_escaped_and_paths_are_shown(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for label, name in enumerate(("a<b", "c&d")):
        folder = tmp_path / "data" / "train" / name
        folder.mkdir(parents=True)
        for i in range(30):
            pixels = generator.integers(0, 100, (6, 8, 3), dtype=np.uint8)
            pixels[:, 4 * label : 4 * label + 4] += 120
            Image.fromarray(pixels).save(folder / f"{i}.png")
    run = quick(str(tmp_path / "data"), orat.methods.ST())
    orat.train(run, tmp_path / "a", device="cpu", display=SILENT)
    found = orat.find_label_issues(tmp_path / "a", device="cpu", held_out=True)
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
        (["--folds", "3"], "--folds and --epochs are for data, or for a run with --held-out"),
        (["--held-out", "--folds", "2"], "folds = 2: give 3 to 20"),
        (["--held-out", "--folds", "9999"], "folds = 9999"),
        (["--held-out", "--epochs", "0"], "epochs = 0: give 1 or more"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(
    automatic: Path, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    assert main(["labels", "find", str(automatic), "--again", "--device", "cpu", *more]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_other_data_and_unfinished_runs_are_refused(tiny: str, tmp_path: Path) -> None:
    arrays = dict(np.load(tiny))
    np.savez(tmp_path / "own.npz", **arrays)
    orat.train(quick(str(tmp_path / "own.npz"), orat.methods.ST()), tmp_path / "a", device="cpu", display=SILENT)
    arrays["x_train"] = arrays["x_train"][::-1]
    np.savez(tmp_path / "own.npz", **arrays)
    assert_refused_in_one_line(lambda: orat.find_label_issues(tmp_path / "a"), "other images or labels")
    (tmp_path / "a" / "result.json").unlink()
    assert_refused_in_one_line(lambda: orat.find_label_issues(tmp_path / "a"), "is not finished")
    assert_refused_in_one_line(lambda: orat.find_label_issues(tmp_path), "holds 1 runs: give one of them")


def rewritten(folder: Path, to: Path, **fields: str) -> Path:
    """A copy of a run whose record has these fields."""
    shutil.copytree(folder, to)
    for name in ("run.json", "config.json"):
        record = json.loads((to / name).read_text())
        (to / name).write_text(json.dumps(record | {key: value for key, value in fields.items() if key in record}))
    return to


@pytest.mark.parametrize("field", ["data", "model"])
def test_code_that_only_the_record_names_does_not_run(
    plain: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    (tmp_path / "code.py").write_text("open('ran', 'w')")
    spec = f"{tmp_path / 'code.py'}:make"
    folder = rewritten(plain, tmp_path / "run", **{field: spec})
    for words in (["find"], ["fix", "--out", str(tmp_path / "out")]):
        line = wrong(capsys, "labels", words[0], str(folder), *words[1:], "--device", "cpu")
        assert f"{field} {spec} is code that a file names: give --{field} {spec} in this command, or --trust" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["code.py", "run"]
    again = {"data": tiny, "model": "mlp-16"}[field]
    assert main(["labels", "find", str(folder), f"--{field}", again, "--device", "cpu"]) == 0
    wanted = list(orat.find_label_issues(plain, device="cpu"))
    assert list(orat.find_label_issues(folder, device="cpu", **{field: again})) == wanted


def test_objects_in_memory_are_asked_for_again(plain: Path, tiny: str, tmp_path: Path) -> None:
    folder = rewritten(plain, tmp_path / "run", data="in memory: Pair")
    assert_refused_in_one_line(
        lambda: orat.find_label_issues(folder), "the data of the run was in memory: Pair: give it again, as data=..."
    )
    assert len(orat.find_label_issues(folder, data=tiny, device="cpu")) == 270
