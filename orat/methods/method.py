"""What every training method is: a frozen value that turns a batch into one number, and the state that it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from orat.errors import unknown

if TYPE_CHECKING:  # torch is slow to import, and a help text needs none of it
    from torch import Generator, nn

    from orat.attacks import PGD
    from orat.state import State
    from orat.types import Batch, Images, Scalar


def option(default: Any, help: str, **more: Any) -> Any:  # noqa: A002
    """A field that is also a flag of the command line, with the text that explains it."""
    return field(default=default, metadata={"help": help, **more})


def check_choices(value: object) -> None:
    """Refuses a field of a dataclass that is none of the choices its type lists."""
    for name, hint in get_type_hints(type(value)).items():
        if get_origin(hint) is Literal and getattr(value, name) not in get_args(hint):
            raise unknown(name.replace("_", " "), str(getattr(value, name)), get_args(hint))


@dataclass(frozen=True)
class TrainingAttack:
    """The attack of the training, with the randomness it draws from; a method calls it or its `pgd.maximize`."""

    pgd: PGD
    generator: Generator

    def __call__(self, model: nn.Module, batch: Batch) -> Images:
        """The batch's images, attacked."""
        return self.pgd(model, batch.x, batch.y, self.generator)


@dataclass(frozen=True)
class Setting:
    """What a method may want to know before the first step."""

    n: int  # samples that are trained on
    total: int  # samples there were before some were held out for validation
    classes: int
    steps: int  # in an epoch
    epochs: int


@dataclass(frozen=True)
class Method:
    """A training objective; its fields are its hyper-parameters, its flags and its JSON record."""

    def start(self, setting: Setting) -> State:
        """The state that a training in this setting begins with."""
        from orat.state import State

        return State()

    def loss(self, model: nn.Module, batch: Batch, attack: TrainingAttack, state: State, epoch: int) -> Scalar:
        """The number to minimize on this batch; epochs count from 1."""
        raise NotImplementedError
