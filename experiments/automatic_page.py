"""Prints docs/automatic-measured.md: ORAT (automatic), measured, from all results of the studies.

python experiments/automatic_page.py > docs/automatic-measured.md
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import judging
import lossless
from markdown import MADE_WITH, Row, measured_on, noise_words, spread, table_head, table_line

from orat_paper.reproduce.artifacts import AUTOMATIC

RESULTS = Path(__file__).parents[1] / "results"
COLUMNS = {"natural": "Natural", "fgsm": "FGSM", "pgd20": "PGD-20", "cw": "CW", "autoattack": "AutoAttack"}
ARMS = {
    "at": "AT",
    "published": "ORAT as published, m = the noise rate",
    "paper": "ORAT, the paper's k and m",
    "told": "ORAT by exact ranks, k = 100 %",
    "told-k95": "ORAT by exact ranks, k = 95 %",
    "told-k90": "ORAT by exact ranks, k = 90 %",
    "told-k80": "ORAT by exact ranks, k = 80 %",
    "oracle": "oracle",
    "automatic": "**ORAT (automatic)**",
    "cut-only": "without relabeling",
    "scouts-alone": "scout networks alone",
    "own-natural": "own natural predictions alone",
    "own-adversarial": "own predictions under attack alone",
    "otsu": "averaged losses, Otsu's threshold",
    "no-memory": "predictions not averaged",
    "few-epochs": "4 epochs of scout networks",
    "many-epochs": "36 epochs of scout networks",
    "surer": "relabeling above a confidence of 0.98",
}
NOISES = ("none", "symmetric", "asymmetric", "instance")
WORDS = """| term | meaning |
|---|---|
| numbers | % after the last epoch: means over seeds of both noise and training, with the standard deviation of several seeds |
| oracle | AT without exactly the wrong labels |
| gap share | (row - AT) / (oracle - AT), one a column, with the seeds of all three |
| flagged | removed or relabeled |
| AUC | area under the ROC curve of the score of wrong labels |

ORAT (automatic) is explained in [automatic.md](automatic.md)."""
HELD_BACK = """Measured once, after the method had been settled. Changed later: flags may cover more than half of a class, and LeNet has
another rate and number of epochs as a scout network."""
WHOLE = "CIFAR-10, Small-CNN, eps 8/255, 100 epochs"
WHOLE_WORDS = "Lossless images, the paper's schedule, 5 % held out for validation."
JPEG = "automatic-cifar10"
TABLES = {
    JPEG: (
        "CIFAR-10 (JPEG copies), Small-CNN, eps 8/255, 24 epochs",
        "AutoAttack runs on the first 1,000 test images. With 24 epochs, differences to AT are larger than with 100.",
    ),
    "automatic-mnist": (
        "MNIST, LeNet, eps 0.1, 50 epochs",
        """The settings of LeNet as a scout network were chosen on 20,000 of these images (symmetric noise, one seed). The quality of
the flags decided on one of four rates, on decay and dropout, and then on 14 epochs. Scout networks alone reach these F1
scores (seed 0, on a CPU):

| noise | F1 |
|---|---|
| symmetric 40 % | 0.9911 |
| asymmetric 40 % | 0.9881 |""",
    ),
    "automatic-rates": (
        "Accuracy against the noise rate, bundled MNIST sample, eps 0.1, 22 epochs",
        "ORAT as published: Algorithm 1 with m at the noise rate.",
    ),
    "automatic-ablations": (
        "Ablations, bundled MNIST sample, eps 0.1, 22 epochs",
        """Each row has one part of ORAT (automatic) removed or exchanged. Two rows are of an older version, the commits below:
