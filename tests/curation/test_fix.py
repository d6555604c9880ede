"""Fixed training sets: labels and folders as written, training on them, and unchanged originals."""

from __future__ import annotations

import csv
import hashlib
import json
import shlex
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from quick_runs import JUDGING, SLOW, quick
from refusals import assert_refused_in_one_line

import orat
from orat.cli.main import main, parse
from orat.core.console import SILENT
from orat.curation.fix import check_classes, words_of
from orat.curation.fixed_files import Origin, write_copy
from orat.data.catalog import load
from orat.data.label_files import LEFT_OUT, from_file
from orat.noise import inject as noise
from orat.training.run import Run
from orat.training.setup import prepare
from orat.training.text import run_from


def hashes(root: Path) -> dict[str, str]:
    """The hash of every file in a folder, but the record of a fix."""
    return {
        str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(root.rglob("*"))
        if file.is_file() and file.name != "labels-fix.json"
    }


def labels_of(file: Path) -> list[str]:
    with file.open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert [row["index"] for row in rows] == [str(i) for i in range(len(rows))]
    return [row["label"] for row in rows]


def noisy_labels(tiny: str) -> list[str]:
    true = torch.from_numpy(np.load(tiny)["y_train"])
    return [str(label) for label in noise.symmetric(true, 3, 0.2, 0).tolist()]


def test_dropped_samples_have_no_label_and_all_others_theirs(automatic: Path, tiny: str, tmp_path: Path) -> None:
    result = orat.fix_labels(automatic, tmp_path / "a", device="cpu")
    labels, noisy = labels_of(tmp_path / "a" / "labels.csv"), noisy_labels(tiny)
    found = orat.find_label_issues(automatic, device="cpu")
    doubted = set(found.id[found.flags].tolist())
    assert {i for i, label in enumerate(labels) if not label} == doubted
    assert all(label in ("", was) for label, was in zip(labels, noisy, strict=True))
    kept = [int(line) for line in (tmp_path / "a" / "kept.txt").read_text().split()]
    assert kept == [i for i in range(300) if i not in doubted]
    assert (result["dropped"], result["relabeled"], result["of"]) == (len(doubted), 0, 300)
    assert sum(row["after"] for row in result["classes"]) == len(kept)


def test_a_training_on_the_file_leaves_dropped_samples_out_and_keeps_their_places(
    automatic: Path, tiny: str, tmp_path: Path
) -> None:
    orat.fix_labels(automatic, tmp_path / "a", device="cpu")
    file = tmp_path / "a" / "labels.csv"
    kept = [int(line) for line in (tmp_path / "a" / "kept.txt").read_text().split()]
    run = quick(tiny, orat.methods.AT(), labels=str(file), epochs=2)
    result = orat.train(run, tmp_path / "b", device="cpu", display=SILENT)
    assert result["left_out"] == {"run": str(file), "cut": 300 - len(kept), "of": 300}
    parts, arrays = prepare(run), np.load(tiny)
    assert parts.validation is not None
    assert parts.total == len(kept) == len(parts.train) + len(parts.validation)
    assert set(parts.ids.tolist()) < set(kept)
    assert (parts.train.images[:, 0].numpy() == arrays["x_train"][parts.ids]).all()
    labels = labels_of(file)
    assert [str(label) for label in parts.train.labels.tolist()] == [labels[i] for i in parts.ids.tolist()]
    found = orat.find_label_issues(tmp_path / "b", device="cpu")
    assert (found.total, found.id.tolist()) == (300, parts.ids.tolist())
    again = orat.fix_labels(tmp_path / "b", tmp_path / "c", threshold=0.99, device="cpu")
    assert {i for i, label in enumerate(labels_of(tmp_path / "c" / "labels.csv")) if label} <= set(kept)
    assert sum(row["before"] for row in again["classes"]) == len(kept)


