"""What was measured of ORAT that is told nothing, as a page of the docs, from all such results that there are.

python benchmarks/automatic_page.py > docs/automatic-measured.md
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

from pages import MADE_WITH, Row, measured_on, spread, table_head, table_line

RESULTS = Path(__file__).parents[1] / "results"
COLUMNS = {"natural": "Natural", "fgsm": "FGSM", "pgd20": "PGD-20", "cw": "CW", "autoattack": "AutoAttack"}
ARMS = {
    "at": "AT", "published": "ORAT as published, m told", "paper": "ORAT, the paper's k and m", "told": "ORAT by exact ranks, m told",
    "told-k95": "the same, k = 95 %", "told-k90": "the same, k = 90 %", "told-k80": "the same, k = 80 %",
    "oracle": "oracle", "automatic": "**ORAT, told nothing**", "cut-only": "cut samples not learned as another class",
    "scouts-alone": "scouts alone", "own-natural": "its own natural answers", "own-adversarial": "its own answers under attack",
    "otsu": "averaged losses, Otsu's cut", "no-memory": "answers not averaged", "few-epochs": "4 scouting epochs",
    "many-epochs": "36 scouting epochs", "surer": "learned as another class above a chance of 0.98",
}  # fmt: skip
HELD_BACK = "Not looked at before the form was settled that this was measured with, and measured once. That more than half of a class may be cut came later, and so did the present rate and epochs of LeNet's scouts."
TABLES = {
    "automatic-cifar10": (
        "CIFAR-10 (JPEG copies), Small-CNN, eps 8/255, 24 epochs",
        "AutoAttack: on the first 1,000 test images.",
    ),
    "automatic-mnist": (
        "MNIST, LeNet, eps 0.1, 50 epochs",
        "The rate of LeNet's scouts was chosen among four, with and without decay and dropout, by how well scouts judged 20,000 of these images, and their 14 epochs by that, too (symmetric noise, one seed). "
        "Scouts alone, before the network is heard, have an F1 of 0.9911 at symmetric and 0.9881 at asymmetric noise (seed 0, on a CPU).",
    ),
    "automatic-rates": (
        "Accuracy against the share of wrong labels, bundled MNIST sample, eps 0.1, 22 epochs",
        "As published: by Theorem 1's two scalars, m as large as the share of wrong labels.",
    ),
    "automatic-ablations": (
        "Ablations, bundled MNIST sample, eps 0.1, 22 epochs",
        "Each row is the automatic form with one part taken out or exchanged.",
    ),
    "automatic-k": (
        "The lower cut, bundled MNIST sample, eps 0.1, 22 epochs",
        "m is told, and k falls: the easiest samples are left out, too.",
    ),
    "automatic-held-back-fashion": ("Held back: Fashion-MNIST, LeNet, eps 0.1, 50 epochs", HELD_BACK),
    "automatic-held-back-instance": (
        "Held back: instance-dependent noise, CIFAR-10 (JPEG copies), Small-CNN, eps 8/255, 24 epochs",
        HELD_BACK,
    ),
}
CLEANLAB = {
    "beside-cleanlab-sample": "bundled MNIST sample", "beside-cleanlab-mnist": "MNIST",
    "beside-cleanlab-cifar10": "CIFAR-10 (JPEG copies)",
}  # fmt: skip
HEADLINES = {"automatic-cifar10": "CIFAR-10, 8/255", "automatic-mnist": "MNIST, 0.1"}
KINDS = (("none", 0.0), ("symmetric", 0.2), ("symmetric", 0.4), ("asymmetric", 0.4))
NOISES = ("none", "symmetric", "asymmetric", "instance")
COSTS = {
    "automatic-cost-sample": "bundled MNIST sample, 22 epochs",
    "automatic-cost-mnist": "MNIST, LeNet, 50 epochs",
    "automatic-cost-cifar10": "CIFAR-10 (JPEG copies), Small-CNN, 24 epochs",
}
FOREIGN = {"foreign-sample": "bundled MNIST sample", "foreign-mnist": "MNIST"}


def main() -> None:
    """Prints the page."""
    lines = [
        "<!-- Written by benchmarks/automatic_page.py; change that, or the JSON, not this. -->",
        "# ORAT that is told nothing, measured",
        "",
        "How it works is told in [automatic.md](automatic.md). Figures are of the last epoch, in %, means over seeds of both noise and training (with the",
        "standard deviation where there are several). The oracle cuts exactly the wrong labels. The gap share is (row - AT) / (oracle - AT).",
    ]
    for name, (title, remark) in TABLES.items():
        if (content := content_of(name)) is not None:
            lines += [
                "",
                f"## {title}",
                *(["", remark] if remark else []),
                "",
                *accuracy_lines(content["rows"]),
                *origin(name, content),
            ]
    lines += section("What it costs", COSTS, cost_lines, COSTS_WORDS)
    lines += section("Wrong labels beside cleanlab", CLEANLAB, cleanlab_lines, CLEANLAB_WORDS)
    lines += section("Images that belong to no class", FOREIGN, foreign_lines, FOREIGN_WORDS)
    print("\n".join(lines))


def headlines() -> list[str]:
    """The table of the README: natural accuracy and that under PGD-20 of AT, of ORAT that is told nothing, and of the oracle."""
    arms = {"at": "AT", "automatic": "ORAT, told nothing", "oracle": "oracle"}
    titles = ["Natural / PGD-20", "wrong labels", *arms.values(), "estimated share (true)"]
    lines = table_head(titles)
    for name, data in HEADLINES.items():
        rows = (content_of(name) or {"rows": []})["rows"]
        for noise, rate in KINDS:
            of_kind = [row for row in rows if (row["noise"], row["rate"]) == (noise, rate)]
            by_arm = {arm: [row for row in of_kind if row["arm"] == arm] for arm in arms}
            if not by_arm["automatic"]:
                continue
            figures = [
                f"{mean(row['natural'] for row in own):.1f} / {mean(row['pgd20'] for row in own):.1f}" if own else "-"
                for own in by_arm.values()
            ]
            truth, found = (mean(values) for values in zip(*map(shares_of, by_arm["automatic"]), strict=True))
            said = f"{noise} {rate:.0%}" if rate else "none"
            lines.append(table_line([data, said, *figures, f"{100 * found:.1f} % ({100 * truth:.1f} %)"]))
    return lines


def shares_of(row: Row) -> tuple[float, float]:
    """The true and the estimated share of wrong labels."""
    return row.get("flipped", 0.0), row["wrong"][-1]


def content_of(name: str) -> Row | None:
    """A file of results, if there is one."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text()) if file.is_file() else None


