"""AT, ORAT (automatic) and the oracle on labels by people, with the settings of the paper, image by image.

    python experiments/human_labels.py --human cifar10-human.npz --data-dir data --arms at,automatic,oracle,clean \
        --seeds 0 --out results/human-labels.json
    python experiments/human_labels.py --page --out results/human-labels.json

The file of labels has `noisy` and `true`, in the order of the training images. The oracle removes exactly the wrong
labels; `clean` is AT with all labels right. The arms from `expected` to `corrected` are other uses of the verdict of the
scout networks. Every finished run is a row with its accuracies on validation samples, whose labels are as noisy but for
`clean`, and its correct test images are a file beside the rows. The page has paired differences of two arms on the same
images.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from markdown import table_head, table_line
from scores import Corrected, Oracle, Used
from study import Cell, Row, add_flags, fields_of, fill, is_known, mask_file
from torch import Tensor

import orat
from orat.evaluation import correct
from orat.methods import AT, ORAT, Method
from orat.noise.truth import found_removed
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare

ARMS: dict[str, Method] = {
    "at": AT(), "automatic": ORAT(), "expected": Used(), "flagged": Used(use="flagged"), "removed": Used(use="removed"),
    "relabeled": Used(use="relabeled"), "weighed": Used(use="weighed"), "corrected": Corrected(), "oracle": Oracle(),
    "clean": AT(),
}  # fmt: skip
NAMES = {
    "at": "AT", "automatic": "ORAT (automatic)", "expected": "expected losses, scouts alone",
    "flagged": "expected losses of flagged samples", "removed": "flagged samples removed",
    "relabeled": "flagged samples relabeled if sure, else removed", "weighed": "samples weighted",
    "corrected": "corrected loss", "oracle": "oracle, removing", "clean": "AT, all labels right",
}  # fmt: skip
COLUMNS = {"natural": "Natural", "pgd20": "PGD-20", "autoattack": "AutoAttack"}
PAIRS = (
    ("automatic", "at"), ("automatic", "oracle"), ("automatic", "clean"), ("oracle", "at"), ("expected", "at"),
    ("expected", "relabeled"), ("expected", "flagged"),
)  # fmt: skip
Z95 = 1.96


def main() -> None:
    """Trains missing runs, or prints the page of a report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--human", type=Path, help="the .npz file with noisy and true labels; needed for training")
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--arms", default="at,automatic,oracle,clean", help=f"of {', '.join(ARMS)}")
    parser.add_argument("--autoattack", type=int, default=1000, metavar="N", help="test images for AutoAttack")
    parser.add_argument("--page", action="store_true", help="print the report as tables, without training")
    add_flags(parser, "runs/human-labels")
    arguments = parser.parse_args()
    if arguments.page:
        print("\n".join(page(json.loads(arguments.out.read_text())["rows"], masks_beside(arguments.out))))
        return
    if arguments.human is None:
        parser.error("--human is missing: give the .npz file with noisy and true labels")
    setting = {"data": arguments.data, "labels": arguments.human.name, **fields_of(arguments)}
    fill(arguments, setting, partial(missing, arguments), partial(row_of, arguments))


def missing(arguments: argparse.Namespace, rows: list[Row]) -> Iterator[Cell]:
    """The cells without a row."""
    arguments.runs.mkdir(parents=True, exist_ok=True)
    labels = arguments.runs / "given.npy"
    with np.load(arguments.human) as file:
        np.save(labels, file["noisy"].astype(np.int64))
        right = file["true"]
    for seed, arm in product(map(int, arguments.seeds.split(",")), arguments.arms.split(",")):
        columns = {"arm": arm, "seed": seed}
        if is_known(columns, rows):
            continue
        given = None if arm == "clean" else str(labels)
        run = Run(data=arguments.data, method=ARMS[arm], labels=given, seed=seed, **fields_of(arguments))
        folder = arguments.runs / f"{arm}-{seed}-{run.id}"
        parts = prepare(run, arguments.data_dir)
        assert parts.train.truth is None or np.array_equal(right[parts.ids], parts.train.truth.numpy())
        if arm == "oracle":
            run = replace(run, method=Oracle(removed=mask_file(folder, parts.train.wrong, len(parts.train))))
        yield Cell(columns, folder, run)


