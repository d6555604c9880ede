"""`orat labels`: finds wrong labels by a run or by given predictions, and writes a training set without them."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orat.cli.flags import Parser, add_command, add_places, listed, read
from orat.cli.tables import plain_table, print_json, print_table, say
from orat.core.errors import InputError, unknown
from orat.core.options import flag, number, whole

if TYPE_CHECKING:
    from orat.curation.issues import LabelIssues

FORMATS = ("csv", "parquet")
PAGE = "label-issues.html"
PRINTED = 10  # samples


def add(commands: Any) -> None:
    """Declares `labels find` and `labels fix`."""
    text = "find wrong labels in a run's training set, or write a training set without them"
    below = commands.add_parser("labels", help=text, description=text).add_subparsers(required=True, metavar="ACTION")
    text = "find labels that are probably wrong, by a finished run or by predictions of any network: tables and a page"
    one = add_command(below, "find", find, text)
    one.add_argument("run", nargs="?", metavar="RUN", help="the run's folder")
    one.add_argument(
        "--predictions", metavar="FILE", help="instead of RUN: probabilities, log-probabilities or logits of networks "
        "not trained on the samples, one column a class (.npy, .npz, .csv or .parquet)",
    )  # fmt: skip
    one.add_argument("--labels", metavar="FILE", help="with --predictions: the labels (.npy, .csv or .txt)")
    one.add_argument("--classes", metavar="NAMES", help="with --predictions: names of the columns, such as cat,dog")
    one.add_argument(
        "--out", metavar="DIR", help="folder of tables and page (default: label-issues in the run's folder, or beside "
        "the predictions)",
    )  # fmt: skip
    one.add_argument("--again", action="store_true", help="replace tables and page if there are any")
    one.add_argument("--top", default="100", metavar="N", help="images on the page (default: 100)")
    one.add_argument("--format", default="csv", metavar="{csv,parquet}", help="of the table of samples (default: csv)")
    add_judging(one)
    add_places(one)
    text = "write the training set of a finished run without the labels that are probably wrong; nothing is overwritten"
    one = add_command(below, "fix", fix, text)
    one.add_argument("run", metavar="RUN", help="the run's folder")
    one.add_argument("--out", metavar="DIR", required=True, help="a new folder for the training set")
    one.add_argument(
        "--how", default="labels", metavar="{labels,folder}",
        help="write a label file for --labels, or a copy of the image folder (default: labels)",
    )  # fmt: skip
    one.add_argument(
        "--fix", default="drop", metavar="{drop,relabel}", help="drop or relabel the flagged samples (default: drop)"
    )
    one.add_argument(
        "--threshold", metavar="P", help="flag a label that is wrong with more than this probability (default: the "
        "labels that the run flagged)",
    )  # fmt: skip
    add_judging(one)
    add_places(one)


def add_judging(one: Parser) -> None:
    """Adds the flags for the predictions that labels are compared with."""
    one.add_argument(
        "--held-out", action="store_true",
        help="train quick networks for cross-fitted predictions: each network predicts the part of the training set "
        "that it was not trained on, because a network agrees with wrong labels it has learned",
    )  # fmt: skip
    one.add_argument("--folds", default="5", metavar="K", help="with --held-out: parts, and networks (default: 5)")
    one.add_argument("--epochs", metavar="N", help="with --held-out: epochs (default: 36, for few samples up to 100)")
    one.add_argument("--data", metavar="NAME", help="the data of the run, named again if they are code")
    one.add_argument("--model", metavar="NAME", help="the network of the run, named again if it is code")
    one.add_argument("--trust", action="store_true", help="run the code that the run's record names")


def judging_of(arguments: Namespace) -> dict[str, Any]:
    """The options for these predictions."""
    if not arguments.held_out and (arguments.epochs is not None or arguments.folds != "5"):
        raise InputError("--folds and --epochs are for --held-out: give --held-out too")
    folds, epochs = read(arguments, "folds", whole), read(arguments, "epochs", whole)
    judging = {"device": arguments.device, "held_out": arguments.held_out, "folds": folds, "epochs": epochs}
    return judging | {"data": arguments.data, "model": arguments.model, "trust": arguments.trust}


def find(arguments: Namespace) -> int:
    """Writes tables and page, and prints the most suspicious labels."""
    top, subject = read(arguments, "top", whole), subject_of(arguments)
    if top < 0:
        raise InputError(f"--top {top}: give 0 or more images")
    if arguments.format not in FORMATS:
        raise unknown("format", arguments.format, FORMATS)
    from orat.core.console import Display
    from orat.core.files import replace_file, require
    from orat.curation.find import find_label_issues
    from orat.curation.page import page
    from orat.curation.tables import write_tables

    if arguments.format == "parquet":
        require("pyarrow", "parquet", "a .parquet table")
    title = arguments.run or arguments.predictions
    beside = Path(arguments.run) if arguments.run else Path(arguments.predictions).parent
    out = Path(arguments.out) if arguments.out else beside / "label-issues"
    if out.is_file():
        raise InputError(f"{out} is a file: give --out a folder")
    if (out / PAGE).exists() and not arguments.again:
        raise InputError(f"{out} has label issues already: give --out another folder, or --again to replace them")
    found = find_label_issues(display=Display(), **subject)
    out.mkdir(parents=True, exist_ok=True)
    written = [*write_tables(found, out, arguments.format), out / PAGE]
    replace_file(written[-1], page(found, title, top).encode())
    if arguments.json:
        rows = [] if found.refusal else list(islice(found, PRINTED))
        print_json(found.summary() | {"notes": found.notes(), "most_suspicious": rows, "files": [*map(str, written)]})
        return 0
    print_found(title, found)
    say(f"{', '.join(path.name for path in written)}: {out}")
    return 0


def subject_of(arguments: Namespace) -> dict[str, Any]:
    """The run, or the predictions and labels, as arguments of `orat.find_label_issues`."""
    if arguments.run is not None:
        for name in ("predictions", "labels", "classes"):
            if getattr(arguments, name) is not None:
                raise InputError(f"--{name} is for labels without a run: leave out {arguments.run}, or --{name}")
        return {"run_folder": arguments.run, "data_dir": arguments.data_dir} | judging_of(arguments)
    if arguments.predictions is None or arguments.labels is None:
        raise InputError("give a run's folder, or --predictions FILE with --labels FILE")
    usual = {"held_out": False, "folds": "5", "epochs": None, "data": None, "model": None, "data_dir": None}
    for name, value in usual.items():
        if getattr(arguments, name) != value:
            raise InputError(f"{flag(name)} is for a run: leave it out, since --predictions need no training")
    classes = None if arguments.classes is None else listed(arguments.classes)
    return {"predictions": arguments.predictions, "labels": arguments.labels, "classes": classes}


def print_found(title: str, found: LabelIssues) -> None:
    """Prints the estimate for each class, the most suspicious samples, and the totals; no findings if unreliable."""
    from orat.curation.tables import headlines

    if found.refusal is None:
        print_findings(title, found)
    for line in (*headlines(found), *found.notes()):
        say(line)


def print_findings(title: str, found: LabelIssues) -> None:
    """Prints the estimate for each class, and the most suspicious samples."""
    titles = {"class": "class", "given": "labels", "estimated_wrong": "wrong", "estimated_share": "share",
              "confused_with": "mostly", "issues": "flagged"}  # fmt: skip
    rows = [row | {"estimated_share": f"{row['estimated_share']:.1%}"} for row in found.classes()]
    print_table(plain_table(f"{title}: estimated wrong labels by class", titles, rows))
    place = "index" if found.lines is None else "line"
    titles = {"rank": "rank", place: place, "given_label": "label", "predicted_label": "predicted",
              "wrong": "wrong", "mean_loss": "mean loss", "path": "path"}  # fmt: skip
    if found.paths is None or place == "line":
        del titles["path"]
    rows = [
        row | {"wrong": f"{1 - row['label_quality']:.1%}", "mean_loss": f"{row['mean_loss']:.2f}"}
        for row in islice(found, PRINTED)
    ]
    print_table(plain_table(f"the {len(rows)} most suspicious labels, with the probability to be wrong", titles, rows))


def fix(arguments: Namespace) -> int:
    """Writes the training set, and prints the changes and the command that trains on it."""
    threshold, judging = read(arguments, "threshold", number), judging_of(arguments)
    from orat.core.console import Display
    from orat.curation.fix import fix_labels, train_command

    how, kind = arguments.how, arguments.fix
    result = fix_labels(arguments.run, arguments.out, how, kind, threshold, arguments.data_dir, Display(), **judging)
    command = shlex.join(train_command(result, arguments.data_dir))
    if arguments.json:
        print_json(result | {"command": command})
    else:
        print_changes(result, command)
    return 0


def print_changes(result: Mapping[str, Any], command: str) -> None:
    """Prints the changes by class, and the command that trains on the new training set."""
    from orat.curation.issues import SOURCES

    moved = ("moved_out", "moved_in") if result["relabeled"] else ("dropped",)
    titles = {name: name.replace("_", " ") for name in ("class", "before", *moved, "after")}
    title = f"{result['dropped']:,} of {result['of']:,} samples dropped, {result['relabeled']:,} relabeled"
    print_table(plain_table(title, titles, result["classes"]))
    say(SOURCES[result["judged_by"]])
    if result["not_judged"]:
        say(f"{result['not_judged']:,} samples without a prediction, because the run did not train on them, are kept.")
    less = ", with a lower --m, because fewer labels are wrong now" if "--m" in result["train"] else ""
    say(f"written to {result['folder']}; to train on it{less}:")
    say(command)
