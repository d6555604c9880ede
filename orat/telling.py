"""What a run says of itself on its way, in lines."""

from __future__ import annotations

from datetime import timedelta
from typing import Any


def epoch_line(record: dict[str, Any], epochs: int) -> str:
    """An epoch's line of the history, for people."""
    validation = "  ".join(f"{name} {100 * share:5.2f}" for name, share in record["validation"].items())
    state = record["state"]
    changes = f"  wrong {100 * state['wrong']:.1f} +- {100 * state['error']:.1f} %" if "wrong" in state else ""
    changes += f"  cut {state['cut']}" if state.get("cut") else ""
    if record.get("corrections"):
        changes += f"  {correction_words(record['corrections'])}"
    left = timedelta(seconds=round(record["seconds"] * (epochs - record["epoch"])))
    return (
        f"epoch {record['epoch']:>{len(str(epochs))}}/{epochs}  loss {record['loss']:.4f}"
        f"  validation {validation or '-'}{changes}  {record['seconds']:.1f} s, {left} to go"
    )


def correction_words(found: dict[str, Any]) -> str:
    """How many labels were changed in an epoch, and how many of those rightly where it is known."""
    rightly = f" ({found['rightly']} rightly)" if "rightly" in found else ""
    return f"corrected {found['changed']}{rightly}"
