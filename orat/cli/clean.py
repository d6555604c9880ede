"""`orat clean`: the training set of a run without the labels that look wrong."""

from __future__ import annotations

import shlex
from argparse import Namespace
from typing import Any

from orat.cli.arguments import add_command, add_places, read
from orat.cli.outliers import add_judging, judging_of
from orat.cli.output import print_json, say
from orat.core.numbers import number


def add(commands: Any) -> None:
    """The flags: whose labels, what is done to suspects, and where to write."""
    text = "write the training set of a finished run without the labels that look wrong; the originals stay as they are"
    one = add_command(commands, "clean", run, text)
    one.add_argument("run", metavar="RUN", help="the run's folder")
    one.add_argument("--out", metavar="DIR", required=True, help="a new folder for what is written")
    one.add_argument("--how", default="labels", help="labels: a file for --labels; folder: a copy of the image folder")
    one.add_argument("--fix", default="drop", help="what happens to suspects: drop or relabel (default: drop)")
    one.add_argument("--threshold", help="flag labels above this probability to be wrong (default: the run's flags)")
    add_judging(one)
    add_places(one)


def run(arguments: Namespace) -> int:
    """Writes the clean training set, and prints what changed and how to train on it."""
    threshold, judging = read(arguments, "threshold", number), judging_of(arguments)
    from orat.cli.tables import print_changes
    from orat.core.console import Display
    from orat.curation.find import SOURCES
    from orat.curation.fix import fix_labels, train_command

    fix, how = arguments.fix, arguments.how
    result = fix_labels(arguments.run, arguments.out, how, fix, threshold, arguments.data_dir, Display(), **judging)
    command = shlex.join(train_command(result, arguments.data_dir))
    if arguments.json:
        print_json(result | {"command": command})
        return 0
    print_changes(result)
    say(SOURCES[result["judged_by"]])
    if result["not_judged"]:
        say(f"{result['not_judged']:,} samples were not trained on, so that nothing is known of them; they stay.")
    less = ", with a lower --m, as fewer labels are wrong now" if "--m" in result["train"] else ""
    say(f"written to {result['folder']}; to train on it{less}:")
    say(command)
    return 0
