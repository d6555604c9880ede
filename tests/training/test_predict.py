"""Predictions for new samples: equal to a decoding and softmax of our own, certain as a closed form says."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from quick_runs import quick
from refusals import assert_refused_in_one_line
from torch import Tensor

import orat
from orat.core.console import SILENT
from orat.data import Dataset
from orat.evaluation.accuracy import correct
from orat.training.run_folder import RunFolder

SIZE = (8, 10)  # height, width of the training


def picture(seed: int, height: int = 16, width: int = 12, channels: int = 3) -> Image.Image:
    """A random image."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
    return Image.fromarray(pixels[..., 0] if channels == 1 else pixels)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on color images of two classes, resized to 8x10."""
    root = tmp_path_factory.mktemp("photos")
    for label, name in enumerate(("ant", "bee")):
        for part, n in (("train", 24), ("test", 6)):
            folder = root / "data" / part / name
            folder.mkdir(parents=True)
            for i in range(n):
                picture(100 * label + i).point(lambda value, label=label: (value + 120 * label) // 2).save(
                    folder / f"{i}.png"
                )
    run = quick(str(root / "data"), orat.methods.AT(), image_size=SIZE, epochs=2, milestones=())
    orat.train(run, root / "run", device="cpu", display=SILENT)
    return root / "run"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """A folder of new images: nested, of several sizes and modes, beside files that are no images."""
    root = tmp_path / "new"
    (root / "b" / "deep").mkdir(parents=True)
    picture(1).save(root / "z.png")
    picture(2, 40, 7).save(root / "b" / "tall.bmp")
    picture(3, 9, 9, 1).save(root / "b" / "deep" / "gray.png")
    picture(4).convert("RGBA").save(root / "b" / "alpha.png")
    (root / "notes.txt").write_text("no image")
    (root / ".hidden.png").write_bytes(b"no image")
    return root


def decoded(path: str) -> Tensor:
    """An image in [0, 1] as the network takes it, decoded by Pillow alone."""
    image = Image.open(path).convert("RGB").resize(SIZE[::-1], Image.Resampling.BILINEAR)
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 255


def test_images_at_any_depth_are_resized_as_in_the_training_and_classified(photos: Path, new: Path) -> None:
    found = orat.predict(photos, new, device="cpu")
    names = ["b/alpha.png", "b/deep/gray.png", "b/tall.bmp", "z.png"]
    assert found.paths == tuple(str(new / name) for name in names)
    assert (found.skipped, found.broken, found.certain, len(found)) == (1, (), None, 4)
    with torch.no_grad():
        shares = orat.load_model(photos)(torch.stack([decoded(path) for path in found.paths])).softmax(1)
    torch.testing.assert_close(found.probabilities.float(), shares)
    assert found.labels.tolist() == shares.argmax(1).tolist()
    assert found.names == [("ant", "bee")[label] for label in shares.argmax(1).tolist()]
    torch.testing.assert_close(found.confidence.float(), shares.amax(1))


def test_the_test_part_of_the_training_has_the_accuracy_of_the_result(photos: Path) -> None:
    found = orat.predict(photos, photos.parent / "data" / "test", certain="pgd20", device="cpu")
    result = RunFolder(photos).result()
    assert result is not None
    right = np.array([path.split("/")[-2] == name for path, name in zip(found.paths or (), found.names, strict=True)])
    assert right.mean() == pytest.approx(result["last"]["natural"])
    assert found.certain is not None
    assert (right & found.certain.numpy()).mean() == pytest.approx(result["last"]["pgd20"])


def test_images_in_files_in_arrays_and_in_tensors_have_one_prediction(photos: Path, new: Path, tmp_path: Path) -> None:
    files = orat.predict(photos, new, device="cpu")
    tensor = torch.stack([decoded(path) for path in files.paths or ()])
    whole = (255 * tensor).round().to(torch.uint8)
    np.save(tmp_path / "x.npy", whole.permute(0, 2, 3, 1).numpy())
    np.savez(tmp_path / "x.npz", x=tensor.numpy(), y=np.zeros(4))
    for samples in (tensor, whole, whole.numpy(), tmp_path / "x.npy", str(tmp_path / "x.npz")):
        found = orat.predict(photos, samples, device="cpu")
        torch.testing.assert_close(found.logits, files.logits)
        assert found.paths is None
        assert [row["index"] for row in found] == [0, 1, 2, 3]


def test_paths_given_twice_have_one_row_and_a_broken_image_none(photos: Path, new: Path) -> None:
    (new / "broken.png").write_bytes((new / "z.png").read_bytes()[:60])
    found = orat.predict(photos, [new / "z.png", new, str(new / "b")], device="cpu")
    assert [Path(path).name for path in found.paths or ()] == ["z.png", "alpha.png", "gray.png", "tall.bmp"]
    assert len(found.broken) == 1
    assert str(new / "broken.png") in found.broken[0]
    torch.testing.assert_close(found.logits[0], orat.predict(photos, new / "z.png", device="cpu").logits[0])


def test_a_color_image_turns_gray_for_a_network_of_gray_images(automatic: Path, tmp_path: Path) -> None:
    picture(5, 12, 12).save(tmp_path / "color.png")
    picture(5, 12, 12).convert("L").save(tmp_path / "gray.png")
    found = orat.predict(automatic, tmp_path, device="cpu")
    assert torch.equal(found.logits[0], found.logits[1])


def test_the_written_table_has_the_rows(photos: Path, new: Path, tmp_path: Path) -> None:
    found = orat.predict(photos, new, certain="fgsm", device="cpu")
    found.write(tmp_path / "found.csv")
    with (tmp_path / "found.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["path", "class", "confidence", "certain"]
    assert rows == [{name: str(value) for name, value in row.items()} for row in found]


def linear(folder: Path, weights: Tensor, offset: float) -> None:
    """Gives a network with one hidden layer the weights of a linear classifier: class 1 where x @ weights > offset."""
    tensors = RunFolder(folder).load_tensors("model")
    first, second = sorted(name for name in tensors if tensors[name].dim() == 2)
    tensors = {name: torch.zeros_like(value) if "std" not in name else value for name, value in tensors.items()}
    tensors[first][0] = weights
    tensors[first.replace("weight", "bias")][0] = 100  # beyond the kink of ReLU
    tensors[second][1, 0] = 1
    tensors[second.replace("weight", "bias")][1] = -100 - offset
    RunFolder(folder).save_tensors("model", tensors)


WEIGHTS = torch.tensor([1.0, -2.0, 0.5, 0.0])


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """A finished run on vectors in [0, 1] whose network is a linear classifier."""
    x = np.random.default_rng(0).random((80, 4), dtype=np.float32)
    np.savez(tmp_path / "x.npz", x_train=x, y_train=np.arange(80) % 2, x_test=x[:9], y_test=np.arange(9) % 2)
    run = quick(str(tmp_path / "x.npz"), orat.methods.ST(), epochs=1, warmup=0.0, milestones=(), eps=0.05)
    orat.train(run, tmp_path / "run", device="cpu", display=SILENT)
    linear(tmp_path / "run", WEIGHTS, 0.0)
    return tmp_path / "run"


@pytest.mark.parametrize("eps", [None, 0.2, "1/100"])
def test_predictions_of_a_linear_network_are_certain_beyond_the_radius(vectors: Path, eps: float | str | None) -> None:
    x = 0.25 + torch.rand(200, 4, generator=torch.Generator().manual_seed(1)) / 2  # far from the bounds
    found = orat.predict(vectors, x, certain="pgd20", eps=eps, device="cpu")
    margin = x @ WEIGHTS
    radius = {None: 0.05, 0.2: 0.2, "1/100": 0.01}[eps]
    assert found.labels.tolist() == (margin > 0).long().tolist()
    clear = (margin.abs() - radius * WEIGHTS.abs().sum()).abs() > 1e-4
    certain = margin.abs() > radius * WEIGHTS.abs().sum()
    assert found.certain is not None
    assert 0 < certain.sum() < 200
    assert torch.equal(found.certain[clear], certain[clear])
    confidence = torch.sigmoid(margin.abs())
    torch.testing.assert_close(found.confidence.float(), confidence, atol=1e-5, rtol=0)


def test_certain_is_what_an_evaluation_finds_on_the_predicted_labels(vectors: Path) -> None:
    x = torch.rand(50, 4, generator=torch.Generator().manual_seed(2))
    found = orat.predict(vectors, x, certain="pgd10x2", device="cpu")
    data = Dataset(x, found.labels, ("0", "1"))
    stands = correct(orat.load_model(vectors), data, ["pgd10x2"], 0.05)["pgd10x2"]
    assert found.certain is not None
    assert torch.equal(found.certain, stands)
    assert found.attack == "pgd10x2 of radius 0.05 in linf"


def on_a_table(folder: Path) -> None:
    """Makes the run one on a table: columns with bounds and units of their own."""
    config = json.loads((folder / "config.json").read_text())
    config["inputs"] = ["width", "color=red", "mass", "color=blue"]
    unit = {"low": [0.0] * 4, "high": [9.0, 1.0, 9.0, 1.0], "scale": [2.0, 0.0, 4.0, 0.0]}
    (folder / "config.json").write_text(json.dumps(config | {"threat": {"eps": 0.05, "norm": "linf", **unit}}))


ROWS = [("red", 2.0, 1.5), ("blue", 4.0, 12.0), ("red", 1.9, 0.1), ("blue", 0.0, 0.5)]  # color, width, mass
TABLE = "color,mass,name,width\n" + "".join(f"{color},{mass},x,{width}\n" for color, width, mass in ROWS)


def test_a_table_is_read_by_the_names_of_the_training(vectors: Path, tmp_path: Path) -> None:
    on_a_table(vectors)
    (tmp_path / "rows.csv").write_text(TABLE)
    found = orat.predict(vectors, tmp_path / "rows.csv", certain="pgd20", device="cpu")
    x = torch.tensor([[width, color == "red", mass, color == "blue"] for color, width, mass in ROWS])
    margin = x @ WEIGHTS
    assert found.labels.tolist() == (margin > 0).long().tolist()
    assert found.certain is not None
    reach = 0.05 * (WEIGHTS.abs() * torch.tensor([2.0, 0.0, 4.0, 0.0])).sum()
    assert found.certain.tolist() == (margin.abs() > reach).tolist()
    assert set(found.certain.tolist()) == {True, False}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (TABLE.replace("mass", "weight"), "has no column 'mass': give all columns of the training"),
        (TABLE.replace("color", "hue"), "has no column 'color'"),
        (TABLE.replace("12.0", "heavy"), "column 'mass', row 1: 'heavy' is no number"),
        (TABLE.replace("12.0", ""), "column 'mass', row 1: '' is no number"),
        (TABLE.replace("12.0", "nan"), "row 1: 'nan' is no finite number"),
        (TABLE.replace("blue,12.0", "green,12.0"), "column 'color', row 1: 'green' was not in the training"),
        (TABLE.partition("\n")[0], "no rows below its header"),
    ],
)
def test_a_table_unlike_that_of_the_training_is_refused(vectors: Path, tmp_path: Path, table: str, words: str) -> None:
    on_a_table(vectors)
    (tmp_path / "rows.csv").write_text(table)
    assert_refused_in_one_line(lambda: orat.predict(vectors, tmp_path / "rows.csv", device="cpu"), words)


@pytest.mark.parametrize(
    ("samples", "more", "words"),
    [
        (lambda folder: folder / "gone", {}, "gone: give a folder of images"),
        (lambda folder: folder, {}, "there are no images"),
        (lambda folder: [], {}, "samples are a list: give paths, an array, a tensor or a data frame"),
        (lambda folder: 7, {}, "samples are a int"),
        (lambda folder: np.zeros((2, 3, 9, 9)), {}, "samples of shape (3, 9, 9): give the shape of the training"),
        (lambda folder: np.full((2, 3, 8, 10), np.nan), {}, "holds NaN or infinity"),
        (lambda folder: np.full((2, 3, 8, 10), 7.0), {}, "values run from 7 to 7, but must lie in [0, 1]"),
        (lambda folder: np.full((2, 3, 8, 10), "a"), {}, "give numbers, one row a sample"),
        (lambda folder: torch.zeros(2, 3), {}, "samples of shape (3,)"),
        (lambda folder: torch.zeros(0, 3, 8, 10), {}, "of shape (0, 3, 8, 10): give numbers"),
        (lambda folder: torch.zeros(1, 3, 8, 10), {"certain": "pgd"}, "unknown attack 'pgd'"),
        (lambda folder: torch.zeros(1, 3, 8, 10), {"eps": 0.1}, "eps = 0.1 is the radius of an attack"),
        (lambda folder: torch.zeros(1, 3, 8, 10), {"certain": "fgsm", "eps": -1}, "eps"),
        (lambda folder: torch.zeros(1, 3, 8, 10), {"weights": "best"}, "unknown weights 'best'"),
    ],
)
def test_samples_that_do_not_fit_are_refused(
    photos: Path, tmp_path: Path, samples: Callable[[Path], Any], more: dict[str, Any], words: str
) -> None:
    assert_refused_in_one_line(lambda: orat.predict(photos, samples(tmp_path), device="cpu", **more), words)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.gif", b"GIF89a", "cannot be read with others or is of no known kind"),
        ("a.png", b"no image", "none of 1 images can be read: cannot read the image"),
        ("a.npy", b"no array", "save it again with np.save"),
        ("a.csv", b"a,b\n1,2\n", "is a table, but the network was not trained on a table"),
    ],
)
def test_files_that_do_not_fit_are_refused(photos: Path, tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert_refused_in_one_line(lambda: orat.predict(photos, tmp_path / name, device="cpu"), words)


def test_an_archive_of_several_arrays_needs_the_name_of_the_samples(photos: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", one=np.zeros(2), two=np.zeros(2))
    assert_refused_in_one_line(lambda: orat.predict(photos, tmp_path / "a.npz"), "holds one, two: name the array")


def test_images_are_refused_by_a_network_of_vectors_and_by_an_unfinished_run(vectors: Path, new: Path) -> None:
    assert_refused_in_one_line(lambda: orat.predict(vectors, new), "samples of shape (4,), not on images")
    (vectors / "result.json").unlink()
    assert_refused_in_one_line(lambda: orat.predict(vectors, new), "is not finished")
    assert_refused_in_one_line(lambda: orat.predict(new, new), "is not a run folder")
