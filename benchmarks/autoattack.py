"""Times our AutoAttack and pyautoattack: the same network, images and machine, in one process, one after the other.

    python benchmarks/autoattack.py RUN... --examples 200 --out results/autoattack-cpu.json

RUN is the folder of a finished run. Pyautoattack is timed with every given batch size; the ratio is to the quickest.
Ours is timed in float32 and with the default precision.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

import orat
from orat.attacks import Threat
from orat.attacks.reference import AutoAttackReference
from orat.core.device import commit, device_of, hardware, versions
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.evaluation.accuracy import correct
from orat.training.run import read_run

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Subject:
    """A trained network with its test images, on one device, and the radius of the attack."""

    model: nn.Module
    test: Dataset
    eps: float
    norm: str

    @property
    def threat(self) -> Threat:
        """The threat of the run."""
        return Threat(self.eps, self.norm)

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return device_of(self.model)

    def images(self, n: int | None = None) -> tuple[Tensor, Tensor]:
        """The first inputs and labels on the device."""
        data = self.test if n is None else self.test.first(n)
        return as_input(data.images.to(self.device)).contiguous(), data.labels.to(self.device)


def main() -> None:
    """Measures every run and writes the JSON file after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--reference-batches", default="250", help="with commas between; 250 is pyautoattack's default")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    batches = [int(size) for size in arguments.reference_batches.split(",")]
    rows = []
    for folder in arguments.runs:
        subject = subject_of(folder, arguments)
        rows.append({"run": folder.name, **measure(subject, batches)})
        print(json.dumps(rows[-1]), flush=True)
        content = {"hardware": hardware(subject.device) | versions(), "commit": commit(), "rows": rows}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(content, indent=2) + "\n")


def subject_of(folder: Path, arguments: argparse.Namespace) -> Subject:
    """The network of a finished run and the first test images of its data set."""
    run = read_run(folder)
    test = orat.load_data(run.data, arguments.data_dir, run.image_size).test
    if test is None:
        raise SystemExit(f"{run.data} has no test images: give another run")
    return Subject(orat.load_model(folder, device=arguments.device), test.first(arguments.examples), run.eps, run.norm)


def measure(subject: Subject, batches: list[int]) -> dict[str, Any]:
    """Times and robust accuracies of pyautoattack and of ours."""
    warm_up(subject)
    references = {size: timed(lambda size=size: reference(subject, size), subject.device) for size in batches}
    ours = {
        precision: timed(lambda precision=precision: own(subject, precision), subject.device)
        for precision in ("float32", "auto")
    }
    theirs, reference_seconds = min(references.values(), key=lambda result: result[1])
    mine, seconds = ours["auto"]
    return {
        "eps": subject.eps,
        "norm": subject.norm,
        "examples": len(subject.test),
        "natural": mine["natural"].double().mean().item(),
        "robust_reference": theirs.double().mean().item(),
        "robust_ours": mine["autoattack"].double().mean().item(),
        "robust_ours_float32": ours["float32"][0]["autoattack"].double().mean().item(),
        "agreement": (theirs == mine["autoattack"]).double().mean().item(),
        "seconds_reference": {size: round(result[1], 2) for size, result in references.items()},
        "seconds_ours_float32": round(ours["float32"][1], 2),
        "seconds_ours": round(seconds, 2),
        "ratio_float32": round(reference_seconds / ours["float32"][1], 2),
        "ratio": round(reference_seconds / seconds, 2),
    }


def warm_up(subject: Subject) -> None:
    """Attacks a few images with both, so that libraries choose their kernels before the timing."""
    few = min(len(subject.test), 8)
    AutoAttackReference()(subject.model, *subject.images(few), subject.threat)
    correct(subject.model, subject.test.first(few), ["autoattack"], subject.threat, precision="auto")


def reference(subject: Subject, batch_size: int) -> Tensor:
    """The images that withstand pyautoattack with its standard call."""
    from pyautoattack import AutoAttack

    x, y = subject.images()
    norm = {"linf": "Linf", "l2": "L2", "l1": "L1"}[subject.norm]
    attack = AutoAttack(subject.model, eps=subject.eps, norm=norm, seed=0, device=x.device)
    adv, _ = attack.run_standard_evaluation(x, y, batch_size=batch_size)
    with torch.no_grad():
        predicted = [subject.model(part).argmax(1) for part in adv.split(batch_size)]
    return (torch.cat(predicted) == y).cpu()


def own(subject: Subject, precision: str) -> dict[str, Tensor]:
    """The images that withstand our AutoAttack."""
    right = correct(subject.model, subject.test, ["autoattack"], subject.threat, precision=precision)
    return {name: mask.cpu() for name, mask in right.items()}


def timed(action: Callable[[], Result], device: torch.device) -> tuple[Result, float]:
    """The result of an action and its seconds."""
    began = time.perf_counter()
    result = action()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return result, time.perf_counter() - began


if __name__ == "__main__":
    main()
