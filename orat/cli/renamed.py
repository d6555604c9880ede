"""Commands and flags of earlier versions: their new names, or what took their place."""

from __future__ import annotations

import sys
from argparse import Namespace

from orat.core.errors import InputError

# Old names of commands; they work for one more version.
COMMANDS = {
    "train-many": ("train",),
    "outliers": ("labels", "find"),
    "clean": ("labels", "fix"),
    "methods": ("list", "methods"),
    "list data": ("data",),
    "reproduce": ("paper", "reproduce"),
    "theory": ("paper", "theory"),
}

ONE_FORM = "ORAT without m has one form now; the study of other forms is in experiments/"
AUTHORS = "the scalars of the authors' code are --method orat_paper.authors:AuthorsORAT --solver minmax"

# Removed commands and flags, and what to use instead.
REMOVED = {
    "bench": "run `python benchmarks/step.py` in the repository",
    "--without-outliers-of": "train aorr, call orat_paper.outlier_labels.labels_without_outliers(RUN), then train "
    "with --labels FILE",
    "--score": ONE_FORM,
    "--measure": ONE_FORM,
    "--memory": ONE_FORM,
    "--scalar-start": AUTHORS,
    "--scalar-rate": AUTHORS,
}

# Old values of flags, and their new ones.
VALUES = {("engine", "replica"): "folded"}


def renamed(words: list[str]) -> list[str]:
    """A command line with the new name of its command; an old one is pointed out on standard error."""
    for length in (1, 2):
        old = " ".join(words[:length])
        if old in COMMANDS:
            new = COMMANDS[old]
            sys.stderr.write(f"orat {old} is now orat {' '.join(new)}\n")
            return [*new, *words[length:]]
    return words


def check_removed(name: str) -> None:
    """Refuses a command or flag that was removed."""
    if name in REMOVED:
        raise InputError(f"{name} was removed: {REMOVED[name]}")


def check_values(arguments: Namespace) -> None:
    """Refuses a value that was renamed."""
    for (name, old), new in VALUES.items():
        if getattr(arguments, name, None) == old:
            raise InputError(f"--{name} {old} was renamed: give --{name} {new}")
