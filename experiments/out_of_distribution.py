"""Training images that belong to no class: what they cost, and whether ORAT without k and m finds them.

    python benchmarks/foreign.py --data sample --other cifar10.tar.xz --kinds noise,inverted,other --share 0.1 \
        --flips 0,0.2 --arms at,automatic,oracle --runs runs/foreign --out results/foreign-sample.json

A share of the training images is replaced: by noise (uniform random pixels), by their own inverse, or by images of
other data. Inverted ones keep their true label, the others get any label. With --flips, so many of the labels of all
others are flipped besides (symmetric). The test part stays as it is. The oracle cuts exactly the foreign and flipped
samples; what it is said to estimate, its network does, which did not learn them. Areas under the ROC curve are those
of foreign, or flipped, samples against all that are neither.

Data sets are made once, in the folder `data` of the runs. Every run is a row of the output as soon as it is finished,
and what is a row already is not trained again, so that a table can be filled in several goes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filling import NEVER, Row, add_flags, fields_of, filled, is_known, sitting_of, tell_truth
from orat.curation.earlier import automatic
from torch import Tensor
from torch.nn import functional

import orat
from orat.core.errors import InputError, unknown
from orat.curation.find import saved_verdict
from orat.data import catalog as data
from orat.data.source import Dataset
from orat.methods import Method
from orat.methods.automatic import cut_in
from orat.noise.judge import area
from orat.sweeps.parallel import Sitting
from orat.training.run import Run, read_run
from orat.training.run_folder import RunFolder
from orat.training.setup import with_noise
from orat.training.train import Job

ARMS: dict[str, Method] = {
    "at": orat.methods.AT(),
    "automatic": orat.methods.ORAT(),
    "oracle": orat.methods.ORAT(score="adversarial", burn_in=NEVER),  # a watch that is told what to cut
}
GRAY = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)
COLUMNS = ("natural", "fgsm", "pgd20", "cw")
TABLE = {
    "kind": "kind", "share": "share", "flips": "flips", "seed": "seed", "arm": "arm", "natural": "Natural",
    "fgsm": "FGSM", "pgd20": "PGD-20", "cw": "CW", "foreign": "foreign", "foreign_cut": "cut", "flipped": "flipped",
    "flipped_cut": "cut", "others": "others", "others_cut": "cut", "auc_foreign": "AUC foreign",
    "auc_flipped": "AUC flipped", "estimate": "estimate",
}  # fmt: skip
DIGITS = {**dict.fromkeys(COLUMNS, 2), "auc_foreign": 4, "auc_flipped": 4, "estimate": 4}

read = cache(data.load)


def main() -> None:
    """Makes the data sets, trains what is missing, and prints the table."""
    arguments = parsed()
    names = {name: path and Path(path).name for name, path in (("data", arguments.data), ("other", arguments.other))}
    setting = {**names, **json.loads(arguments.fields)}
    for line in table_lines(filled(arguments, setting, partial(missing, arguments), row_of)):
        print(line)


def parsed() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sample")
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--other", default=None, help="data whose images are mixed in, as --data; for the kind other")
    parser.add_argument("--kinds", default="noise,inverted", help=f"of {', '.join(KINDS)}, with commas between")
    parser.add_argument("--share", default="0.1", help="shares of the training images to replace, with commas between")
    parser.add_argument("--flips", default="0,0.2", help="shares of the other labels to flip, with commas between")
    parser.add_argument("--arms", default="at,automatic", help=f"of {', '.join(ARMS)}, with commas between")
    add_flags(parser, "runs/foreign")
    return parser.parse_args()


@dataclass(frozen=True)
class Recipe:
    """All that decides a data set with foreign images in it."""

    data: str
    data_dir: Path | None
    image_size: tuple[int, int] | None
    other: str | None
    kind: str
    share: float
    flips: float
    seed: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("kind", self.kind, KINDS)
        if not 0 <= self.share < 1:
            raise InputError(f"share = {self.share:g}: give a share of the training images from 0 to below 1")
        if self.kind == "other" and self.other is None:
            raise InputError("the kind other is images of other data: say which by --other")

    @property
    def name(self) -> str:
        """The same recipe has the same name."""
        digest = hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:10]
        return f"{self.kind}-{self.share:g}-{self.flips:g}-{self.seed}-{digest}"


def made(recipe: Recipe, folder: Path) -> Path:
    """The .npz file of a recipe, as orat reads it; what is foreign or flipped lies beside, where orat does not look."""
    file = folder / f"{recipe.name}.npz"
    if file.exists():
        return file
    splits = read(recipe.data, recipe.data_dir, recipe.image_size)
    arrays = mixed(splits.train, recipe)
    if splits.test is not None:
        arrays |= {"x_test": splits.test.images, "y_test": splits.test.labels}
    saved: dict[str, Any] = {name: array.numpy() for name, array in arrays.items()}
    folder.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")  # so that a file with its name is whole
    with part.open("wb") as stream:
        np.savez(stream, class_names=np.array(splits.train.classes), **saved)
    return part.replace(file)


def mixed(train: Dataset, recipe: Recipe) -> dict[str, Tensor]:
    """A training set in which some images are replaced and some labels of the others flipped, and the truth about it.

    The same seed replaces the same samples, whatever the kind and the flips.
    """
    if train.images.dim() != 4:
        raise InputError(f"samples have the shape {train.shape}: give data of images")
    # No generator of torch: a run holds out the first of torch.randperm by the same seed, which would be these.
    generator = np.random.default_rng(recipe.seed)
    places = torch.from_numpy(generator.permutation(len(train))[: round(recipe.share * len(train))])
    any_label = torch.from_numpy(generator.integers(len(train.classes), size=len(places)))
    noisy = with_noise(train, "symmetric", recipe.flips, recipe.seed) if recipe.flips else train
    images, labels = train.images.clone(), noisy.labels.clone()
    images[places] = as_stored(KINDS[recipe.kind](in_unit(images[places]), recipe, generator), images.dtype)
    labels[places] = train.labels[places] if recipe.kind == "inverted" else any_label
    foreign = torch.zeros(len(train), dtype=torch.bool).index_fill(0, places, True)
    flipped = (labels != train.labels) & ~foreign
    return {"x_train": images, "y_train": labels, "foreign": foreign, "flipped": flipped}


def other_images(own: Tensor, recipe: Recipe, generator: np.random.Generator) -> Tensor:
    """Training images of other data, none of them twice, in the shape of these."""
    assert recipe.other is not None
    images = read(recipe.other, recipe.data_dir).train.images
    if images.dim() != 4 or len(images) < len(own):
        raise InputError(f"{recipe.other} has samples of shape {tuple(images.shape)}: give {len(own)} images or more")
    chosen = torch.from_numpy(generator.permutation(len(images))[: len(own)])
    return fitted(in_unit(images[chosen]), tuple(own.shape[1:]))


# Images in [0, 1] -> those in their place.
KINDS: dict[str, Callable[[Tensor, Recipe, np.random.Generator], Tensor]] = {
    "noise": lambda own, recipe, generator: torch.from_numpy(generator.random(own.shape, dtype=np.float32)),
    "inverted": lambda own, recipe, generator: 1 - own,
    "other": other_images,
}


def fitted(images: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Images in [0, 1] with other channels, height and width."""
    channels, *size = shape
    if channels == 1 and images.shape[1] == len(GRAY):
        images = (images * images.new_tensor(GRAY)[:, None, None]).sum(1, keepdim=True)
    images = images.expand(-1, channels, -1, -1)
    return functional.interpolate(images, size, mode="bilinear", antialias=True).clamp(0, 1)


