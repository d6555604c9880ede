"""Tables of scikit-learn by one command each: accuracy under attack, and the flagged labels after a tenth was flipped.

    python experiments/own_tables.py --runs runs/tables --out results/own-tables.json

Every table is written as a CSV file with names as labels. `breast cancer` has 30 columns of numbers, `wine` 13.
`bikes` is made here: numbers, and a column of text. Every run has default settings besides its seed, which also is the
seed of the noise; a fifth of the rows is the test part, whose labels stay right.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markdown import spread, table_head, table_line
from sklearn.datasets import load_breast_cancer, load_wine

from orat.core.device import commit, hardware, versions
from orat.core.files import replace_file

SEEDS, NOISE = (0, 1, 2), 0.1
METHODS = {"AT": "at", "ORAT (automatic)": "orat"}
ROWS = 1200  # of bikes

Table = tuple[list[str], Iterable[list[Any]]]


def bundled(load: Any) -> Table:
    """A data set of scikit-learn, with the names of the classes."""
    data = load()
    rows = ([*x.tolist(), str(data.target_names[y])] for x, y in zip(data.data, data.target, strict=True))
    return [*map(str, data.feature_names), "label"], rows


def bikes() -> Table:
    """Rented bikes: little, usual or much by season, temperature, wind and hour; the season is a column of text."""
    random = np.random.default_rng(0)
    seasons = np.array(["winter", "spring", "summer", "autumn"])
    season = random.integers(0, 4, ROWS)
    heat = random.normal(np.array([2.0, 12.0, 24.0, 11.0])[season], 5.0)
    wind, hour = random.gamma(2.0, 6.0, ROWS), random.integers(0, 24, ROWS)
    demand = heat / 8 - wind / 10 + 2.5 * np.exp(-((hour - 15.0) ** 2) / 40) + 0.8 * (season == 1)
    label = np.array(["few", "some", "many"])[np.digitize(demand, np.quantile(demand, [1 / 3, 2 / 3]))]
    columns = zip(seasons[season], heat.round(1), wind.round(1), hour, label, strict=True)
    return ["season", "temperature", "wind", "hour", "label"], map(list, columns)


TABLES = {
    "breast cancer": lambda: bundled(load_breast_cancer), "wine": lambda: bundled(load_wine), "bikes": bikes,
}  # fmt: skip


def write(name: str, folder: Path) -> Path:
    """The table as a file."""
    header, rows = TABLES[name]()
    file = folder / f"{name.replace(' ', '_')}.csv"
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return file


def measured(file: Path, method: str, noise: float, seed: int, out: Path) -> dict[str, Any]:
    """The result of one command."""
    words = ["--data", str(file), "--target", "label", "--method", method, "--seed", str(seed), "--out", str(out)]
    if noise:
        words += ["--noise", "symmetric", "--noise-rate", str(noise), "--noise-seed", str(seed)]
    command = [sys.executable, "-m", "orat", "train", *words, "--device", "cpu", "--quiet", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return {
        name: result[name] for name in ("run", "eps", "norm", "examples", "last", "outliers", "corrections", "seconds")
    }


def lines(content: dict[str, Any]) -> list[str]:
    """The measured numbers as a table in Markdown."""
    groups: dict[tuple[str, float, str], list[dict[str, Any]]] = {}
    for row in content["rows"]:
        groups.setdefault((row["table"], row["noise"], row["method"]), []).append(row)
    page = table_head(("table", "flipped", "method", "natural", "PGD-20", "flagged", "precision", "recall"))
    for (table, noise, method), rows in groups.items():
        accuracy = [spread([100 * row["last"][name] for row in rows], 1) for name in ("natural", "pgd20")]
        flags = [row["outliers"] for row in rows if row["outliers"]]
        found = [spread([one["cut"] for one in flags], 0)]
        found += [spread([100 * one[name] for one in flags if name in one], 1) for name in ("precision", "recall")]
        page.append(table_line((table, f"{noise:.0%}", method, *accuracy, *found)))
    return page


def main() -> None:
    """Trains every table by every method, with right labels and with flipped labels; a present row is not repeated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=commit(), help="the commit, for a machine without git")
    arguments = parser.parse_args()
    arguments.runs.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {
        "what": "tables by one command each with default settings, last epoch; eps in standard deviations",
        "command": "python experiments/own_tables.py",
        "hardware": hardware(torch.device("cpu")) | versions(), "seeds": list(SEEDS), "rows": [],
    }  # fmt: skip
    if arguments.out.is_file():
        content["rows"] = json.loads(arguments.out.read_text())["rows"]
    known = {(row["table"], row["method"], row["noise"], row["seed"]) for row in content["rows"]}
    for table, noise, (name, method), seed in product(TABLES, (0.0, NOISE), METHODS.items(), SEEDS):
        if (table, name, noise, seed) in known:
            continue
        folder = arguments.runs / f"{table.replace(' ', '_')}-{method}-{noise}-{seed}"
        result = measured(write(table, arguments.runs), method, noise, seed, folder)
        place = {"table": table, "method": name, "noise": noise, "seed": seed, "commit": arguments.commit}
        content["rows"].append(place | result)
        replace_file(arguments.out, json.dumps(content, indent=1).encode() + b"\n")
    sys.stdout.write("\n".join(lines(content)) + "\n")


if __name__ == "__main__":
    main()
