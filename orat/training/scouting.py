"""How long scouts learn, and in what batches: enough to know the labels by, and little beside what the run costs."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from orat.methods.base import Scouts, Setting
from orat.training import scouts

EPOCHS, STEPS = 36, 3500  # enough of either
OTHERS = 0.4  # of these, for networks that are no quick ones: LeNet judges MNIST as well after 14 epochs as after 20
SHARE = 0.07  # of the run's arithmetic at most, which on a GPU is twice as much of its time
FEWEST = 8  # epochs, whatever they cost, where the run has as many
LARGEST_BATCH, FEWEST_STEPS = 512, 100  # what a GPU does at once, and what an epoch should have


def scouting_for(setting: Setting, asked: str, model: str | None, epochs: int | None) -> scouts.Scouting | None:
    """Scouts, if they are asked, of this model and for so many epochs, or where nothing is said, as suits the run."""
    if asked not in ("scout", "both"):
        return None
    assert setting.scouts is not None
    own = setting.scouts(model)
    affordable = max(int(SHARE * setting.epochs / own.cost), min(FEWEST, setting.epochs))
    scouting = unhurried(setting, own)
    enough = scouting.epochs if own.quick else int(OTHERS * scouting.epochs)
    return replace(scouting, epochs=epochs or min(enough, affordable))


def unhurried(setting: Setting, own: Scouts) -> scouts.Scouting:
    """Scouts that learn for as long as helps, whatever it costs."""
    batch_size = min(LARGEST_BATCH, max(setting.batch_size, setting.n // FEWEST_STEPS))
    epochs = max(EPOCHS, ceil(STEPS * batch_size / setting.n))
    return scouts.Scouting(own.make, epochs, batch_size, batch_size / setting.batch_size, own.quick)
