"""What a training is about to do: the settings that the data decided, and the time that it will take."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

import torch
from torch import nn

from orat.attacks import PGD
from orat.attacks.base import GRADIENT, Adversary, Attack
from orat.attacks.pgd import PAPER
from orat.core.device import until_done
from orat.core.errors import counted
from orat.core.options import radius
from orat.core.registry import in_words
from orat.data.image_files import first
from orat.data.loader import as_input, steps_per_epoch
from orat.data.source import Dataset
from orat.methods import ST, State
from orat.noise.evidence import MIN_SAMPLES
from orat.training.defaults import Facts
from orat.training.engine import Execution, Views
from orat.training.loop import arithmetic
from orat.training.observers import VALIDATION
from orat.training.plan import ATTACKED, LEARNED, USUAL_STEPS, Plan
from orat.training.run import Run
from orat.training.setup import Parts

FEW, LONG = 8, 0.2  # samples that are tried first, and seconds above which no more are tried
TIMED = 4  # steps of the timed attack
RIGHT = 0.6  # share of samples that a test attacks, because they are classified correctly
OWN = 0.0015  # seconds of a step besides its arithmetic
AUGMENTATIONS = {"none": "no augmentation", "crop": "crop", "flip": "flip", "crop-flip": "crop and flip"}


def first_line(run: Run, parts: Parts, state: State | None, device: torch.device) -> str:
    """The line of method, network and data."""
    counts = [f"{len(part):,} {name}" for name, part in vars(parts).items() if isinstance(part, Dataset)]
    counts += [f"{parts.left_out['cut']:,} left out by {parts.left_out['run']}"] if parts.left_out else []
    details = "automatic" if state is None else state.describe()
    eps = f"{radius(run.eps)}{parts.train.domain.unit}"
    return (
        f"{run.method_name}{f' ({details})' if details else ''}: {in_words(run.model)} on {in_words(run.data)} "
        f"({', '.join(counts)}), {run.norm} eps {eps}, {counted(run.epochs, 'epoch')}, {device.type}"
    )


def choices(run: Run, parts: Parts, device: torch.device, chosen: Collection[str]) -> str:
    """The line of the fields that were chosen for the data, with the reason."""
    train = parts.train
    words = {
        "model": str(in_words(run.model)),
        "eps": f"eps {radius(run.eps)}{train.domain.unit}",
        "epochs": f"{counted(run.epochs, 'epoch')} of {counted(steps_per_epoch(len(train), run.batch_size), 'step')}",
        "batch_size": f"batch {run.batch_size}",
        "lr": f"lr {run.lr:g}",
        "augment": AUGMENTATIONS[run.augment],
        "validation": f"{run.validation:.0%} for validation",
    }
    facts = Facts(parts.total, train.shape, len(train.classes), device.type)
    return f"chosen for {facts.words}: {', '.join(text for name, text in words.items() if name in chosen)}"


def few_samples(train: Dataset) -> list[str]:
    """The line about classes with few training samples."""
    counts = train.labels.bincount(minlength=len(train.classes)).tolist()
    few = [f"{name} {count}" for name, count in zip(train.classes, counts, strict=True) if count < MIN_SAMPLES]
    if not few:
        return []
    return [
        f"{counted(len(few), 'class')} with fewer than {MIN_SAMPLES} training samples: {first(few)}; a network "
        "hardly learns such a class, and its labels are not judged"
    ]


def expected(run: Run, parts: Parts, model: nn.Module, how: Execution, plan: Plan | None) -> str:
    """The time of a run, in words: its steps, cross-fitting, and its tests; a recorded step takes less than it says."""
    train, device = parts.train, next(model.parameters()).device
    gradient = gradient_seconds(run, train, model, how)  # of a sample
    threat, attacked = run.threat_in(train.domain), not isinstance(run.method, ST)

    def test(part: Dataset | None, attacks: Mapping[str, Attack]) -> float:
        work = sum(attack.work(threat, len(train.classes)) for attack in attacks.values())
        return 0.0 if part is None else len(part) * (1 + RIGHT * work / GRADIENT) * gradient

    steps = USUAL_STEPS if run.attack is not None else run.attack_steps
    step = (steps * attacked + LEARNED / ATTACKED) * gradient
    epoch = len(train) * step + steps_per_epoch(len(train), run.batch_size) * OWN
    epochs = run.epochs + (0 if plan is None else plan.cost * plan.epochs)
    tests = run.epochs * test(parts.validation, VALIDATION) + 2 * test(parts.test, PAPER)
    return f"{'at most' if device.type == 'cuda' else 'about'} {duration(epochs * epoch + tests)}"


def gradient_seconds(run: Run, train: Dataset, model: nn.Module, how: Execution) -> float:
    """The seconds of a gradient by the input of one sample, timed in an attack that changes nothing."""
    device = next(model.parameters()).device
    view = Views(model, "plain" if how.form == "plain" else "folded", run.precision).at(usual=False)
    generator = torch.Generator(device).manual_seed(0)
    attack, threat = PGD(TIMED, step_size=run.attack_step_size, start="none"), run.threat_in(train.domain)
    adversary = Adversary(attack, threat, view.model, generator, view.sight)

    def seconds(size: int) -> float:
        x, y = as_input(train.images[:size].to(device)), train.labels[:size].to(device)
        times: list[float] = []
        while len(times) < 2 and sum(times) < LONG:  # the first time prepares
            started = time.perf_counter()
            adversary(x, y)
            for _ in until_done(device):
                pass
            times.append(time.perf_counter() - started)
        return min(times)

    gpus = [] if device.type == "cpu" else [torch.cuda.current_device()]
    with torch.random.fork_rng(gpus), arithmetic(run.precision):
        size = min(FEW, len(train))
        found, most = seconds(size), min(run.batch_size, len(train))
        if found * most / size < LONG:
            size, found = most, seconds(most)
    return found / (TIMED * size)


def duration(seconds: float) -> str:
    """A time in words, no more exact than a forecast is."""
    for unit, least in (("days", 36 * 3600), ("h", 5400), ("min", 90)):
        if seconds >= least:
            count = seconds / {"days": 86400, "h": 3600, "min": 60}[unit]
            return f"{count:.1f} {unit}" if count < 3 else f"{count:.0f} {unit}"
    return f"{10 * round(seconds / 10)} s" if seconds >= 15 else f"{max(1, round(seconds))} s"