"averaged losses, Otsu's threshold" and "predictions not averaged". The script has no arms for these two any more.""",
    ),
    "automatic-k": (
        "The lower cut, bundled MNIST sample, eps 0.1, 22 epochs",
        "m is given. A lower k removes the easiest samples, too.",
    ),
    "automatic-held-back-fashion": ("Held back: Fashion-MNIST, LeNet, eps 0.1, 50 epochs", HELD_BACK),
    "automatic-held-back-instance": (
        "Held back: instance-dependent noise, CIFAR-10 (JPEG copies), Small-CNN, eps 8/255, 24 epochs",
        HELD_BACK,
    ),
}
COSTS = {
    "automatic-cost-sample": "Bundled MNIST sample, 22 epochs",
    "automatic-cost-mnist": "MNIST, LeNet, 50 epochs",
    "automatic-cost-cifar10": "CIFAR-10 (JPEG copies), Small-CNN, 24 epochs",
}
COST_WORDS = """40 % symmetric noise, one process a run, nothing else on the device. On the H200 each number is one run, and differences
of one percent are chance.

| row | content |
|---|---|
| epochs | all epochs, with those of scout networks |
| whole | epochs, checkpoints, verdicts, files and tests |

The first epoch of each kind contains compilation. Both rows replace its time by the mean of the other epochs."""
CLEANLAB = {
    "beside-cleanlab-sample": "Bundled MNIST sample",
    "beside-cleanlab-mnist": "MNIST",
    "beside-cleanlab-cifar10": "CIFAR-10 (JPEG copies)",
}
CLEANLAB_WORDS = """Means over seeds. Every judge gets the same predictions.

| predictions | networks |
|---|---|
| scouts | the two scout networks of ORAT (automatic) |
| folds | five networks with the scouts' batches and epochs, 5-fold cross-validated; the script has them no more |
| held-out | `orat labels find --held-out`: scout networks in five folds, 36 epochs or more |
| scouts and network | the whole run of ORAT (automatic) |

Seconds are those of predictions and verdict, without the first epoch of each network. For held-out they include
compilation. On MNIST, scout networks had 20 epochs at the run's rate; now they have 14 at their own."""
JUDGING_WORDS = """Predictions are given, and judged on a CPU. The sets are explained in [automatic.md](automatic.md#measured-on-given-predictions).

| column | meaning |
|---|---|
| best threshold | F1 at the best possible threshold of our score |
| cleanlab | F1 of the best of four filters of `find_label_issues` |
| argmax | F1 of all labels that are not the predicted class |
| **bold** | F1 of at least cleanlab's |"""
FOREIGN = {"foreign-sample": "Bundled MNIST sample", "foreign-mnist": "MNIST"}
FOREIGN_WORDS = """A share of the training images is replaced by noise, by their own inverse, or by images of other data. A share of the
other labels is flipped. The oracle trains without both."""


def main() -> None:
    """Prints the page."""
    lines = [
        "<!-- Written by experiments/automatic_page.py; change that, or the JSON, not this. -->",
        "# ORAT (automatic), measured",
        "",
        WORDS,
    ]
    lines += whole_schedule()
    for name, (title, remark) in TABLES.items():
        if (content := content_of(name)) is not None and (rows := shown(name, content["rows"])):
            lines += ["", f"## {title}", "", remark, "", *accuracy_lines(rows), *origin(name, content)]
    lines += section("Cost", COSTS, cost_lines, COST_WORDS)
    lines += section("Wrong labels beside cleanlab", CLEANLAB, cleanlab_lines, CLEANLAB_WORDS)
    if (content := content_of("judging")) is not None:
        lines += [
            "",
            "## The judgement of labels",
            "",
            JUDGING_WORDS,
            "",
            *judging.lines(content),
            *origin("judging", content),
        ]
    lines += section("Images that belong to no class", FOREIGN, foreign_lines, FOREIGN_WORDS)
    print("\n".join(lines))


def whole_schedule() -> list[str]:
    """CIFAR-10 without loss and with the paper's schedule, from the runs of Table 1; empty without them."""
    arms = {"AT": "at", "ORAT": "paper", AUTOMATIC: "automatic"}
    runs = [run for run in lossless.runs(RESULTS) if run["method"] in arms]
    if not runs:
        return []
    rows = [
        run | {"arm": arms[run["method"]], "rate": run["rate"] / 100, "wrong": []}
        | {name: 100 * share for name, share in run["accuracy"]["last"].items()}
        for run in runs
    ]  # fmt: skip
    measured = measured_on(lossless.NAME, [run["origin"] for run in runs])
    return ["", f"## {WHOLE}", "", WHOLE_WORDS, "", *accuracy_lines(rows), *measured]


