"""Labels from files: a well-formed file gives its labels, a malformed row is refused with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from orat.core.errors import InputError
from orat.data.catalog import load
from orat.data.label_files import LEFT_OUT, from_file
from orat.methods import AT
from orat.noise import inject as noise
from orat.training.run import Run
from orat.training.setup import prepare

PETS = ("cat", "dog", "eel")


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        ("txt", "0\n2\n1\n2\n"),
        ("txt", "cat\neel\r\n\n  dog\neel"),
        ("csv", "0\n2\n1\n2\n"),
        ("csv", "label\ncat\neel\ndog\neel\n"),
        ("csv", "index,label\n3,eel\n0,cat\n1,eel\n2,dog\n"),
        ("csv", "3, 2\n0, 0\n1, 2\n2, 1\n\n"),
        ("csv", "\ufeffindex,label\n0,0\n1,2\n2,1\n3,2\n"),
    ],
)
def test_text_files_give_their_labels(tmp_path: Path, ending, text):
    file = tmp_path / f"labels.{ending}"
    file.write_text(text, encoding="utf-8")
    assert from_file(file, 4, PETS).tolist() == [0, 2, 1, 2]


@pytest.mark.parametrize(
    "array", [np.array([0, 2, 1, 2]), np.array([0, 2, 1, 2], np.uint8), np.array(["cat", "eel", "dog", "eel"])]
)
def test_npy_files_give_their_labels(tmp_path: Path, array):
    np.save(tmp_path / "labels.npy", array)
    labels = from_file(str(tmp_path / "labels.npy"), 4, PETS)
    assert labels.tolist() == [0, 2, 1, 2]
    assert labels.dtype == torch.int64


def test_a_number_is_a_name_in_a_text_and_an_index_in_an_array(tmp_path: Path):
    classes = ("0", "1", "10", "2")  # the order in which folders of numbers are listed
    (tmp_path / "a.txt").write_text("2\n1\n")
    np.save(tmp_path / "a.npy", np.array([2, 1]))
    assert from_file(tmp_path / "a.txt", 2, classes).tolist() == [3, 1]
    assert from_file(tmp_path / "a.npy", 2, classes).tolist() == [2, 1]


@settings(deadline=None, max_examples=20)
@given(labels=st.lists(st.integers(0, 99), min_size=1, max_size=50), shuffle=st.randoms())
def test_a_written_csv_comes_back_in_any_order(tmp_path_factory, labels, shuffle):
    rows = [f"{i},{noise.CIFAR100[label]}" for i, label in enumerate(labels)]
    shuffle.shuffle(rows)
    file = tmp_path_factory.mktemp("labels") / "labels.csv"
    file.write_text("\n".join(rows))
    assert from_file(file, len(labels), noise.CIFAR100).tolist() == labels


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"0\n1\n2\n", r"a.txt has 3 labels for 4 samples"),
        ("a.txt", b"", r"a.txt has 0 labels for 4 samples"),
        ("a.txt", b"0\n1\n3\n2\n", r"a.txt, line 3: label '3' is no class: give one of cat, dog, eel, or 0..2"),
        ("a.txt", b"0\n-1\n1\n2\n", r"a.txt, line 2: label '-1' is no class"),
        ("a.txt", b"cat\ndgo\neel\ncat\n", r"a.txt, line 2: label 'dgo' is no class"),
        ("a.txt", b"\xff\xfe\x00", r"a.txt is not a .txt file of labels: 'utf-8' codec"),
        ("a.csv", b"id,class\n0,cat\n", r"a.csv, line 1: index 'id' is not in 0..3"),
        ("a.csv", b"0,cat\n1,dog\n1,dog\n2,eel\n", r"a.csv, line 3: index '1' .* came before"),
        ("a.csv", b"0,cat\n1,dog\n4,dog\n2,eel\n", r"a.csv, line 3: index '4' is not in 0..3"),
        ("a.csv", b"index,label\n0,cat\n1\n", r"a.csv, line 3: 1 columns"),
        ("a.csv", b"0,cat,x\n", r"a.csv, line 1: 3 columns"),
        ("a.csv", b"0,cat\n1,dog\n", r"a.csv has 2 labels for 4 samples"),
        ("a.npy", b"junk", r"a.npy is not a .npy file of labels"),
        ("a.json", b"[0]", r"a.json ends in '.json': give the labels as .npy, .csv, .txt"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path: Path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        from_file(tmp_path / name, 4, PETS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([0.0, 1.0]), r"it holds float64 of shape \(2,\)"),
        (np.array([[0, 1]]), r"it holds int64 of shape \(1, 2\)"),
        (np.array([0, 7]), r"a.npy, entry 1: label '7' is no class"),
        (np.array([0, None], dtype=object), r"allow_pickle"),
    ],
)
def test_bad_arrays_are_refused(tmp_path: Path, array, message):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(InputError, match=message):
        from_file(tmp_path / "a.npy", 2, PETS)


PATHS = ("train/cat/1.png", "train/cat/2.png", "train/dog/1.png", "train/eel/a, b.png")


@pytest.mark.parametrize("title", ["path,label\n", ""])
def test_rows_may_name_the_images_by_their_paths(tmp_path: Path, title):
    rows = ['"train/eel/a, b.png",eel', "train/cat/2.png,eel", "train/dog/1.png,", "train/cat/1.png,cat"]
    (tmp_path / "a.csv").write_text(title + "\n".join(rows))
    assert from_file(tmp_path / "a.csv", 4, PETS, PATHS).tolist() == [0, 2, LEFT_OUT, 2]
    (tmp_path / "a.csv").write_text("index,label\n3,eel\n0,cat\n1,eel\n2,\n")
    assert from_file(tmp_path / "a.csv", 4, PETS, PATHS).tolist() == [0, 2, LEFT_OUT, 2]


def test_a_run_on_an_image_folder_takes_labels_by_path(tmp_path: Path):
    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        (tmp_path / "train" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (9, 9)).save(tmp_path / "train" / name)
    rows = ("train/dog/2.png,cat", "train/cat/1.png,", "train/dog/1.png,dog", "train/cat/2.png,dog")
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *rows]))
    run = Run(data=str(tmp_path), method=AT(), labels=str(tmp_path / "labels.csv"), validation=0.0)
    train = prepare(run).train
    assert train.paths == ("train/cat/2.png", "train/dog/1.png", "train/dog/2.png")
    assert train.labels.tolist() == [1, 1, 0]
    assert train.truth is None  # nobody vouches for the labels of the folders


def test_labels_of_a_file_are_compared_with_the_labels_of_published_data_alone(tmp_path: Path, tiny: str):
    with np.load(tiny) as arrays:
        np.savez(tmp_path / "true.npz", **arrays, true_y_train=arrays["y_train"][::-1])
        true = arrays["y_train"][::-1].tolist()
    for data, n, truth in (("sample", 6000, "given"), (tiny, 300, None), (str(tmp_path / "true.npz"), 300, true)):
        np.save(tmp_path / "labels.npy", np.zeros(n, np.int64))
        run = Run(data=data, method=AT(), labels=str(tmp_path / "labels.npy"), validation=0.0)
        given, found = load(data).train.labels.tolist(), prepare(run).train.truth
        assert (None if found is None else found.tolist()) == (given if truth == "given" else truth)


@pytest.mark.parametrize(
    ("rows", "paths", "message"),
    [
        (["train/cat/3.png,cat"], PATHS, "line 2: image 'train/cat/3.png' is not of the training set or came before"),
        (
            [f"{PATHS[0]},cat", f"{PATHS[0]},dog"],
            PATHS,
            f"line 3: image '{PATHS[0]}' is not .* came before: give each once",
        ),
        ([f"{path},cat" for path in PATHS[:2]], PATHS, "has 2 labels for 4 samples"),
        ([f"{PATHS[0]},cat"], None, f"line 2: index '{PATHS[0]}' is not in 0..3"),
    ],
)
def test_paths_of_no_image_are_refused(tmp_path: Path, rows, paths, message):
    (tmp_path / "a.csv").write_text("\n".join(["path,label", *rows]))
    with pytest.raises(InputError, match=message):
        from_file(tmp_path / "a.csv", 4, PETS, paths)


def test_a_missing_file_is_named():
    with pytest.raises(InputError, match=r"there is no file nowhere.csv"):
        from_file("nowhere.csv", 4, PETS)
