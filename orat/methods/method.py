"""What every training method is: a frozen value that turns a batch into one number, and the state that it starts."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from orat.errors import InputError, unknown
from orat.lazy import Batch, Module, Scalar, State, TrainingAttack
from orat.lazy import state as states

MNIST = ("mnist", "sample")  # data sets that a method's values for MNIST hold for


def option(default: Any, help: str, **more: Any) -> Any:  # noqa: A002
    """A field that is also a flag of the command line, with the text that explains it."""
    return field(default=default, metadata={"help": help, **more})


def burn_in_option(unset: str) -> Any:
    """The epochs before a method does what it is for; `unset` says how many where nothing is said."""
    text = "epochs of the plain form before the first cut, weight or correction"
    return option(None, text, least=0, unset=unset)


def check_choices(value: object) -> None:
    """Refuses a field of a dataclass that is none of the choices its type lists."""
    for name, hint in get_type_hints(type(value)).items():
        if get_origin(hint) is Literal and getattr(value, name) not in get_args(hint):
            raise unknown(name.replace("_", " "), str(getattr(value, name)), get_args(hint))


def check_numbers(value: object) -> None:
    """Refuses a number that is not finite, not whole where it must be, or out of its option's range."""
    hints = get_type_hints(type(value))
    for one in fields(value):  # type: ignore[arg-type]
        number, least, most = getattr(value, one.name), one.metadata.get("least"), one.metadata.get("most")
        if isinstance(number, float) and not isfinite(number):
            raise InputError(f"{one.name} = {number}: give a finite number")
        if isinstance(number, float) and hints[one.name] in (int, int | None):
            raise InputError(f"{one.name} = {number}: give a whole number")
        if least is not None and number is not None and number < least:
            raise InputError(f"{one.name} = {number}: give {least} or more")
        if most is not None and number > most:
            raise InputError(f"{one.name} = {number}: give {most} or less")


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
        return states.State()

    def loss(self, model: Module, batch: Batch, attack: TrainingAttack, state: Any, epoch: int) -> Scalar:
        """The number to minimize on this batch, with the state that `start` gave; epochs count from 1."""
        raise NotImplementedError
