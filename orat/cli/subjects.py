"""What can be examined: the network of a finished run, or anybody's, with the images to test it on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from orat.attacks.threat import Norm
from orat.core.device import choose_device
from orat.core.errors import InputError
from orat.data import catalog as datasets
from orat.data.source import Dataset
from orat.models.external import load_external
from orat.training.defaults import defaults_for
from orat.training.load import load_model
from orat.training.run import read_run

EVALUATIONS = Path("runs") / "evaluations"  # of models that have no run folder


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, the images to test it on, what it is attacked with if nothing else is said, and where reports go."""

    model: nn.Module
    test: Dataset
    eps: float
    norm: Norm
    seed: int
    reports: Path


def of_run(
    folder: Path, weights: str = "last", data_dir: Path | None = None, examples: int | None = None, device: str = "auto"
) -> Subject:
    """The network of a finished run and the test images of its data set."""
    run = read_run(folder)
    model = load_model(folder, weights, device)
    test = first_test_images(run.data, data_dir, run.image_size, examples)
    return Subject(model, test, run.eps, run.norm, run.seed, folder / "evaluations")


def of_function(
    function: str,
    weights: Path | None,
    data: str,
    data_dir: Path | None = None,
    image_size: tuple[int, int] | None = None,
    examples: int | None = None,
    device: str = "auto",
) -> Subject:
    """The network that package.module:function returns, [0, 1] in, logits out, and the test images of any data set."""
    test = first_test_images(data, data_dir, image_size, examples)
    model = load_external(function, weights, choose_device(device))
    return Subject(model, test, defaults_for(data)["eps"], "linf", 0, EVALUATIONS)


def first_test_images(
    name: str, data_dir: Path | None, image_size: tuple[int, int] | None, examples: int | None
) -> Dataset:
    """The first test images of a data set."""
    if examples is not None and examples < 1:
        raise InputError(f"examples = {examples}: give 1 or more")
    test = datasets.load(name, data_dir, image_size).test
    if test is None:
        raise InputError(f"the data set {name} has no test part: add a folder test/ beside train/")
    return test if examples is None else test.first(examples)
