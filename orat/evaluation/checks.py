"""Warnings that an accuracy under attack cannot be trusted, one sentence each: what was measured and what to do.

After Athalye, Carlini, Wagner (2018), "Obfuscated gradients", and Carlini et al. (2019), "On evaluating".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from math import sqrt

import torch
from torch import Tensor, nn

from orat.attacks.pgd import PGD, frozen
from orat.core.console import Display
from orat.core.errors import InputError
from orat.core.losses import cross_entropy, margin
from orat.core.types import Images, Labels, Logits, PerSample
from orat.data.loader import as_input
from orat.data.source import Dataset

SAMPLES = 200  # for a look at the model
CANDIDATES = 400  # for the probe: a model right on a quarter of them still fills it
PROBED = 100  # right samples; its 175 gradients of each cost as much as PGD-20 on 900 samples
STANDARD_ERRORS = 2.0  # more is beyond chance: equals are told apart in 2 of 100 cases

ROUNDING = 1e-4  # of the largest logit: smaller differences come from the order of sums on a GPU
PROBABILITY = 1e-4  # rows of a float32 softmax sum to 1 more closely, rows of logits never all by accident
RESCALED = 0.05  # networks trained in [0, 1] gain at most 2 points on another scale, if any
KNOWN = 0.4  # right at least: a network that knows no scale, collapsed in training, came to 0.3 on one
FLAT = 0.05  # of the samples have no gradient: the accuracy is unknown by as many points
WEAKER = 0.02  # fewer points are one sample of the hundred
UNBROKEN = 0.1  # of the samples withstand any change: sound networks for images all end at 0
MANY = 16  # coordinates: in the plane, unlike in images, flat corners and narrow classes stop PGD in sound networks
UNSEEN, UNSEEN_SAMPLES = 0.01, 2  # broken by Square alone: next to none after APGD on sound models, and one is luck
PGD_GAP = 0.1  # PGD above AutoAttack: after adversarial training 2 to 5 points are usual

# The radius at which any point of [0, 1]^d reaches any other.
WHOLE: dict[str, Callable[[int], float]] = {"linf": lambda d: 1.0, "l2": sqrt, "l1": float}
GRADIENT_ATTACKS = ("fgsm", "pgd", "cw", "apgd", "fab")  # how their names begin


def check_model(model: nn.Module, data: Dataset, mode_given: bool) -> list[str]:
    """What is wrong with the model before any attack; `mode_given` says whether it came in train mode."""
    with frozen(model), torch.no_grad(), own_chance(model):
        x, y = drawn(data, SAMPLES, model)
        logits = checked(model(x), len(x), len(data.classes))
        scale = scale_warnings(model, x, y, logits.argmax(1) == y)
        return [*mode_warnings(model, mode_given), *random_warnings(logits, model(x)), *scale]


def check_gradients(model: nn.Module, data: Dataset, eps: float, norm: str, seed: int, display: Display) -> list[str]:
    """What speaks against the model's gradients: there are none, or PGD fails where it must succeed."""
    with frozen(model), own_chance(model):
        x, y = drawn(data, CANDIDATES, model)
        right = model(x).argmax(1) == y
        guess = y == y.mode().values
        if not right.any() or not (guess.all() or exceeds(right, guess, 1 / len(y))):
            return [
                f"the model is hardly better than guessing: {share(right)} of {len(y)} samples are right and "
                f"{share(guess)} have the most frequent label, so look at its training before its robustness"
            ]
        x, y = x[right][:PROBED], y[right][:PROBED]
        # Without gradients all attacks fail: then only the cause is told.
        flat = flat_warnings(model, x, y, PGD(eps, 0, norm=norm), seed)
        return flat or [*attack_warnings(model, x, y, eps, norm, seed, display)]


def check_results(right: Mapping[str, Tensor]) -> list[str]:
    """What the samples that stay right under one attack say against another."""
    masks = {name: mask.cpu() for name, mask in right.items()}
    apart = {name: mask for name, mask in masks.items() if name.startswith(GRADIENT_ATTACKS)}
    parts = {name: mask for name, mask in masks.items() if name.startswith("autoattack:")}
    in_composite = parts.pop("autoattack:square", None)
    # Weaker attacks than APGD may miss samples of a sound model.
    alone = masks.get("square") if any(name.startswith("apgd") for name in apart) else None
    return [*square_warnings(alone, apart), *square_warnings(in_composite, parts), *gap_warnings(masks)]