def in_unit(images: Tensor) -> Tensor:
    """Images as floats in [0, 1]."""
    return images / 255 if images.dtype == torch.uint8 else images


def as_stored(images: Tensor, dtype: torch.dtype) -> Tensor:
    """Images in [0, 1] as bytes, if that is how the data set has them."""
    return (images * 255).round().to(dtype) if dtype == torch.uint8 else images


def missing(arguments: argparse.Namespace, rows: list[Row]) -> Iterator[tuple[Row, Sitting]]:
    """The cells that are no rows yet, and their runs."""
    fields = fields_of(arguments)
    asked = arguments.seeds, arguments.flips, arguments.share, arguments.kinds, arguments.arms
    for seed, flips, share, kind, arm in product(*(part.split(",") for part in asked)):
        cell = {"arm": arm, "kind": kind, "share": float(share), "flips": float(flips), "seed": int(seed)}
        if is_known(cell, rows):
            continue
        if arm not in ARMS:
            raise unknown("arm", arm, ARMS)
        source = arguments.data, arguments.data_dir, fields.get("image_size")
        other = arguments.other if kind == "other" else None
        recipe = Recipe(*source, other, kind, float(share), float(flips), int(seed))
        file = made(recipe, arguments.runs / "data")
        # The defaults are those of the data set by its own name.
        run = Run(data=arguments.data, method=ARMS[arm], seed=int(seed), **fields)
        run = replace(run, data=str(file), image_size=None)
        sitting = sitting_of(arguments, arguments.runs / f"{arm}-{recipe.name}-{run.id}", run, None)
        if arm == "oracle":
            tell_truth(sitting, outliers)
        yield cell, sitting


def outliers(job: Job) -> Tensor:
    """Which training samples of a run are foreign or flipped."""
    foreign, flipped = truth(Path(job.run.data))
    return (foreign | flipped)[job.parts.index]


def truth(file: Path) -> tuple[Tensor, Tensor]:
    """Which samples of a data set as it is read are foreign, and which have a flipped label."""
    with np.load(file) as arrays:
        return torch.from_numpy(arrays["foreign"]), torch.from_numpy(arrays["flipped"])


def row_of(cell: Row, sitting: Sitting) -> Row:
    """What came of a run: accuracy, time, and what it did with foreign, flipped and all other samples."""
    result, folder = sitting.job.result, RunFolder(Path(sitting.folder))
    row = {name: round(100 * result["last"][name], 2) for name in COLUMNS if name in result["last"]}
    row |= {"run": result["run"], "seconds": result["seconds"]}
    state = folder.load_tensors("state")
    foreign, flipped = (
        part[state["index"]] for part in truth(Path(read_run(folder.path).data))
    )  # without those held out
    groups = {"foreign": foreign, "flipped": flipped, "others": ~(foreign | flipped)}
    row |= {name: int(group.sum()) for name, group in groups.items()}
    if "wrong" not in state:
        return row  # nothing is judged, and nothing cut
    verdict, cut = saved_verdict(automatic(state), state["given"]), cut_in(state)
    row |= {f"{name}_cut": int(cut[group].sum()) for name, group in groups.items()}
    for name in ("foreign", "flipped"):
        among = groups[name] | groups["others"]
        row[f"auc_{name}"] = area(verdict.score[among], groups[name][among])
    return row | {"estimate": verdict.rate, "error": verdict.error, "known": verdict.knowledge}


def table_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as an aligned table."""
    texts = [list(TABLE.values())]
    texts += [[shown(row.get(name), DIGITS.get(name)) for name in TABLE] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return ["  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in texts]


def shown(value: Any, digits: int | None) -> str:
    """A cell of the table."""
    if value is None:
        return "-"
    return str(value) if digits is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    main()
