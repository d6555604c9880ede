"""A folder of photos with wrong labels, and the minutes until they are found and fixed.

    python experiments/photo_folder.py make photos --data-dir data
    python experiments/photo_folder.py measure photos --out results/photo-folder.json

`make` writes 1,000 images of five classes of CIFAR-10 at 96 pixels, of which 20 % lie in the folder of another class;
the truth lies beside the folder. `measure` calls `orat labels find` and `orat labels fix` as a user does.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

import orat
from orat.core.device import choose_device, commit, hardware, versions
from orat.core.files import write_table

SIDE = 96  # pixels
COMMAND = (sys.executable, "-m", "orat")


def main() -> None:
    """Makes or measures the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(required=True)
    one = actions.add_parser("make")
    one.add_argument("folder", type=Path)
    one.add_argument("--data", default="cifar10")
    one.add_argument("--data-dir", type=Path)
    one.add_argument("--classes", type=int, default=5)
    one.add_argument("--per-class", type=int, default=200)
    one.add_argument("--rate", type=float, default=0.2)
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(action=make)
    one = actions.add_parser("measure")
    one.add_argument("folder", type=Path)
    one.add_argument("--work", type=Path, default=Path("photo-folder"), help="folder of the list and the fixed copy")
    one.add_argument("--find", default="", help="further flags of `orat labels find`")
    one.add_argument("--fix", default="", help="flags of `orat labels fix`; not called without")
    one.add_argument("--out", type=Path, required=True)
    one.set_defaults(action=measure)
    arguments = parser.parse_args()
    arguments.action(arguments)


def truth_of(folder: Path) -> Path:
    """The file with the true classes, beside the folder."""
    return folder.with_name(f"{folder.name}-truth.csv")


def make(arguments: argparse.Namespace) -> None:
    """Writes the images, each into the folder of its given label."""
    train = orat.load_data(arguments.data, arguments.data_dir).train
    generator = torch.Generator().manual_seed(arguments.seed)
    ids = chosen(train.labels, arguments.classes, arguments.per_class, generator)
    true = train.labels[ids]
    given = moved(true, arguments.classes, arguments.rate, generator)
    rows: dict[str, list[str]] = {"path": [], "true_label": []}
    for number, (place, label, right) in enumerate(zip(ids.tolist(), given.tolist(), true.tolist(), strict=True)):
        path = Path(train.classes[label]) / f"{number:04d}.png"
        (arguments.folder / path).parent.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(train.images[place].movedim(0, -1).numpy())
        image.resize((SIDE, SIDE), Image.Resampling.LANCZOS).save(arguments.folder / path)
        rows["path"].append(str(path))
        rows["true_label"].append(train.classes[right])
    write_table(truth_of(arguments.folder), rows)


def chosen(labels: Tensor, classes: int, each: int, generator: torch.Generator) -> Tensor:
    """Random samples, as many of each of the first classes, in random order."""
    groups = [(labels == label).nonzero().flatten() for label in range(classes)]
    ids = torch.cat([group[torch.randperm(len(group), generator=generator)[:each]] for group in groups])
    return ids[torch.randperm(len(ids), generator=generator)]


def moved(labels: Tensor, classes: int, rate: float, generator: torch.Generator) -> Tensor:
    """The labels with a share of them moved to another class."""
    wrong = torch.randperm(len(labels), generator=generator)[: round(rate * len(labels))]
    steps = torch.randint(1, classes, (len(wrong),), generator=generator)
    return labels.index_copy(0, wrong, (labels[wrong] + steps) % classes)


def measure(arguments: argparse.Namespace) -> None:
    """Times the commands, and compares the list with the truth."""
    found, folder = arguments.work / "found", str(arguments.folder)
    report: dict[str, Any] = {"find": timed(["labels", "find", folder, "--out", str(found), *arguments.find.split()])}
    if arguments.fix:
        fixed = ["labels", "fix", str(found), "--out", str(arguments.work / "fixed"), *arguments.fix.split()]
        report["fix"] = timed(fixed)
    with truth_of(arguments.folder).open(newline="") as file:
        truth = {row["path"].rpartition("/")[2]: row["true_label"] for row in csv.DictReader(file)}
    with (found / "label-issues.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    wrong = torch.tensor([row["given_label"] != truth[row["path"].rpartition("/")[2]] for row in rows])
    flags = torch.tensor([row["is_label_issue"] == "True" for row in rows])
    report |= quality(flags, wrong) | {"flags": flagged(arguments), **origin()}
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.write(f"{json.dumps(report)}\n")


def timed(words: list[str]) -> dict[str, float]:
    """The seconds of a command by the clock, and those of all its threads."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*COMMAND, *words], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(time.monotonic() - started, 1), "cpu_seconds": round(work, 1)}


def quality(flags: Tensor, wrong: Tensor) -> dict[str, Any]:
    """Found and missed labels, and the best F1 of any threshold, of rows in the order of suspicion."""
    hits, size, total = int((flags & wrong).sum()), int(flags.sum()), int(wrong.sum())
    every = 2 * wrong.cumsum(0).double() / (torch.arange(1, len(wrong) + 1) + total)
    return {
        "samples": len(wrong), "wrong": total, "flagged": size, "found": hits, "missed": total - hits,
        "f1": round(2 * hits / (size + total), 4), "best_f1": round(float(every.max()), 4),
        "flagged_at_best": int(every.argmax()) + 1,
    }  # fmt: skip


def flagged(arguments: argparse.Namespace) -> dict[str, str]:
    """The flags of the commands."""
    return {"find": arguments.find, "fix": arguments.fix}


def origin() -> dict[str, Any]:
    """Versions, commit and hardware."""
    return {"commit": commit(), **versions(), **hardware(choose_device("cpu"))}


if __name__ == "__main__":
    main()