def checked(logits: object, n: int, classes: int) -> Logits:
    """The logits, refused where no attack could make sense of them."""
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if not isinstance(logits, Tensor) or shape != (n, classes):
        raise InputError(f"the model gives {shape} for {n} samples of {classes} classes: let it give ({n}, {classes})")
    if broken := int((~logits.isfinite()).any(1).sum()):
        raise InputError(f"the model gives NaN or infinite logits for {broken} of {n} samples: look at its training")
    if bool((logits >= 0).all()) and bool(((logits.sum(1) - 1).abs() <= PROBABILITY).all()):
        raise InputError("the model gives probabilities, and gradients vanish through softmax: remove the last softmax")
    return logits


def mode_warnings(model: nn.Module, came_in_train_mode: bool) -> Iterator[str]:
    """A model in train mode, as it came or, in parts, even after model.eval()."""
    if came_in_train_mode:
        yield "the model came in train mode but is evaluated in eval mode: call model.eval() before you compare numbers"
    if stubborn := [name or "the model itself" for name, module in model.named_modules() if module.training]:
        yield (
            f"train mode stays on after model.eval() in {', '.join(stubborn)}, so that answers may depend on chance "
            f"or on the rest of the batch: let its train() follow the mode"
        )


def random_warnings(first: Logits, second: Logits) -> Iterator[str]:
    """Two answers to the same inputs that differ."""
    difference = float((first - second).abs().max())
    if difference > ROUNDING * float(first.abs().max()):
        yield (
            f"the model is random: its logits for the same {len(first)} inputs differ by up to {difference:.2g}, and "
            f"accuracy under attack is overestimated, so average over the randomness in the attack or remove it"
        )


def scale_warnings(model: nn.Module, x: Images, y: Labels, right: Tensor) -> Iterator[str]:
    """Another scale of the inputs that the model clearly knows better."""
    rescaled = {name: model((x - mean) / std).argmax(1) == y for name, (mean, std) in scales(x).items()}
    best = max(rescaled, key=lambda name: int(rescaled[name].sum()))
    if exceeds(rescaled[best], right, RESCALED) and float(rescaled[best].double().mean()) >= KNOWN:
        yield (
            f"normalization seems to lie outside of the model: {share(rescaled[best])} of {len(y)} inputs {best} are "
            f"right but {share(right)} in [0, 1], so evaluate nn.Sequential(Normalize(mean, std), model)"
        )


def scales(x: Images) -> dict[str, tuple[Tensor, Tensor]]:
    """The means and deviations that people normalize inputs in [0, 1] by."""
    std, mean = torch.std_mean(x, [0, *range(2, x.dim())], correction=0, keepdim=True)
    half, pixel = torch.full_like(mean, 1 / 2), torch.full_like(mean, 1 / 255)
    return {
        "standardized by the data's own mean and std": (mean, torch.where(std > 0, std, 1)),
        "scaled to [-1, 1] (mean 0.5, std 0.5)": (half, half),
        "scaled to [0, 255] (mean 0, std 1/255)": (0 * mean, pixel),
    }


def flat_warnings(model: nn.Module, x: Images, y: Labels, start: PGD, seed: int) -> list[str]:
    """Samples where the logits change but the gradient is 0, both at the sample and at a random start, by cause."""
    near = start(model, x, y, torch.Generator(x.device).manual_seed(seed))
    slope, lead_slope = (
        torch.fmax(steepest(model, loss, x, y), steepest(model, loss, near, y)) for loss in (cross_entropy, margin)
    )
    changing = (model(x) != model(near)).any(1)  # a dead ReLU is honestly flat
    tiny = torch.finfo(slope.dtype).tiny  # smaller numbers have lost their digits, and are 0 on many a GPU
    zero = (slope < tiny) & changing
    causes = {
        "are NaN or infinite, as from a root or a norm at 0, so make the model differentiable": ~slope.isfinite(),
        "are 0 though its logits change, as behind rounding or detach(), so attack a differentiable stand-in (BPDA) "
        "or without gradients (square)": zero & (lead_slope < tiny),
        "are 0 because the cross-entropy is saturated, logits this far apart make it 0 in float32, so attack the "
        "margin (cw, apgd-dlr) or divide the logits": zero & (lead_slope >= tiny),
    }
    return [
        f"PGD is blind on {share(found)} of {len(y)} right samples: the model's gradients there {cause}"
        for cause, found in causes.items()
        if float(found.double().mean()) >= FLAT
    ]


