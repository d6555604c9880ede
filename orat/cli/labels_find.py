"""`orat labels find`: finds wrong labels in data, by a run or by predictions."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orat.cli.flags import Parser, add_command, add_flag, add_places, listed, read
from orat.cli.tables import plain_table, print_json, print_table, say
from orat.core.errors import InputError, unknown
from orat.core.options import field_types, flag, whole
from orat.training.run import Run
from orat.training.text import run_from

if TYPE_CHECKING:
    from orat.curation.issues import LabelIssues

FORMATS = ("csv", "parquet")
PAGE = "label-issues.html"
PRINTED = 10  # samples
READING = (  # fields of a run that say how data are read
    "image_size", "class_depth", "target", "bounds", "frozen", "augment", "noise", "noise_rate", "noise_seed", "seed",
)  # fmt: skip


def add_find(below: Any) -> None:
    """Declares `labels find`."""
    text = "find labels that are probably wrong, in data, by a run or by predictions of any network: tables and a page"
    one = add_command(below, "find", find, text, goes_on=True)
    one.add_argument(
        "subject", nargs="?", metavar="DATA|RUN", help="data as `orat train` takes them, such as an image folder; or "
        "the folder of a finished run",
    )  # fmt: skip
    one.add_argument(
        "--predictions", metavar="FILE", help="instead of data: probabilities, log-probabilities or logits of networks "
        "not trained on the samples, one column a class (.npy, .npz, .csv or .parquet)",
    )  # fmt: skip
    one.add_argument(
        "--labels", metavar="FILE", help="the labels of --predictions, or other labels of the data (.npy, .csv or .txt)"
    )
    one.add_argument("--classes", metavar="NAMES", help="with --predictions: names of the columns, such as cat,dog")
    one.add_argument(
        "--out", metavar="DIR", help="folder of tables and page (default: for data a folder in runs/, else "
        "label-issues in the run's folder or beside the predictions)",
    )  # fmt: skip
    one.add_argument(
        "--features", metavar="NAME", help="judge data by the features of your network, module:function or "
        "file.py:function, from inputs in [0, 1] to features: no network is trained",
    )  # fmt: skip
    one.add_argument("--weights", metavar="FILE", help="with --features: weights (.safetensors, .pth, .pt)")
    one.add_argument("--again", action="store_true", help="replace tables and page if there are any")
    one.add_argument("--top", default="100", metavar="N", help="images on the page (default: 100)")
    one.add_argument("--format", default="csv", metavar="{csv,parquet}", help="of the table of samples (default: csv)")
    add_judging(one)
    group = one.add_argument_group("reading of the data")
    for field in (field for field in fields(Run) if field.name in READING):
        add_flag(group, field, field_types(Run)[field.name], action="store")
    add_places(one)


def add_judging(one: Parser) -> None:
    """Adds the flags for the predictions that labels are compared with."""
    one.add_argument(
        "--held-out", action="store_true",
        help="train quick networks for cross-fitted predictions: each network predicts the part of the training set "
        "that it was not trained on, because a network agrees with wrong labels it has learned",
    )  # fmt: skip
    one.add_argument("--folds", metavar="K", help="parts of the data, and networks (default: 4)")
    one.add_argument("--epochs", metavar="N", help="epochs of the networks (default: until the verdict has settled)")
    one.add_argument(
        "--data",
        metavar="NAME",
        help="data that cannot be mistaken for a run; or the data of the run, if they are code",
    )
    one.add_argument("--model", metavar="NAME", help="the network of the run, named again if it is code")
    one.add_argument("--trust", action="store_true", help="run the code that the run's record names")


def judging_of(arguments: Namespace) -> dict[str, Any]:
    """The options for these predictions."""
    if not arguments.held_out and (arguments.epochs is not None or arguments.folds is not None):
        raise InputError("--folds and --epochs are for data, or for a run with --held-out: give --held-out too")
    judging = {"device": arguments.device, "held_out": arguments.held_out} | training_of(arguments)
    return judging | {"data": arguments.data, "model": arguments.model, "trust": arguments.trust}


def training_of(arguments: Namespace) -> dict[str, int]:
    """The given folds and epochs of scout networks."""
    given = {name: read(arguments, name, whole) for name in ("folds", "epochs")}
    return {name: value for name, value in given.items() if value is not None}


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
    out = folder_of(arguments, subject)
    title = arguments.subject or arguments.data or arguments.predictions
    if out.is_file():
        raise InputError(f"{out} is a file: give --out a folder")
    if (out / PAGE).exists() and not arguments.again:
        raise InputError(f"{out} has label issues already: give --out another folder, or --again to replace them")
    if "data" in subject and "subject" not in subject:
        subject["out"] = out
    found = find_label_issues(display=Display(), **subject)
    out.mkdir(parents=True, exist_ok=True)
    written = [*write_tables(found, out, arguments.format), out / PAGE]
    replace_file(written[-1], page(found, title, top).encode(errors="backslashreplace"))
    if arguments.json:
        rows = [] if found.refusal else list(islice(found, PRINTED))
        print_json(found.summary() | {"notes": found.notes(), "most_suspicious": rows, "files": [*map(str, written)]})
        return 0
    print_found(title, found)
    say(f"{', '.join(path.name for path in written)}: {out}")
    return 0


def subject_of(arguments: Namespace) -> dict[str, Any]:
    """The data, the run, or the predictions and labels, as arguments of `orat.find_label_issues`."""
    if arguments.predictions is None:
        return data_of(arguments) if searches_data(arguments) else run_of(arguments)
    if arguments.subject is not None:
        raise InputError(f"--predictions are judged without {arguments.subject}: leave one of them out")
    if arguments.labels is None:
        raise InputError("--predictions without labels: give --labels FILE")
    for name in ("held_out", "folds", "epochs", "data", "model", "data_dir", "features", "weights", *READING):
        if getattr(arguments, name, None):
            raise InputError(f"{flag(name)} is for data or a run: leave it out, since --predictions need no training")
    classes = None if arguments.classes is None else listed(arguments.classes)
    return {"predictions": arguments.predictions, "labels": arguments.labels, "classes": classes}


def searches_data(arguments: Namespace) -> bool:
    """Whether data are judged without a run; refuses a command without a subject."""
    from orat.curation.of_data import is_run

    if arguments.subject is None and arguments.data is None:
        raise InputError("give data such as an image folder, a run's folder, or --predictions FILE with --labels FILE")
    return arguments.subject is None or not is_run(arguments.subject)


def data_of(arguments: Namespace) -> dict[str, Any]:
    """The data with the settings for reading them."""
    for name in ("classes", "model", "held_out"):
        if getattr(arguments, name):
            raise InputError(f"{flag(name)} is not for data: leave it out")
    if arguments.subject is not None and arguments.data is not None:
        raise InputError(f"both {arguments.subject} and --data {arguments.data}: leave one of them out")
    data = arguments.subject or arguments.data
    texts = {name: getattr(arguments, name) for name in READING if name in arguments}
    run = run_from({"data": data, "method": "orat", "labels": arguments.labels} | texts)
    if arguments.weights is not None and arguments.features is None:
        raise InputError(f"--weights {arguments.weights} without a network: give --features module:function")
    network = {"features": arguments.features, "weights": arguments.weights}
    return {"data": run, "data_dir": arguments.data_dir, "device": arguments.device} | network | training_of(arguments)


def run_of(arguments: Namespace) -> dict[str, Any]:
    """The run, with the options of its predictions."""
    for name in ("labels", "classes", "features", "weights", *READING):
        if getattr(arguments, name, None):
            raise InputError(f"{flag(name)} is not for a run: leave out {arguments.subject}, or {flag(name)}")
    return {"subject": arguments.subject, "data_dir": arguments.data_dir} | judging_of(arguments)


def folder_of(arguments: Namespace, subject: dict[str, Any]) -> Path:
    """The folder of tables and page."""
    if arguments.out is not None:
        return Path(arguments.out)
    if "predictions" in subject:
        return Path(arguments.predictions).parent / "label-issues"
    if "subject" in subject:
        return Path(arguments.subject) / "label-issues"
    from orat.curation.search import default_folder

    return default_folder(subject["data"], **training_of(arguments), features=arguments.features)


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
