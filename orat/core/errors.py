"""Errors that the user can mend: one line with the value received and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """An input of the user that makes no sense; nothing was written."""


class TrainingError(RuntimeError):
    """A training that cannot go on; its last checkpoint is kept."""


OWN = ("method", "model")  # kinds of names that a file of the user may have, too
CLOSE = 0.6  # similarity of a name that may be meant


def unknown(kind: str, name: str, known: Iterable[str], listed: bool = True) -> InputError:
    """The error for an unknown name, with the nearest known name."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=CLOSE)
    if near and not listed:
        return InputError(f"unknown {kind} {name!r}: did you mean {near[0]!r}?")
    hint = f"did you mean {near[0]!r}? " if near else ""
    yours = f"; one of yours is path/file.py:{name}" if kind in OWN and name.isidentifier() and not near else ""
    return InputError(f"unknown {kind} {name!r}: {hint}known are {', '.join(names)}{yours}")


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 epoch, 2 epochs, 2 classes."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def line_of(error: BaseException) -> str:
    """The message of an error in one line; its type if there is no message."""
    return " ".join(str(error).split()) or type(error).__name__