def shown(name: str, rows: list[Row]) -> list[Row]:
    """The rows of a table, without the noises of JPEG copies that lossless images replace."""
    gone = lossless.replaced(RESULTS) if name == JPEG else set()
    return [row for row in rows if (row["noise"], row["rate"]) not in gone]


def content_of(name: str) -> Row | None:
    """A file of results, if present."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text()) if file.is_file() else None


def section(title: str, files: dict[str, str], of: Callable[[list[Row]], list[str]], words: str) -> list[str]:
    """One table for every present file."""
    lines = []
    for name, data in files.items():
        if (content := content_of(name)) is not None:
            lines += ["", f"{data}:", "", *of(content["rows"]), *origin(name, content)]
    return ["", f"## {title}", "", words, *lines] if lines else []


def origin(name: str, content: Row) -> list[str]:
    """The hardware and the commits of a table."""
    of_file = {key: content[key] for key in MADE_WITH if key in content}
    return measured_on(name, [row | of_file for row in content["rows"]])


def accuracy_lines(rows: list[Row]) -> list[str]:
    """A table of arms by noise."""
    columns = {name: title for name, title in COLUMNS.items() if any(name in row for row in rows)}
    titles = ["noise", "method", "seeds", *columns.values(), "gap share", "flagged: precision, recall"]
    titles += ["relabeled: precision, recall", "noise rate: estimated (true)", "AUC"]
    lines = table_head(titles)
    kinds = {(row["noise"], row["rate"]) for row in rows}
    for kind in sorted(kinds, key=lambda kind: (NOISES.index(kind[0]), kind[1])):
        of_kind = [row for row in rows if (row["noise"], row["rate"]) == kind]
        for arm in sorted({row["arm"] for row in of_kind}, key=list(ARMS).index):
            own = [row for row in of_kind if row["arm"] == arm]
            start = [noise_words(kind[0], 100 * kind[1]), ARMS[arm], len(own)]
            figures = [spread([row[name] for row in own if name in row]) for name in columns]
            lines.append(table_line([*start, *figures, gap(of_kind, arm, columns), *verdict(own, arm)]))
    return lines


def gap(rows: list[Row], arm: str, columns: dict[str, str]) -> str:
    """The gap shares of an arm over the seeds of the arm, AT and the oracle."""
    if arm in ("at", "oracle"):
        return ""
    shares = []
    for name in columns:
        values = {
            one: {row["seed"]: row[name] for row in rows if row["arm"] == one and name in row}
            for one in ("at", arm, "oracle")
        }
        if seeds := set.intersection(*map(set, values.values())):
            at, own, best = (mean(by_seed[seed] for seed in seeds) for by_seed in values.values())
            shares.append(f"{(own - at) / (best - at):.2f}")
    return " ".join(shares)


def verdict(rows: list[Row], arm: str) -> list[str]:
    """The quality of flags and labels, the estimates, and the area under the ROC curve."""
    if arm in ("at", "oracle"):
        return [""] * 4
    flagged = [row["outliers"] for row in rows if row["outliers"]]
    counts = f"{mean(found['cut'] for found in flagged):.3g} flagged" if flagged else ""
    rates = [f"{row['wrong'][-1]:.3f}" for row in rows if row["wrong"] and arm != "otsu"]
    estimate = f"{', '.join(rates)} ({mean(row.get('flipped', 0.0) for row in rows):.3f})" if rates else ""
    areas = [row["auc"] for row in rows if "auc" in row]
    return [quality(flagged) or counts, relabeled(rows), estimate, spread(areas, 4) if areas else ""]


def quality(found: list[Row]) -> str:
    """Mean precision and recall of the runs with both."""
    known = [one for one in found if one.get("precision") is not None and one.get("recall") is not None]
    return " ".join(f"{mean(one[name] for one in known):.3f}" for name in ("precision", "recall")) if known else ""


def relabeled(rows: list[Row]) -> str:
    """Mean precision and recall of relabeling, with the number of seeds if some lack the counts."""
    found = [row["corrections"] for row in rows if row.get("corrections")]
    known = [one for one in found if one.get("precision") is not None]
    seeds = f" ({len(known)} of {len(rows)} seeds)" if len(known) < len(rows) else ""
    return quality(known) + seeds if known else ""


def cost_lines(rows: list[Row]) -> list[str]:
    """Seconds of AT and of ORAT (automatic)."""
    lines = table_head(["seconds", "AT", "ORAT (automatic)", "more"])
    for name, of in (("epochs", steady), ("whole", whole)):
        plain, automatic = (mean(of(row) for row in rows if row["arm"] == arm) for arm in ("at", "automatic"))
        lines.append(table_line([name, f"{plain:.1f}", f"{automatic:.1f}", f"{automatic / plain - 1:.1%}"]))
    return lines


def steady(row: Row) -> float:
    """Seconds of all epochs, with the first epoch of each kind as long as the mean of the others."""
    timed = list(zip(row["epochs"], row["epoch_seconds"], strict=True))
    kinds = ([seconds for epoch, seconds in timed if (epoch < 1) == scouts] for scouts in (True, False))
    return sum(sum(own) - own[0] + mean(own[1:] or own) for own in kinds if own)


def whole(row: Row) -> float:
    """Seconds from the first step to the result, with steady epochs."""
    return float(row["seconds"] - sum(row["epoch_seconds"]) + steady(row))


def cleanlab_lines(rows: list[Row]) -> list[str]:
    """The quality of the flags of every judge, and the seconds."""
    lines = table_head(["noise", "predictions", "judge", "seeds", "precision", "recall", "F1", "AUC", "seconds"])
    for cell in dict.fromkeys((row["noise"], row["rate"], row["answers"], row["judge"]) for row in rows):
        own = [row for row in rows if (row["noise"], row["rate"], row["answers"], row["judge"]) == cell]
        figures = [f"{mean(row[name] for row in own):.3f}" for name in ("precision", "recall", "f1", "auc")]
        seconds = f"{mean(row.get('steady', row['seconds']) for row in own):.1f}"
        lines.append(table_line([noise_words(cell[0], 100 * cell[1]), *cell[2:], len(own), *figures, seconds]))
    return lines


def foreign_lines(rows: list[Row]) -> list[str]:
    """The accuracies with foreign images, and the flags of foreign, flipped and other samples."""
    accuracies = list(COLUMNS)[:4]
    titles = ["replaced by", "share", "flips", "method", "seeds", *(COLUMNS[name] for name in accuracies)]
    lines = table_head([*titles, "foreign flagged", "flipped flagged", "others flagged", "AUC foreign"])
    for cell in dict.fromkeys((row["kind"], row["share"], row["flips"], row["arm"]) for row in rows):
        own = [row for row in rows if (row["kind"], row["share"], row["flips"], row["arm"]) == cell]
        figures = [spread([row[name] for row in own]) for name in accuracies]
        flagged = [
            "" if "foreign_cut" not in own[0] else counts_of(own, name) for name in ("foreign", "flipped", "others")
        ]
        area = f"{mean(row['auc_foreign'] for row in own):.3f}" if cell[3] == "automatic" else ""
        start = [cell[0], f"{cell[1]:.0%}", f"{cell[2]:.0%}", ARMS[cell[3]], len(own)]
        lines.append(table_line([*start, *figures, *flagged, area]))
    return lines


def counts_of(rows: list[Row], name: str) -> str:
    """The mean number of flagged samples of a group, and the size of the group."""
    return f"{mean(row[f'{name}_cut'] for row in rows):.0f} of {mean(row[name] for row in rows):.0f}"


if __name__ == "__main__":
    main()
