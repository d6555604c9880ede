"""The errors that are the user's to mend: one line each, with the value received and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Something given to the package does not make sense; nothing was written."""


class TrainingError(RuntimeError):
    """A training that cannot go on; what it reached so far is kept."""


def unknown(kind: str, name: str, known: Iterable[str], listed: bool = True) -> InputError:
    """The error for a name that is not among the known ones, with the nearest of them."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.4)
    if near and not listed:
        return InputError(f"unknown {kind} {name!r}: did you mean {near[0]!r}?")
    hint = f"did you mean {near[0]!r}? " if near else ""
    return InputError(f"unknown {kind} {name!r}: {hint}known are {', '.join(names)}")
