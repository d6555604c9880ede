"""ORAT (automatic) beside AT, ORAT with m, and an oracle that removes exactly the wrong labels.

    python experiments/automatic.py --data cifar10.tar.xz --kinds symmetric:0.2,asymmetric:0.4 --seeds 0,1,2 \
        --arms at,published,automatic,oracle --runs runs/automatic --out results/automatic-cifar10.json

Every finished run is a row of the output; a present row is not repeated. The gap share of an accuracy is
(arm - AT) / (oracle - AT), with means over the seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from scores import Oracle, Own, Used
from study import Cell, Row, add_flags, fields_of, fill, is_known, mask_file
from torch import Tensor

import orat
from orat.core.errors import InputError, unknown
from orat.data.source import Dataset
from orat.evaluation.accuracy import evaluate
from orat.methods import AT, ORAT, Method
from orat.methods.automatic import average
from orat.noise.truth import area
from orat.training.run import Run, read_run
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare
from orat_paper.reproduce.artifacts import table

COLUMNS = ("natural", "fgsm", "pgd20", "cw", "autoattack")
AUTOMATIC: dict[str, Method] = {  # ORAT (automatic), and the same with one part exchanged
    "automatic": ORAT(),
    "scouts-alone": Used(),
    "flagged": Used(use="flagged"),
    "removed": Used(use="removed"),
    "relabeled": Used(use="relabeled"),
    "weighed": Used(use="weighed"),
    "own-natural": Own(),
    "own-adversarial": Own(attacked=True),
    "few-epochs": ORAT(scout_epochs=4),
    "many-epochs": ORAT(scout_epochs=36),
}
RANKED = {"told": 1.0, "told-k95": 0.95, "told-k90": 0.9, "told-k80": 0.8}  # exact ranks with m; k as a share
ARMS = ("at", "published", "paper", "oracle", *RANKED, *AUTOMATIC)
ESTIMATES = {"wrong": "noise_rate", "error": "error", "known": "reliability"}  # columns of a row -> of a record
BINS, HIGHEST = 50, 12.5  # of the histograms of losses


def main() -> None:
    """Trains missing runs and prints the gap shares."""
    arguments = parsed()
    setting = {"data": Path(arguments.data).name, **json.loads(arguments.fields)}
    rows = fill(arguments, setting, partial(missing, arguments), partial(row_of, arguments), hidden="histograms")
    for line in gap_lines(rows):
        print(line)


def parsed() -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--kinds", default="symmetric:0.4", help="noise and rate, with commas between; none:0 for none")
    parser.add_argument("--arms", default="at,automatic,oracle", help=f"of {', '.join(ARMS)}, with commas between")
    parser.add_argument(
        "--m", default="rate", help="of published and told: as in orat train, or `rate` for the noise rate"
    )
    parser.add_argument("--paper", metavar="DATA:EPS", help="place in the paper's Table D.1, for the arm paper")
    parser.add_argument("--autoattack", type=int, default=0, metavar="N", help="also AutoAttack on the first N images")
    add_flags(parser, "runs/automatic")
    return parser.parse_args()


def missing(arguments: argparse.Namespace, rows: list[Row]) -> Iterator[Cell]:
    """The cells without a row."""
    splits = (part.split(",") for part in (arguments.seeds, arguments.kinds, arguments.arms))
    for seed, kind, arm in product(*splits):
        noise, _, rate = kind.partition(":")
        columns = {"arm": arm, "noise": noise, "rate": float(rate), "seed": int(seed)}
        if is_known(columns, rows):
            continue
        m = rate if arguments.m == "rate" else arguments.m
        method = method_of(arm, float(m) if "." in m else int(m))
        run = Run(
            data=arguments.data, method=as_printed(arguments.paper, noise, float(rate)) if arm == "paper" else method,
            noise=noise, noise_rate=float(rate), seed=int(seed), noise_seed=int(seed), **fields_of(arguments),
        )  # fmt: skip
        folder = arguments.runs / f"{arm}-{noise}-{rate}-{seed}-{run.id}"
        if arm == "oracle":
            train = prepare(run, arguments.data_dir).train
            run = replace(run, method=Oracle(removed=mask_file(folder, train.wrong, len(train))))
        yield Cell(columns, folder, run)


def method_of(arm: str, m: int | float) -> Method:
    """The method of an arm; an oracle gets its file of samples later."""
    if arm not in ARMS:
        raise unknown("arm", arm, ARMS)
    if arm == "published":
        return ORAT(m=m, solver="minmax")
    if arm in RANKED:
        return ORAT(m=m, k=RANKED[arm])
    return AUTOMATIC.get(arm, AT())


def as_printed(setting: str | None, noise: str, rate: float) -> Method:
    """ORAT by Algorithm 1 with the paper's k and m for a data set, radius and noise."""
    data, _, eps = (setting or "").partition(":")
    place = (data, eps, noise, round(100 * rate), "ORAT")
    for cell in table("table1_accuracy"):
        if (cell.data, cell.eps, cell.noise, cell.rate, cell.method) == place:
            return ORAT(k=cell.k, m=cell.m, solver="minmax")
    raise InputError(
        f"--paper: the paper has no k and m for {setting!r} with {noise} {rate}: give one as cifar10:8/255"
    )


