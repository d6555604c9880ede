"""The time of trials: the operations of their runs over a measured rate."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from orat.methods import ST, AoRR
from orat.models.catalog import build, forward_operations
from orat.training.plan import ATTACKED, LEARNED
from orat.training.run_folder import RunFolder
from orat_paper.reproduce.outcomes import AUTOATTACK, parts_of, unattacked
from orat_paper.reproduce.settings import Trial

# Shape, classes, training and test samples.
SIZES: dict[str, tuple[tuple[int, ...], int, int, int]] = {
    "mnist": ((1, 28, 28), 10, 60_000, 10_000),
    "cifar10": ((3, 32, 32), 10, 50_000, 10_000),
    "cifar100": ((3, 32, 32), 100, 50_000, 10_000),
    "clothing1m": ((3, 32, 32), 14, 30_000, 10_000),
    **dict.fromkeys(("toy-balanced", "toy-imbalanced", "toy-imbalanced-2"), ((2,), 2, 200, 1000)),
}
# Operations of one forward pass of the paper's networks. `forward_operations` counts them, but takes seconds.
FORWARD = {
    "lenet": 17_068_032, "small_cnn": 267_049_984, "resnet18": 1_110_937_600, "wrn-32-10": 13_317_812_736, "mlp-3": 24,
    "mlp-20-20-20": 1760, "mlp-64": 512,
}  # fmt: skip
# Measured milliseconds of one step of ORAT (PGD-10 and update), the data set, and the samples in the step.
MEASURED = {
    "cuda": {"lenet": (1.54, "mnist", 128), "small_cnn": (5.42, "cifar10", 128), "resnet18": (13.79, "cifar100", 128)},
    "cpu": {"lenet": (508.0, "mnist", 128)},
}
SMALL = 5.7  # milliseconds of a step of an MLP on 200 points, on any device
INSTEAD = {"cuda": "resnet18", "cpu": "lenet"}  # their rates stand for networks without a measurement
BASIS = (
    "time: the operations of unfinished cells (training attacks, updates, tests) over the rate of a training step, "
    "as measured on one NVIDIA H200 (GPU) or on two cores of an AMD EPYC (CPU), one run at once"
)
TEST_STEPS = 1 + 20 + 30  # of FGSM, PGD-20 and CW
VALIDATION_STEPS = 10
PLAIN = (ST, AoRR)  # methods without an attack in training
CROSS_FITTED = 1.16  # measured: ORAT (automatic) beside AT, Small-CNN, 100 epochs
AUTOATTACK_PASSES = 8000  # forward passes of an image: 1,000 images of Small-CNN took 15 s


def seconds(trials: Iterable[Trial], columns: Iterable[str], device: str) -> float:
    """The seconds of unfinished parts of these trials on a device, without parallel runs."""
    attacked = AUTOATTACK in columns
    return sum(
        (left_to_train(trial) + (left_to_attack(trial) if attacked else 0.0)) / rate(device, trial.run.model)
        for trial in trials
    )


def left_to_train(trial: Trial) -> float:
    """The operations of the epochs that a trial has not recorded, and of its tests."""
    folder = RunFolder(trial.folder)
    if folder.result() is not None:
        return 0.0
    return operations(trial) * (1 - len(folder.history()) / trial.run.epochs)


def left_to_attack(trial: Trial) -> float:
    """The operations of AutoAttack on the weights of every part without a report."""
    result = RunFolder(trial.folder).result()
    weights = len(parts_of(trial)) if result is None else len(unattacked(trial, result))
    return weights * SIZES[trial.cell.data][3] * AUTOATTACK_PASSES * forward(trial.run.model, trial.cell.data)


def operations(trial: Trial) -> float:
    """The operations of a trial and of the trial before it."""
    run = trial.run
    _, _, n, test = SIZES[trial.cell.data]
    held_out = run.validation * n
    steps = 0 if isinstance(run.method, PLAIN) else run.attack_steps
    samples = (n - held_out) * (ATTACKED * steps + LEARNED) + held_out * attacked(VALIDATION_STEPS)
    tests = run.epochs if trial.every_epoch else 1 + bool(held_out)
    training = run.epochs * samples * (CROSS_FITTED if run.method.scouts() else 1.0)
    own = forward(run.model, trial.cell.data) * (training + tests * test * attacked(TEST_STEPS))
    return own + (operations(trial.before) if trial.before else 0)


def attacked(steps: int) -> int:
    """The forward passes that an attack is worth, with the predictions before and after it."""
    return ATTACKED * steps + 2


@cache
def forward(model: str, data: str) -> int:
    """The operations of one forward pass."""
    if model in FORWARD:
        return FORWARD[model]
    shape, classes, _, _ = SIZES[data]
    return forward_operations(build(model, shape, classes, seed=0), shape)


@cache
def rate(device: str, model: str) -> float:
    """Operations a second, measured with this network or with another in its place."""
    known = MEASURED[device]
    name = model if model in known or model.startswith("mlp") else INSTEAD[device]
    milliseconds, data, samples = known.get(name, (SMALL, "toy-balanced", 200))
    return samples * forward(name, data) * (ATTACKED * 10 + LEARNED) / (milliseconds / 1000)
