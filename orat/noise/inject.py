"""Label noise for experiments: symmetric, asymmetric and instance-dependent, as functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import torch
from jaxtyping import Int64
from torch import Tensor

from orat.core.errors import InputError, unknown
from orat.core.types import Indices, Labels

# Appendix "Details of Outliers Generation by Using Asymmetric Noise": source -> target.
MNIST_FLIPS = {"7": "1", "2": "7", "3": "8", "5": "6", "6": "5"}
CIFAR10_FLIPS = {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"}
MNIST = frozenset("0123456789")
CIFAR10 = frozenset(("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"))

# The super-classes of CIFAR-100 (Krizhevsky, 2009), named as in the data set's files.
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
    # The authors' code groups five neighbors in the alphabet.
    "authors": tuple(CIFAR100[i : i + 5] for i in range(0, 100, 5)),
}

DEVIATION = 0.1  # standard deviation of the flip probabilities in instance-dependent noise


def inject(
    kind: str, labels: Labels, classes: tuple[str, ...], rate: float, seed: int, inputs: Tensor | None = None
) -> Labels:
    """Labels with noise of this kind; instance-dependent noise also takes the inputs as floats in [0, 1]."""
    if kind not in NOISES:
        raise unknown("noise", kind, NOISES)
    check_rate(rate)
    if kind == "none" and rate > 0:
        raise InputError(f"noise 'none' with rate {rate}: give rate 0, or a kind of noise")
    return NOISES[kind](labels, classes, rate, seed, inputs)


def symmetric(labels: Labels, classes: int, rate: float, seed: int) -> Labels:
    """Moves floor(rate n / classes) labels of each class, each to any other class with equal probability."""
    check_classes("symmetric", classes)
    check_rate(rate)
    moved = share(rate, len(labels), classes)
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
        # The draw numbers the other classes without a gap: numbers from the source on are one lower than the class.
        noisy[choose(members, moved, generator)] = targets + (targets >= source)
    return noisy


def asymmetric(labels: Labels, class_names: tuple[str, ...], rate: float, seed: int, grouping: str = "true") -> Labels:
    """Flips floor(rate count) labels of each source class to a similar class."""
    check_rate(rate)
    generator = torch.Generator().manual_seed(seed)
    noisy = labels.clone()
    for source, target in flips(class_names, grouping, generator).items():
        members = (labels == class_names.index(source)).nonzero().flatten()
        noisy[choose(members, share(rate, len(members)), generator)] = class_names.index(target)
    return noisy


def flips(class_names: tuple[str, ...], grouping: str, generator: torch.Generator) -> dict[str, str]:
    """The target class of each source class, by name; for CIFAR-100, a random pair of each group of five swaps."""
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


def instance_dependent(inputs: Tensor, labels: Labels, classes: int, rate: float, seed: int) -> Labels:
    """Flips each label with its own probability, to a class drawn from the input (Xia et al., 2020).

    Flip probabilities follow a normal distribution around the rate, cut at 0 and 1. A random linear map for each class
    gives the probabilities of the other classes, so that similar inputs flip to the same class.
    """
    check_classes("instance", classes)
    check_rate(rate)
    if rate == 0:
        return labels.clone()
    generator = torch.Generator().manual_seed(seed)
    least, most = (torch.special.ndtr(torch.tensor((bound - rate) / DEVIATION).double()) for bound in (0.0, 1.0))
    quantiles = least + (most - least) * torch.rand(len(labels), generator=generator, dtype=torch.float64)
    chances = (rate + DEVIATION * torch.special.ndtri(quantiles)).clamp(0, 1)
    flipped = torch.rand(len(labels), generator=generator, dtype=torch.float64) < chances
    noisy = labels.clone()
    for source in range(classes):
        members = ((labels == source) & flipped).nonzero().flatten()
        leaning = torch.randn(inputs[0].numel(), classes, generator=generator)
        scores = inputs[members].flatten(1) @ leaning
        scores[:, source] = -torch.inf
        if len(members):
            noisy[members] = torch.multinomial(scores.softmax(1), 1, generator=generator).squeeze(1)
    return noisy


def check_classes(kind: str, classes: int) -> None:
    """Refuses noise where no second class exists."""
    if classes < 2:
        raise InputError(f"{kind} noise needs another class to move to, got {classes} classes: give at least 2")


def check_rate(rate: float) -> None:
    """Refuses a noise rate outside of 0 to 1."""
    if not 0 <= rate < 1:
        raise InputError(f"the noise rate is {rate}: give a number from 0 to below 1")


def share(rate: float, count: int, parts: int = 1) -> int:
    """floor(rate count / parts), with the rate as a decimal: 0.3 is three tenths, not the float just below."""
    return int(Fraction(str(rate)) * count / parts)


def choose(members: Indices, count: int, generator: torch.Generator) -> Int64[Tensor, "chosen"]:
    """A random choice of `count` members without repetition."""
    return members[torch.randperm(len(members), generator=generator)[:count]]


def by_inputs(labels: Labels, classes: tuple[str, ...], rate: float, seed: int, inputs: Tensor | None) -> Labels:
    """Instance-dependent noise as an entry of the table."""
    if inputs is None:
        raise InputError("instance noise depends on the inputs: give the inputs as floats in [0, 1]")
    return instance_dependent(inputs, labels, len(classes), rate, seed)


NOISES: dict[str, Callable[[Labels, tuple[str, ...], float, int, Tensor | None], Labels]] = {
    "none": lambda labels, classes, rate, seed, inputs: labels,
    "symmetric": lambda labels, classes, rate, seed, inputs: symmetric(labels, len(classes), rate, seed),
    "asymmetric": lambda labels, classes, rate, seed, inputs: asymmetric(labels, classes, rate, seed),
    "asymmetric-authors": lambda labels, classes, rate, seed, inputs: asymmetric(
        labels, classes, rate, seed, "authors"
    ),
    "instance": by_inputs,
}