def test_relabeling_repairs_planted_flips(automatic: Path, tiny: str, tmp_path: Path) -> None:
    result = orat.fix_labels(automatic, tmp_path / "a", fix="relabel", device="cpu")
    true = [str(label) for label in np.load(tiny)["y_train"]]
    noisy, labels = noisy_labels(tiny), labels_of(tmp_path / "a" / "labels.csv")
    wrong_before, wrong_after = (sum(a != b for a, b in zip(x, true, strict=True)) for x in (noisy, labels))
    assert result["relabeled"] == sum(a != b for a, b in zip(noisy, labels, strict=True))
    assert wrong_before == 60
    assert wrong_after < 30
    run = quick(tiny, orat.methods.AT(), labels=str(tmp_path / "a" / "labels.csv"), epochs=2)
    assert orat.train(run, tmp_path / "b", device="cpu", display=SILENT)["left_out"] is None
    assert prepare(run).train.truth is None  # labels of a file are not compared with labels that nobody checked
    moved = [(row["moved_out"], row["moved_in"]) for row in result["classes"]]
    assert sum(out for out, _ in moved) == sum(into for _, into in moved) == result["relabeled"]


def test_the_printed_command_trains_on_the_result(
    automatic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["labels", "fix", str(automatic), "--out", str(tmp_path / "a b"), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    command = shlex.split(printed.splitlines()[-1])
    assert command[:2] == ["orat", "train"]
    assert main([*command[1:], "--out", str(tmp_path / "b"), "--quiet", "--device", "cpu", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["left_out"]["run"] == str(tmp_path / "a b" / "labels.csv")


@pytest.mark.parametrize(
    "run",
    [
        Run(data="sample", method=orat.methods.AT()),
        Run(data="sample", method=orat.methods.AoRR(m=0.25), eps=26 / 255, epochs=9, normalize=True, seed=3),
        Run(
            data="some/folder", method=orat.methods.ORAT(m=7, k=0.5), image_size=(32, 48), milestones=(), attack_steps=3
        ),
    ],
)
def test_flags_of_a_run_describe_it(run: Run) -> None:
    assert run_from(parse(["train", *words_of(run)]).texts) == run


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("fix", ["drop", "relabel"])
def test_a_folder_is_copied_without_issues_and_stays_as_it_was(
    photos: Path, of_photos: Path, tmp_path: Path, fix: str, packed: bool
) -> None:
    run_folder, root = of_photos, photos
    if packed:
        with tarfile.open(tmp_path / "photos.tar.gz", "w:gz") as tar:
            tar.add(photos, arcname="photos")
        run_folder = tmp_path / "run"
        run = quick(str(tmp_path / "photos.tar.gz"), JUDGING, **SLOW)
        orat.train(run, run_folder, device="cpu", display=SILENT)
        root = tmp_path
    before = hashes(root)
    result = orat.fix_labels(run_folder, tmp_path / "out", how="folder", fix=fix, device="cpu")
    after = hashes(root)
    written = hashes(tmp_path / "out")
    assert {name: value for name, value in after.items() if not name.startswith("out/")} == before
    originals = hashes(photos)
    contents = {value: name for name, value in originals.items()}
    for name, value in written.items():
        source = contents[value]
        assert name == source or fix == "relabel" or name.startswith("test/")
    images = {name for name in originals if name.endswith(".png")}
    doubted = {row["path"] for row in orat.find_label_issues(run_folder, device="cpu") if row["is_label_issue"]}
    assert len(doubted) > 20
    if fix == "drop":
        assert set(written) == images - doubted
    else:
        assert len(written) == len(images)
        moved = {
            contents[value] for name, value in written.items() if Path(name).parent != Path(contents[value]).parent
        }
        assert moved == doubted
    assert result["dropped"] + result["relabeled"] == len(doubted)
    assert all(not file.is_symlink() and file.stat().st_nlink == 1 for file in (tmp_path / "out").rglob("*.png"))
    again = quick(str(tmp_path / "out"), orat.methods.ST(), epochs=1)
    assert orat.train(again, tmp_path / "again", device="cpu", display=SILENT)["examples"] == 20


def test_planted_flips_end_up_in_the_folder_they_belong_to(of_photos: Path, photos: Path, tmp_path: Path) -> None:
    orat.fix_labels(of_photos, tmp_path / "out", how="folder", fix="relabel", device="cpu")
    right = 0
    for file in (tmp_path / "out" / "train").rglob("*.png"):
        pixels = np.asarray(Image.open(file))
        right += ("bar", "foo")[int(pixels[4:].mean() > pixels[:4].mean())] == file.parent.name
    assert right >= 218  # of 240, of which 200 lay rightly


def test_an_image_of_a_taken_name_gets_another(of_photos: Path, tmp_path: Path) -> None:
    orat.fix_labels(of_photos, tmp_path / "out", how="folder", fix="relabel", device="cpu")
    names = {file.name for file in (tmp_path / "out" / "train" / "foo").iterdir()}
    assert any(name.startswith("bar-1-") for name in names)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"how": "folder"}, "is no folder or tar of images"),
        ({"how": "mail"}, "unknown form 'mail'"),
        ({"fix": "burn"}, "unknown fix 'burn'"),
        ({"threshold": 1.0}, "threshold = 1: give a probability"),
        ({"threshold": -0.1}, "threshold = -0.1"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    automatic: Path, tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    assert_refused_in_one_line(lambda: orat.fix_labels(automatic, tmp_path / "a", device="cpu", **arguments), words)
    assert not (tmp_path / "a").exists()


def test_a_place_with_something_in_it_or_inside_the_originals_is_refused(
    of_photos: Path, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "mine.txt").write_text("mine")
    for how in ("labels", "folder"):
        assert_refused_in_one_line(lambda how=how: orat.fix_labels(of_photos, tmp_path / "a", how), "exists already")
    before = hashes(photos)
    inside = photos / "train" / "clean"
    assert_refused_in_one_line(lambda: orat.fix_labels(of_photos, inside, "folder"), "which must stay as it is")
    assert hashes(photos) == before
    (tmp_path / "empty").mkdir()
    orat.fix_labels(of_photos, tmp_path / "empty", "folder", device="cpu")
    assert (tmp_path / "empty" / "train").is_dir()


def test_no_class_is_left_empty(
    automatic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused_in_one_line(
        lambda: check_classes([{"class": "cat", "before": 3, "after": 0}]), "no sample of cat would be left"
    )
    emptied = torch.arange(300) % 2
    monkeypatch.setattr("orat.curation.fix.fixed_labels", lambda *_: emptied)
    assert main(["labels", "fix", str(automatic), "--out", str(tmp_path / "a"), "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert "no sample of 2 would be left: give a higher --threshold" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "a").exists()


def test_a_label_file_may_leave_samples_out(tmp_path: Path) -> None:
    pets, file = ("cat", "dog", "eel"), tmp_path / "labels.csv"
    file.write_text("index,label\n2,\n0,eel\n1,cat\n3,dog\n")
    assert from_file(file, 4, pets).tolist() == [2, 0, LEFT_OUT, 1]
    file.write_text("0,2\n1,\n2,0\n3,\n")
    assert from_file(file, 4, pets).tolist() == [2, LEFT_OUT, 0, LEFT_OUT]
    file.write_text("0,2\n1,-1\n2,0\n3,1\n")
    assert_refused_in_one_line(lambda: from_file(file, 4, pets), "line 2: label '-1' is no class")


@pytest.mark.parametrize(("root", "depth"), [("", 1), ("train/", 1), ("training/", 2)])
def test_a_copy_has_the_new_labels_in_every_layout(tmp_path: Path, root: str, depth: int) -> None:
    photos = tmp_path / "photos"
    paths = [f"{root}{name}" for name in ("cat/home/1.png", "cat/wild/1.png", "dog/home/1.png", "dog/home/2.png")]
    for shade, path in enumerate([*paths, *(["val/cat/home/1.png"] if root else [])]):
        (photos / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (6, 6), shade).save(photos / path)
    train = load(str(photos), class_depth=depth).train
    labels = torch.tensor([1, 1, 0, LEFT_OUT])
    origin = Origin("run", "0", "photos", "0", photos, depth, "network", 1.0, "drop", None, False)
    write_copy(tmp_path / "copy", train, train.labels, labels, origin)
    copy = load(str(tmp_path / "copy"), class_depth=depth)
    found = {
        int(image.max()): copy.train.classes[label]
        for image, label in zip(copy.train.images, copy.train.labels, strict=True)
    }
    assert found == {shade: train.classes[label] for shade, label in enumerate(labels.tolist()) if label != LEFT_OUT}
    assert (copy.validation is not None) == bool(root)
