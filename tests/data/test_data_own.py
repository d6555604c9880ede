"""Objects in memory and code as data: every accepted form gives the same samples, and every refusal is one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import assert_refused_in_one_line
from torch.utils.data import ConcatDataset, IterableDataset, Subset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

import orat
from orat.data import Dataset, Splits
from orat.data.own import dataset_of, splits_of

RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (6, 4, 5, 3), dtype=np.uint8)
Y = np.array([0, 2, 1, 0, 1, 2])
WANTED = X.transpose(0, 3, 1, 2)
NAMES = ("ape", "bee", "cat")


class Items(TorchDataset[Any]):
    """A torch data set of these items."""

    def __init__(self, items: Any, **more: Any) -> None:
        self.items = items
        vars(self).update(more)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> Any:
        return self.items[place]


class Broken(list[Any]):
    """Items that cannot be read."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, place: Any) -> Any:
        raise KeyError("no file")


class Stream(IterableDataset[Any]):
    """The samples one after the other."""

    def __iter__(self) -> Iterator[Any]:
        return zip(X, Y, strict=True)


def items(x: Any, y: Any = Y, **more: Any) -> Items:
    """A torch data set of samples and labels."""
    return Items(list(zip(x, y, strict=True)), **more)


TENSORS = torch.from_numpy(X).permute(0, 3, 1, 2) / 255
FORMS: dict[str, Any] = {
    "arrays": (X, Y),
    "channels first": (WANTED, Y),
    "whole numbers": (X.astype(np.int64), Y),
    "floats": (X / 255, Y),
    "tensors": (TENSORS, torch.from_numpy(Y)),
    "tensors with a gradient": (TENSORS.clone().requires_grad_(), torch.from_numpy(Y)),
    "lists": (list(X), Y.tolist()),
    "a list of two": [X, Y],
    "one-hot labels": (X, np.eye(3)[Y]),
    "labels in a column": (X, Y[:, None]),
    "a dict": {"x_train": X, "y_train": torch.from_numpy(Y)},
    "TensorDataset": TensorDataset(TENSORS, torch.from_numpy(Y)),
    "tensors one by one": items(TENSORS),
    "arrays one by one": items(X, [int(label) for label in Y]),
    "images of Pillow": items([Image.fromarray(x) for x in X]),
    "one-hot one by one": items(TENSORS, np.eye(3)[Y]),
    "part of a data set": Subset(items(np.concatenate([X, X]), [*Y, *Y]), range(6)),
    "two data sets in a row": ConcatDataset([items(X[:2], Y[:2]), items(X[2:], Y[2:])]),
    "a stream": Stream(),
    "a list of pairs": list(zip(X, Y.tolist(), strict=True)),
    "a data set": Dataset(torch.from_numpy(WANTED.copy()), torch.from_numpy(Y), ("0", "1", "2")),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_samples(form: str) -> None:
    splits = orat.load_data(FORMS[form])
    train = splits.train
    assert train.images.dtype == torch.uint8
    assert (train.images.numpy() == WANTED).all()
    assert (train.labels.tolist(), train.classes) == (Y.tolist(), ("0", "1", "2"))
    assert (splits.test, splits.validation, splits.notes) == (None, None, ())


SIZES = [(4, 6), (8, 12), (8, 12), (10, 15), (20, 30)]  # height and width


def pictures(sizes: list[tuple[int, int]], mode: str = "RGB") -> list[Image.Image]:
    """Images of Pillow of these sizes."""
    return [Image.new(mode, size[::-1], color=20 * place) for place, size in enumerate(sizes)]


@pytest.mark.parametrize("largest", [None, 6])
def test_images_of_pillow_are_resized_by_the_rule_of_folders(tmp_path: Path, largest: int | None) -> None:
    for place, image in enumerate(pictures(SIZES)):
        folder = tmp_path / "train" / NAMES[place % 2]
        folder.mkdir(parents=True, exist_ok=True)
        image.save(folder / f"{place}.png")
    folders = orat.load_data(str(tmp_path), largest=largest)
    given = orat.load_data(items(pictures(SIZES), [NAMES[place % 2] for place in range(5)]), largest=largest)
    assert given.train.shape == folders.train.shape
    assert given.notes == folders.notes
    assert given.image_size == folders.image_size
    assert sorted(given.train.images.flatten(1).tolist()) == sorted(folders.train.images.flatten(1).tolist())


def test_images_of_pillow_have_the_size_of_the_training_part_and_color_if_any_has() -> None:
    train, test = items(pictures(SIZES[1:3], "L"), [0, 1]), items(pictures(SIZES[3:]), [0, 1])
    splits = orat.load_data((train, test))
    assert splits.test is not None
    assert splits.train.shape == splits.test.shape == (3, 8, 12)
    assert orat.load_data(train, image_size=(5, 7)).train.shape == (1, 5, 7)
    assert orat.load_data(train, image_size=(5, 7)).image_size is None


TWO = {
    "arrays": ((X[:4], Y[:4]), (X[4:], Y[4:])),
    "torch data sets": (items(X[:4], Y[:4]), items(X[4:], Y[4:])),
    "a torch data set and tensors": (items(TENSORS[:4], Y[:4]), TensorDataset(TENSORS[4:], torch.from_numpy(Y[4:]))),
    "a dict": {"x_train": X[:4], "y_train": Y[:4], "x_test": X[4:], "y_test": Y[4:]},
    "data sets": (FORMS["a data set"].take(torch.arange(4)), FORMS["a data set"].take(torch.arange(4, 6))),
}


@pytest.mark.parametrize("form", TWO)
def test_two_parts_are_training_and_test(form: str) -> None:
    splits = orat.load_data(TWO[form])
    assert splits.test is not None
    assert (splits.train.images.numpy() == WANTED[:4]).all()
    assert (splits.test.images.numpy() == WANTED[4:]).all()
    assert (splits.test.labels.tolist(), splits.test.classes) == ([1, 2], ("0", "1", "2"))
    assert orat.load_data(splits) is splits


TEXTS = np.array(NAMES)[Y]


@pytest.mark.parametrize(
    "data",
    [(X, TEXTS), (X, TEXTS.tolist()), (X, TEXTS.astype(object)), items(X, TEXTS.tolist()), items(X, Y, classes=NAMES)],
    ids=["texts", "a list", "objects", "a torch data set", "classes of a torch data set"],
)
def test_names_are_classes_in_the_order_of_the_alphabet(data: Any) -> None:
    train = orat.load_data(data).train
    assert (train.classes, train.labels.tolist()) == (NAMES, Y.tolist())


def test_names_of_both_parts_and_of_a_part_of_a_data_set_count() -> None:
    train, test = orat.load_data(((X[:4], TEXTS[:4]), (X[4:], np.array(["ape", "wasp"])))).train, None
    assert train.classes == (*NAMES, "wasp")
    part = Subset(items(X, Y, classes=list(NAMES)), [1, 2])
    train, test = orat.load_data((part, part)).train, orat.load_data((part, part)).test
    assert test is not None
    assert train.classes == test.classes == NAMES


@pytest.mark.parametrize(
    ("labels", "classes", "numbers"),
    [
        ([1, 2, 3, 1, 2, 3], ("1", "2", "3"), [0, 1, 2, 0, 1, 2]),
        ([-1, 1, -1, 1, 1, 1], ("-1", "1"), [0, 1, 0, 1, 1, 1]),
        ([0, 100, 9, 9, 0, 0], ("0", "9", "100"), [0, 2, 1, 1, 0, 0]),
    ],
)
def test_numbers_that_count_no_classes_are_classes_by_value(labels: Any, classes: Any, numbers: Any) -> None:
    splits = orat.load_data((X, np.array(labels)))
    assert (splits.train.classes, splits.train.labels.tolist()) == (classes, numbers)
    line = f"{len(classes)} different labels from {classes[0]} to {classes[-1]}: classes are numbered in this order"
    assert splits.notes == (line,)


def test_a_gap_among_class_numbers_stays() -> None:
    splits = orat.load_data((X, np.array([0, 1, 3, 0, 1, 3])))
    assert (splits.train.classes, splits.train.labels.tolist()) == (("0", "1", "2", "3"), [0, 1, 3, 0, 1, 3])
    assert splits.notes == ()


@pytest.mark.parametrize(
    ("y", "classes", "wanted"),
    [
        (Y, None, Y),
        ([0, 1, 3, 0, 1, 3], None, [0, 1, 3, 0, 1, 3]),
        (TEXTS, ("cat", "bee", "ape"), 2 - Y),
        (Y, ("cat", "bee", "ape"), Y),
        ([10, 30, 10, 30, 20, 20], ("10", "20", "30"), [0, 2, 0, 2, 1, 1]),
    ],
    ids=["numbers", "numbers with a gap", "names", "numbers of names", "numbers as names"],
)
def test_labels_for_a_network_are_the_places_of_its_outputs(y: Any, classes: Any, wanted: Any) -> None:
    assert dataset_of((X, np.array(y)), classes).labels.tolist() == list(wanted)


def test_names_of_a_torch_data_set_are_found_among_the_classes_of_a_network() -> None:
    assert dataset_of(items(X, Y, classes=NAMES), ("cat", "bee", "ape", "dog")).labels.tolist() == (2 - Y).tolist()
    assert dataset_of(TWO["arrays"]).labels.tolist() == [1, 2]
    assert dataset_of(FORMS["a data set"]) is FORMS["a data set"]


CODE = """
import numpy as np
x, y = np.zeros((4, 3, 3), np.uint8), np.array(list("abab"))
both = (x, y)

def make():
    return x, y

def of_size(n):
    return x[:n], y[:n]

def broken():
    raise KeyError("nothing here")

class Data:
    def __len__(self):
        return 4
    def __getitem__(self, place):
        return x[place], y[place]
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of code, in the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_code.py").write_text(CODE)
    return tmp_path / "own_code.py"


@pytest.mark.parametrize("attribute", ["both", "make", "Data"])
@pytest.mark.parametrize("by_file", [True, False])
def test_code_is_read_by_its_name(code: Path, attribute: str, by_file: bool) -> None:
    train = orat.load_data(f"{code}:{attribute}" if by_file else f"own_code:{attribute}").train
    assert (train.classes, train.labels.tolist()) == (("a", "b"), [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        ("of_size", "calling own_code.py:of_size fails with TypeError: of_size() missing 1 required positional"),
        (
            "broken",
            "calling own_code.py:broken fails with KeyError: 'nothing here' (own_code.py, line 13); give a function",
        ),
        ("x", "cannot read own_code.py:x, ndarray: give (x, y), ((x, y), (x_test, y_test)), a dict of arrays"),
        ("mak", "unknown name in own_code.py: 'mak': did you mean 'make'?"),
    ],
)
def test_code_that_gives_no_data_is_refused(code: Path, attribute: str, words: str) -> None:
    assert_refused_in_one_line(lambda: orat.load_data(f"{code.name}:{attribute}"), words)


ANY = "the data given"
REFUSED: dict[str, tuple[Any, str]] = {
    "floats of 0 to 255": ((X.astype(np.float32), Y), f"x_train in {ANY} is float32 from 0 to 255: store pixels as"),
    "numbers of 0 to 1": ((X // 128, Y.astype(np.int64)), "holds integers up to 1: give pixels as integers up to 255"),
    "normalized images": (items(TENSORS * 4 - 2), "rescale to [0, 1]"),
    "NaN": ((np.where(X > 9, np.nan, 0.5), Y), f"x_train in {ANY} holds NaN or infinity"),
    "texts as samples": ((TEXTS, Y), "holds <U3: give pixels as uint8"),
    "five axes": ((X[None], Y), "(1, 6, 4, 5, 3)"),
    "samples of several shapes": (([X[0], X[1, 1:]], Y[:2]), f"x in {ANY} is no array"),
    "no samples": ((X[:0], Y[:0]), "is empty"),
    "too few labels": ((X, Y[:4]), "there are 6 samples but labels of shape (4,)"),
    "soft labels": (
        (X, np.full((6, 3), 1 / 3)),
        "y_train in the data given has the shape (6, 3): give names or integers",
    ),
    "fractions as labels": ((X, Y + 0.5), "holds fractions or NaN"),
    "infinite labels": ((X, np.where(Y == 2, np.inf, Y)), "holds fractions or NaN"),
    "a label that is none": ((X, np.array(["a", None] * 3, object)), "holds object: give names as texts, or integers"),
    "three values": ((X, Y, Y), f"cannot read {ANY}, 3 values: give (x, y)"),
    "a number": (3, f"cannot read {ANY}, int: give (x, y)"),
    "an unknown array": ({"x_train": X, "y_trian": Y}, "unknown array in the data given: 'y_trian': did you mean"),
    "a missing array": ({"x_train": X}, "has no 'y_train', only x_train"),
    "parts of two shapes": (((X, Y), (X[:, :2], Y)), "x_train has samples of (3, 4, 5), x_test of (3, 2, 5)"),
    "parts of two orders of classes": (
        (items(X, Y, classes=NAMES), items(X, Y, classes=NAMES[::-1])),
        f"both parts of {ANY} have classes, but not the same",
    ),
    "items that are dicts": (Items([{"image": X[0]}]), f"item 0 of {ANY} (Items) is dict: give (image, label)"),
    "items of three": (Items([(X[0], 1, 2)]), "is 3 values: give (image, label)"),
    "images of two shapes": (items([*X[:5], X[5, 1:]]), "differ in shape, (4, 5, 3) in item 0, (3, 5, 3) in item 5"),
    "labels of two kinds": (items(X, [0, 1, "a", 0, 1, 2]), "differ in kind, 'a' in item 2: give integers or names"),
    "no items": (Items([]), f"{ANY} (Items) is empty"),
    "a broken item": (
        Items(Broken()),
        f"reading {ANY} (Items) fails with KeyError: 'no file' (test_data_own.py, line 49); mend the data set",
    ),
    "tensors of three": (TensorDataset(TENSORS, TENSORS, TENSORS), "3 values: give (x, y)"),
    "a loader": (torch.utils.data.DataLoader(items(X)), f"cannot read {ANY}, DataLoader: give (x, y)"),
    "data sets of two shapes": (
        (FORMS["a data set"], Dataset(torch.zeros(2, 3), torch.arange(2), ("0", "1", "2"))),
        "differ in shape or classes",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_data_that_make_no_sense_are_refused(case: str) -> None:
    data, words = REFUSED[case]
    assert_refused_in_one_line(lambda: orat.load_data(data), words)


FOR_A_NETWORK: dict[str, tuple[Callable[[], Any], str]] = {
    "names without classes": (lambda: dataset_of((X, TEXTS)), "labels are names: give numbers, in the order of the"),
    "an unknown name": (lambda: dataset_of((X, TEXTS), ("ape", "bee")), "unknown class 'cat'"),
    "a number too high": (lambda: dataset_of((X, Y), ("a", "b")), "labels run from 0 to 2, but must lie in 0..1"),
    "no test part": (lambda: dataset_of(Splits(FORMS["a data set"], None)), "have no test part"),
}


@pytest.mark.parametrize("case", FOR_A_NETWORK)
def test_labels_that_no_network_has_are_refused(case: str) -> None:
    build, words = FOR_A_NETWORK[case]
    assert_refused_in_one_line(build, words)


@pytest.mark.parametrize("more", [{"class_depth": 2}, {"target": "y"}, {"image_size": (8, 9)}])
def test_settings_of_other_data_are_refused(more: dict[str, Any]) -> None:
    words = f"the {next(iter(more)).replace('_', ' ')} "
    assert_refused_in_one_line(lambda: orat.load_data((X, Y), **more), words)
    assert_refused_in_one_line(lambda: orat.load_data("sample", **more), "leave it out for 'sample'")


def test_data_that_were_handed_in_before_are_asked_for_again() -> None:
    assert_refused_in_one_line(lambda: orat.load_data("in memory: tuple"), "hand the object in again")


def test_splits_of_is_what_loading_gives() -> None:
    assert splits_of((X, Y)).train.fingerprint() == orat.load_data((X, Y)).train.fingerprint()
