"""What a method learns or remembers besides the network: a module, so that a checkpoint holds it."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from orat.types import Batch


class State(nn.Module):
    """The state of a method that keeps none; others extend it."""

    ahead: int = 0  # epochs before the first, in which only scouts learn
    batch_size: int = 0  # in those

    def __init__(self) -> None:
        super().__init__()
        self.scouts = nn.ModuleList()  # networks of its own that learn before the other
        self.sees: list[nn.Module] = []  # how those are called; an engine may put in quicker forms

    def param_groups(self, lr: float) -> list[dict[str, Any]]:
        """Groups for the one optimizer; `decays` says whether the group follows the learning-rate schedule.

        A group with `begins` has its own: from there up to its `peak`, and down to nothing at the first epoch.
        """
        return []

    def scout(self, batch: Batch) -> Tensor:
        """The number that scouts minimize on a batch, in the epochs before the first."""
        raise NotImplementedError

    def relabeled(self, batch: Batch) -> Batch:
        """The batch with the labels to learn: as given."""
        return batch

    def watch(self, model: nn.Module, batch: Batch, attack: Any, logits: Tensor) -> None:
        """Takes note of a batch whose attacked images gave these logits."""

    def describe(self) -> str:
        """What the user should know of it before the first epoch."""
        return ""

    def end_epoch(self) -> dict[str, float]:
        """Closes an epoch and returns the numbers worth a line in the history."""
        return {}

    def warning(self) -> str | None:
        """What the user should hear after this epoch, if anything."""
        return None

    def corrected(self) -> Tensor | None:
        """The labels it trains with instead of the given ones, for a method that corrects any."""
        return None

    def cut(self) -> Tensor | None:
        """Which training samples are left out as outliers, for a method that leaves any out."""
        return None

    def tensors(self) -> dict[str, Tensor]:
        """What to keep of it: less scouts, and less answers of the epoch under way, which are in its averages."""
        tensors = {name: value for name, value in self.state_dict().items() if isinstance(value, Tensor)}
        return {name: value for name, value in tensors.items() if not name.startswith(("scouts.", "latest"))}


class BurnIn(State):
    """The state of a method whose first epochs are plain."""

    def __init__(self, burn_in: int) -> None:
        super().__init__()
        self.burn_in = burn_in

    def describe(self) -> str:
        """From when on it does what it is for."""
        return f"plain until epoch {self.burn_in}" if self.burn_in else ""
