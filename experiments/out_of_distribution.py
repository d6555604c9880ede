"""Training images that belong to no class: their cost, and whether ORAT (automatic) flags them.

    python experiments/out_of_distribution.py --data sample --other cifar10.tar.xz --kinds noise,inverted,other \
        --share 0.1 --flips 0,0.2 --arms at,automatic,oracle --runs runs/foreign --out results/foreign-sample.json

A share of the training images is replaced: by uniform noise, by their own inverse, or by images of other data. Inverted
images keep their label, others get a random label. With --flips, a share of the labels of all other images is flipped
(symmetric noise). The test part stays as it is. The oracle removes exactly the foreign images and the flipped labels.
Areas under the ROC curve compare foreign images, or flipped labels, with the samples that are neither.

Data sets are made once, in the folder `data` of the runs. Every finished run is a row of the output; a present row is
not repeated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scores import Oracle
from study import Cell, Row, add_flags, fields_of, fill, is_known, mask_file
from torch import Tensor
from torch.nn import functional

from orat.core.errors import InputError, unknown
from orat.data import catalog
from orat.data.source import Dataset
from orat.methods import AT, ORAT, Method
from orat.noise.truth import area
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare, with_noise

ARMS: dict[str, Method] = {"at": AT(), "automatic": ORAT(), "oracle": Oracle()}
GRAY = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)
COLUMNS = ("natural", "fgsm", "pgd20", "cw")
TABLE = {
    "kind": "kind", "share": "share", "flips": "flips", "seed": "seed", "arm": "arm", "natural": "Natural",
    "fgsm": "FGSM", "pgd20": "PGD-20", "cw": "CW", "foreign": "foreign", "foreign_cut": "flagged", "flipped": "flipped",
    "flipped_cut": "flagged", "others": "others", "others_cut": "flagged", "auc_foreign": "AUC foreign",
    "auc_flipped": "AUC flipped", "estimate": "noise rate",
}  # fmt: skip
DIGITS = {**dict.fromkeys(COLUMNS, 2), "auc_foreign": 4, "auc_flipped": 4, "estimate": 4}

load = cache(catalog.load)


def main() -> None:
    """Makes the data sets, trains missing runs, and prints the table."""
    arguments = parsed()
    names = {name: path and Path(path).name for name, path in (("data", arguments.data), ("other", arguments.other))}
    setting = {**names, **json.loads(arguments.fields)}
    for line in table_lines(fill(arguments, setting, lambda rows: missing(arguments, rows), row_of)):
        print(line)


def parsed() -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sample")
    parser.add_argument("--other", help="data set for the kind other")
    parser.add_argument("--kinds", default="noise,inverted", help=f"of {', '.join(KINDS)}, with commas between")
    parser.add_argument("--share", default="0.1", help="shares of the training images to replace, with commas between")
    parser.add_argument("--flips", default="0,0.2", help="shares of the other labels to flip, with commas between")
    parser.add_argument("--arms", default="at,automatic", help=f"of {', '.join(ARMS)}, with commas between")
    add_flags(parser, "runs/foreign")
    return parser.parse_args()


@dataclass(frozen=True)
class Recipe:
    """The fields that define a data set with foreign images."""

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
            raise InputError("the kind other needs other data: give --other")

    @property
    def name(self) -> str:
        """The kind, the shares, the seed, and a hash of all fields."""
        digest = hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:10]
        return f"{self.kind}-{self.share:g}-{self.flips:g}-{self.seed}-{digest}"


def made(recipe: Recipe, folder: Path) -> Path:
    """The .npz file of a recipe; the arrays `foreign` and `flipped` are for this study only."""
    file = folder / f"{recipe.name}.npz"
    if file.exists():
        return file
    splits = load(recipe.data, recipe.data_dir, recipe.image_size)
    arrays = mixed(splits.train, recipe)
    if splits.test is not None:
        arrays |= {"x_test": splits.test.images, "y_test": splits.test.labels}
    saved: dict[str, Any] = {name: array.numpy() for name, array in arrays.items()}
    folder.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")  # a file of the final name is complete
    with part.open("wb") as stream:
        np.savez(stream, class_names=np.array(splits.train.classes), **saved)
    return part.replace(file)


def mixed(train: Dataset, recipe: Recipe) -> dict[str, Tensor]:
    """A training set with replaced images and flipped labels, and the masks of both.

    The same seed replaces the same samples for every kind and share of flips.
    """
    if train.images.dim() != 4:
        raise InputError(f"samples have the shape {train.shape}: give data of images")
    # Not torch.randperm with this seed: its first samples are the validation part of a run.
    generator = np.random.default_rng(recipe.seed)
    places = torch.from_numpy(generator.permutation(len(train))[: round(recipe.share * len(train))])
    random_labels = torch.from_numpy(generator.integers(len(train.classes), size=len(places)))
    noisy = with_noise(train, "symmetric", recipe.flips, recipe.seed) if recipe.flips else train
    images, labels = train.images.clone(), noisy.labels.clone()
    images[places] = as_stored(KINDS[recipe.kind](in_unit(images[places]), recipe, generator), images.dtype)
    labels[places] = train.labels[places] if recipe.kind == "inverted" else random_labels
    foreign = torch.zeros(len(train), dtype=torch.bool).index_fill(0, places, True)
    flipped = (labels != train.labels) & ~foreign
    return {"x_train": images, "y_train": labels, "foreign": foreign, "flipped": flipped}


def other_images(own: Tensor, recipe: Recipe, generator: np.random.Generator) -> Tensor:
    """Distinct training images of other data in the shape of our images."""
    assert recipe.other is not None
    images = load(recipe.other, recipe.data_dir).train.images
    if images.dim() != 4 or len(images) < len(own):
        raise InputError(f"{recipe.other} has samples of shape {tuple(images.shape)}: give {len(own)} images or more")
    chosen = torch.from_numpy(generator.permutation(len(images))[: len(own)])
    return fitted(in_unit(images[chosen]), tuple(own.shape[1:]))


# Images in [0, 1] -> their replacements.
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
    """Images in [0, 1] in the type of the data set."""
    return (images * 255).round().to(dtype) if dtype == torch.uint8 else images


def missing(arguments: argparse.Namespace, rows: list[Row]) -> Iterator[Cell]:
    """The cells without a row."""
    fields = fields_of(arguments)
    flags = arguments.seeds, arguments.flips, arguments.share, arguments.kinds, arguments.arms
    for seed, flips, share, kind, arm in product(*(part.split(",") for part in flags)):
        columns = {"arm": arm, "kind": kind, "share": float(share), "flips": float(flips), "seed": int(seed)}
        if is_known(columns, rows):
            continue
        if arm not in ARMS:
            raise unknown("arm", arm, ARMS)
        source = arguments.data, arguments.data_dir, fields.get("image_size")
        other = arguments.other if kind == "other" else None
        recipe = Recipe(*source, other, kind, float(share), float(flips), int(seed))
        file = made(recipe, arguments.runs / "data")
        # The defaults belong to the data set under its own name.
        run = Run(data=arguments.data, method=ARMS[arm], seed=int(seed), **fields)
        run = replace(run, data=str(file), image_size=None)
        folder = arguments.runs / f"{arm}-{recipe.name}-{run.id}"
        if arm == "oracle":
            foreign, flipped = masks(file)
            parts = prepare(run)
            removed = mask_file(folder, (foreign | flipped)[parts.ids], len(parts.ids))
            run = replace(run, method=Oracle(removed=removed))
        yield Cell(columns, folder, run)


def masks(file: Path) -> tuple[Tensor, Tensor]:
    """The foreign images and the flipped labels of a data set as read."""
    with np.load(file) as arrays:
        return torch.from_numpy(arrays["foreign"]), torch.from_numpy(arrays["flipped"])


def row_of(cell: Cell, result: Row) -> Row:
    """The accuracies and seconds of a run, and its flags of foreign, flipped and other samples."""
    folder = RunFolder(cell.folder)
    row = {name: round(100 * result["last"][name], 2) for name in COLUMNS if name in result["last"]}
    row |= {"run": result["run"], "seconds": result["seconds"]}
    state = folder.load_tensors("state")
    foreign, flipped = (mask[state["id"]] for mask in masks(Path(cell.run.data)))  # of the training part
    groups = {"foreign": foreign, "flipped": flipped, "others": ~(foreign | flipped)}
    row |= {name: int(group.sum()) for name, group in groups.items()}
    if "keep" not in state:
        return row
    flagged = ~state["keep"] | (state["labels"] != prepare(cell.run).train.labels)
    row |= {f"{name}_cut": int(flagged[group].sum()) for name, group in groups.items()}
    if "verdict_score" not in state:
        return row
    for name in ("foreign", "flipped"):
        among = groups[name] | groups["others"]
        row[f"auc_{name}"] = area(state["verdict_score"][among], groups[name][among])
    last = folder.history()[-1]["state"]
    return row | {"estimate": last["noise_rate"], "error": last["error"], "known": last["reliability"]}


def table_lines(rows: list[Row]) -> list[str]:
    """The rows as an aligned table."""
    texts = [list(TABLE.values())]
    texts += [[text_of(row.get(name), DIGITS.get(name)) for name in TABLE] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return ["  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in texts]


def text_of(value: Any, digits: int | None) -> str:
    """A value in the table."""
    if value is None:
        return "-"
    return str(value) if digits is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    main()
