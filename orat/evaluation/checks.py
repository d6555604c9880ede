"""Warnings that an accuracy under attack cannot be trusted; each one sentence: the measurement and the remedy.

After Athalye, Carlini, Wagner (2018), "Obfuscated gradients", and Carlini et al. (2019), "On evaluating".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from math import sqrt

import torch
from torch import Tensor, nn

from orat.attacks.base import frozen
from orat.attacks.pgd import PGD
from orat.attacks.threat import Norm, Threat
from orat.core.console import Display
from orat.core.device import device_of
from orat.core.errors import InputError
from orat.core.losses import cross_entropy, margin, reaching
from orat.core.types import Images, Labels, Logits, PerSample
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.evaluation.accuracy import check_logits
from orat.evaluation.subject import Averaged, differ

SAMPLES = 200  # for the checks of the network
CANDIDATES = 400  # for the gradient checks: an accuracy of a quarter is enough to fill them
PROBED = 100  # correctly classified samples; 175 gradients each cost as much as PGD-20 on 900 samples
STANDARD_ERRORS = 2.0  # a larger difference is no chance: equal accuracies differ so much in 2 of 100 cases

RESCALED = 0.05  # networks trained in [0, 1] gain at most 2 points on another scale
KNOWN = 0.4  # least accuracy on the right scale: a collapsed network came to 0.3 on one scale
FLAT = 0.05  # share of samples without gradient: the accuracy is uncertain by as many points
WEAKER = 0.02  # fewer points are one sample of the hundred
UNBROKEN = 0.1  # share of samples that withstand any change: sound image networks all end at 0
MANY = 16  # features: in the plane, flat corners and narrow classes stop PGD in sound networks, too
UNSEEN, UNSEEN_SAMPLES = 0.01, 2  # broken by Square alone: next to none after APGD on sound networks
PGD_GAP = 0.1  # accuracy under PGD above that under AutoAttack: 2 to 5 points are usual after adversarial training

# The radius at which every input reaches every other input of [0, 1]^d.
WHOLE: dict[Norm, Callable[[int], float]] = {"linf": lambda d: 1.0, "l2": sqrt, "l1": float}
GRADIENT_ATTACKS = ("fgsm", "pgd", "cw", "apgd", "fab")  # prefixes of their names


def check_model(model: nn.Module, data: Dataset, mode_given: bool) -> list[str]:
    """Warnings about the network before any attack; `mode_given` says whether it came in train mode."""
    with frozen(model), torch.no_grad(), own_chance(model):
        x, y = drawn(data, SAMPLES, model)
        logits = checked(model(x), len(x), len(data.classes))
        if isinstance(model, Averaged):  # on another scale, the noise weighs less, wherever the normalization lies
            return [*mode_warnings(model.model, mode_given), model.note]
        scale = scale_warnings(model, x, y, logits.argmax(1) == y)
        return [*mode_warnings(model, mode_given), *random_warnings(logits, model(x)), *scale]


def check_gradients(model: nn.Module, data: Dataset, threat: Threat, seed: int, display: Display) -> list[str]:
    """Warnings about the gradients: gradients vanish, or PGD fails where it must succeed."""
    with frozen(model), own_chance(model):
        x, y = drawn(data, CANDIDATES, model)
        right = model(x).argmax(1) == y
        guess = y == y.mode().values
        if not right.any() or not (guess.all() or exceeds(right, guess, 1 / len(y))):
            return [
                f"the network is hardly better than guessing: it classifies {share(right)} of {len(y)} samples "
                f"correctly, and {share(guess)} have the most frequent label, so look at its training first"
            ]
        x, y = x[right][:PROBED], y[right][:PROBED]
        # Without gradients all attacks fail: then the cause alone is reported.
        flat = flat_warnings(model, x, y, threat, seed)
        return flat or [*attack_warnings(model, x, y, threat, seed, display)]


def check_results(right: Mapping[str, Tensor]) -> list[str]:
    """Warnings from masks of robust samples that contradict each other."""
    masks = {name: mask.cpu() for name, mask in right.items()}
    apart = {name: mask for name, mask in masks.items() if name.startswith(GRADIENT_ATTACKS)}
    parts = {name: mask for name, mask in masks.items() if name.startswith("autoattack:")}
    in_composite = parts.pop("autoattack:square", None)
    # Attacks weaker than APGD may miss samples of a sound network.
    alone = masks.get("square") if any(name.startswith("apgd") for name in apart) else None
    return [*square_warnings(alone, apart), *square_warnings(in_composite, parts), *gap_warnings(masks)]


def checked(logits: object, n: int, classes: int) -> Logits:
    """The logits; refuses outputs of the wrong shape, NaN, infinity and probabilities."""
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if not isinstance(logits, Tensor) or shape != (n, classes):
        raise InputError(
            f"the network gives {shape} for {n} samples of {classes} classes: let it give ({n}, {classes})"
        )
    if broken := int((~logits.isfinite()).any(1).sum()):
        raise InputError(f"the network gives NaN or infinite logits for {broken} of {n} samples: look at its training")
    return check_logits(logits)


def mode_warnings(model: nn.Module, came_in_train_mode: bool) -> Iterator[str]:
    """A network that came in train mode, or modules that stay in train mode after eval()."""
    if came_in_train_mode:
        yield "the network came in train mode and is evaluated in eval mode: call eval() before you compare numbers"
    if stubborn := [name or "the network itself" for name, module in model.named_modules() if module.training]:
        yield (
            f"train mode stays on after eval() in {', '.join(stubborn)}, so logits may depend on chance or on the "
            f"rest of the batch: let train() follow the mode"
        )


def random_warnings(first: Logits, second: Logits) -> Iterator[str]:
    """Different logits for equal inputs."""
    if differ(first, second):
        difference = float((first - second).abs().max())
        yield (
            f"the network is random: its logits for the same {len(first)} inputs differ by up to {difference:.2g}, "
            f"and accuracy under attack is overestimated, so remove the randomness, or attack its average"
        )


def scale_warnings(model: nn.Module, x: Images, y: Labels, right: Tensor) -> Iterator[str]:
    """Another scale of the inputs with a clearly higher accuracy."""
    rescaled = {name: model((x - mean) / std).argmax(1) == y for name, (mean, std) in scales(x).items()}
    best = max(rescaled, key=lambda name: int(rescaled[name].sum()))
    if exceeds(rescaled[best], right, RESCALED) and float(rescaled[best].double().mean()) >= KNOWN:
        yield (
            f"normalization seems to lie outside of the network: the accuracy on {len(y)} inputs {best} is "
            f"{share(rescaled[best])}, in [0, 1] {share(right)}, so evaluate nn.Sequential(Normalize(mean, std), model)"
        )


def scales(x: Images) -> dict[str, tuple[Tensor, Tensor]]:
    """The usual means and deviations for inputs in [0, 1]."""
    std, mean = torch.std_mean(x, [0, *range(2, x.dim())], correction=0, keepdim=True)
    half, pixel = torch.full_like(mean, 1 / 2), torch.full_like(mean, 1 / 255)
    return {
        "standardized by the data's own mean and std": (mean, torch.where(std > 0, std, 1)),
        "scaled to [-1, 1] (mean 0.5, std 0.5)": (half, half),
        "scaled to [0, 255] (mean 0, std 1/255)": (0 * mean, pixel),
    }


def flat_warnings(model: nn.Module, x: Images, y: Labels, threat: Threat, seed: int) -> list[str]:
    """Samples with changing logits but no gradient, at the sample and at a random start, by cause."""
    near = threat.start(x, torch.Generator(x.device).manual_seed(seed))
    slope, lead_slope = (
        torch.fmax(steepest(model, loss, x, y), steepest(model, loss, near, y)) for loss in (cross_entropy, margin)
    )
    changing = (model(x) != model(near)).any(1) | (slope < 0)  # a dead ReLU is truly flat, a cut graph is not
    tiny = torch.finfo(slope.dtype).tiny  # smaller numbers have lost digits, and are 0 on many GPUs
    zero = (slope < tiny) & changing
    causes = {
        "are NaN or infinite, as from a root or a norm at 0, so make the network differentiable": ~slope.isfinite(),
        "are 0 though its logits change, as behind rounding or detach(), so attack a differentiable stand-in (BPDA) "
        "or without gradients (square)": zero & (lead_slope < tiny),
        "are 0 because the cross-entropy is saturated: logits so far apart make it 0 in float32, so attack the "
        "margin (cw, apgd-dlr) or divide the logits": zero & (lead_slope >= tiny),
    }
    return [
        f"PGD is blind on {share(found)} of {len(y)} correctly classified samples: gradients of the network {cause}"
        for cause, found in causes.items()
        if float(found.double().mean()) >= FLAT
    ]


def steepest(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], x: Images, y: Labels) -> PerSample:
    """The largest partial derivative of the loss at each input; -1 where the network cuts the graph."""
    with torch.enable_grad():
        x = x.detach().clone().requires_grad_()
        losses = loss(model(x), y)
        gradient = reaching(losses, x)
    return torch.full_like(losses, -1) if gradient is None else gradient.flatten(1).abs().amax(1)


def attack_warnings(
    model: nn.Module, x: Images, y: Labels, threat: Threat, seed: int, display: Display
) -> Iterator[str]:
    """Stronger attacks that break fewer samples than weaker attacks, and samples that withstand any change."""
    whole = WHOLE[threat.norm](x[0].numel()) if threat.plain else None
    doubled = replace(threat, eps=2 * threat.eps if whole is None else min(2 * threat.eps, whole))
    weak, middle, long, double, *full = probes = [
        (PGD(1, step=1.0), threat),
        (PGD(10), threat),
        (PGD(100, step=1 / 40), threat),  # no farther than 10 steps in all, but finer
        (PGD(10), doubled),
        *([] if whole is None else [(PGD(50, step=1 / 10), replace(threat, eps=whole))]),
    ]
    right = {}
    for probe in display.track(probes, "gradient checks", len(probes)):
        attack, bound = probe
        adv = attack(model, x, y, bound, torch.Generator(x.device).manual_seed(seed))
        right[probe] = model(adv).argmax(1) == y
    for weaker, stronger in ((weak, middle), (middle, long), (middle, double)):
        if exceeds(right[stronger], right[weaker], WEAKER):
            yield (
                f"gradients mislead PGD: {share(right[stronger])} of {len(y)} samples withstand {said(*stronger)} but "
                f"{share(right[weaker])} withstand {said(*weaker)}, so add attacks without gradients (square)"
            )
    for probe in full:
        if x[0].numel() >= MANY and float(right[probe].double().mean()) > UNBROKEN:
            yield (
                f"gradients lead PGD nowhere: {share(right[probe])} of {len(y)} samples withstand {said(*probe)}, "
                f"where any image can become any other, so add attacks without gradients (square)"
            )


def said(attack: PGD, threat: Threat) -> str:
    """Steps and threat of an attack, in words."""
    return f"{attack.steps} step{'s' * (attack.steps > 1)} at {threat.norm} eps {threat.eps:.3g}"


def square_warnings(square: Tensor | None, others: Mapping[str, Tensor]) -> Iterator[str]:
    """Samples broken by Square alone, which uses no gradient."""
    if square is None or not others:
        return
    only = int((torch.stack([*others.values()]).all(0) & ~square).sum())
    if only >= max(UNSEEN_SAMPLES, UNSEEN * len(square)):
        yield (
            f"gradients may be masked: square, which uses none, breaks {only} of {len(square)} samples that withstand "
            f"{', '.join(others)}, so give square more queries and attack a differentiable stand-in of the network"
        )


def gap_warnings(right: Mapping[str, Tensor]) -> Iterator[str]:
    """An accuracy under PGD far above that under AutoAttack."""
    ranked = sorted(right, key=lambda name: int(right[name].sum()))
    pgd = next((name for name in ranked if name.startswith("pgd")), None)
    composite = next((name for name in ranked if name in ("autoattack", "autoattack-reference")), None)
    if pgd and composite and exceeds(right[pgd], right[composite], PGD_GAP):
        yield (
            f"the accuracy under PGD must not be reported: {share(right[pgd])} of {len(right[pgd])} samples withstand "
            f"{pgd} but only {share(right[composite])} withstand {composite}, so report the latter"
        )


def exceeds(higher: Tensor, lower: Tensor, points: float) -> bool:
    """Whether the first mask has a larger share, by at least `points` and beyond chance."""
    difference = higher.double() - lower.double()
    error = float(difference.std(correction=0)) / sqrt(len(difference))
    return float(difference.mean()) >= max(points, STANDARD_ERRORS * error)


def share(mask: Tensor) -> str:
    """The share of True, in percent."""
    return f"{100 * float(mask.double().mean()):.3g} %"


def drawn(data: Dataset, count: int, model: nn.Module) -> tuple[Images, Labels]:
    """At most `count` samples at random places, since data may be sorted by class; on the device of the network."""
    device = device_of(model)
    index = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:count].to(data.labels.device)
    return as_input(data.images[index].to(device)), data.labels[index].to(device)


def own_chance(model: nn.Module) -> AbstractContextManager[None]:
    """Restores the global random state of torch after the network has drawn from it."""
    return torch.random.fork_rng({parameter.device for parameter in model.parameters() if parameter.is_cuda})
