"""What a run says of itself on its way, in lines."""

from __future__ import annotations

from datetime import timedelta
from statistics import mean
from typing import Any

from orat.core.errors import TrainingError
from orat.noise.judge import RELIABLE
from orat.training.run import Run

MOST_NAMED = 5  # classes in one line
SHORT = 0.1  # seconds, below which epochs are told in milliseconds


class Pace:
    """How long epochs took since the last line."""

    def __init__(self) -> None:
        self.untold: list[float] = []

    def add(self, record: dict[str, Any]) -> None:
        """Takes one epoch in."""
        if record["epoch"] == 1:
            self.untold.clear()  # what scouts took says nothing of the network
        self.untold.append(record["seconds"])

    def take(self) -> float:
        """Seconds in the mean, for a line."""
        pace = mean(self.untold)
        self.untold.clear()
        return pace


def epoch_name(epoch: int, epochs: int, ahead: int) -> str:
    """Which epoch it is: of the network, or of the scouts that learn before it."""
    number, of, name = (epoch, epochs, "epoch") if epoch > 0 else (epoch + ahead, ahead, "scouting")
    return f"{name} {number:>{len(str(of))}}/{of}"


def epoch_line(record: dict[str, Any], name: str, epochs: int, pace: float) -> str:
    """The line of the history of the epoch of this name, for people; at this pace, in seconds, epochs went lately."""
    validation = "  ".join(f"{name} {100 * share:5.2f}" for name, share in record["validation"].items())
    state = record["state"]
    knowing = "wrong" in state and state["known"] >= RELIABLE
    changes = f"  wrong {100 * state['wrong']:.1f} +- {100 * state['error']:.1f} %" if knowing else ""
    changes += f"  cut {state['cut']}" if state.get("cut") else ""
    if record.get("corrections"):
        changes += f"  {correction_words(record['corrections'])}"
    time = f"{pace:.1f} s" if pace >= SHORT else f"{1000 * pace:.0f} ms"
    if record["epoch"] < 1:
        return f"{name}  loss {record['loss']:.4f}{changes}  {time}"
    left = timedelta(seconds=round(pace * (epochs - record["epoch"])))
    return f"{name}  loss {record['loss']:.4f}  validation {validation or '-'}{changes}  {time}, {left} to go"


def correction_words(found: dict[str, Any]) -> str:
    """How many labels were changed in an epoch, and how many of those rightly where it is known."""
    rightly = f" ({found['rightly']} rightly)" if "rightly" in found else ""
    return f"corrected {found['changed']}{rightly}"


def lost_words(classes: list[str]) -> str | None:
    """What the user should hear of classes that are cut as outliers."""
    if not classes:
        return None
    more = f" and {len(classes) - MOST_NAMED} more" if len(classes) > MOST_NAMED else ""
    names = ", ".join(classes[:MOST_NAMED]) + more
    return (
        f"nearly every sample of class {names} is cut as an outlier, so that the network does not learn it; "
        "if most of these labels are right, lengthen --burn-in or lower --m"
    )


def collapse(run: Run, epochs: int) -> TrainingError:
    """The error for a network that gives one class to everything."""
    return TrainingError(
        f"the network has collapsed: it gives the same class to every image since {epochs} epochs; "
        f"lower --lr (now {run.lr:g}), lengthen --warmup (now {run.warmup:g} epochs) or --attack-warmup "
        f"(now {run.attack_warmup:g}), and give --out a new folder"
    )