def row_of(arguments: argparse.Namespace, cell: Cell, result: Row) -> Row:
    """The accuracies of the last epoch, and the quality of the flags."""
    parts, folder = prepare(cell.run, arguments.data_dir), RunFolder(cell.folder)
    assert parts.test is not None
    model = orat.load_model(cell.folder, device=arguments.device)
    threat = orat.Threat(cell.run.eps, cell.run.norm)
    right = correct(model, parts.test, ["pgd20"], threat, cell.run.seed)
    first = parts.test.first(arguments.autoattack)
    right["autoattack"] = correct(model, first, ["autoattack"], threat, cell.run.seed)["autoattack"]
    right = {name: right[name].cpu() for name in COLUMNS}
    file = masks_beside(arguments.out) / f"{cell.columns['arm']}-{cell.columns['seed']}.npz"
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, **{name: np.packbits(mask.numpy()) for name, mask in right.items()})
    row: Row = {name: round(100 * float(mask.double().mean()), 2) for name, mask in right.items()}
    row |= {"validation": validated(folder.history())}
    row |= {"images": {name: len(mask) for name, mask in right.items()}}
    row |= {name: result[name] for name in ("run", "seconds", "outliers", "corrections")}
    return row | quality(folder, parts.train.labels, parts.train.wrong)


def validated(history: Sequence[Row]) -> dict[str, float]:
    """The accuracies on validation samples, averaged over the last tenth of the epochs."""
    last = [record["validation"] for record in history[-(len(history) // 10 or 1) :]]
    return {name: round(100 * float(np.mean([values[name] for values in last])), 2) for name in last[0]}


def quality(folder: RunFolder, labels: Tensor, wrong: Tensor | None) -> Row:
    """The estimate and the flags of the scout networks alone, and of the last verdict."""
    if wrong is None or not folder.has_tensors("predictions"):
        return {}
    verdict = orat.judge(folder.load_tensors("predictions")["log_probs"], labels)
    first = found_removed(verdict.flagged(), wrong)
    state = folder.load_tensors("state")
    nothing = torch.zeros(len(labels), dtype=torch.bool)  # a method that uses the verdict without flags
    changed = ~state["keep"] | (state["labels"] != labels) if "keep" in state else nothing
    history = folder.history("cross_fit.jsonl")
    return {
        "wrong": round(float(wrong.double().mean()), 4), "estimate": round(verdict.noise_rate, 4),
        "interval": [round(end, 4) for end in verdict.interval], "scouts": first,
        "last": found_removed(changed, wrong), "scout_epochs": len(history),
        "scout_seconds": round(sum(record["seconds"] for record in history), 1),
    }  # fmt: skip


def masks_beside(out: Path) -> Path:
    """The folder with the correct test images of each run."""
    return out.with_suffix("")


def page(rows: Sequence[Row], masks: Path) -> list[str]:
    """The means over seeds, and paired differences with 95 % intervals over images."""
    lines = table_head(["labels and method", "seeds", *COLUMNS.values()])
    arms = [arm for arm in ARMS if any(row["arm"] == arm for row in rows)]
    seeds = {arm: sorted(row["seed"] for row in rows if row["arm"] == arm) for arm in arms}
    for arm in arms:
        means = [f"{np.mean([row[name] for row in rows if row['arm'] == arm]):.2f}" for name in COLUMNS]
        lines.append(table_line([NAMES[arm], len(seeds[arm]), *means]))
    lines += ["", *table_head(["difference", "seeds", *COLUMNS.values()])]
    for one, other in PAIRS:
        common = [seed for seed in seeds.get(one, []) if seed in seeds.get(other, [])]
        if common:
            cells = [difference(masks, rows, one, other, common, name) for name in COLUMNS]
            lines.append(table_line([f"{NAMES[one]} - {NAMES[other]}", len(common), *cells]))
    return lines


def difference(masks: Path, rows: Sequence[Row], one: str, other: str, seeds: Sequence[int], name: str) -> str:
    """The mean difference on the same images, averaged over seeds, with the 95 % interval over images."""
    count = next(row["images"][name] for row in rows if row["arm"] == one)
    first, second = (np.mean([right_of(masks, arm, seed, name, count) for seed in seeds], 0) for arm in (one, other))
    each = 100 * (first - second)
    return f"{each.mean():+.2f} ± {Z95 * each.std() / count**0.5:.2f}"


def right_of(masks: Path, arm: str, seed: int, name: str, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The correct test images of a run, as 0 and 1."""
    with np.load(masks / f"{arm}-{seed}.npz") as file:
        return np.unpackbits(file[name])[:count].astype(np.float64)


if __name__ == "__main__":
    main()
