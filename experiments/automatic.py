"""ORAT without k and m beside AT, ORAT as published and an oracle that cuts exactly the flipped samples.

    python benchmarks/automatic.py --data cifar10.tar.xz --kinds symmetric:0.2,asymmetric:0.4 --seeds 0,1,2 \
        --arms at,published,automatic,oracle --runs runs/automatic --out results/automatic-cifar10.json

Every run is a row of the output as soon as it is finished, and what is a row already is not trained again, so that a
table can be filled in several goes. The gap share of a figure is (automatic - AT) / (oracle - AT), of the means over the
seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from filling import NEVER, Row, add_flags, fields_of, filled, is_known, sitting_of, tell_truth
from orat.curation.earlier import automatic
from torch import Tensor

import orat
from orat.attacks import Threat
from orat.core.errors import InputError
from orat.curation.find import saved_verdict
from orat.data.source import Dataset
from orat.evaluation.accuracy import evaluate
from orat.methods import Method
from orat.methods.automatic import cut_in
from orat.noise.judge import area
from orat.sweeps.parallel import Sitting
from orat.training.load import load_model
from orat.training.run import Run, read_run
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare
from orat_paper.reproduce.artifacts import table

COLUMNS = ("natural", "fgsm", "pgd20", "cw", "autoattack")
WATCHED: dict[str, dict[str, Any]] = {  # ORAT that is told nothing, and what it is without each of its parts
    "automatic": {},
    "cut-only": {"confidence": 1.0},
    "scouts-alone": {"score": "scout"},
    "own-natural": {"score": "natural"},
    "own-adversarial": {"score": "adversarial"},
    "otsu": {"measure": "loss"},
    "no-memory": {"memory": 0.0},
    "few-epochs": {"scout_epochs": 4},
    "many-epochs": {"scout_epochs": 36},
    "surer": {"confidence": 0.98},
}
TOLD = {"told": 1.0, "told-k95": 0.95, "told-k90": 0.9, "told-k80": 0.8}  # m by exact ranks, and the share that k is
ARMS = ("at", "published", "paper", "oracle", *TOLD, *WATCHED)
BINS, HIGHEST = 50, 12.5  # of the histograms of losses


def main() -> None:
    """Trains what is missing, and prints the gap shares."""
    arguments = parsed()
    setting = {"data": Path(arguments.data).name, **json.loads(arguments.fields)}
    rows = filled(arguments, setting, partial(missing, arguments), partial(row_of, arguments), "histograms")
    for line in gap_lines(rows):
        print(line)


def parsed() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--kinds", default="symmetric:0.4", help="noise and rate, with commas between; none:0 for none")
    parser.add_argument("--arms", default="at,automatic,oracle", help=f"of {', '.join(ARMS)}, with commas between")
    parser.add_argument(
        "--m", default="rate", help="of forms that are told: as orat train takes it, or the noise's rate"
    )
    parser.add_argument(
        "--paper", metavar="DATA:EPS", help="whose k and m of the paper's Table D.1 the arm paper takes"
    )
    parser.add_argument("--autoattack", type=int, default=0, metavar="N", help="under it, too, the first N test images")
    add_flags(parser, "runs/automatic")
    return parser.parse_args()


def missing(arguments: argparse.Namespace, rows: list[Row]) -> Iterator[tuple[Row, Sitting]]:
    """The cells that are no rows yet, and their runs."""
    splits = (part.split(",") for part in (arguments.seeds, arguments.kinds, arguments.arms))
    for seed, kind, arm in product(*splits):
        noise, _, rate = kind.partition(":")
        cell = {"arm": arm, "noise": noise, "rate": float(rate), "seed": int(seed)}
        if is_known(cell, rows):
            continue
        m = rate if arguments.m == "rate" else arguments.m
        told = float(m) if "." in m else int(m)
        method = method_of(arm, told) if arm != "paper" else as_printed(arguments.paper, noise, float(rate))
        run = Run(
            data=arguments.data, method=method, noise=noise,
            noise_rate=float(rate), seed=int(seed), noise_seed=int(seed), **fields_of(arguments),
        )  # fmt: skip
        folder = arguments.runs / f"{arm}-{noise}-{rate}-{seed}-{run.id}"
        sitting = sitting_of(arguments, folder, run, arguments.data_dir)
        if arm == "oracle":
            tell_truth(sitting, lambda job: job.parts.train.wrong)
        yield cell, sitting


def method_of(arm: str, m: int | float) -> Method:
    """The method of an arm; the oracle is a watch that is told what to cut."""
    if arm == "at":
        return orat.methods.AT()
    if arm == "published":
        return orat.methods.ORAT(m=m, solver="minmax")
    if arm in TOLD:
        return orat.methods.ORAT(m=m, k=TOLD[arm])
    if arm == "oracle":
        return orat.methods.ORAT(score="adversarial", burn_in=NEVER)
    return orat.methods.ORAT(**WATCHED[arm])


def as_printed(setting: str | None, noise: str, rate: float) -> Method:
    """ORAT by its two scalars, with the k and m that the paper has for this data set, radius and noise."""
    data, _, eps = (setting or "").partition(":")
    place = (data, eps, noise, round(100 * rate), "ORAT")
    for cell in table("table1_accuracy"):
        if (cell.data, cell.eps, cell.noise, cell.rate, cell.method) == place:
            return orat.methods.ORAT(k=cell.k, m=cell.m, solver="minmax")
    raise InputError(f"--paper: the paper has no k and m for {setting!r} with {noise} {rate}; one is cifar10:8/255")


def row_of(arguments: argparse.Namespace, cell: Row, sitting: Sitting) -> Row:
    """What came of a run: accuracy, time, and how well wrong labels were told from right ones."""
    result, folder = sitting.job.result, RunFolder(Path(sitting.folder))
    history, parts = folder.history(), prepare(read_run(folder.path), arguments.data_dir)
    row = {name: round(100 * result["last"][name], 2) for name in COLUMNS if name in result["last"]}
    if arguments.autoattack:
        assert parts.test is not None
        row |= under_autoattack(folder.path, parts.test.first(arguments.autoattack), arguments.device)
    row |= {"run": result["run"], "seconds": result["seconds"], "outliers": result["outliers"]}
    row |= {"corrections": result["corrections"]}
    row |= {"epochs": [record["epoch"] for record in history]}
    row |= {"epoch_seconds": [record["seconds"] for record in history]}
    for name in ("wrong", "error", "known"):
        row[name] = [record["state"][name] for record in history if name in record["state"]]
    state = folder.load_tensors("state")
    flipped = parts.train.wrong
    if "wrong" in state and flipped is not None:
        row |= {
            "flipped": float(flipped.double().mean()),
            "auc": area(saved_verdict(automatic(state), state["given"]).score, flipped),
        }
        row |= {"auc_of_loss": area(state["mean_loss"], flipped), "histograms": histograms(state, flipped)}
    return row


def under_autoattack(folder: Path, test: Dataset, device: str) -> dict[str, Any]:
    """Accuracy of the last epoch under AutoAttack, on these images."""
    run = read_run(folder)
    threat = Threat(run.eps, run.norm)
    accuracy = evaluate(load_model(folder, device=device), test, ["autoattack"], threat, run.seed)
    return {"autoattack": round(100 * accuracy["autoattack"], 2), "autoattacked": len(test)}


def histograms(state: dict[str, Tensor], flipped: Tensor) -> dict[str, Any]:
    """How many samples have which loss, averaged over epochs: right and wrong labels, kept and cut, by who is asked."""
    given, cut = state["given"][:, None], cut_in(state)
    groups = {
        "right": ~flipped & ~cut,
        "right, cut": ~flipped & cut,
        "wrong": flipped & ~cut,
        "wrong, cut": flipped & cut,
    }
    return {"highest": HIGHEST} | {
        name: {
            group: torch.histc(losses[those].float(), BINS, 0, HIGHEST).int().tolist()
            for group, those in groups.items()
        }
        for name in ("answers", "own_answers")
        if name in state and len(losses := -state[name].gather(1, given).squeeze(1).clamp(min=-HIGHEST))
    }


def gap_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The gap shares of each kind of noise."""
    lines = []
    for kind in dict.fromkeys((row["noise"], row["rate"]) for row in rows):
        of = {
            (arm, name): mean(values)
            for arm in {row["arm"] for row in rows}
            for name in COLUMNS
            if (
                values := [
                    row[name] for row in rows if (row["noise"], row["rate"], row["arm"]) == (*kind, arm) and name in row
                ]
            )
        }
        for arm in sorted({arm for arm, _ in of} - {"at", "oracle"}):
            shares = [
                f"{name} {(of[arm, name] - of['at', name]) / (of['oracle', name] - of['at', name]):.2f}"
                for name in COLUMNS
                if {("at", name), ("oracle", name), (arm, name)} <= of.keys() and of["oracle", name] != of["at", name]
            ]
            lines.append(f"{kind[0]} {kind[1]} {arm}: gap share {' '.join(shares) or '-'}")
    return lines


if __name__ == "__main__":
    main()
