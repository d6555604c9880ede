"""Wrong labels found by orat and by cleanlab, from the same cross-fitted predictions in one process.

    python experiments/beside_cleanlab.py --data mnist --kinds symmetric:0.4,asymmetric:0.4 --seeds 0,1,2 \
        --out results/beside-cleanlab.json

Predictions are those of ORAT (automatic): two scout networks, as many epochs as suit the run. With --held-out they are
also those of `orat labels find --held-out`: five networks, for longer. Judges are orat and cleanlab's
find_label_issues. With --whole the run is trained to its end, too, where the network is a second witness.

`seconds` are those of the predictions and the verdict, with compilation and recording, without reading the data. On a
shared machine, --clock cpu counts the time of this process only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import torch
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from torch import Tensor

import orat
from orat.core.console import SILENT
from orat.core.device import choose_device, commit, hardware, versions
from orat.data.source import Dataset
from orat.methods import ORAT
from orat.methods.automatic import average
from orat.methods.base import Scouts
from orat.noise.truth import area, found_removed
from orat.training.cross_fit import cross_fit
from orat.training.plan import Plan, affordable, plan_for
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import Parts, prepare

Row = dict[str, Any]
Judge = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # log-probabilities, labels -> flags, scores

FIGURES = ("precision", "recall", "f1", "auc", "seconds")
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
WIDTHS = {"labels": 18, "answers": 20, "judge": 30}
FOLDS = 5  # of --held-out


def main() -> None:
    """Writes every row as soon as measured, and prints the table."""
    arguments = parsed()
    origin = {**hardware(choose_device(arguments.device)), **versions(), "cleanlab": version("cleanlab")}
    origin |= {"commit": arguments.commit, "clock": arguments.clock, "data": arguments.data}
    rows: list[Row] = []
    for row in measured(arguments):
        rows.append(row)
        arguments.out.write_text(json.dumps({"rows": rows, **origin}, indent=1) + "\n")
        print(json.dumps(row), flush=True)
    print(*table(rows), sep="\n")


def parsed() -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sample")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--kinds", default="symmetric:0.4,asymmetric:0.4", help="noise and rate, with commas between")
    parser.add_argument("--seeds", default="0", help="with commas between")
    parser.add_argument("--fields", default="{}", help="other fields of the runs, as JSON")
    parser.add_argument("--scout-epochs", type=int, help="of the scout networks (default: as suits the run)")
    parser.add_argument("--held-out", action="store_true", help="also predictions of five networks")
    parser.add_argument("--held-out-epochs", type=int, help="of the five networks (default: as long as helps)")
    parser.add_argument("--whole", action="store_true", help="also the flags of the whole run")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--clock", default="wall", choices=CLOCKS)
    parser.add_argument("--commit", default=commit(), help="the commit, for a machine without git")
    return parser.parse_args()


def orats(log_probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The flags and scores of orat."""
    verdict = orat.judge(log_probs, labels)
    return verdict.flagged(), verdict.score