def row_of(arguments: argparse.Namespace, cell: Cell, result: Row) -> Row:
    """The accuracies and seconds of a run, and the quality of its flags."""
    folder = RunFolder(cell.folder)
    parts = prepare(cell.run, arguments.data_dir)
    row = {name: round(100 * result["last"][name], 2) for name in COLUMNS if name in result["last"]}
    if arguments.autoattack:
        assert parts.test is not None
        row |= under_autoattack(folder.path, parts.test.first(arguments.autoattack), arguments.device)
    row |= {name: result[name] for name in ("run", "seconds", "outliers", "corrections")}
    row |= epochs_of(folder)
    state, wrong = folder.load_tensors("state"), parts.train.wrong
    if "verdict_score" in state and wrong is not None:
        row |= {"flipped": float(wrong.double().mean()), "auc": area(state["verdict_score"], wrong)}
        flagged = ~state["keep"] | (state["labels"] != parts.train.labels)
        row["histograms"] = histograms(losses_of(folder, parts.train.labels), wrong, flagged)
    return row


def epochs_of(folder: RunFolder) -> Row:
    """Seconds and estimates of all epochs; epochs up to 0 are those of scout networks."""
    scouts, own = folder.history("cross_fit.jsonl"), folder.history()
    records = [*scouts, *own]
    row: Row = {"epochs": [record["epoch"] - len(scouts) for record in scouts] + [record["epoch"] for record in own]}
    row["epoch_seconds"] = [record["seconds"] for record in records]
    for column, name in ESTIMATES.items():
        row[column] = [record["state"][name] for record in records if name in record["state"]]
    return row


def under_autoattack(folder: Path, test: Dataset, device: str) -> Row:
    """Accuracy of the last epoch under AutoAttack on some images."""
    run = read_run(folder)
    threat = orat.Threat(run.eps, run.norm)
    accuracy = evaluate(orat.load_model(folder, device=device), test, ["autoattack"], threat, run.seed)
    return {"autoattack": round(100 * accuracy["autoattack"], 2), "autoattacked": len(test)}


def losses_of(folder: RunFolder, labels: Tensor) -> dict[str, Tensor]:
    """The losses of the given labels, averaged over epochs: of scout networks, and of the network."""
    own = folder.load_tensors("state").get("memory.average")
    scouts = average(folder.load_tensors("predictions")["log_probs"]) if folder.has_tensors("predictions") else None
    predictions = {"answers": scouts, "own_answers": own}
    return {
        name: -log_probs.float().gather(1, labels[:, None]).squeeze(1).clamp(min=-HIGHEST)
        for name, log_probs in predictions.items()
        if log_probs is not None
    }


def histograms(losses: dict[str, Tensor], wrong: Tensor, flagged: Tensor) -> dict[str, Any]:
    """The number of samples by loss: right and wrong labels, kept and flagged."""
    groups = {
        "right": ~wrong & ~flagged,
        "right, cut": ~wrong & flagged,
        "wrong": wrong & ~flagged,
        "wrong, cut": wrong & flagged,
    }
    counts = {
        name: {group: torch.histc(values[own], BINS, 0, HIGHEST).int().tolist() for group, own in groups.items()}
        for name, values in losses.items()
    }
    return {"highest": HIGHEST} | counts


def gap_lines(rows: list[Row]) -> list[str]:
    """The gap shares of every kind of noise."""
    lines = []
    for kind in dict.fromkeys((row["noise"], row["rate"]) for row in rows):
        own = [row for row in rows if (row["noise"], row["rate"]) == kind]
        means = {
            (arm, name): mean(values)
            for arm, name in product({row["arm"] for row in own}, COLUMNS)
            if (values := [row[name] for row in own if row["arm"] == arm and name in row])
        }
        for arm in sorted({arm for arm, _ in means} - {"at", "oracle"}):
            shares = [
                f"{name} {(means[arm, name] - means['at', name]) / (means['oracle', name] - means['at', name]):.2f}"
                for name in COLUMNS
                if {("at", name), ("oracle", name), (arm, name)} <= means.keys()
                and means["oracle", name] != means["at", name]
            ]
            lines.append(f"{kind[0]} {kind[1]} {arm}: gap share {' '.join(shares) or '-'}")
    return lines


if __name__ == "__main__":
    main()
