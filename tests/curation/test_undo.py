"""Undoing a fix: every label and every image as before, by hashes of real files; edited folders are refused."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest
import torch
from PIL import Image
from quick_runs import quick
from refusals import assert_refused_in_one_line, wrong

import orat
from orat.cli.main import main
from orat.core.console import SILENT
from orat.curation import undo_fix
from orat.curation.fixed_files import Origin, places_of, write_copy, write_labels
from orat.data.catalog import load
from orat.data.image_files import File, found_in
from orat.data.label_files import LEFT_OUT, from_file

RECORD = "labels-fix.json"
Undo = tuple[Path, Path]  # the originals and the copy


def hashes(root: Path, below: str = "*") -> dict[str, str]:
    """The hash of every image in a folder."""
    return {
        file.relative_to(root).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(root.rglob("*.png"))
    }


def rewrite(file: Path, old: str, new: str) -> None:
    file.write_text(file.read_text().replace(old, new))


@pytest.fixture
def copied(tmp_path: Path) -> Undo:
    """Eight images of two classes, and a copy with two images moved and two dropped."""
    root = tmp_path / "pets"
    for label in ("cat", "dog"):
        (root / "train" / label).mkdir(parents=True)
        for i in range(4):
            Image.new("L", (6, 6), 10 * i + (label == "dog")).save(root / "train" / label / f"{i}.png")
    train = load(str(root)).train
    after = torch.tensor([0, 1, LEFT_OUT, 0, 1, 0, 1, LEFT_OUT])
    origin = Origin("run", "0", "pets", "0", root, 1, "network", 0.9, "drop", None, False)
    write_copy(tmp_path / "copy", train, train.labels, after, origin)
    return root, tmp_path / "copy"


def test_the_record_names_every_change_with_places_and_hash(copied: Undo) -> None:
    root, copy = copied
    record = json.loads((copy / RECORD).read_text())
    originals = hashes(root)
    assert {one["source"]: one["after"] for one in record["changes"]} == {
        "train/cat/1.png": "train/dog/cat-1-1.png", "train/cat/2.png": None,
        "train/dog/1.png": "train/cat/dog-1-1.png", "train/dog/3.png": None,
    }  # fmt: skip
    assert all(one["sha256"] == originals[one["source"]] for one in record["changes"])
    assert record["source"]["root"] == str(root)
    assert record["made_with"].keys() >= {"orat", "commit"}
    assert found_in(copy, 1).notes == ()  # no line about a skipped file


def test_a_copy_is_restored_to_the_originals(copied: Undo) -> None:
    root, copy = copied
    assert hashes(copy) != hashes(root)
    assert undo_fix(copy) == {"folder": str(copy), "restored": 2, "moved_back": 2}
    assert hashes(copy) == hashes(root)
    assert_refused_in_one_line(lambda: undo_fix(copy), "has the labels before already: there is nothing to undo")


@pytest.mark.parametrize("how", ["folder", "tar"])
def test_originals_that_were_moved_are_given_again(copied: Undo, how: str) -> None:
    root, copy = copied
    before = hashes(root)
    data = root.with_name("elsewhere")
    root.rename(data)
    if how == "tar":
        with tarfile.open(root.with_suffix(".tar.gz"), "w:gz") as tar:
            tar.add(data, arcname="pets")
        data = root.with_suffix(".tar.gz")
    fixed = hashes(copy)
    assert_refused_in_one_line(lambda: undo_fix(copy), f"the originals are not at {root}: give their folder or tar")
    assert hashes(copy) == fixed
    undo_fix(copy, data)
    assert hashes(copy) == before


def test_an_interrupted_undo_continues(copied: Undo) -> None:
    root, copy = copied
    (copy / "train/dog/cat-1-1.png").rename(copy / "train/cat/1.png")
    shutil.copy(root / "train/dog/3.png", copy / "train/dog/3.png")
    undo_fix(copy)
    assert hashes(copy) == hashes(root)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda root, copy: (copy / "train/dog/cat-1-1.png").unlink(), "1 image changed or moved after `orat labels"),
        (lambda root, copy: (copy / "train/dog/cat-1-1.png").write_bytes(b"x"), "train/dog/cat-1-1.png"),
        (lambda root, copy: (copy / "train/cat/2.png").write_bytes(b"x"), "move away train/cat/2.png"),
        (lambda root, copy: (root / "train/cat/2.png").write_bytes(b"x"), "1 dropped image missing or changed in"),
        (lambda root, copy: (root / "train/cat/2.png").unlink(), "give the originals as --data"),
        (lambda root, copy: (copy / RECORD).unlink(), f"has no {RECORD}: give the folder that `orat labels fix` wrote"),
        (lambda root, copy: (copy / RECORD).write_text("{"), "is damaged"),
        (lambda root, copy: (copy / RECORD).write_text("{}"), "from an incompatible version"),
        (lambda root, copy: (copy / RECORD).write_text('{"format": 1}'), "from an incompatible version"),
        (lambda root, copy: rewrite(copy / RECORD, "train/cat/1", "../../1"), "names places outside of the folder"),
    ],
)  # fmt: skip
def test_what_changed_since_the_fix_is_refused_and_nothing_is_written(copied: Undo, change, words: str) -> None:  # type: ignore[no-untyped-def]
    root, copy = copied
    change(root, copy)
    before = hashes(copy)
    assert_refused_in_one_line(lambda: undo_fix(copy), words)
    assert hashes(copy) == before


def test_no_path_of_a_copy_belongs_to_two_images_before_or_after() -> None:
    names = [("a/b", "1.png"), ("a-b", "1.png"), ("c", "1.png"), ("c", "a-b-1-1.png")]
    files = [File("train", label, name, f"train/{label}/{name}") for label, name in names]
    before, after = torch.tensor([2, 0, 2, 2]), torch.tensor([2, 2, 0, 2])
    old, new = places_of(files, ("a-b", "a/b", "c"), before, after)
    assert len(set(old.values())) == len(set(new.values())) == 4
    assert old[files[0].path] == new[files[0].path]
    changed = [file.path for file, was, now in zip(files, before, after, strict=True) if was != now]
    assert not {old[path] for path in old} & {new[path] for path in changed}


def rows_of(file: Path) -> list[list[str]]:
    with file.open(newline="") as text:
        return list(csv.reader(text))


def test_labels_of_a_folder_are_keyed_by_path_and_accepted_from_any_folder(
    of_photos: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["labels", "fix", str(of_photos), "--out", "fixed", "--fix", "relabel", "--device", "cpu"]) == 0
    title, *rows = rows_of(Path("fixed/labels.csv"))
    assert title == ["path", "label"]
    assert [path for path, _ in rows] == sorted(
        file.relative_to(photos).as_posix() for file in photos.glob("train/*/*.png")
    )
    wrong_labels = sum(path.split("/")[1] != label for path, label in rows)
    assert wrong_labels > 20
    relative = os.path.relpath(photos)
    for data, labels in ((str(photos), "fixed/labels.csv"), (f"{relative}/", str(tmp_path / "fixed/labels.csv"))):
        run = quick(data, orat.methods.ST(), epochs=1, labels=labels)
        assert orat.train(run, f"run{len(data)}", device="cpu", display=SILENT)["left_out"] is None
    shuffled = [rows[i] for i in torch.randperm(len(rows)).tolist()]
    Path("shuffled.csv").write_text("".join(f"{path},{label}\n" for path, label in [("path", "label"), *shuffled]))
    train = ["train", "--data", relative, "--labels", "shuffled.csv", "--method", "st", "--epochs", "1"]
    assert main([*train, "--model", "mlp-16", "--out", "c", "--quiet", "--device", "cpu"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("fix", ["drop", "relabel"])
def test_labels_are_restored_to_those_of_the_run(
    of_photos: Path, tmp_path: Path, fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fixed"
    orat.fix_labels(of_photos, out, fix=fix, device="cpu")
    record = json.loads((out / RECORD).read_text())
    written = (out / "labels.csv").read_bytes()
    assert record["files"]["labels.csv"]["after"] == hashlib.sha256(written).hexdigest()
    changed = [path for path, label in rows_of(out / "labels.csv")[1:] if path.split("/")[1] != label]
    assert [one["path"] for one in record["changes"]] == changed
    (out / "labels.csv").write_bytes(written + b"train/x.png,foo\n")
    assert "was edited after `orat labels fix`" in wrong(capsys, "labels", "undo", str(out))
    (out / "labels.csv").write_bytes(written)
    assert "leave it out" in wrong(capsys, "labels", "undo", str(out), "--data", "x")
    assert main(["labels", "undo", str(out)]) == 0
    numbers = (len(changed), 0) if fix == "drop" else (0, len(changed))
    assert capsys.readouterr().out == f"{out}: {numbers[0]:,} samples restored, {numbers[1]:,} labels set back\n"
    assert all(path.split("/")[1] == label for path, label in rows_of(out / "labels.csv")[1:])
    assert len((out / "kept.txt").read_text().split()) == 240
    assert hashlib.sha256((out / "labels.csv").read_bytes()).hexdigest() == record["files"]["labels.csv"]["before"]


def test_labels_with_noise_are_restored_by_index(automatic: Path, tmp_path: Path) -> None:
    noisy = {str(row["index"]): row["given_label"] for row in orat.find_label_issues(automatic, device="cpu")}
    orat.fix_labels(automatic, tmp_path / "a", fix="relabel", device="cpu")
    undo_fix(tmp_path / "a")
    title, *rows = rows_of(tmp_path / "a" / "labels.csv")
    assert title == ["index", "label"]
    assert noisy.items() <= dict(map(tuple, rows)).items()  # type: ignore[arg-type]


@pytest.mark.parametrize("fix", ["drop", "relabel"])
def test_a_fixed_folder_is_restored_by_the_command(
    of_photos: Path, photos: Path, tmp_path: Path, fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    words = [str(of_photos), "--how", "folder", "--fix", fix, "--device", "cpu"]
    assert main(["labels", "fix", *words, "--out", out]) == 0
    assert f"`orat labels undo {out}` restores the labels before" in capsys.readouterr().out
    assert hashes(Path(out)) != hashes(photos)
    assert main(["labels", "undo", out, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["restored" if fix == "drop" else "moved_back"] > 20
    assert hashes(Path(out)) == hashes(photos)
    assert load(out).train.fingerprint() == load(str(photos)).train.fingerprint()


@pytest.fixture(scope="module")
def unreliable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on random images, of which no network learns more than chance; its method removes a fifth."""
    root = tmp_path_factory.mktemp("unreliable")
    generator = torch.Generator().manual_seed(0)
    for label in ("a", "b"):
        (root / "photos" / label).mkdir(parents=True)
        for i in range(60):
            pixels = torch.randint(0, 256, (8, 8), generator=generator, dtype=torch.uint8).numpy()
            Image.fromarray(pixels).save(root / "photos" / label / f"{i}.png")
    run = quick(str(root / "photos"), orat.methods.ORAT(m=0.2, k=1.0, burn_in=1, ramp=0), epochs=3, lr=0.001)
    orat.train(run, root / "run", device="cpu", display=SILENT)
    return root / "run"


