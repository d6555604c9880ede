"""Labels -> labels: the wrong labels of the paper's experiments, or those of a file."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from orat.data.batches import as_input
from orat.data.dataset import Dataset
from orat.errors import InputError, unknown
from orat.types import Indices, Labels

# Appendix "Details of Outliers Generation by Using Asymmetric Noise": source -> target.
MNIST_FLIPS = {"7": "1", "2": "7", "3": "8", "5": "6", "6": "5"}
CIFAR10_FLIPS = {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"}
MNIST = frozenset("0123456789")
CIFAR10 = frozenset(("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"))

# The super-classes of CIFAR-100 (Krizhevsky, 2009), by the names in the data set's own files.
CIFAR100_GROUPS = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
CIFAR100 = tuple(sorted(" ".join(CIFAR100_GROUPS.values()).split()))
GROUPINGS = {
    "true": tuple(tuple(names.split()) for names in CIFAR100_GROUPS.values()),
    # The authors' code takes five neighbors in the alphabet for a super-class.
    "authors": tuple(CIFAR100[i : i + 5] for i in range(0, 100, 5)),
}

DEVIATION = 0.1  # of the chances of instance-dependent noise


def symmetric(labels: Labels, classes: int, rate: float, seed: int) -> Labels:
    """Moves floor(rate n / classes) labels of each class, each to any other class with equal probability."""
    if classes < 2:
        raise InputError(f"symmetric noise needs another class to move to, got {classes} classes: give at least 2")
    check_rate(rate)
    moved = _share(rate, len(labels), classes)
    generator = torch.Generator().manual_seed(seed)
    noisy = labels.clone()
    for source in range(classes):
        members = (labels == source).nonzero().flatten()
        if len(members) < moved:
            raise InputError(
                f"class {source} has {len(members)} samples, but symmetric noise of rate {rate} moves {moved} "
                "of each class: lower the rate"
            )
        targets = torch.randint(classes - 1, (moved,), generator=generator)
        # Of the other classes, those from the source on are one further than drawn.
        noisy[_choose(members, moved, generator)] = targets + (targets >= source)
    return noisy


def asymmetric(labels: Labels, class_names: tuple[str, ...], rate: float, seed: int, grouping: str = "true") -> Labels:
    """Flips floor(rate count) labels of each source class to the class that resembles it."""
    check_rate(rate)
    generator = torch.Generator().manual_seed(seed)
    noisy = labels.clone()
    for source, target in flips(class_names, grouping, generator).items():
        members = (labels == class_names.index(source)).nonzero().flatten()
        noisy[_choose(members, _share(rate, len(members)), generator)] = class_names.index(target)
    return noisy


def flips(class_names: tuple[str, ...], grouping: str, generator: torch.Generator) -> dict[str, str]:
    """Which class flips to which, by name; CIFAR-100 draws the pair that each group of five swaps."""
    if grouping not in GROUPINGS:
        raise unknown("grouping", grouping, GROUPINGS)
    names = frozenset(class_names)
    if names == MNIST:
        return MNIST_FLIPS
    if names == CIFAR10:
        return CIFAR10_FLIPS
    if names != frozenset(CIFAR100):
        raise InputError(
            f"asymmetric noise is known for the class names of MNIST, CIFAR-10 and CIFAR-100 only, got "
            f"{len(class_names)} classes {', '.join(class_names[:3])}...: give the noisy labels in a file instead"
        )
    pairs: dict[str, str] = {}
    for group in GROUPINGS[grouping]:
        one, other = torch.randperm(5, generator=generator)[:2].tolist()
        pairs |= {group[one]: group[other], group[other]: group[one]}
    return pairs


def check_rate(rate: float) -> None:
    """Refuses a rate that is no share of the labels."""
    if not 0 <= rate < 1:
        raise InputError(f"the noise rate is {rate}: give a number from 0 to below 1")


def _share(rate: float, count: int, parts: int = 1) -> int:
    """floor(rate count / parts), with the rate as it is written: 0.3 is three tenths, not the float just below."""
    return int(Fraction(str(rate)) * count / parts)


def _choose(members: Indices, count: int, generator: torch.Generator) -> Int64[Tensor, "chosen"]:
    """So many of these places, without repetition."""
    return members[torch.randperm(len(members), generator=generator)[:count]]


def instance_dependent(samples: Tensor, labels: Labels, classes: int, rate: float, seed: int) -> Labels:
    """Flips each label with a chance of its own, about the rate, to a class that the sample itself leans to.

    As Xia et al. (2020) define it: chances are normal around the rate (with a deviation of 0.1, within 0 and 1), and a
    random linear map for each class says where its samples go. Alike samples go to the same class.
    """
    if classes < 2:
        raise InputError(f"instance noise needs another class to move to, got {classes} classes: give at least 2")
    check_rate(rate)
    if rate == 0:
        return labels.clone()
    generator = torch.Generator().manual_seed(seed)
    least, most = (torch.special.ndtr(torch.tensor((bound - rate) / DEVIATION).double()) for bound in (0.0, 1.0))
    places = least + (most - least) * torch.rand(len(labels), generator=generator, dtype=torch.float64)
    chances = (rate + DEVIATION * torch.special.ndtri(places)).clamp(0, 1)
    flips = torch.rand(len(labels), generator=generator, dtype=torch.float64) < chances
    noisy = labels.clone()
    for source in range(classes):
        members = ((labels == source) & flips).nonzero().flatten()
        leaning = torch.randn(samples[0].numel(), classes, generator=generator)
        scores = as_input(samples[members]).flatten(1) @ leaning
        scores[:, source] = -torch.inf
        if len(members):
            noisy[members] = torch.multinomial(scores.softmax(1), 1, generator=generator).squeeze(1)
    return noisy


NOISES: dict[str, Callable[[Dataset, float, int], Labels]] = {
    "none": lambda data, rate, seed: data.labels.cpu(),
    "symmetric": lambda data, rate, seed: symmetric(data.labels.cpu(), len(data.classes), rate, seed),
    "asymmetric": lambda data, rate, seed: asymmetric(data.labels.cpu(), data.classes, rate, seed),
    "asymmetric-authors": lambda data, rate, seed: asymmetric(data.labels.cpu(), data.classes, rate, seed, "authors"),
    "instance": lambda data, rate, seed: instance_dependent(
        data.images.cpu(), data.labels.cpu(), len(data.classes), rate, seed
    ),
}


def apply(dataset: Dataset, kind: str, rate: float, seed: int) -> Dataset:
    """The data set with noisy labels, which remembers the true ones."""
    if kind not in NOISES:
        raise unknown("noise", kind, NOISES)
    check_rate(rate)
    if kind == "none" and rate > 0:
        raise InputError(f"noise 'none' with rate {rate}: give rate 0, or a kind of noise")
    if kind == "none":
        # Nobody vouches for the labels here, so they do not become the truth.
        return dataset
    return relabel(dataset, NOISES[kind](dataset, rate, seed))


def relabel(dataset: Dataset, labels: Labels) -> Dataset:
    """The data set with these labels, which remembers the true ones; where none were known, the old labels are."""
    truth = dataset.labels if dataset.true_labels is None else dataset.true_labels
    return replace(dataset, labels=labels.to(dataset.labels.device), true_labels=truth)


LEFT_OUT = -1  # in place of a label: the sample is not to be trained on

# Where a row stands in its file, as "line 3", and its cells: a label, or an index and a label.
Row = tuple[str, tuple[str, ...]]


def from_file(path: str | Path, n: int, class_names: tuple[str, ...]) -> Labels:
    """The n labels of a .npy, .csv or .txt file, as class indices or class names; LEFT_OUT after an index alone."""
    path = Path(path)
    if path.suffix not in READERS:
        raise InputError(f"{path} ends in {path.suffix!r}: give the labels as {', '.join(READERS)}")
    if not path.is_file():
        raise InputError(f"there is no file {path}: give the labels as {', '.join(READERS)}")
    try:
        rows = READERS[path.suffix](path)
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path} is not a {path.suffix} file of labels: {' '.join(str(error).split())}") from error
    samples, labels = _samples(path, rows, n), _classes(path, rows, class_names)
    if len(rows) != n:
        raise InputError(f"{path} has {len(rows)} labels for {n} samples: give one a sample")
    return torch.tensor(labels)[torch.tensor(samples).argsort()]


def _npy(path: Path) -> list[Row]:
    with path.open("rb") as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise ValueError(f"it holds {array.dtype} of shape {array.shape}, not one integer or name a sample")
    return [(f"entry {i}", (str(value),)) for i, value in enumerate(array)]


def _csv(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        rows = [(f"line {reader.line_num}", tuple(cell.strip() for cell in row)) for row in reader if any(row)]
    titled = bool(rows) and rows[0][1] in (("index", "label"), ("label",))
    return rows[1:] if titled else rows


def _txt(path: Path) -> list[Row]:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    return [(f"line {i}", (line.strip(),)) for i, line in enumerate(lines, 1) if line.strip()]


READERS: dict[str, Callable[[Path], list[Row]]] = {".npy": _npy, ".csv": _csv, ".txt": _txt}


def _samples(path: Path, rows: list[Row], n: int) -> list[int]:
    """Which sample each row labels: the one that it names, or else the next."""
    indices = {str(i): i for i in range(n)}
    samples: list[int] = []
    for position, (place, cells) in enumerate(rows):
        if len(cells) > 2 or len(cells) != len(rows[0][1]):
            raise InputError(f"{path}, {place}: {len(cells)} columns: give every line `label`, or `index,label`")
        if len(cells) == 1:
            samples.append(position)
            continue
        if cells[0] not in indices:
            raise InputError(f"{path}, {place}: index {cells[0]!r} is not in 0..{n - 1} or came before: give each once")
        samples.append(indices.pop(cells[0]))
    return samples


def _classes(path: Path, rows: list[Row], class_names: tuple[str, ...]) -> list[int]:
    """The class of each row; a text that is both a name and an index counts as a name, a number in a .npy does not."""
    by_name = {name: i for i, name in enumerate(class_names)}
    by_index = {str(i): i for i in range(len(class_names))}
    written = [(place, cells[-1]) for place, cells in rows if cells[1:] != ("",)]
    numbers = all(re.fullmatch("-?[0-9]+", label) for _, label in written)
    named = by_name.keys() >= {label for _, label in written} and path.suffix != ".npy"
    known = by_index if numbers and not named else by_name
    for place, label in written:
        if label not in known:
            raise InputError(f"{path}, {place}: label {label!r} is no class: give a name or 0..{len(class_names) - 1}")
    return [LEFT_OUT if cells[1:] == ("",) else known[cells[-1]] for _, cells in rows]
