"""Tables and vectors as data sets: cells, labels, parts, bounds and units, and every refusal."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from pyarrow import parquet
from refusals import assert_refused_in_one_line

from orat.core.domain import UNIT, Columns
from orat.core.errors import InputError
from orat.data import arrays, catalog
from orat.data.source import Splits

RNG = np.random.default_rng(0)
N = 60
AGE, SIZE = RNG.integers(18, 80, N), RNG.normal(1e5, 3e4, N).astype(np.float32)
TOWN = [("Rome", "Oslo", "Lima")[i % 3] for i in range(N)]
LABEL = [("no", "yes", "maybe")[i % 3] for i in range(N)]
COLUMNS = {"age": AGE.tolist(), "size": [repr(float(one)) for one in SIZE], "town": TOWN, "label": LABEL}


def write(folder: Path, columns: dict[str, list[Any]] | str = COLUMNS, separator: str = ",") -> Path:
    """A table of these columns, or of this text."""
    if not isinstance(columns, str):
        rows = [list(columns), *zip(*columns.values(), strict=True)]
        columns = "\n".join(separator.join(map(str, row)) for row in rows) + "\n"
    file = folder / "t.csv"
    file.write_text(columns, encoding="utf-8")
    return file


def load(file: Path, target: str | None = "label", **more: Any) -> Splits:
    """The parts of a table."""
    return catalog.load(str(file), target=target, **more)


def whole(splits: Splits) -> tuple[np.ndarray, list[str]]:
    """All features and class names, in the order of the rows."""
    parts = [part for part in (splits.train, splits.test, splits.validation) if part is not None]
    lines = [int((path or "").split()[1]) for part in parts for path in part.paths or ()]
    order = np.argsort(lines)
    names = [part.classes[label] for part in parts for label in part.labels.tolist()]
    return torch.cat([part.images for part in parts]).numpy()[order], [names[i] for i in order]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_every_row_is_read_with_its_numbers_texts_and_label(tmp_path: Path, separator: str, start: str) -> None:
    file = write(tmp_path, COLUMNS, separator)
    file.write_text(start + file.read_text(), encoding="utf-8")
    splits = load(file)
    features, names = whole(splits)
    assert splits.train.features == ("age", "size", "town=Lima", "town=Oslo", "town=Rome")
    assert splits.train.classes == ("maybe", "no", "yes")
    assert features.dtype == np.float32
    assert features[:, 0].tolist() == AGE.tolist()
    assert features[:, 1].tolist() == SIZE.tolist()
    assert features[:, 2:].tolist() == [[town == name for name in ("Lima", "Oslo", "Rome")] for town in TOWN]
    assert names == LABEL


def test_quoted_cells_may_hold_separators_quotes_and_line_breaks(tmp_path: Path) -> None:
    rows = "".join(f'{i * 7 % 11}.5,"a, ""b""\n{i % 2}",{i % 2}\n' for i in range(20))
    splits = load(write(tmp_path, 'x,"what, where",label\n' + rows))
    assert splits.train.features == ("x", 'what, where=a, "b"\n0', 'what, where=a, "b"\n1')


def test_a_parquet_file_reads_as_the_same_table(tmp_path: Path) -> None:
    columns = {"age": AGE, "size": SIZE, "town": TOWN, "label": LABEL}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    ours, theirs = load(write(tmp_path)), load(tmp_path / "t.parquet")
    assert ours.train.fingerprint() == theirs.train.fingerprint()


@pytest.mark.parametrize(
    ("texts", "classes"),
    [
        (["b", "a", "10"], ("10", "a", "b")),
        (["10", "9", "-1"], ("-1", "9", "10")),
        (["2.0", "10.0", "3e0"], ("2", "3", "10")),
        (["True", "False", "True"], ("False", "True")),
    ],
)
def test_classes_are_sorted_by_value_or_name(tmp_path: Path, texts: list[str], classes: tuple[str, ...]) -> None:
    splits = load(write(tmp_path, {"x": AGE.tolist(), "label": texts * 20}))
    assert splits.train.classes == classes
    as_read = [name if not name.replace(".", "").isdigit() else str(int(float(name))) for name in texts * 20]
    assert len(set(whole(splits)[1])) == len(set(as_read))


def test_a_fifth_of_each_class_is_the_test_part_every_time(tmp_path: Path) -> None:
    file = write(tmp_path, {"x": RNG.random(103).tolist(), "label": [int(i < 20) for i in range(103)]})
    splits = load(file)
    assert splits.test is not None
    assert splits.test.labels.bincount().tolist() == [17, 4]  # of 83 and 20
    assert splits.train.labels.bincount().tolist() == [66, 16]
    assert load(file).test.paths == splits.test.paths  # type: ignore[union-attr]
    assert any("21 of 103 rows are the test part" in note for note in splits.notes)


def test_a_corrected_label_moves_at_most_two_rows_to_the_other_part(tmp_path: Path) -> None:
    labels = [int(i % 3 == 0) for i in range(100)]
    before = load(write(tmp_path, {"x": RNG.random(100).tolist(), "label": labels})).test
    labels[5] = 1 - labels[5]
    after = load(write(tmp_path, {"x": RNG.random(100).tolist(), "label": labels})).test
    assert before is not None
    assert after is not None
    assert len({*(before.paths or ())} ^ {*(after.paths or ())}) <= 2


def test_a_column_named_split_decides_the_parts(tmp_path: Path) -> None:
    named = [("train", "Test", "VAL", "training")[i % 4] for i in range(N)]
    splits = load(write(tmp_path, {**COLUMNS, "Split": named}))
    assert splits.train.features == ("age", "size", "town=Lima", "town=Oslo", "town=Rome")
    sizes = [0 if part is None else len(part) for part in (splits.train, splits.test, splits.validation)]
    assert sizes == [30, 15, 15]
    assert splits.train.images[:, 0].tolist() == [age for i, age in enumerate(AGE.tolist()) if i % 4 in (0, 3)]


def test_units_are_standard_deviations_of_the_training_part_and_bounds_those_of_all_parts(tmp_path: Path) -> None:
    splits = load(write(tmp_path))
    domain, train = splits.train.domain, splits.train.images.double().numpy()
    assert domain.scale == (pytest.approx(train[:, 0].std()), pytest.approx(train[:, 1].std()), 0, 0, 0)
    assert domain.low == (AGE.min(), SIZE.min(), 0, 0, 0)
    assert domain.high == (AGE.max(), SIZE.max(), 1, 1, 1)
    assert splits.test is not None
    assert splits.test.domain == domain


def test_frozen_and_constant_columns_have_unit_0_and_are_said(tmp_path: Path) -> None:
    file = write(tmp_path, {**COLUMNS, "year": [2020.1] * N})
    splits = load(file, bounds=(0.0, 1e6), frozen=("age",))
    domain = splits.train.domain
    assert [bool(one) for one in domain.scale or ()] == [False, True, False, False, False, False]
    assert domain.low == (AGE.min(), 0, 0, 0, 0, np.float32(2020.1))
    assert domain.high == (AGE.max(), 1e6, 1, 1, 1, np.float32(2020.1))
    line = "1 of 6 features can be attacked, in standard deviations of each; bounds: 0 to 1e+06; "
    assert splits.notes[0] == line + "frozen: town (text), year (constant), age (as asked)"


def test_without_bounds_features_have_none(tmp_path: Path) -> None:
    assert (load(write(tmp_path), bounds="none").train.domain.low, UNIT.low) == (None, 0)


@pytest.mark.parametrize(("name", "first"), [("", 0), ("Id", 1), ("nr", 0)])
def test_a_column_that_numbers_the_rows_is_left_out(tmp_path: Path, name: str, first: int) -> None:
    splits = load(write(tmp_path, {name: list(range(first, first + N)), **COLUMNS}))
    assert splits.train.fingerprint() == load(write(tmp_path)).train.fingerprint()
    assert f"they only number the rows: {name or 'the first column, without a name'}" in splits.notes[1]


BAD: dict[str, tuple[str, str]] = {  # the text of a table, and words of the refusal
    "an empty file": ("", "has no rows below its header"),
    "only a header": ("x,label\n", "has no rows below its header"),
    "one column": ("label\na\nb\n", "has one column, 'label': separate columns by comma, semicolon or tab"),
    "no header": ("1,0\n2,1\n3,0\n", "has no header, only numbers"),
    "a column twice": ("x,x,label\n1,2,a\n2,3,b\n", "has two columns 'x'"),
    "a column without a name": ("x,,label\n1,2,a\n2,3,b\n", "column 2 has no name"),
    "a short line": ("x,z,label\n1,2,a\n2,b\n", "line 3: 2 cells for 3 columns"),
    "an open quote": ('x,label\n1,"a\n2,b\n', "as a table (unexpected end of data)"),
    "another target": ("x,lable\n1,a\n2,b\n", "unknown column of {file}: 'label': did you mean 'lable'?"),
    "a missing number": ("x,label\n1,a\n,b\n", "column 'x', line 3: the value is missing"),
    "NaN": ("x,label\n1,a\nNaN,b\n", "column 'x', line 3: the value is missing"),
    "many missing values": (
        "x,z,label\n" + "1,,a\n" * 4 + "nan,,b\n",
        "column 'z', line 2; column 'z', line 3; column 'z', line 4; column 'z', line 5; column 'x', line 6 and 1 more"
        ": "        "6 values are missing; fill in, or remove the rows or the columns",
    ),
    "paths of images": (
        "path,label\n" + "".join(f"{i}.jpg,{i % 2}\n" for i in range(15)),
        "column 'path' names image files, but --target is for tables of numbers: leave --target out",
    ),
    "a missing label": ("x,label\n1,a\n2,\n", "column 'label', line 3: the value is missing"),
    "infinity": ("x,label\n1,a\n-inf,b\n", "column 'x', line 3: -inf is too large for a float32"),
    "a typo in a number": ("x,label\n1,a\n2,b\n3o,a\n", "column 'x', line 4: '3o' is no number, unlike most cells"),
    "decimal commas": ('x,label\n"1,5",a\n"2,5",b\n', "column 'x', line 2: '1,5' has a decimal comma"),
    "one class": ("x,label\n1,a\n2,a\n", "column 'label': all rows have the class 'a'"),
    "fractions as labels": ("x,label\n1,0.5\n2,1\n", "column 'label', line 2: 0.5 is no class"),
    "numbers as labels": (
        "x,label\n" + "".join(f"1,{i}\n" for i in range(9)), "column 'label' has 9 values in 9 rows, too many"
    ),
    "an id as text": (
        "x,name,label\n" + "".join(f"{i * i},n{i},{i % 2}\n" for i in range(15)),
        "column 'name' has 15 different texts in 15 rows, too many for features: remove the column",
    ),
    "an unknown part": ("x,split,label\n1,train,a\n2,tset,b\n", "column 'split', line 3: 'tset' is no part"),
    "no training rows": ("x,split,label\n1,test,a\n2,test,b\n", "column 'split' has no training rows"),
    "only labels": ("label,split\na,train\nb,train\n", "has no features besides 'label'"),
    "nothing to attack": ("x,label\n1,a\n1,b\n", "no feature is left that an attack can change (x (constant))"),
}  # fmt: skip


def test_a_data_frame_is_read_as_its_file(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": RNG.normal(size=30), "town": ["b", "a", "c"] * 10, "label": ["cat", "dog"] * 15})
    frame.to_csv(tmp_path / "t.csv", index=False)
    given, read = catalog.load(frame, target="label"), catalog.load(str(tmp_path / "t.csv"), target="label")
    assert given.train.fingerprint() == read.train.fingerprint()
    assert given.train.features == ("x", "town=a", "town=b", "town=c")
    assert given.train.lines is not None
    assert [line + 2 for line in given.train.lines] == list(read.train.lines or ())
    for data, more, words in (
        (frame, {}, "the data frame is a table with the columns x, town, label: name the column of labels"),
        (frame, {"target": "lable"}, "unknown column of the data frame: 'lable': did you mean 'label'?"),
        (frame.replace({"town": {"a": None}}), {"target": "label"}, "the data frame, column 'town', row 1;"),
        (frame[:0], {"target": "label"}, "the data frame has no rows"),
    ):
        assert_refused_in_one_line(lambda data=data, more=more: catalog.load(data, **more), words)  # type: ignore[misc]


@pytest.mark.parametrize("name", BAD)
def test_a_table_that_makes_no_sense_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    text, words = BAD[name]
    file = write(tmp_path, text)
    assert_refused_in_one_line(lambda: load(file), words.format(file=file))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"target": None},
            "its columns are age, size, town, label; name one 'path'; for a table of numbers, give --target",
        ),
        ({"frozen": ("aeg",)}, "unknown column of frozen: 'aeg': did you mean 'age'?"),
        ({"bounds": (0.0, 50.0)}, "out of the bounds 0 to 50: give wider bounds, or freeze the column"),
        (
            {"frozen": ("age", "size")},
            "no feature is left that an attack can change (town (text), age, size (as asked))",
        ),
    ],
)
def test_columns_that_do_not_fit_the_table_are_refused(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    file = write(tmp_path)
    assert_refused_in_one_line(lambda: load(file, **more), words)


def test_bytes_that_are_no_utf8_and_a_damaged_parquet_file_are_refused(tmp_path: Path) -> None:
    for name, content in (("a.csv", "x,label\n1,ä\n".encode("utf-16")), ("a.parquet", b"PAR1")):
        (tmp_path / name).write_bytes(content)
        assert_refused_in_one_line(lambda name=name: load(tmp_path / name), "as a table")


def vectors(folder: Path, **parts: np.ndarray) -> Path:
    """An .npz file of vectors."""
    labels = {f"y{name[1:]}": np.arange(len(part)) % 2 for name, part in parts.items()}
    np.savez(folder / "v.npz", **parts, **labels)
    return folder / "v.npz"


def test_vectors_beyond_0_and_1_are_features_in_both_parts(tmp_path: Path) -> None:
    x_train, x_test = RNG.random((20, 3)), RNG.normal(5, 3, (10, 3))
    splits = arrays.read(vectors(tmp_path, x_train=x_train, x_test=x_test))
    both = np.concatenate([x_train, x_test]).astype(np.float32)
    domain = splits.train.domain
    assert (domain.low, domain.high) == (tuple(both.min(0).tolist()), tuple(both.max(0).tolist()))
    assert domain.scale == pytest.approx(x_train.astype(np.float32).std(0, dtype=np.float64))
    assert splits.test is not None
    assert splits.test.domain == domain
    assert "3 of 3 features can be attacked" in splits.notes[0]


def test_vectors_within_0_and_1_are_as_ever_unless_bounds_are_given(tmp_path: Path) -> None:
    file = vectors(tmp_path, x_train=RNG.random((20, 3)))
    assert (arrays.read(file).train.domain, arrays.read(file).notes) == (UNIT, (arrays.PIXELS,))
    embedded = arrays.read(file, Columns(bounds="none", frozen=("1",))).train.domain
    assert (embedded.low, embedded.high) == (None, None)
    assert [bool(one) for one in embedded.scale or ()] == [True, False, True]


def test_integers_are_vectors_too(tmp_path: Path) -> None:
    x = RNG.integers(-5, 500, (20, 3))
    assert arrays.read(vectors(tmp_path, x_train=x)).train.images.tolist() == x.tolist()


@pytest.mark.parametrize("columns", [Columns(target="y"), Columns(bounds="none"), Columns(frozen=("1",))])
def test_columns_are_refused_for_images(tmp_path: Path, columns: Columns) -> None:
    file = vectors(tmp_path, x_train=RNG.integers(0, 255, (20, 4, 4), dtype=np.uint8))
    assert_refused_in_one_line(lambda: arrays.read(file, columns), "bounds and frozen for tables and vectors: leave")
    for name in ("sample", str(tmp_path), "toy-balanced"):
        with pytest.raises(InputError, match=r"is for tables( and vectors)?: leave it out"):
            catalog.load(name, **asdict(columns))