def section(title: str, files: dict[str, str], of: Any, words: str) -> list[str]:
    """One table for each of some files, if there are any."""
    lines = []
    for name, data in files.items():
        if (content := content_of(name)) is not None:
            lines += ["", f"{data[0].upper()}{data[1:]}:", "", *of(content["rows"]), *origin(name, content)]
    return ["", f"## {title}", "", words, *lines] if lines else []


def origin(name: str, content: Row) -> list[str]:
    """Where the numbers of a table come from."""
    return measured_on(
        name, [row | {key: content[key] for key in MADE_WITH if key in content} for row in content["rows"]]
    )


def accuracy_lines(rows: list[Row]) -> list[str]:
    """A table of arms by kind of noise."""
    columns = {name: title for name, title in COLUMNS.items() if any(name in row for row in rows)}
    titles = [
        "wrong labels",
        "",
        "seeds",
        *columns.values(),
        "gap share",
        "cut: precision, recall",
        "learned as another class: precision, recall",
        "estimate (truth)",
        "AUC",
    ]
    lines = table_head(titles)
    for kind in sorted(
        {(row["noise"], row["rate"]) for row in rows}, key=lambda kind: (NOISES.index(kind[0]), kind[1])
    ):
        of_kind = [row for row in rows if (row["noise"], row["rate"]) == kind]
        for arm in sorted({row["arm"] for row in of_kind}, key=list(ARMS).index):
            own = [row for row in of_kind if row["arm"] == arm]
            said = f"{kind[0]} {kind[1]:.0%}" if kind[1] else "none"
            figures = [spread([row[name] for row in own if name in row]) for name in columns]
            lines.append(
                table_line([said, ARMS[arm], len(own), *figures, gap(of_kind, arm, columns), *verdict(own, arm)])
            )
    return lines


def gap(rows: list[Row], arm: str, columns: dict[str, str]) -> str:
    """The gap shares of an arm, where AT and the oracle were run with the same seeds."""
    if arm in ("at", "oracle"):
        return ""
    shares = []
    for name in columns:
        by = {
            one: {row["seed"]: row[name] for row in rows if row["arm"] == one and name in row}
            for one in ("at", arm, "oracle")
        }
        seeds = set.intersection(*map(set, by.values()))
        if seeds:
            at, own, best = (mean(values[seed] for seed in seeds) for values in by.values())
            shares.append(f"{(own - at) / (best - at):.2f}")
    return " ".join(shares)


def verdict(rows: list[Row], arm: str) -> list[str]:
    """What was cut and estimated."""
    if arm in ("at", "oracle"):
        return [""] * 4
    cuts = [row["outliers"] for row in rows if row["outliers"]]
    found = [cut for cut in cuts if cut.get("precision") is not None and cut.get("recall") is not None]
    cut = (
        " ".join(f"{mean(one[name] for one in found):.3f}" for name in ("precision", "recall"))
        if found
        else cut_of_right(cuts)
    )
    rates = [f"{row['wrong'][-1]:.3f}" for row in rows if row["wrong"] and arm != "otsu"]
    estimate = f"{', '.join(rates)} ({mean(row.get('flipped', 0.0) for row in rows):.3f})" if rates else ""
    areas = [row["auc"] for row in rows if "auc" in row]
    return [cut, corrected(rows), estimate, spread(areas, 4) if areas else ""]


def corrected(rows: list[Row]) -> str:
    """Which of the wrong labels were exchanged, and how rightly, where it was noted."""
    noted = [row["corrections"] for row in rows if row.get("corrections")]
    found = [one for one in noted if one.get("precision") is not None]
    seeds = f" ({len(found)} of {len(rows)} seeds)" if len(found) < len(rows) else ""
    return (
        " ".join(f"{mean(one[name] for one in found):.3f}" for name in ("precision", "recall")) + seeds if found else ""
    )


