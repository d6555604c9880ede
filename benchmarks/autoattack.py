"""Our AutoAttack against pyautoattack: the same model, images and machine, in one process, one after the other.

    python benchmarks/autoattack.py RUN... --examples 200 --out results/autoattack-cpu.json

RUN is the folder of a finished run. The reference is timed with each of its batch sizes, and the ratio is to the
fastest of them. Ours is timed twice, in float32 and with the default precision.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks import Threat
from orat.attacks.reference import AutoAttackReference
from orat.cli.subjects import Subject, of_run
from orat.core.provenance import commit, hardware, versions
from orat.data.loader import as_input
from orat.evaluation.accuracy import correct, device_of


def main() -> None:
    """Measures every run and writes one JSON file, again after each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--reference-batches", default="250", help="pyautoattack's default is 250")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    batches = [int(size) for size in arguments.reference_batches.split(",")]
    rows = []
    for folder in arguments.runs:
        subject = of_run(folder, "last", arguments.data_dir, arguments.examples, arguments.device)
        rows.append({"run": folder.name, **measure(subject, batches)})
        print(json.dumps(rows[-1]), flush=True)
        content = {"hardware": hardware(device_of(subject.model)) | versions(), "commit": commit(), "rows": rows}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(content, indent=2) + "\n")


def measure(subject: Subject, batches: list[int]) -> dict[str, Any]:
    """Times and robust accuracies of the reference and of ours."""
    warm_up(subject)
    references = {size: timed(lambda size=size: reference(subject, size), subject.model) for size in batches}
    ours = {
        precision: timed(lambda precision=precision: own(subject, precision), subject.model)
        for precision in ("float32", "auto")
    }
    (theirs, reference_seconds) = min(references.values(), key=lambda result: result[1])
    (mine, seconds) = ours["auto"]
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
    """Lets libraries choose their kernels before anything is timed."""
    few = subject.test.take(torch.arange(min(len(subject.test), 8)))
    x, y = images(few, subject.model)
    threat = Threat(subject.eps, subject.norm)
    AutoAttackReference()(subject.model, x, y, threat)
    correct(subject.model, few, ["autoattack"], threat, precision="auto")


def reference(subject: Subject, batch_size: int) -> Tensor:
    """Which samples withstand pyautoattack, used as its page says: the model as it was loaded."""
    from pyautoattack import AutoAttack

    x, y = images(subject.test, subject.model)
    norm = {"linf": "Linf", "l2": "L2", "l1": "L1"}[subject.norm]
    attack = AutoAttack(subject.model, eps=subject.eps, norm=norm, seed=0, device=x.device)
    adv, _ = attack.run_standard_evaluation(x, y, batch_size=batch_size)
    with torch.no_grad():
        right = [subject.model(part).argmax(1) for part in adv.split(batch_size)]
    return (torch.cat(right) == y).cpu()


def own(subject: Subject, precision: str) -> dict[str, Tensor]:
    """Which samples withstand ours."""
    threat = Threat(subject.eps, subject.norm)
    right = correct(subject.model, subject.test, ["autoattack"], threat, precision=precision)
    return {name: mask.cpu() for name, mask in right.items()}


def images(data: Any, model: nn.Module) -> tuple[Tensor, Tensor]:
    """Inputs and labels on the model's device."""
    device = device_of(model)
    return as_input(data.images.to(device)).contiguous(), data.labels.to(device)


def timed(action: Any, model: nn.Module) -> tuple[Any, float]:
    """What an action gives, and how many seconds it takes."""
    began = time.perf_counter()
    result = action()
    if device_of(model).type == "cuda":
        torch.cuda.synchronize()
    return result, time.perf_counter() - began


if __name__ == "__main__":
    main()
