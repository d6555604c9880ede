"""How long scouts learn, and in what batches: enough to know the labels by, and little beside what the run costs."""

from __future__ import annotations

from math import ceil

from orat.lazy import watching
from orat.methods.setting import Setting

EPOCHS, STEPS = 36, 3500  # enough of either
SHARE = 0.07  # of the run's arithmetic at most, which on a GPU is twice as much of its time
FEWEST = 8  # epochs, whatever they cost, where the run has as many
LARGEST_BATCH, FEWEST_STEPS = 512, 100  # what a GPU does at once, and what an epoch should have


def scouting_for(setting: Setting, asked: str, model: str | None, epochs: int | None) -> watching.Scouting | None:
    """Scouts, if they are asked, of this model and for so many epochs, or where nothing is said, as suits the run."""
    if asked not in ("scout", "both"):
        return None
    assert setting.scouts is not None
    scouts = setting.scouts(model)
    batch_size = min(LARGEST_BATCH, max(setting.batch_size, setting.n // FEWEST_STEPS))
    enough = max(EPOCHS, ceil(STEPS * batch_size / setting.n))
    affordable = max(int(SHARE * setting.epochs / scouts.cost), min(FEWEST, setting.epochs))
    return watching.Scouting(
        scouts.make, epochs or min(enough, affordable), batch_size, batch_size / setting.batch_size
    )
