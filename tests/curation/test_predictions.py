"""Labels judged by given predictions: planted noise is found, kinds are told apart, and bad tables are refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from html_page import Page
from planted_noise import flipped, logits, truth
from refusals import assert_refused_in_one_line, wrong
from torch import Tensor

import orat
from orat.cli.main import main
from orat.curation.page import page as page_of

NAMES = ("ant", "bee", "cat", "dog", "eel")
TRUE = truth(1000)
LABELS = flipped(TRUE, 0.2)
NAMED = [NAMES[label] for label in LABELS.tolist()]
LOGITS = logits(TRUE, 5.0)
PROBS = LOGITS.double().softmax(1)


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def written(folder: Path, predictions: Any = PROBS, labels: Any = LABELS) -> list[str]:
    """Saves arrays, and gives the arguments of the command."""
    np.save(folder / "probs.npy", np.asarray(predictions))
    np.save(folder / "labels.npy", np.asarray(labels))
    return ["labels", "find", "--predictions", str(folder / "probs.npy"), "--labels", str(folder / "labels.npy")]


@pytest.mark.parametrize(
    ("predictions", "kind"),
    [
        (PROBS, "probabilities, since rows sum to 1."),
        (PROBS.numpy().round(2), "probabilities, since rows sum to 1."),
        (PROBS.log(), "log-probabilities, since rows sum to 1 after exp."),
        (LOGITS, "logits, since rows do not sum to 1, neither before nor after exp."),
        (LOGITS.tolist(), "logits, since rows do not sum to 1, neither before nor after exp."),
        (PROBS.half(), "probabilities, since rows sum to 1."),
        (torch.nn.functional.one_hot(TRUE), "probabilities, since rows sum to 1."),
    ],
)
def test_kinds_are_told_apart_by_their_values_alone(predictions: Any, kind: str) -> None:
    found = orat.find_label_issues(predictions=predictions, labels=LABELS)
    assert found.notes()[0] == f"predictions: taken as {kind}"
    wrong = LABELS != TRUE
    assert int((found.flags & wrong).sum()) / int(found.flags.sum()) > 0.95
    assert int((found.flags & wrong).sum()) / int(wrong.sum()) > 0.93
    assert abs(found.verdict.noise_rate - float(wrong.double().mean())) < 0.03


@pytest.mark.parametrize("predictions", [PROBS, PROBS.log(), LOGITS.double(), LOGITS.double() - 30])
def test_every_kind_has_the_verdict_of_judge_on_the_log_probabilities(predictions: Tensor) -> None:
    found, wanted = orat.find_label_issues(predictions=predictions, labels=LABELS), orat.judge(PROBS.log(), LABELS)
    near = {"rtol": 1e-3, "atol": 1e-4}  # of float32 and float64 logits, after a fit
    torch.testing.assert_close(found.verdict.p_wrong, wanted.p_wrong, **near)
    torch.testing.assert_close(found.verdict.score, wanted.score, **near)
    torch.testing.assert_close(found.verdict.noise_matrix, wanted.noise_matrix, **near)
    assert torch.equal(found.flags, wanted.flagged())
    assert found.verdict.noise_rate == pytest.approx(wanted.noise_rate, abs=1e-4)


def test_judge_takes_arrays() -> None:
    verdict = orat.judge(PROBS.log().numpy(), LABELS.numpy().astype(np.int32))
    assert torch.equal(verdict.p_wrong, orat.judge(PROBS.log(), LABELS).p_wrong)


def test_the_command_needs_no_run_and_writes_tables_and_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(written(tmp_path)) == 0
    printed = capsys.readouterr().out
    out = tmp_path / "label-issues"
    assert f"{tmp_path / 'probs.npy'}: taken as probabilities, since rows sum to 1." in printed
    assert "right only if no network was trained on the samples that it predicted" in printed
    assert sorted(file.name for file in out.iterdir()) == [
        "classes.csv", "label-issues.csv", "label-issues.html", "matrix.csv",
    ]  # fmt: skip
    rows, found = rows_of(out / "label-issues.csv"), orat.find_label_issues(predictions=PROBS, labels=LABELS)
    assert [{name: str(value) if value is not None else "" for name, value in row.items()} for row in found] == rows
    page = (out / "label-issues.html").read_text()
    assert "Predictions come without images, so there are no pictures." in page
    assert not [tag for tag, _ in Page(page).elements if tag == "img"]


def test_the_result_as_json_says_the_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*written(tmp_path, LOGITS), "--json", "--out", str(tmp_path / "new" / "out")]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["samples"], content["judged_by"], content["truth"]) == (1000, "given predictions", None)
    assert "taken as logits" in content["notes"][0]
    assert (tmp_path / "new" / "out" / "classes.csv").is_file()


def frame(**more: Any) -> pd.DataFrame:
    """The predictions as a table with class names, and further columns."""
    return pd.DataFrame({**more, **dict(zip(NAMES, PROBS.numpy().T, strict=True))})


@pytest.mark.parametrize("form", ["csv", "csv with index", "parquet", "npz", "frame"])
def test_names_of_the_classes_come_with_the_predictions(tmp_path: Path, form: str) -> None:
    source: Any = tmp_path / f"probs.{form.partition(' ')[0]}"
    if form == "frame":
        source = frame()
    elif form == "npz":
        np.savez(source, probs=PROBS.numpy(), class_names=np.array(NAMES))
    elif form == "parquet":
        frame().to_parquet(source)
    else:
        frame().to_csv(source, index=form != "csv")
    (tmp_path / "labels.txt").write_text("".join(f"{NAMES[label]}\n" for label in LABELS.tolist()))
    found = orat.find_label_issues(predictions=source, labels=tmp_path / "labels.txt")
    assert found.names == NAMES
    assert torch.equal(found.flags, orat.judge(PROBS.log(), LABELS).flagged())
    assert len(found.notes()) == 2


def test_rows_are_matched_by_index_and_by_path(tmp_path: Path) -> None:
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(0)).tolist()
    paths = [f"photos/{i}.png" for i in range(1000)]
    frame(index=range(1000)).iloc[order].to_csv(tmp_path / "by-index.csv", index=False)
    frame(path=paths).to_csv(tmp_path / "by-path.csv", index=False)
    named = [(paths[i], NAMES[int(LABELS[i])]) for i in reversed(order)]
    pd.DataFrame(named, columns=["path", "label"]).to_csv(tmp_path / "labels.csv", index=False)
    plain = orat.find_label_issues(predictions=PROBS, labels=LABELS)
    by_index = orat.find_label_issues(predictions=tmp_path / "by-index.csv", labels=LABELS)
    by_path = orat.find_label_issues(predictions=tmp_path / "by-path.csv", labels=tmp_path / "labels.csv")
    assert torch.equal(by_index.flags, plain.flags)
    assert torch.equal(by_path.flags, plain.flags)
    assert next(iter(by_path))["path"] == paths[next(iter(plain))["index"]]


def test_given_classes_rename_the_columns_of_a_table(tmp_path: Path) -> None:
    frame().rename(columns={"ant": "A", "bee": "B"}).to_csv(tmp_path / "probs.csv", index=False)
    arguments: dict[str, Any] = {"predictions": tmp_path / "probs.csv", "labels": NAMED}
    unknown = "label 'ant' is no class: give one of A, B, cat, dog, eel, or 0..4"
    named = [name for name in NAMED if name == "ant"] + [name for name in NAMED if name != "ant"]
    assert_refused_in_one_line(lambda: orat.find_label_issues(**{**arguments, "labels": named}), unknown)
    found = orat.find_label_issues(**arguments, classes=NAMES)
    assert torch.equal(found.flags, orat.judge(PROBS.log(), LABELS).flagged())
    table = tmp_path / "probs.csv"
    assert found.notes()[1] == (
        f"The columns A, B, cat, dog, eel of {table} are taken as ant, bee, cat, dog, eel, as asked."
    )


def test_names_among_the_labels_are_sorted_unless_classes_are_given() -> None:
    found = orat.find_label_issues(predictions=PROBS, labels=NAMED)
    assert found.names == NAMES
    assert found.notes()[1] == (
        "The columns are taken as the classes in the order of the alphabet: ant, bee, cat, dog, eel."
    )
    order = [4, 2, 0, 1, 3]
    moved = orat.find_label_issues(
        predictions=PROBS[:, order], labels=np.array(NAMED), classes=[NAMES[i] for i in order]
    )
    assert torch.equal(moved.flags, found.flags)
    assert len(moved.notes()) == 2


def test_samples_without_a_label_are_not_judged(tmp_path: Path) -> None:
    texts = [str(label) if i >= 30 else "" for i, label in enumerate(LABELS.tolist())]
    pd.DataFrame({"index": range(1000), "label": texts}).to_csv(tmp_path / "labels.csv", index=False)
    found = orat.find_label_issues(predictions=PROBS, labels=tmp_path / "labels.csv")
    assert found.id.tolist() == list(range(30, 1000))
    assert "Not judged: 30 of 1,000 samples, which have no label." in found.notes()
    assert torch.equal(found.verdict.p_wrong, orat.judge(PROBS[30:].log(), LABELS[30:]).p_wrong)


def test_a_page_of_many_or_strange_names_is_whole() -> None:
    found = orat.find_label_issues(predictions=PROBS, labels=LABELS, classes=["<a>", "b&c", "d", "e", "f"])
    assert "<a>" in Page(page_of(found, "x")).text


def changed(row: int, values: list[float] | float) -> Tensor:
    """The probabilities with another row."""
    predictions = PROBS.clone()
    predictions[row] = torch.as_tensor(values, dtype=torch.float64)
    return predictions


@pytest.mark.parametrize(
    ("predictions", "labels", "words"),
    [
        (changed(17, torch.nan), LABELS, "NaN or infinity in rows: 1, first of sample 17"),
        (changed(17, torch.inf), LABELS, "NaN or infinity in rows: 1"),
        (
            changed(17, [0.5, 0.1, 0.1, 0.0, 0.0]),
            LABELS,
            "999 of 1,000 rows are probabilities, but sample 17",
        ),
        (torch.cat([PROBS[:400], LOGITS[400:]]), LABELS, "400 of 1,000 rows are probabilities, but sample 400"),
        (torch.cat([PROBS[:400].log(), LOGITS[400:]]), LABELS, "400 of 1,000 rows are log-probabilities"),
        (LOGITS.sigmoid(), LABELS, "values lie in [0, 1], but rows sum to"),
        (100 * PROBS, LABELS, "every row sums to 100: divide by it"),
        (torch.zeros(1000, 5), LABELS, "values lie in [0, 1], but rows sum to 0 to 0"),
        (torch.full((1000, 5), -torch.inf), LABELS, "rows of minus infinity alone"),
        (PROBS[:900], LABELS, "1000 labels for 900 samples"),
        (PROBS, LABELS[:900], "900 labels for 1000 samples"),
        (PROBS, LABELS + 1, "labels up to 5, from 0 on, but the predictions have 5 columns: give a column"),
        (PROBS, LABELS - 1, "label '-1' is no class"),
        (PROBS[:, :1], LABELS, "has one class: give a column for each class, such as 1 - p and p"),
        (PROBS[:, 1], LABELS, "has the shape (1000,): give one row a sample and one column a class"),
        (PROBS[:0], LABELS[:0], "has the shape (0, 5)"),
        (PROBS, LABELS * 0, "the labels are all of one class"),
        (PROBS, LABELS.double(), "labels are float64 of shape (1000,): give one class index or name per sample"),
        (PROBS, torch.nn.functional.one_hot(LABELS), "labels are int64 of shape (1000, 5)"),
        (
            PROBS[:, :3].log().softmax(1),
            NAMED,
            "labels of 5 classes (ant, bee, cat",
        ),
        (
            PROBS[:, [2, 0, 1, 4, 3]],
            NAMED,
            "give the order as --classes, such as",
        ),
        (PROBS, ["ant", "bee"] * 500, "labels names 2 classes (ant, bee) for 5 columns of predictions"),
        ([["a", "b"]] * 1000, LABELS, "could not convert string to float"),
        (PROBS, None, "give predictions with labels"),
        (None, LABELS, "give data, the folder of a run, or predictions with labels"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_one_line(predictions: Any, labels: Any, words: str) -> None:
    assert_refused_in_one_line(lambda: orat.find_label_issues(predictions=predictions, labels=labels), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no rows below its header"),
        ("a,b\n", "has no rows below its header"),
        ("0.1,0.9\n0.8,0.2\n", "has no header, only numbers: write the class names into the first line"),
        ("a,b\n0.1,0.9\n0.8\n", "line 3: 1 cells for 2 columns"),
        ("a,a\n0.1,0.9\n", "has two columns 'a'"),
        ("a,b\n0.1,often\n", "column 'b', sample 0: 'often' is no number"),
        ("index,a,b\n0,0.1,0.9\n0,0.8,0.2\n", "the column of indices has to hold 0 to 1, each once"),
        ("path,a\nx,0.1\n", "has one class"),
    ],
)
def test_bad_tables_of_predictions_are_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (tmp_path / "probs.csv").write_text(text)
    (tmp_path / "labels.txt").write_text("0\n1\n")
    line = wrong(
        capsys, "labels", "find", "--predictions", str(tmp_path / "probs.csv"), "--labels", str(tmp_path / "labels.txt")
    )
    assert words in line
    assert sorted(file.name for file in tmp_path.iterdir()) == ["labels.txt", "probs.csv"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--held-out"], "--held-out is for data or a run: leave it out, since --predictions need no training"),
        (["--folds", "3"], "--folds is for data or a run"),
        (["--model", "mlp-16"], "--model is for data or a run"),
        (["some-run"], "--predictions are judged without some-run: leave one of them out"),
        (["--classes", "a,b"], "there are 2 names of classes for 5 columns"),
        (["--predictions", "gone.npy"], "there is no file gone.npy"),
        (["--predictions", "probs.txt"], "ends in '.txt': give the predictions as .npy, .npz, .csv, .parquet"),
        (["--labels", "gone.csv"], "there is no file gone.csv"),
        (["--labels", "labels.json"], "ends in '.json'"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    assert words in wrong(capsys, *written(tmp_path), *more)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["labels.npy", "probs.npy"]


def test_predictions_and_labels_are_given_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "give data such as an image folder, a run's folder, or --predictions FILE with --labels FILE" in wrong(
        capsys, "labels", "find"
    )
    assert "--predictions without labels: give --labels FILE" in wrong(capsys, *written(tmp_path)[:4])


def test_broken_files_of_predictions_are_refused(tmp_path: Path) -> None:
    for name in ("a.npy", "a.npz", "a.parquet"):
        (tmp_path / name).write_bytes(b"broken")
        assert_refused_in_one_line(
            lambda name=name: orat.find_label_issues(predictions=tmp_path / name, labels=LABELS), "cannot read"
        )
    np.savez(tmp_path / "b.npz", one=PROBS, two=PROBS)
    assert_refused_in_one_line(
        lambda: orat.find_label_issues(predictions=tmp_path / "b.npz", labels=LABELS), "holds one, two: keep one array"
    )
