"""What a training method is: a frozen value with a loss, and the state that the loss reads and writes."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, make_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin

import torch
from torch import Tensor, nn

from orat.attacks.base import Adversary
from orat.core.errors import InputError, unknown
from orat.core.options import check_choices, check_numbers, field_type, has_text, option, take_types
from orat.core.registry import loaded
from orat.core.types import Batch, Indices, Labels, Scalar
from orat.methods import METHODS

MNIST = ("mnist", "sample")  # data sets with a method's defaults for MNIST
WITHOUT_DROPS = 0.4  # share of the epochs in the plain form where the learning rate never drops, as on MNIST


@dataclass(frozen=True)
class Decision:
    """What a training removes and learns as another class; None stands for nothing."""

    keep: Tensor | None = None  # (n,) bool: False for removed samples
    labels: Labels | None = None  # (n,) the labels that are learned

    def flagged(self, given: Labels) -> Tensor:
        """The samples that are not learned with their given label, (n,) bool."""
        flagged = torch.zeros_like(given, dtype=torch.bool)
        if self.keep is not None:
            flagged |= ~self.keep.to(given.device)
        if self.labels is not None:
            flagged |= self.labels.to(given.device) != given
        return flagged


@dataclass(frozen=True)
class Scouts:
    """The scout networks whose cross-fitted predictions a method needs; None stands for the default."""

    model: str | None = None
    epochs: int | None = None


@dataclass(frozen=True)
class Setting:
    """What a method may know before the first step."""

    n: int  # training samples
    total: int  # training samples before some were held out for validation
    classes: int
    steps: int  # in an epoch
    epochs: int
    milestones: tuple[int, ...] = ()  # epochs with a drop of the learning rate
    attack_steps: int | None = 10  # None for an attack other than PGD by the run's fields
    attack_start: str | None = "uniform"
    labels: Labels | None = None  # the given labels
    predictions: Tensor | None = None  # cross-fitted log-probabilities, (n, classes) or (sets, n, classes)


class SampleTable(nn.Module):
    """Named columns of n rows, one row a training sample: the only memory by sample, part of every checkpoint."""

    def __init__(self, n: int, **columns: Tensor | float) -> None:
        """Fills each column with n copies of one row."""
        super().__init__()
        self.n = n
        for name, given in columns.items():
            row = torch.as_tensor(given)
            self.register_buffer(name, row.expand(n, *row.shape).clone())

    def __getitem__(self, name: str) -> Tensor:
        """A whole column."""
        return self.get_buffer(name)

    def put(self, ids: Indices, **columns: Tensor) -> None:
        """Writes the rows of these samples."""
        for name, values in columns.items():
            if name not in self._buffers:
                raise unknown("column", name, self._buffers)
            column = self[name]
            check_rows(name, values, (len(ids), *column.shape[1:]))
            column.index_copy_(0, ids, values.detach().to(column.dtype))

    def __len__(self) -> int:
        return self.n


def check_rows(name: str, values: Tensor, wanted: tuple[int, ...]) -> None:
    """Refuses rows of another shape than those of their column."""
    if tuple(values.shape) != wanted:
        raise InputError(
            f"the column {name} takes {wanted} for {wanted[0]} samples, not {tuple(values.shape)}: give a row per "
            "sample, and make the table with one row, such as SampleTable(n, loss=torch.tensor(0.0))"
        )


class State(nn.Module):
    """What a method learns or remembers besides the network; part of every checkpoint."""

    def param_groups(self, lr: float) -> list[dict[str, Any]]:
        """Parameter groups for the optimizer; `decays` says whether a group follows the learning-rate schedule."""
        return []

    def describe(self) -> str:
        """A few words for the first line of a training."""
        return ""

    def learns(self) -> bool:
        """Whether the steps of the running epoch change the network; steps of other epochs compute losses only."""
        return True

    def end_epoch(self) -> dict[str, float]:
        """Closes an epoch and returns the numbers for its record."""
        return {}

    def warning(self) -> str | None:
        """A warning after an epoch, if there is one."""
        return None

    def decision(self) -> Decision | None:
        """The samples that this training removes and relabels now; None for a method that does neither."""
        return None

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to keep after training."""
        return {name: value for name, value in self.state_dict().items() if isinstance(value, Tensor)}


class BurnIn(State):
    """The state of a method whose first epochs are plain."""

    def __init__(self, burn_in: int) -> None:
        super().__init__()
        self.burn_in = burn_in

    def describe(self) -> str:
        """The length of the plain form."""
        return f"plain until epoch {self.burn_in}" if self.burn_in else ""


@dataclass(frozen=True)
class Step:
    """What a loss is computed from."""

    model: nn.Module
    batch: Batch
    adversary: Adversary
    state: Any  # the state that `start` gave
    epoch: int  # from 1


