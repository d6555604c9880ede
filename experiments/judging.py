"""Wrong labels found in given predictions by orat, by cleanlab and by plain disagreement, beside the best threshold.

    python experiments/judging.py predictions/*.npz --out results/judging.json
    python experiments/judging.py --page results/judging.json

A file has `log_probs` (n, classes) or (sets, n, classes), `noisy` labels, and `true` labels or the mask `wrong`; or
several such groups, named NAME/log_probs and so on. Several sets of predictions are judged twice: the first set alone,
and all sets together. cleanlab gets the same predictions, the mean over sets.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np
import torch
from markdown import Row, grouped, table_head, table_line
from torch import Tensor

import orat
from orat.core.device import choose_device, commit, hardware, versions
from orat.noise.truth import found_removed

FILTERS = ("prune_by_noise_rate", "prune_by_class", "both", "confident_learning")
SCORES = ("f1", "best_f1", "cleanlab_f1", "argmax_f1")
SHARES = ("precision", "recall", *SCORES)
HEADS = ("F1", "best threshold", "cleanlab", "argmax")
TITLES = (
    "predictions", "wrong", "estimate", "95 % interval", "reliability", "precision", "recall", *HEADS,
    "right labels flagged",
)  # fmt: skip
MEANS = (
    "files", "sets", "error of the rate", "in the interval", "its width", *HEADS, "at least cleanlab",
    "flagged without noise, at most",
)  # fmt: skip
NETWORKS, SCOUTS = "CIFAR-10, networks", "scouts"
DATA = {"mnist": "MNIST", "fashion": "Fashion-MNIST", "cifar": "CIFAR-10"}
NOISES = {
    "none": "none", "sym": "symmetric", "pair": "pair", "asym": "asymmetric", "inst": "instance",
    "human": "human, imitated", "real": "human",
}  # fmt: skip


class Predictions(NamedTuple):
    """Independent predictions of samples with known wrong labels."""

    name: str
    sets: Tensor  # (sets, n, classes) log-probabilities
    labels: Tensor
    wrong: Tensor


def main() -> None:
    """Writes every row as soon as measured; or prints the tables of a report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/judging.json"))
    parser.add_argument("--samples", type=int, help="judged of each file, chosen at random (default: all)")
    parser.add_argument("--page", type=Path, help="the report to print as tables, without measuring")
    arguments = parser.parse_args()
    if arguments.page:
        print(*lines(json.loads(arguments.page.read_text())), sep="\n")
        return
    origin = {**hardware(choose_device("cpu")), **versions(), "cleanlab": version("cleanlab"), "commit": commit()}
    rows: list[Row] = []
    for row in (
        row for file in arguments.files for one in read(file) for row in measured(some(one, arguments.samples))
    ):
        rows.append(row)
        arguments.out.write_text(json.dumps({"rows": rows, **origin}, indent=1) + "\n")
        print(json.dumps(row), flush=True)


def read(file: Path) -> Iterator[Predictions]:
    """The predictions of a file."""
    with np.load(file) as arrays:
        for key in arrays:
            group, _, last = key.rpartition("/")
            if last != "log_probs":
                continue
            part = {
                name: torch.from_numpy(arrays[f"{group}/{name}" if group else name]) for name in ("log_probs", "noisy")
            }
            labels, mask = part["noisy"].long(), f"{group}/wrong" if group else "wrong"
            wrong = torch.from_numpy(arrays[mask] if mask in arrays else arrays["true"] != arrays["noisy"])
            sets = part["log_probs"].double().reshape(-1, len(labels), part["log_probs"].shape[-1])
            yield Predictions(group or file.stem, sets.clamp(min=-40).log_softmax(2), labels, wrong)


def some(one: Predictions, count: int | None) -> Predictions:
    """A random choice of the samples."""
    if count is None:
        return one
    chosen = torch.randperm(len(one.labels), generator=torch.Generator().manual_seed(count))[:count]
    return one._replace(sets=one.sets[:, chosen], labels=one.labels[chosen], wrong=one.wrong[chosen])


def measured(one: Predictions) -> Iterator[Row]:
    """The row of the first set alone, and that of all sets."""
    for count in sorted({1, len(one.sets)}):
        yield {"set": one.name, "sets": count, **compared(one._replace(sets=one.sets[:count]))}


