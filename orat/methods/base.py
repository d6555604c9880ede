"""What every training method is: a frozen value that turns a batch into one number, and the state that it starts."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from torch import Tensor, nn
from torch.nn import Module

from orat.attacks.adversary import Adversary
from orat.core.errors import InputError
from orat.core.options import burn_in_option, check_choices, check_numbers
from orat.core.types import Batch, Scalar

MNIST = ("mnist", "sample")  # data sets that a method's values for MNIST hold for


@dataclass(frozen=True)
class Method:
    """A training objective; its fields are its hyper-parameters, its flags and its JSON record."""

    attack_start: ClassVar[str] = "uniform"  # where its authors start the attack
    on_mnist: ClassVar[dict[str, Any]] = {}  # what fields left None are there
    elsewhere: ClassVar[dict[str, Any]] = {}  # and on all other data

    def __post_init__(self) -> None:
        check_choices(self)
        check_numbers(self)

    def filled(self, data: str) -> Self:
        """The method with its defaults for this data set where nothing was said."""
        defaults = self.on_mnist if data in MNIST else self.elsewhere
        return replace(self, **{name: value for name, value in defaults.items() if getattr(self, name) is None})

    def start(self, setting: Setting) -> State:
        """The state that a training in this setting begins with."""
        return State()

    def phase(self, state: Any, epoch: int) -> Hashable:
        """What of the epoch the loss depends on: steps of one phase compute the same; to be safe, each epoch is one."""
        return epoch

    def loss(self, model: Module, batch: Batch, attack: Adversary, state: Any, epoch: int) -> Scalar:
        """The number to minimize on this batch, with the state that `start` gave; epochs count from 1."""
        raise NotImplementedError


@dataclass(frozen=True)
class Scouts:
    """Networks that may learn before the run's own does."""

    make: Callable[[int], Module]  # the first, the second
    cost: float  # of an epoch in which two of them learn one half each and are asked about the other, of a run's own
    quick: bool  # whether they are of the kind that learns at a high rate, and goes on for long


@dataclass(frozen=True)
class Setting:
    """What a method may want to know before the first step."""

    n: int  # samples that are trained on
    total: int  # samples there were before some were held out for validation
    classes: int
    steps: int  # in an epoch
    epochs: int
    milestones: tuple[int, ...] = ()  # epochs from which on the learning rate is lower
    attack_steps: int = 10
    attack_start: str = "uniform"
    batch_size: int = 128
    scouts: Callable[[str | None], Scouts] | None = None  # by the name of a network


WITHOUT_DROPS = 0.4  # share of the epochs before the turn where the rate never drops, as the first drop on MNIST


class Steady(Method):
    """A method whose loss is the same in every epoch."""

    def phase(self, state: Any, epoch: int) -> Hashable:
        """There is only one."""
        return None


@dataclass(frozen=True)
class Late(Method):
    """A method that is its plain form for the first epochs."""

    burn_in: int | None = burn_in_option("those before the first drop of the learning rate")

    def start(self, setting: Setting) -> State:
        """The epochs of the plain form."""
        return BurnIn(self.plain_epochs(setting))

    def phase(self, state: BurnIn, epoch: int) -> Hashable:
        """Before the turn, and after it."""
        return epoch <= state.burn_in

    def plain_epochs(self, setting: Setting) -> int:
        """How many epochs there are before the turn."""
        return before_drops(setting) if self.burn_in is None else self.burn_in


def before_drops(setting: Setting) -> int:
    """The epochs before the first drop of the learning rate, or about where that is usual."""
    drops = [epoch for epoch in setting.milestones if epoch <= setting.epochs]
    return min(drops, default=round(WITHOUT_DROPS * setting.epochs) + 1) - 1


def check_counts(setting: Setting, method: str) -> None:
    """Refuses an attack without steps for a method that counts the steps a sample withstands."""
    if setting.attack_steps < 1:
        raise InputError(f"attack_steps = 0: {method} counts the steps that a sample withstands, give 1 or more")


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