@dataclass(frozen=True)
class Method:
    """A training objective; its fields are hyper-parameters, flags and JSON record in one."""

    attack_start: ClassVar[str] = "uniform"  # the authors' start of the training attack
    on_mnist: ClassVar[dict[str, Any]] = {}  # defaults of fields that are None, on MNIST
    elsewhere: ClassVar[dict[str, Any]] = {}  # the same on all other data

    def __post_init__(self) -> None:
        take_types(self)
        check_choices(self)
        check_numbers(self)

    def filled(self, data: str) -> Self:
        """The method with its defaults for a data set."""
        defaults = self.on_mnist if isinstance(data, str) and data in MNIST else self.elsewhere
        missing = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        return replace(self, **missing) if missing else self

    def scouts(self) -> Scouts | None:
        """The scout networks of a method that needs cross-fitted predictions."""
        return None

    def start(self, setting: Setting) -> State:
        """The state at the beginning of a training."""
        return State()

    def phase(self, state: Any, epoch: int) -> Hashable:
        """What the loss depends on besides tensors: steps of one phase run the same operations."""
        return epoch

    def loss(self, step: Step) -> Scalar:
        """The number to minimize on a batch."""
        raise NotImplementedError


class Recorded(Method):
    """The method of a record whose class is not imported: fields for people, and no code to train with."""

    def __post_init__(self) -> None:
        """Takes any value."""

    def start(self, setting: Setting) -> State:
        """Refuses a training."""
        path = f"{type(self).__module__}:{type(self).__qualname__}"
        raise InputError(
            f"the method {path} is known from a record alone, which runs no code: give --method {path}, or in Python "
            "Run(method=...) with a value of the class"
        )


def recorded(path: str, values: Mapping[str, Any]) -> Recorded:
    """A method with the fields of a record, under the recorded name."""
    module, _, name = path.rpartition(":")
    hints = [(field, list[str] if isinstance(value, list) else type(value)) for field, value in values.items()]
    names = {"__module__": module, "__qualname__": name}
    cls = make_dataclass(name.rpartition(".")[2], hints, bases=(Recorded,), frozen=True, namespace=names)
    method: Recorded = cls(**values)
    return method


def check_class(cls: type[Method]) -> None:
    """Refuses a class that declares fields without being a dataclass, and a method without a loss."""
    declared = [name for name, hint in inspect.get_annotations(cls).items() if "ClassVar" not in str(hint)]
    if (declared or "__init__" in vars(cls)) and "__dataclass_fields__" not in vars(cls):
        raise InputError(
            f"{cls.__name__} is no dataclass: declare its fields as `name: type = default`, and put "
            f"@dataclass(frozen=True) above class {cls.__name__}"
        )
    if cls.loss is Method.loss and not issubclass(cls, Recorded):
        raise InputError(
            f"{cls.__name__} has no loss: define loss(self, step), which returns the number to minimize on a batch"
        )


class Steady(Method):
    """A method with the same loss in every epoch."""

    def phase(self, state: Any, epoch: int) -> Hashable:
        """One phase."""
        return None


def burn_in_option(unset: str) -> Any:
    """The number of epochs that a method trains in its plain form; `unset` describes the default."""
    return option(None, "epochs before the first sample is dropped, weighted or relabeled", least=0, unset=unset)


@dataclass(frozen=True)
class Late(Method):
    """A method that takes its plain form in the first epochs."""

    burn_in: int | None = burn_in_option("the epochs before the first drop of the learning rate")

    def start(self, setting: Setting) -> State:
        """The number of plain epochs."""
        return BurnIn(self.plain_epochs(setting))

    def phase(self, state: BurnIn, epoch: int) -> Hashable:
        """Two phases: before and after the end of the plain form."""
        return epoch <= state.burn_in

    def plain_epochs(self, setting: Setting) -> int:
        """The number of epochs in the plain form."""
        return before_drops(setting) if self.burn_in is None else self.burn_in


def before_drops(setting: Setting) -> int:
    """The number of epochs before the first drop of the learning rate, or a usual share of all epochs."""
    drops = [epoch for epoch in setting.milestones if epoch <= setting.epochs]
    return min(drops, default=round(WITHOUT_DROPS * setting.epochs) + 1) - 1


def check_counts(setting: Setting, method: str) -> None:
    """Refuses an attack without steps for a method that counts the steps a sample withstands."""
    if setting.attack_steps is not None and setting.attack_steps < 1:
        raise InputError(f"attack_steps = 0: {method} counts the steps that a sample withstands, give 1 or more")


def method_of(name: str, values: dict[str, Any]) -> Method:
    """The method of a record: built in, of an imported class, or the fields alone; a record never imports code."""
    if name in METHODS:
        if other := values.keys() - {one.name for one in fields(METHODS[name])}:
            raise InputError(f"the run is of another version of orat, with {name}.{min(other)}: train in a new folder")
        return METHODS[name](**values)
    if ":" not in name.strip(":"):
        raise unknown("method", name, METHODS)
    cls = loaded(name)
    if isinstance(cls, type) and issubclass(cls, Method):
        hints = {one.name: field_type(cls, one) for one in fields(cls) if has_text(one, field_type(cls, one))}
        with suppress(KeyError, TypeError, ValueError):  # the class has changed, or the record has words for an object
            return cls(**{name: typed(value, hints[name]) for name, value in values.items()})
    return recorded(name, values)


def typed(value: Any, hint: Any) -> Any:
    """A value of a record in the type of its field: JSON has no tuples and no paths."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if isinstance(value, list) and any(get_origin(one) is tuple for one in members):
        return tuple(value)
    return Path(value) if isinstance(value, str) and Path in members else value
