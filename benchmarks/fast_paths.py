"""What the quick ways of training cost and keep, on MNIST with 40 % of the labels flipped, LeNet, eps 0.1.

    python benchmarks/fast_paths.py together --data-dir DIR --out results/together.json
    python benchmarks/fast_paths.py accuracy --data-dir DIR --out results/fast-paths.json

`together` trains eight runs at once on a GPU and tells the time of each; `accuracy` trains the same seeds quickly
(compiled, attacks in bfloat16, all at once) and plainly (float32, operation by operation, a process each).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import orat
from orat.core.console import SILENT, Display
from orat.core.device import choose_device
from orat.core.provenance import commit, hardware, versions
from orat.sweeps.parallel import train_many
from orat.training.run import Run

AT_ONCE = 8
COLUMNS = ("natural", "fgsm", "pgd20", "cw")
SETTING: dict[str, Any] = {"data": "mnist", "noise": "symmetric", "noise_rate": 0.4, "eps": 0.1}
METHOD = orat.ORAT(k=59950, m=11000, solver="minmax")  # the paper's own k and m


def main() -> None:
    """Measures one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("together", "accuracy"))
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3, help="of the comparison of accuracies")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=commit(), help="where git does not know it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure = together if arguments.what == "together" else accuracy
        measured = measure(Path(folder), arguments)
    origin = {**hardware(choose_device(arguments.device)), **versions(), "commit": arguments.commit}
    arguments.out.write_text(json.dumps({"epochs": arguments.epochs, **measured, **origin}, indent=1) + "\n")


def run_of(seed: int, epochs: int, precision: str = "auto") -> Run:
    """The run that is measured."""
    return Run(method=METHOD, seed=seed, noise_seed=seed, epochs=epochs, precision=precision, **SETTING)


def together(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Eight runs at once from nothing to their results, what is compiled included."""
    runs: dict[str | Path, Run] = {folder / str(seed): run_of(seed, arguments.epochs) for seed in range(AT_ONCE)}
    started = time.monotonic()
    results = train_many(runs, arguments.data_dir, arguments.device, Display())
    seconds = time.monotonic() - started
    last = list(results.values())
    epochs = [json.loads(line)["seconds"] for line in (folder / "0" / "history.jsonl").read_text().splitlines()]
    measured = {
        "runs": AT_ONCE,
        "seconds": round(seconds, 1),
        "seconds_per_run": round(seconds / AT_ONCE, 2),
        "epoch_seconds_of_first_run": epochs,
        "last": [{name: result["last"][name] for name in COLUMNS} for result in last],
        "made_with": last[0]["made_with"],
    }
    print(f"{AT_ONCE} runs at once: {seconds:.1f} s, {seconds / AT_ONCE:.2f} s each")
    return measured


def accuracy(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """The same runs quickly and plainly, and how far their mean accuracies are apart."""
    seeds = range(arguments.seeds)
    plain = [plain_process(folder / f"plain-{seed}", seed, arguments) for seed in seeds]
    fast = train_many(
        {folder / f"fast-{seed}": run_of(seed, arguments.epochs) for seed in seeds},
        arguments.data_dir, arguments.device, SILENT, "compiled" if arguments.device == "cuda" else "auto",
    )  # fmt: skip
    for process in plain:
        if process.wait():
            sys.exit(f"a plain run ended with status {process.returncode}")
    rows = {
        "fast": [columns(result) for result in fast.values()],
        "plain": [columns(json.loads((folder / f"plain-{seed}" / "result.json").read_text())) for seed in seeds],
    }
    differences = {name: round(average(rows["fast"], name) - average(rows["plain"], name), 3) for name in COLUMNS}
    print("fast - plain, points:", differences)
    return {"seeds": arguments.seeds, **rows, "difference_in_points": differences}


def plain_process(folder: Path, seed: int, arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    """One run in float32, every operation as Python comes to it."""
    code = (
        "import sys, json, orat; from orat.progress import SILENT, Display; "
        "orat.train(orat.Run.from_record(json.loads(sys.argv[1])), sys.argv[2], sys.argv[3] or None, sys.argv[4], "
        "SILENT, 'plain')"
    )
    record = json.dumps(run_of(seed, arguments.epochs, "float32").record())
    return subprocess.Popen(
        [sys.executable, "-c", code, record, str(folder), arguments.data_dir or "", arguments.device]
    )


def columns(result: dict[str, Any]) -> dict[str, float]:
    """The accuracies of the last epoch."""
    return {name: result["last"][name] for name in COLUMNS} | {"seconds": result["seconds"]}


def average(rows: Sequence[dict[str, float]], name: str) -> float:
    """The mean over the seeds, in percent."""
    return 100 * mean(row[name] for row in rows)


if __name__ == "__main__":
    main()
