"""Time and accuracy of the quick ways to train: MNIST, 40 % of the labels flipped, LeNet, eps 0.1.

    python benchmarks/fast_paths.py together --data-dir DIR --out results/together.json
    python benchmarks/fast_paths.py accuracy --data-dir DIR --out results/fast-paths.json

`together` times eight runs at once on a GPU. `accuracy` trains the same seeds quickly (compiled, attacks in bfloat16,
all at once) and plainly (float32, engine plain, one process a run).
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
from orat.core.device import choose_device, commit, hardware, versions
from orat.methods import ORAT
from orat.sweeps.parallel import train_many

AT_ONCE = 8
COLUMNS = ("natural", "fgsm", "pgd20", "cw")
SETTING: dict[str, Any] = {"data": "mnist", "noise": "symmetric", "noise_rate": 0.4, "eps": 0.1}
RANKS: dict[str, Any] = {"k": 59950, "m": 11000, "solver": "minmax"}  # of the paper
PLAIN = """
import json, sys
import orat
from orat.core.console import SILENT
from orat.methods import ORAT
fields, out, data_dir, device = json.loads(sys.argv[1]), *sys.argv[2:]
run = orat.Run(method=ORAT(**fields.pop("ranks")), **fields)
orat.train(run, out, data_dir or None, device, SILENT, "plain")
"""


def main() -> None:
    """Measures time or accuracy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("together", "accuracy"))
    parser.add_argument("--data-dir")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3, help="of the comparison of accuracies")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=commit(), help="the measured commit, for a machine without git")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure = together if arguments.what == "together" else accuracy
        measured = measure(Path(folder), arguments)
    origin = {**hardware(choose_device(arguments.device)), **versions(), "commit": arguments.commit}
    arguments.out.write_text(json.dumps({"epochs": arguments.epochs, **measured, **origin}, indent=1) + "\n")


def fields(seed: int, epochs: int) -> dict[str, Any]:
    """The fields of a run besides its method."""
    return {**SETTING, "seed": seed, "noise_seed": seed, "epochs": epochs}


def run_of(seed: int, epochs: int) -> orat.Run:
    """The run of one seed."""
    return orat.Run(method=ORAT(**RANKS), **fields(seed, epochs))


def together(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Eight runs at once, from the start of the first to the result of the last, with compilation."""
    runs: dict[str | Path, orat.Run] = {folder / str(seed): run_of(seed, arguments.epochs) for seed in range(AT_ONCE)}
    started = time.monotonic()
    results = list(train_many(runs, arguments.data_dir, arguments.device, Display()).values())
    seconds = time.monotonic() - started
    print(f"{AT_ONCE} runs at once: {seconds:.1f} s, {seconds / AT_ONCE:.2f} s a run")
    lines = (folder / "0" / "history.jsonl").read_text().splitlines()
    return {
        "runs": AT_ONCE,
        "seconds": round(seconds, 1),
        "seconds_per_run": round(seconds / AT_ONCE, 2),
        "epoch_seconds_of_first_run": [json.loads(line)["seconds"] for line in lines],
        "last": [{name: result["last"][name] for name in COLUMNS} for result in results],
        "made_with": results[0]["made_with"],
    }


def accuracy(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """The same seeds quickly and plainly, and the differences of their mean accuracies."""
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
    """One run in float32 on the engine plain, in a process of its own."""
    record = fields(seed, arguments.epochs) | {"precision": "float32", "ranks": RANKS}
    places = [str(folder), arguments.data_dir or "", arguments.device]
    return subprocess.Popen([sys.executable, "-c", PLAIN, json.dumps(record), *places])


def columns(result: dict[str, Any]) -> dict[str, float]:
    """The accuracies after the last epoch, and the seconds."""
    return {name: result["last"][name] for name in COLUMNS} | {"seconds": result["seconds"]}


def average(rows: Sequence[dict[str, float]], name: str) -> float:
    """The mean over the seeds in percent."""
    return 100 * mean(row[name] for row in rows)


if __name__ == "__main__":
    main()
