"""Compares the time of a training step of two checkouts, measured by turns on one machine.

    python scripts/step_times.py OLD_CHECKOUT NEW_CHECKOUT --model lenet --turns 3 --out FILE.json

OLD_CHECKOUT may have `orat bench`, the command of earlier versions; else its benchmarks/step.py is run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any


def main() -> int:
    """Measures and prints one line a network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--model", default="lenet", help="networks, with commas between (default: lenet)")
    parser.add_argument("--turns", type=int, default=3, help="turns of each checkout (default: 3)")
    parser.add_argument("--steps", default="5", help="steps of a round (default: 5)")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="write the JSON to this file, too")
    arguments = parser.parse_args()
    flags = ["--model", arguments.model, "--rounds", "2", "--steps", arguments.steps, "--device", arguments.device]
    times: dict[str, dict[str, list[float]]] = {}
    for turn in range(arguments.turns):
        for side in ("old", "new") if turn % 2 == 0 else ("new", "old"):
            for row in measured(getattr(arguments, side).resolve(), flags):
                times.setdefault(row["model"], {"old": [], "new": []})[side].append(row["ours_ms"])
    rows = [{"model": model, **sides, "ratio": median(sides["new"]) / median(sides["old"])}
            for model, sides in times.items()]  # fmt: skip
    for row in rows:
        old, new = median(row["old"]), median(row["new"])
        print(f"{row['model']:12} old {old:10.3f} ms  new {new:10.3f} ms  ratio {row['ratio']:.4f}")
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def measured(checkout: Path, flags: list[str]) -> list[dict[str, Any]]:
    """The rows that a checkout measures."""
    script = checkout / "benchmarks" / "step.py"
    command = [str(script)] if script.is_file() else ["-m", "orat", "bench"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "step.json"
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(checkout), os.environ.get("PYTHONPATH", "")])}
        subprocess.run(
            [sys.executable, *command, *flags, "--out", str(out)],
            check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return json.loads(out.read_text())["rows"]


if __name__ == "__main__":
    sys.exit(main())
