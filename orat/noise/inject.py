"""Labels -> labels: the wrong labels of the paper's experiments, or those of a file."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import torch
from jaxtyping import Int64
from torch import Tensor

from orat.core.errors import InputError, unknown
from orat.core.types import Indices, Labels
from orat.data.loader import as_input
from orat.data.source import Dataset

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