def compared(one: Predictions) -> Row:
    """The verdict on the predictions, and the flags of the others."""
    began = time.process_time()
    verdict = orat.judge(one.sets, one.labels)
    seconds = time.process_time() - began
    flags, (low, high) = verdict.flagged(), verdict.interval
    rate = float(one.wrong.double().mean())
    found = found_removed(flags, one.wrong)
    log_probs = one.sets.mean(0).log_softmax(1)
    issues = cleanlabs(log_probs, one.labels, one.wrong)
    best = max(issues, key=lambda name: issues[name])
    numbers = {
        "wrong": rate, "estimate": verdict.noise_rate, "low": low, "high": high, "reliability": verdict.reliability,
        "precision": found["precision"], "recall": found["recall"], "f1": f1(flags, one.wrong),
        "best_f1": best_f1(verdict.score, one.wrong), "cleanlab_f1": issues[best],
        "argmax_f1": f1(log_probs.argmax(1) != one.labels, one.wrong),
        "right_flagged": float(flags[~one.wrong].double().mean()),
    }  # fmt: skip
    rounded = {name: None if value is None else round(value, 4) for name, value in numbers.items()}
    facts = {
        "samples": len(flags),
        "flagged": int(flags.sum()),
        "covered": low <= rate <= high,
        "cleanlab_filter": best,
    }
    return {**facts, **rounded, "cpu_seconds": round(seconds, 1)}


def f1(flags: Tensor, wrong: Tensor) -> float:
    """The F1 score of flags; 0 where no label is wrong."""
    return 2 * int((flags & wrong).sum()) / max(int(flags.sum()) + int(wrong.sum()), 1)


def best_f1(score: Tensor, wrong: Tensor) -> float:
    """The F1 score at the best threshold of a score."""
    hits = wrong[score.argsort(descending=True, stable=True)].double().cumsum(0)
    return float((2 * hits / (torch.arange(1, len(wrong) + 1) + hits[-1])).max())


def cleanlabs(log_probs: Tensor, labels: Tensor, wrong: Tensor) -> dict[str, float]:
    """The F1 score of each filter of cleanlab."""
    from cleanlab.filter import find_label_issues

    given, probabilities = labels.numpy(), log_probs.exp().numpy()
    issues = {name: find_label_issues(given, probabilities, filter_by=name, n_jobs=1) for name in FILTERS}
    return {name: f1(torch.from_numpy(flags), wrong) for name, flags in issues.items()}


def lines(content: Row) -> list[str]:
    """The measured numbers as tables in Markdown."""
    rows = content["rows"]
    page = ["Means by data:", "", *summary(rows, data_of), "", "Means by noise, of synthetic labels:", ""]
    page += summary([row for row in rows if data_of(row) != NETWORKS], noise_of)
    for count in sorted({row["sets"] for row in rows}):
        title = "one set of predictions" if count == 1 else f"{count} independent sets of predictions"
        page += ["", f"All files, by {title}:", "", *table([row for row in rows if row["sets"] == count])]
    return page


def summary(rows: list[Row], group: Callable[[Row], str]) -> list[str]:
    """Means of groups of files."""
    page = table_head(MEANS)
    for (name, count), own in sorted(grouped(rows, lambda row: (group(row), row["sets"])), key=lambda one: one[0]):
        noisy = [row for row in own if row["wrong"]]
        clean = [row["right_flagged"] for row in own if not row["wrong"]]
        cells = [name, count, f"{mean(abs(row['estimate'] - row['wrong']) for row in own):.3f}"]
        cells += [f"{sum(row['covered'] for row in own)} of {len(own)}"]
        cells += [f"{mean(row['high'] - row['low'] for row in own):.3f}"]
        cells += [f"{mean(row[score] for row in noisy):.3f}" if noisy else "" for score in SCORES]
        won = sum(row["f1"] >= row["cleanlab_f1"] for row in noisy)
        cells += [f"{won} of {len(noisy)}" if noisy else "", f"{max(clean):.1%}" if clean else ""]
        page.append(table_line(cells))
    return page


def data_of(row: Row) -> str:
    """The data and predictors of a file DATA_STRENGTH_KINDrate, or that the predictions are of given networks."""
    data, _, rest = row["set"].partition("_")
    strength = rest.partition("_")[0]
    return f"{DATA[data]}, {'scout networks' if strength == SCOUTS else f'{strength} features'}" if rest else NETWORKS


def noise_of(row: Row) -> str:
    """The kind of noise of synthetic labels."""
    return NOISES[row["set"].rpartition("_")[2].rstrip("0123456789")]


def table(rows: list[Row]) -> list[str]:
    """A line for each file."""
    return [*table_head(TITLES), *map(line_of, rows)]


def line_of(row: Row) -> str:
    """A row of the table; bold where orat has at least the F1 score of cleanlab."""
    cells = [row["set"], f"{row['wrong']:.3f}", f"{row['estimate']:.3f}"]
    cells += [
        f"{row['low']:.3f} to {row['high']:.3f}" + ("" if row["covered"] else " (missed)"),
        f"{row['reliability']:.2f}",
    ]
    scores = ["-" if not row["wrong"] or row[name] is None else f"{row[name]:.3f}" for name in SHARES]
    if row["wrong"] and row["f1"] >= row["cleanlab_f1"]:
        scores[2] = f"**{scores[2]}**"
    return table_line([*cells, *scores, f"{row['right_flagged']:.1%}"])


if __name__ == "__main__":
    main()
