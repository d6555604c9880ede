"""`orat labels fix` and `orat labels undo`: writes a training set without wrong labels, and undoes it."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from orat.cli.flags import add_command, add_places, read
from orat.cli.labels_find import add_judging, judging_of, training_of
from orat.cli.tables import plain_table, print_json, print_table, say
from orat.core.errors import InputError
from orat.core.options import flag, number


def add_fix(below: Any) -> None:
    """Declares `labels fix`."""
    text = "write a training set without the labels that are probably wrong; nothing is overwritten"
    one = add_command(below, "fix", fix, text)
    one.add_argument(
        "subject", metavar="DATA|RUN|FOUND", help="data such as an image folder, which are searched first; the folder "
        "of a finished run; or the folder that `orat labels find` wrote",
    )  # fmt: skip
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
    one.add_argument("--dry-run", action="store_true", help="print the changes by class and write nothing")
    one.add_argument("--force", action="store_true", help="change labels even if the predictions are unreliable")
    add_judging(one)
    add_places(one)


def add_undo(below: Any) -> None:
    """Declares `labels undo`."""
    one = add_command(below, "undo", undo, "restore the labels before in a folder that `orat labels fix` wrote")
    one.add_argument("out", metavar="OUT", help="the folder")
    one.add_argument("--data", metavar="PATH", help="the folder or tar of the originals, if it was moved")
    one.add_argument("--json", action="store_true", help="print the result as JSON")


def fix(arguments: Namespace) -> int:
    """Prints the changes, writes the training set, and prints the command that trains on it."""
    threshold, judging = read(arguments, "threshold", number), judging_for(arguments)
    from orat.core.console import Display
    from orat.curation.fix import plan_fix, train_command

    planned = plan_fix(
        arguments.subject, arguments.out, arguments.how, arguments.fix, threshold, arguments.data_dir, Display(),
        force=arguments.force, **judging,
    )  # fmt: skip
    summary, writes = planned.summary(), not arguments.dry_run
    command = shlex.join(train_command(summary, arguments.data_dir))
    if not arguments.json:
        print_changes(summary)
    if writes:
        planned.write()
    if arguments.json:
        print_json(summary | {"command": command, "written": writes})
    else:
        print_written(summary, command, writes)
    return 0


def judging_for(arguments: Namespace) -> dict[str, Any]:
    """The options of predictions: for a run those of `orat labels find`, for data those of scout networks."""
    from orat.curation.of_data import is_run, is_search

    if not is_search(arguments.subject) and is_run(arguments.subject):
        return judging_of(arguments)
    for name in ("held_out", "data", "model", "trust"):
        if getattr(arguments, name):
            raise InputError(f"{flag(name)} is for a run: leave it out, since {arguments.subject} is none")
    given = training_of(arguments)
    if given and is_search(arguments.subject):
        raise InputError(f"{flag(next(iter(given)))} is for data: leave it out, since {arguments.subject} is searched")
    return {"device": arguments.device} | given


def print_changes(result: Mapping[str, Any]) -> None:
    """Prints the changes by class, before they are written."""
    from orat.curation.issues import SOURCES

    moved = [name for name in ("dropped", "moved_out", "moved_in") if any(row[name] for row in result["classes"])]
    titles = {name: name.replace("_", " ") for name in ("class", "before", *moved, "after")}
    title = f"of {result['of']:,} samples, {result['dropped']:,} to drop and {result['relabeled']:,} to relabel"
    print_table(plain_table(title, titles, result["classes"]))
    say(SOURCES[result["judged_by"]])
    if result["unreliable"]:
        say(f"The predictions are unreliable: {result['unreliable']}. Labels are changed all the same (--force).")
    if result["not_judged"]:
        say(f"{result['not_judged']:,} samples without a prediction, because the run did not train on them, are kept.")


def print_written(result: Mapping[str, Any], command: str, is_written: bool) -> None:
    """Prints where the training set is, how to train on it, and how to undo it."""
    if not is_written:
        say("nothing is written (--dry-run)")
        return
    less = ", with a lower --m, because fewer labels are wrong now" if "--m" in result["train"] else ""
    say(f"written to {result['folder']}; `{shlex.join(['orat', 'labels', 'undo', result['folder']])}` restores the "
        f"labels before; to train on it{less}:")  # fmt: skip
    say(command)


def undo(arguments: Namespace) -> int:
    """Restores the labels before, and prints how many."""
    from orat.curation.undo import undo_fix

    result = undo_fix(arguments.out, arguments.data)
    if arguments.json:
        print_json(result)
    else:
        say(f"{result['folder']}: {result['restored']:,} samples restored, {result['moved_back']:,} labels set back")
    return 0
