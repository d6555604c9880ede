"""CIFAR as strips: packed and unpacked it is the same to the bit, and the real files are the images of the reports."""

from __future__ import annotations

import json
from pathlib import Path

import cifar_strips
import numpy as np
import pytest
import torch

from orat.core.errors import InputError
from orat.data.catalog import load
from orat.data.cifar import VERSIONS, Kind
from orat.training.setup import prepare
from orat_paper.reproduce.cells import KEYS, Cell
from orat_paper.reproduce.settings import Places, run_of

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "data" / "cifar"


def binary(folder: Path, name: Kind, train: int, test: int) -> None:
    """Random images in the binary version, written by hand."""
    generator, version = np.random.default_rng(0), VERSIONS[name][0]
    place = folder / name / version.folder
    place.mkdir(parents=True)
    for file, n in (*((file, train // len(version.train)) for file in version.train), (version.test, test)):
        labels = np.zeros((n, version.label_bytes or 1), np.uint8)
        labels[:, -1] = generator.integers(0, 10, n)
        pixels = generator.integers(0, 256, (n, 3072), dtype=np.uint8)
        (place / file).write_bytes(np.concatenate([labels, pixels], 1).tobytes())


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_a_set_that_is_packed_and_unpacked_is_the_same_to_the_bit(
    name: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar_strips, "LARGEST", 700_000)  # two strips of noise
    binary(tmp_path / "there", name, train=450, test=90)
    cifar_strips.pack(name, tmp_path / "there", tmp_path / "strips")
    files = {file.name: file.stat().st_size for file in (tmp_path / "strips").glob("*.webps")}
    assert sorted(files) == [f"{name}-test-0.webps", *(f"{name}-train-{number}.webps" for number in range(3))]
    assert max(files.values()) < 700_000
    cifar_strips.unpack(tmp_path / "strips", tmp_path / "here")
    there, here = (load(name, tmp_path / place) for place in ("there", "here"))
    assert there.test is not None
    assert here.test is not None
    for one, other in ((there.train, here.train), (there.test, here.test)):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels)
        assert one.classes == other.classes


def test_files_that_are_missing_or_changed_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    binary(tmp_path / "there", "cifar100", train=150, test=90)
    strips, here = tmp_path / "strips", tmp_path / "here"
    with pytest.raises(InputError, match="strips has no meta file"):
        cifar_strips.unpack(strips, here)
    cifar_strips.pack("cifar100", tmp_path / "there", strips)
    train = (strips / "cifar100-train-0.webps").read_bytes()
    (strips / "cifar100-train-0.webps").write_bytes(train[: 8 + int.from_bytes(train[4:8], "little")])
    with pytest.raises(InputError, match=r"100 of 150 train images of cifar100 \(cifar100-train-0.webps\): bring"):
        cifar_strips.unpack(strips, here)
    first = 8 + int.from_bytes(train[4:8], "little")
    twice = cifar_strips.files_of(np.zeros((100, 32, 32, 3), np.uint8))
    (strips / "cifar100-train-0.webps").write_bytes(next(twice) + train[first:])
    with pytest.raises(InputError, match="the train images of cifar100 are not those of cifar100-meta.npz"):
        cifar_strips.unpack(strips, here)
    assert not here.exists()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the real CIFAR-10 images, unpacked."""
    if not (REAL / "cifar10-meta.npz").is_file():
        pytest.skip(f"the real CIFAR-10 strips are not at {REAL}")
    folder = tmp_path_factory.mktemp("real")
    cifar_strips.unpack(REAL, folder)
    return folder


def test_the_real_files_are_the_images_of_the_published_reports(real: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("sym40", "asym40"):
        run = json.loads((ROOT / "results" / f"cifar10-lossless-{name}.json").read_text())["runs"][0]
        cell = Cell(**{key: run[key] for key in KEYS})
        parts = prepare(run_of(cell, "ours", run["seed"], Places(Path())), real)
        assert parts.train.fingerprint() == run["fingerprint"]
    cifar_strips.unpack(REAL, real)
    assert "is there" in capsys.readouterr().out
