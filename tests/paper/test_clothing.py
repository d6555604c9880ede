"""Clothing1M in its owners' layout, 200 images of 224 pixels: made in bounded memory, and trained on for one epoch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from orat.core.console import SILENT
from orat.core.errors import InputError
from orat.data.catalog import load
from orat_paper.reproduce import clothing
from orat_paper.reproduce.settings import Places

ROOT = Path(__file__).parents[2]
LISTS = {"clean_train": 130, "clean_test": 40, "noisy_train": 30}
COUNTS = {"TRAIN": 120, "TEST": 40, "NOISY": 24}


@pytest.fixture(scope="module")
def owners(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The owners' folder: an image of class c has c on all pixels of its red plane."""
    folder = tmp_path_factory.mktemp("clothing")
    (folder / "images").mkdir()
    (folder / "category_names_eng.txt").write_text("\n".join(f"class {label}" for label in range(14)))
    generator = np.random.default_rng(0)
    for keys, count in LISTS.items():
        names = [f"images/{keys}-{i}.png" for i in range(count)]
        (folder / f"{keys}_key_list.txt").write_text("\n".join(names))
        with (folder / f"{keys.partition('_')[0]}_label_kv.txt").open("a") as file:
            file.writelines(f"{name} {i % 14}\n" for i, name in enumerate(names))
        for i, name in enumerate(names):
            image = generator.integers(0, 256, (224, 224, 3), dtype=np.uint8)
            image[:, :, 0] = i % 14
            Image.fromarray(image).save(folder / name, compress_level=0)
    return folder


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes for 200 images."""
    for name, number in COUNTS.items():
        monkeypatch.setattr(clothing, name, number)


def test_every_image_keeps_its_label_whatever_the_size_of_a_group(
    owners: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch)
    contents = []
    for group in (7, 1000):
        monkeypatch.setattr(clothing, "GROUP", group)
        places = Places(tmp_path / str(group), {"clothing1m": str(owners)})
        clothing.make_clothing(places, SILENT)
        contents.append([places.clothing(kind).read_bytes() for kind in ("clean", "noisy")])
    assert contents[0] == contents[1]
    for kind in ("clean", "noisy"):
        splits = load(str(places.clothing(kind)))
        assert splits.test is not None
        assert (len(splits.train), len(splits.test), splits.train.shape) == (120, 40, (3, 32, 32))
        assert splits.train.classes == tuple(f"class {label}" for label in range(14))
        for part in (splits.train, splits.test):
            assert (part.images[:, 0] == part.labels[:, None, None]).all()


def test_an_image_that_cannot_be_read_leaves_no_file(
    owners: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch)
    places = Places(tmp_path, {"clothing1m": str(owners)})
    damaged = owners / "images" / "clean_test-0.png"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:1000])
    with pytest.raises(InputError, match="cannot read .*clean_test-0.png .*: get it again"):
        clothing.make_clothing(places, SILENT)
    damaged.write_bytes(content)
    assert list((tmp_path / "data").iterdir()) == []


def python(script: str, *arguments: str) -> str:
    """The output of a Python process."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


MAKE = """
import resource, sys
from pathlib import Path
from orat.core.console import SILENT
from orat_paper.reproduce import clothing
from orat_paper.reproduce.settings import Places
clothing.TEST, clothing.NOISY, clothing.SIDE, clothing.GROUP = 8, 8, 224, 8
for count in map(int, sys.argv[3:]):
    clothing.TRAIN = count
    places = Places(Path(sys.argv[2]) / str(count), {"clothing1m": sys.argv[1]})
    clothing.make_clothing(places, SILENT)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, places.clothing("clean").stat().st_size)
"""


def test_memory_does_not_grow_with_the_number_of_images(owners: Path, tmp_path: Path) -> None:
    lines = python(MAKE, str(owners), str(tmp_path), "16", "120").splitlines()
    (few, small_file), (many, large_file) = (map(int, line.split()) for line in lines)
    grown = large_file - small_file
    assert grown > 15_000_000
    assert many - few < 0.2 * grown


TRAIN = """
import sys
from orat.cli.main import main
from orat_paper.reproduce import clothing, settings
clothing.TRAIN, clothing.TEST, clothing.NOISY = 64, 16, 12
settings.FIELDS["ours"] = {"epochs": 1, "milestones": ()}
sys.exit(main(["paper", "reproduce", "clothing1m", *sys.argv[1:]]))
"""


def test_small_cnn_trains_for_an_epoch_on_web_labels_with_the_papers_settings(owners: Path, tmp_path: Path) -> None:
    flags = ["--data", f"clothing1m={owners}", "--only", "noise=web,method=AT", "--out", str(tmp_path), "--json"]
    report: dict[str, Any] = json.loads(python(TRAIN, *flags, "--quiet", "--device", "cpu", "--no-figure"))
    (run,) = report["runs"]
    assert (run["run"]["model"], run["run"]["attack_steps"], run["run"]["augment"]) == ("small_cnn", 10, "crop-flip")
    assert (run["run"]["data"], run["examples"]) == ("clothing1m-noisy.npz", 16)
    assert [point["epoch"] for point in run["curve"]] == [1]
    assert report["errors"] == {}