def cut_of_right(cuts: list[Row]) -> str:
    """How many were cut where no label was wrong."""
    return f"{mean(cut['cut'] for cut in cuts):.3g} cut" if cuts else ""


COSTS_WORDS = (
    "Each run in a process of its own and nothing beside it on the device, 40 % symmetric noise, on the H200 one run each: a percent is within what runs differ by (epochs of our network on MNIST took 0.607 s, AT's 0.612, though ours do more). Epochs: all of them, those of scouts among them. Whole: those, and checkpoints, verdicts, files and tests. "
    "In both, the first epoch of the network and the first of scouts are taken to be as long as the others of their kind, as compiling is in them: on the H200, AT's took 25 and 29 s, as it "
    "began with nothing on disk; ours found there what AT had compiled, and took 5 and 6 s, the first of scouts 2 and 3 s. Checkpoints took 2 % of the time at most on the H200, and now take 1 %."
)
CLEANLAB_WORDS = (
    "Means over seeds. Scouts answer for samples that they did not learn; folds are networks like them, 5-fold cross-validated, for as many epochs in the same batches; held-out is "
    "`orat outliers --held-out`, scouts in five parts for 36 epochs or more. "
    "Seconds are those of the answers and of the verdict, at the pace of all epochs but the first of each network; of held-out they hold compiling, which on MNIST the first took long for. There, scouts learned for 20 epochs at the run's rate, which now are 14 at their own."
)
FOREIGN_WORDS = (
    "A share of the training images is replaced by noise, by their own inverse, or by images of other data. Some labels of the others are flipped besides. The oracle "
    "trains without both."
)


def cost_lines(rows: list[Row]) -> list[str]:
    """Seconds of AT, of ORAT that is told nothing, and how much more that is."""
    titles = ["seconds", "AT", "ORAT, told nothing", "more"]
    lines = table_head(titles)
    for name, of in (("epochs", steady), ("whole", whole)):
        plain, watched = (mean(of(row) for row in rows if row["arm"] == arm) for arm in ("at", "automatic"))
        lines.append(table_line([name, f"{plain:.1f}", f"{watched:.1f}", f"{watched / plain - 1:.1%}"]))
    return lines


def steady(row: Row) -> float:
    """Seconds of all epochs, the first of scouts and the first of the network as long as the others of their kind."""
    timed = list(zip(row["epochs"], row["epoch_seconds"], strict=True))
    kinds = ([seconds for epoch, seconds in timed if (epoch < 1) == scouts] for scouts in (True, False))
    return sum(sum(own) - own[0] + mean(own[1:] or own) for own in kinds if own)


def whole(row: Row) -> float:
    """Seconds from the first step to tested results, with epochs as `steady` counts them."""
    return float(row["seconds"] - sum(row["epoch_seconds"]) + steady(row))


def cleanlab_lines(rows: list[Row]) -> list[str]:
    """Who finds which wrong labels, and in what time."""
    titles = ["wrong labels", "answers", "judge", "seeds", "precision", "recall", "F1", "AUC", "seconds"]
    lines = table_head(titles)
    for cell in dict.fromkeys((row["noise"], row["rate"], row["answers"], row["judge"]) for row in rows):
        own = [row for row in rows if (row["noise"], row["rate"], row["answers"], row["judge"]) == cell]
        figures = [f"{mean(row[name] for row in own):.3f}" for name in ("precision", "recall", "f1", "auc")]
        said = f"{cell[0]} {cell[1]:.0%}"
        lines.append(table_line([said, *cell[2:], len(own), *figures, f"{mean(row['steady'] for row in own):.1f}"]))
    return lines


def foreign_lines(rows: list[Row]) -> list[str]:
    """What foreign images cost, and what is found of them."""
    titles = [
        "replaced by",
        "share",
        "flips",
        "",
        "seeds",
        *list(COLUMNS.values())[:4],
        "foreign cut",
        "flipped cut",
        "others cut",
        "AUC foreign",
    ]
    lines = table_head(titles)
    for cell in dict.fromkeys((row["kind"], row["share"], row["flips"], row["arm"]) for row in rows):
        own = [row for row in rows if (row["kind"], row["share"], row["flips"], row["arm"]) == cell]
        figures = [spread([row[name] for row in own]) for name in list(COLUMNS)[:4]]
        cuts = ["" if "foreign_cut" not in own[0] else f"{mean(row[f'{name}_cut'] for row in own):.0f} of {mean(row[name] for row in own):.0f}"
                for name in ("foreign", "flipped", "others")]  # fmt: skip
        area = f"{mean(row['auc_foreign'] for row in own):.3f}" if cell[3] == "automatic" else ""
        lines.append(
            table_line([cell[0], f"{cell[1]:.0%}", f"{cell[2]:.0%}", ARMS[cell[3]], len(own), *figures, *cuts, area])
        )
    return lines


if __name__ == "__main__":
    main()