def test_unreliable_predictions_change_no_label_unless_forced(
    unreliable: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = orat.find_label_issues(unreliable, device="cpu")
    assert (found.verdict.trusted, found.verdict.reliability < 0.5) == (False, True)
    assert int(found.flags.sum()) > 10  # by the ranks of the method
    words = ["labels", "fix", str(unreliable), "--out", str(tmp_path / "a"), "--device", "cpu"]
    for how in ("labels", "folder"):
        error = wrong(capsys, *words, "--how", how)
        assert "the predictions are unreliable (their reliability is" in error
        assert "give --force to change labels all the same" in error
    assert list(tmp_path.iterdir()) == []
    assert main([*words, "--force"]) == 0
    assert sum(not label for _, label in rows_of(tmp_path / "a" / "labels.csv")[1:]) == int(found.flags.sum())
    assert "Labels are changed all the same (--force)" in capsys.readouterr().out
    source = json.loads((tmp_path / "a" / RECORD).read_text())["source"]
    assert (source["forced"], source["reliability"] < 0.5, source["run"]) == (True, True, str(unreliable))


def test_a_dry_run_prints_the_same_table_and_writes_nothing(
    of_photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["labels", "fix", str(of_photos), "--out", str(tmp_path / "a"), "--device", "cpu"]
    assert main([*words, "--dry-run"]) == 0
    dry = capsys.readouterr().out
    assert dry.endswith("nothing is written (--dry-run)\n")
    assert not (tmp_path / "a").exists()
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(dry.partition("nothing is written")[0])
    summary = orat.fix_labels(of_photos, tmp_path / "b", device="cpu", dry_run=True)
    assert summary["dropped"] > 20
    assert not (tmp_path / "b").exists()
    assert main([*words[:-3], str(tmp_path / "b"), *words[-2:], "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] is False


def test_the_table_is_printed_before_anything_is_written(
    of_photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "labels.csv")

    monkeypatch.setattr("orat.curation.fixed_files.replace_file", full)
    assert main(["labels", "fix", str(of_photos), "--out", str(tmp_path / "a"), "--device", "cpu"]) == 2
    captured = capsys.readouterr()
    assert "to drop and 0 to relabel" in captured.out
    assert "labels.csv: No space left on device" in captured.err
    assert list(tmp_path.iterdir()) == []


def test_odd_names_of_files_survive_in_labels_and_their_undo(tmp_path: Path) -> None:
    names = ("a, b", 'q"uo', "ünï", "new\nline", "#h", "0", os.fsdecode(b"\xe9"))
    for label in ("1", "10, a"):
        (tmp_path / "pets" / label).mkdir(parents=True)
        for shade, name in enumerate(names):
            Image.new("L", (6, 6), shade).save(tmp_path / "pets" / label / f"{name}.png")
    train = load(str(tmp_path / "pets")).train
    after = train.labels.clone()
    after[::3], after[1::3] = LEFT_OUT, 1 - after[1::3]
    origin = Origin("run", "0", "pets", "0", None, 1, "network", 0.9, "drop", None, False)
    write_labels(tmp_path / "fixed", train, train.labels, after, origin)

    def labels() -> list[int]:
        file = tmp_path / "fixed" / "labels.csv"
        return from_file(file, len(train), train.classes, train.paths).tolist()

    assert labels() == after.tolist()
    undo_fix(tmp_path / "fixed")
    assert labels() == train.labels.tolist()