def cleanlabs(filter_by: str, log_probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The label issues of cleanlab, and its label quality with the opposite sign."""
    given, probabilities = labels.numpy(), log_probs.double().softmax(1).numpy()
    issues = find_label_issues(given, probabilities, filter_by=filter_by, n_jobs=1)
    return torch.from_numpy(issues), -torch.from_numpy(get_label_quality_scores(given, probabilities))


JUDGES: dict[str, Judge] = {
    "orat": orats,
    "cleanlab": partial(cleanlabs, "prune_by_noise_rate"),  # its default
    "cleanlab, confident_learning": partial(cleanlabs, "confident_learning"),
}


def measured(arguments: argparse.Namespace) -> Iterator[Row]:
    """The rows of every noise and seed."""
    fields = json.loads(arguments.fields)
    fields |= {"milestones": tuple(fields["milestones"])} if "milestones" in fields else {}
    method = ORAT(scout_epochs=arguments.scout_epochs)
    for seed, kind in product(map(int, arguments.seeds.split(",")), arguments.kinds.split(",")):
        noise, _, rate = kind.partition(":")
        noisy = {"noise": noise, "noise_rate": float(rate), "noise_seed": seed}
        run = Run(data=arguments.data, method=method, seed=seed, **noisy, **fields)
        parts = prepare(run, arguments.data_dir)
        if parts.train.wrong is None:
            raise SystemExit("the wrong labels are unknown: give a noise, such as --kinds symmetric:0.4")
        for row in rows_of(run, parts, arguments):
            yield {"noise": noise, "rate": float(rate), "seed": seed, **row}


def rows_of(run: Run, parts: Parts, arguments: argparse.Namespace) -> Iterator[Row]:
    """Every prediction with every judge, then the whole run."""
    clock = CLOCKS[arguments.clock]

    def fit(folds: int, epochs: int | None) -> Tensor:
        return average(cross_fit(run, parts, folds, epochs, device=arguments.device))

    plan = scout_plan(run, parts)
    predictions = {"scouts": partial(fit, plan.folds, plan.epochs)}
    if arguments.held_out:
        predictions["held-out"] = partial(fit, FOLDS, arguments.held_out_epochs)
    for name, predict in predictions.items():
        log_probs, learning = timed(predict, clock)
        for judge_name, judge in JUDGES.items():
            (flags, scores), judging = timed(partial(judge, log_probs, parts.train.labels), clock)
            seconds = {"seconds": round(learning + judging, 3), "after_answers": round(judging, 3)}
            yield {"answers": name, "judge": judge_name, **figures(flags, scores, parts.train), **seconds}
    if arguments.whole:
        with TemporaryDirectory() as folder:
            train = partial(orat.train, run, folder, arguments.data_dir, arguments.device, SILENT)
            _, seconds = timed(train, clock)
            state = RunFolder(Path(folder)).load_tensors("state")
        flags = ~state["keep"] | (state["labels"] != parts.train.labels)
        found = figures(flags, state["verdict_score"], parts.train)
        yield {"answers": "scouts and network", "judge": "orat", **found, "seconds": round(seconds, 3)}


def scout_plan(run: Run, parts: Parts) -> Plan:
    """The scout networks of the run."""
    scouts = run.method.scouts() or Scouts()
    return affordable(plan_for(run, parts, scouts), run, scouts.epochs)


def timed(work: Callable[[], Any], clock: Callable[[], float]) -> tuple[Any, float]:
    """The result of some work and its seconds."""
    began = clock()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result, clock() - began


def figures(flags: Tensor, scores: Tensor, train: Dataset) -> Row:
    """The quality of flags and scores."""
    assert train.wrong is not None
    found = found_removed(flags, train.wrong)
    both = int(flags.sum()) + int(train.wrong.sum())
    f1 = 2 * int((flags & train.wrong).sum()) / both if both else None
    return {**found, "f1": f1, "auc": area(scores, train.wrong)}


def table(rows: list[Row]) -> list[str]:
    """One line for every noise, prediction and judge, with means over the seeds."""
    named = [{"labels": f"{row['noise']} {row['rate']:g}", **row} for row in rows]
    lines = ["".join([*(f"{name:<{width}}" for name, width in WIDTHS.items()), *(f"{name:>10}" for name in FIGURES)])]
    for key in dict.fromkeys(tuple(row[name] for name in WIDTHS) for row in named):
        own = [row for row in named if tuple(row[name] for name in WIDTHS) == key]
        cells = [f"{text:<{width}}" for text, width in zip(key, WIDTHS.values(), strict=True)]
        for name in FIGURES:
            known = [row[name] for row in own if row[name] is not None]
            digits = 1 if name == "seconds" else 4
            cells.append(f"{mean(known):>10.{digits}f}" if known else f"{'-':>10}")
        lines.append("".join(cells))
    return lines


if __name__ == "__main__":
    main()
