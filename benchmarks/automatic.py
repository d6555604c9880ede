"""ORAT without k and m beside AT, ORAT as published and an oracle that cuts exactly the flipped samples.

    python benchmarks/automatic.py --data cifar10.tar.xz --kinds symmetric:0.2,asymmetric:0.4 --seeds 0,1,2 \
        --arms at,published,automatic,oracle --runs runs/automatic --out results/automatic-cifar10.json

Every run is written to the output as soon as it is finished, and finished runs are not trained again. The gap share
of a figure is (automatic - AT) / (oracle - AT), of the means over the seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import torch

import orat
from orat.devices import choose_device
from orat.execute import Job
from orat.many import Sitting, finished
from orat.methods import Method
from orat.progress import SILENT
from orat.provenance import commit, hardware, versions
from orat.run import Run
from orat.run_folder import RunFolder
from orat.suspecting import area, remembered
from orat.watching import Watch

NEVER = 10**6  # epochs before the oracle would judge by itself
COLUMNS = ("natural", "fgsm", "pgd20", "cw")
ARMS = ("at", "published", "automatic", "oracle", "scouts-alone", "otsu", "own-natural", "own-adversarial", "no-memory")


def main() -> None:
    """Trains what is missing, and prints the gap shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--kinds", default="symmetric:0.4", help="noise and rate, with commas between; none:0 for none")
    parser.add_argument("--arms", default="at,automatic,oracle", help=f"of {', '.join(ARMS)}")
    parser.add_argument("--m", default="0.18", help="of the published form, as orat train takes it")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--fields", default="{}", help="other fields of the runs, as JSON")
    parser.add_argument("--runs", type=Path, default=Path("runs/automatic"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--commit", default=commit(), help="where git does not know it")
    arguments = parser.parse_args()
    origin = {**hardware(choose_device(arguments.device)), **versions(), "commit": arguments.commit}
    rows: list[dict[str, Any]] = []
    for row in finished_rows(arguments):
        rows.append(row)
        arguments.out.write_text(json.dumps({"rows": rows, **origin}, indent=1) + "\n")
        print(json.dumps(row), flush=True)
    for line in gap_lines(rows):
        print(line)


def method_of(arm: str, m: str) -> Method:
    """The method of an arm; the oracle is a watch that is told what to cut."""
    watched = {
        "scouts-alone": {"score": "scout"},
        "otsu": {"measure": "loss"},
        "own-natural": {"score": "natural"},
        "no-memory": {"memory": 0.0},
    }
    if arm == "at":
        return orat.AT()
    if arm == "published":
        return orat.ORAT(m=float(m) if "." in m else int(m), solver="minmax")
    if arm == "oracle":
        return orat.ORAT(score="adversarial", burn_in=NEVER)
    return orat.ORAT(**{"own-adversarial": {"score": "adversarial"}, **watched}.get(arm, {}))  # type: ignore[arg-type]


def finished_rows(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The row of each run as soon as it is finished, several runs at once on a GPU."""
    where = choose_device(arguments.device)
    cells: dict[Sitting, dict[str, Any]] = {}
    for sitting in finished(opened(arguments, cells), arguments.at_once if where.type == "cuda" else 1):
        if sitting.error is not None:
            raise SystemExit(f"{sitting.folder}: {sitting.error}")
        yield cells.pop(sitting) | row_of(sitting)


def opened(arguments: argparse.Namespace, cells: dict[Sitting, dict[str, Any]]) -> Iterator[Sitting]:
    """The runs, ready to go on, and what each of them is."""
    where, fields = choose_device(arguments.device), json.loads(arguments.fields)
    fields |= {"milestones": tuple(fields["milestones"])} if "milestones" in fields else {}
    splits = (part.split(",") for part in (arguments.seeds, arguments.kinds, arguments.arms))
    for seed, kind, arm in product(*splits):
        noise, _, rate = kind.partition(":")
        run = Run(
            data=arguments.data, method=method_of(arm, arguments.m), noise=noise, noise_rate=float(rate),
            seed=int(seed), noise_seed=int(seed), **fields,
        )  # fmt: skip
        folder = arguments.runs / f"{arm}-{noise}-{rate}-{seed}-{run.id}"
        sitting = Sitting(folder, run, arguments.data_dir, where, SILENT, arguments.engine)
        if arm == "oracle":
            tell_truth(sitting)
        cells[sitting] = {"arm": arm, "noise": noise, "rate": float(rate), "seed": int(seed)}
        yield sitting


def tell_truth(sitting: Sitting) -> None:
    """Gives the watch of a run the samples to cut: exactly those whose label was flipped."""
    if not isinstance(sitting.job, Job):
        return
    state, flipped = sitting.job.learner.state, sitting.job.parts.train.flipped
    assert isinstance(state, Watch)
    kept = torch.ones(state.n) if flipped is None else (~flipped).float()
    with sitting.own_stream():
        state.weights.copy_(kept * (state.n / kept.sum()))


def row_of(sitting: Sitting) -> dict[str, Any]:
    """What came of a run: accuracy, time, and how well wrong labels were told from right ones."""
    result, folder = sitting.job.result, RunFolder(Path(sitting.folder))
    history = folder.history()
    row = {name: round(100 * result["last"][name], 2) for name in COLUMNS}
    row |= {"run": result["run"], "seconds": result["seconds"], "outliers": result["outliers"]}
    row |= {"epoch_seconds": [record["seconds"] for record in history]}
    state = folder.load_tensors("state")
    flipped = sitting.job.parts.train.flipped if isinstance(sitting.job, Job) else None
    if "wrong" in state and flipped is not None:
        verdict = remembered(state)
        row |= {"auc": area(verdict.suspicion, flipped), "auc_of_loss": area(state["mean_loss"], flipped)}
        row |= {"flipped": float(flipped.double().mean()), "known": verdict.knowledge, "estimate": verdict.rate}
    row |= {"estimates": [record["state"]["wrong"] for record in history if "wrong" in record["state"]]}
    return row


def gap_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The gap shares of each kind of noise."""
    lines = []
    for kind in dict.fromkeys((row["noise"], row["rate"]) for row in rows):
        of = {
            (arm, name): mean(values)
            for arm in {row["arm"] for row in rows}
            for name in COLUMNS
            if (values := [row[name] for row in rows if (row["noise"], row["rate"], row["arm"]) == (*kind, arm)])
        }
        for arm in sorted({arm for arm, _ in of} - {"at", "oracle"}):
            shares = [
                f"{name} {(of[arm, name] - of['at', name]) / (of['oracle', name] - of['at', name]):.2f}"
                for name in COLUMNS
                if ("at", name) in of and ("oracle", name) in of and of["oracle", name] != of["at", name]
            ]
            lines.append(f"{kind[0]} {kind[1]} {arm}: gap share {' '.join(shares) or '-'}")
    return lines


if __name__ == "__main__":
    main()