def steepest(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], x: Images, y: Labels) -> PerSample:
    """The largest partial derivative of the loss at each input; 0 where the model cuts the graph."""
    with torch.enable_grad():
        x = x.detach().clone().requires_grad_()
        losses = loss(model(x), y)
        if not losses.requires_grad:
            return torch.zeros_like(losses)
        (gradient,) = torch.autograd.grad(losses.sum(), x, allow_unused=True)
    return torch.zeros_like(losses) if gradient is None else gradient.flatten(1).abs().amax(1)


def attack_warnings(
    model: nn.Module, x: Images, y: Labels, eps: float, norm: str, seed: int, display: Display
) -> Iterator[str]:
    """Attacks that fail where a weaker one succeeds, or where nothing should withstand."""
    whole = WHOLE[norm](x[0].numel())
    weak, middle, long, double, full = attacks = (
        PGD(eps, 1, eps, norm),
        PGD(eps, 10, eps / 4, norm),
        PGD(eps, 100, eps / 40, norm),  # no farther than 10 steps in all, but finer
        PGD(min(2 * eps, whole), 10, None, norm),
        PGD(whole, 50, whole / 10, norm),
    )
    right = {}
    for attack in display.track(attacks, "gradient probe", len(attacks)):
        adv = attack(model, x, y, torch.Generator(x.device).manual_seed(seed))
        right[attack] = model(adv).argmax(1) == y
    for weaker, stronger in ((weak, middle), (middle, long), (middle, double)):
        if exceeds(right[stronger], right[weaker], WEAKER):
            yield (
                f"gradients mislead PGD: {share(right[stronger])} of {len(y)} samples withstand {said(stronger)} but "
                f"{share(right[weaker])} withstand {said(weaker)}, so add attacks without gradients (square)"
            )
    if x[0].numel() >= MANY and float(right[full].double().mean()) > UNBROKEN:
        yield (
            f"gradients lead PGD nowhere: {share(right[full])} of {len(y)} samples withstand {said(full)}, where any "
            f"image can become any other, so look for what hides the gradient and add attacks without it (square)"
        )


def said(attack: PGD) -> str:
    """An attack as a person says it."""
    return f"{attack.steps} step{'s' * (attack.steps > 1)} at {attack.norm} eps {attack.eps:.3g}"


def square_warnings(square: Tensor | None, others: Mapping[str, Tensor]) -> Iterator[str]:
    """Samples that only Square breaks, which needs no gradient."""
    if square is None or not others:
        return
    only = int((torch.stack([*others.values()]).all(0) & ~square).sum())
    if only >= max(UNSEEN_SAMPLES, UNSEEN * len(square)):
        yield (
            f"gradients may be masked: square, which uses none, breaks {only} of {len(square)} samples that withstand "
            f"{', '.join(others)}, so give square more queries and attack a differentiable stand-in of the model"
        )


def gap_warnings(right: Mapping[str, Tensor]) -> Iterator[str]:
    """PGD far above AutoAttack."""
    ranked = sorted(right, key=lambda name: int(right[name].sum()))
    pgd = next((name for name in ranked if name.startswith("pgd")), None)
    composite = next((name for name in ranked if name in ("autoattack", "autoattack-reference")), None)
    if pgd and composite and exceeds(right[pgd], right[composite], PGD_GAP):
        yield (
            f"the accuracy under PGD must not be reported: {share(right[pgd])} of {len(right[pgd])} samples withstand "
            f"{pgd} but only {share(right[composite])} withstand {composite}, so report the latter"
        )


def exceeds(higher: Tensor, lower: Tensor, points: float) -> bool:
    """Whether the first mask holds more of the same samples, by at least so much and beyond chance."""
    difference = higher.double() - lower.double()
    error = float(difference.std(correction=0)) / sqrt(len(difference))
    return float(difference.mean()) >= max(points, STANDARD_ERRORS * error)


def share(mask: Tensor) -> str:
    """How much of a mask is true."""
    return f"{100 * float(mask.double().mean()):.3g} %"


def drawn(data: Dataset, count: int, model: nn.Module) -> tuple[Images, Labels]:
    """At most so many samples from all over the data, which may be sorted by class, where the model lives."""
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    index = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:count].to(data.labels.device)
    return as_input(data.images[index].to(device)), data.labels[index].to(device)


def own_chance(model: nn.Module) -> AbstractContextManager[None]:
    """Lets a model draw its random numbers, and puts torch's global state back."""
    return torch.random.fork_rng({parameter.device for parameter in model.parameters() if parameter.is_cuda})
