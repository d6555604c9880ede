"""A run: all settings of a training as a frozen value with an id. Imports no torch, to keep help texts quick."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orat.core.domain import Domain, check_bounds, size, size_text
from orat.core.errors import InputError, unknown
from orat.core.options import (
    check_choices,
    check_numbers,
    field_types,
    limits,
    option,
    quotient,
    take_types,
)
from orat.core.registry import FromRecord, described, in_words
from orat.data.catalog import NAMES
from orat.methods import METHODS
from orat.training.defaults import BY_DATA, Facts, defaults_for, fitting, scaled

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from orat.attacks.threat import Threat
    from orat.methods.base import Method

FLOATS = (float, float | None)

FORMAT = 2  # of run.json

LATER = ("attack", "target", "bounds", "frozen", "class_depth")  # recorded only where given, so that ids stay
OF_PGD = ("attack_steps", "attack_step_size", "attack_start")  # None in a run with another attack


@dataclass(frozen=True, eq=False)
class Run:
    """All settings of a training.

    A field left None gets a value from the name of the data set at once, or from the data themselves when a training
    reads them. `data`, `model` and `attack` are names, or objects in memory, of which a record has only the class.
    """

    data: str | Any = option(
        "sample",
        "data set: a name (see `orat data`), an image folder, a .npz, .csv, .tsv, .parquet or .tar file, or "
        "module:attribute",
        type=str, shown="NAME|PATH",
    )  # fmt: skip
    method: Method = option(
        None, "training method, such as at or orat; see `orat list methods`", type=object, shown="NAME"
    )
    model: str | Any = option(
        None, "network, such as resnet18 (see `orat list models`), or module:function", type=str, shown="NAME"
    )
    eps: float = option(
        None, "radius of the attacks: for inputs in [0, 1] such as 0.1 or 8/255, for a table in standard deviations",
        write=quotient, as_text=True,
    )  # fmt: skip
    norm: Literal["linf", "l2", "l1"] = option("linf", "norm of the radius")
    attack: str | Any | None = option(
        None, "training attack: a name (see `orat list attacks`), or your own, module:attribute or file.py:attribute",
        type=str | None, shown="NAME", unset="PGD by the flags below",
    )  # fmt: skip
    attack_steps: int = option(None, "steps of the training attack", least=0)
    attack_step_size: float = option(None, "size of a step", unset="eps/4", as_text=True, least=0)
    attack_start: Literal["uniform", "gaussian", "none"] = option(
        None, "start of the training attack", unset="gaussian for trades, mart and mail, else uniform"
    )
    attack_warmup: float = option(None, "epochs over which the radius of the training attack rises from 0", least=0)
    attack_mode: Literal["eval", "train"] = option("eval", "mode of the network during the attack")
    noise: Literal["none", "symmetric", "asymmetric", "asymmetric-authors", "instance"] = option(
        "none", "kind of noise added to the training labels"
    )
    noise_rate: float = option(0.0, "share of the labels to change")
    noise_seed: int = option(0, "seed of the noise, independent of --seed", least=0)
    labels: str | None = option(None, "file with other training labels (.npy, .csv, .txt)", shown="FILE")
    target: str | None = option(None, "column of a table that holds the labels", shown="COLUMN")
    bounds: Literal["data", "none"] | tuple[float, float] = option(
        "data", "bounds of the columns of a table: their smallest and largest values, none, or two numbers LOW,HIGH",
        shown="data|none|LOW,HIGH", parse=limits,
    )  # fmt: skip
    frozen: tuple[str, ...] = option((), "columns of a table that no attack changes, such as age,sex", shown="NAMES")
    class_depth: int = option(1, "levels of folders that make the name of a class in an image folder", least=1)
    init_from: str | None = option(None, "start from the weights of a finished run or in a file", shown="PATH")
    validation: float = option(None, "share of the training set held out to choose an epoch")
    epochs: int = option(None, "passes over the training set", least=1)
    lr: float = option(None, "learning rate", least=0)
    milestones: tuple[int, ...] = option(None, "epochs at which the learning rate is divided by 10, such as 20,40")
    warmup: float = option(None, "epochs over which the learning rate rises from 0", least=0)
    batch_size: int = option(None, "samples in a training step", least=1)
    momentum: float = option(0.9, "momentum of SGD", least=0)
    weight_decay: float = option(None, "weight decay of SGD", least=0)
    augment: Literal["none", "crop", "flip", "crop-flip"] = option(None, "random changes of the training images")
    image_size: tuple[int, int] | None = option(
        None, "resize the images of a folder to this, such as 32x48", parse=size, write=size_text
    )
    normalize: bool = option(False, "normalize by the mean and deviation of the training set, inside the network")
    precision: Literal["auto", "mixed", "tf32", "float32"] = option(
        "auto", "arithmetic: bfloat16 mixed with float32, TF32, or float32; auto: mixed on a GPU, float32 on a CPU"
    )
    seed: int = option(0, "seed of weights, batches and attacks", least=0)

    def __post_init__(self) -> None:
        take_types(self)
        check_method(self.method)
        check_attack(self)
        if isinstance(self.data, os.PathLike):
            object.__setattr__(self, "data", os.fspath(self.data))
        if hasattr(self.data, "__array__") and not hasattr(self.data, "columns"):
            raise InputError(f"data = {type(self.data).__name__}: an array has no labels; give (x, y)")
        for name, value in self.defaults().items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        object.__setattr__(self, "method", self.method.filled(self.data))
        if self.attack_step_size is None and self.eps is not None and self.attack is None:
            object.__setattr__(self, "attack_step_size", self.eps / 4)
        check_choices(self)
        check(self)

    def defaults(self) -> dict[str, Any]:
        """The default fields by the name of the data set, and the method's start of the attack."""
        values = scaled(defaults_for(self.data), self.epochs) | {"attack_start": self.method.attack_start}
        return {name: value for name, value in values.items() if self.attack is None or name not in OF_PGD}

    @property
    def method_name(self) -> str:
        """The method's name on the command line."""
        return METHODS.name_of(type(self.method))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self.record() == other.record()

    __hash__ = object.__hash__

    @property
    def has_own_method(self) -> bool:
        """Whether the method is not part of the package."""
        return self.method_name not in METHODS

    @property
    def runs_code(self) -> bool:
        """Whether steps run a method or an attack of a user, which is tried before anything is written."""
        return self.attack is not None or self.has_own_method

    @property
    def threat(self) -> Threat:
        """The radius and norm of the attacks on inputs in [0, 1]."""
        from orat.attacks.threat import Threat  # here, because it imports torch

        return Threat(self.eps, self.norm)

    def threat_in(self, domain: Domain, share: float = 1.0) -> Threat:
        """The attacks' radius, or a share of it, and norm, in the bounds and units of data read as by the run."""
        from orat.attacks.threat import Threat  # here, because it imports torch

        check_reading(self, domain)
        return Threat(self.eps * share, self.norm, domain.low, domain.high, domain.scale)

    @property
    def unset(self) -> list[str]:
        """The fields that wait for the data."""
        return [name for name in BY_DATA if getattr(self, name) is None]

    def filled(self, values: Mapping[str, Any]) -> Run:
        """The run with these values in fields left None."""
        return replace(self, **{name: value for name, value in values.items() if getattr(self, name) is None})

    def fitted(self, facts: Facts) -> Run:
        """The complete run on data of this kind, number and size."""
        return self.filled(fitting(facts, self.epochs, self.batch_size)) if self.unset else self

    @property
    def id(self) -> str:
        """A short hash of all fields: the same run has the same id anywhere."""
        return hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode()).hexdigest()[:10]

    def record(self) -> dict[str, Any]:
        """The run as plain JSON."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)} | floats(self)
        plain |= {name: in_words(plain[name]) for name in ("data", "model", "attack")}
        later = {field.name: field.default for field in fields(self) if field.name in LATER}
        plain = {name: value for name, value in plain.items() if name not in later or value != later[name]}
        values = {field.name: getattr(self.method, field.name) for field in fields(self.method) if field.init}
        plain["method"] = {"name": self.method_name, **values, **floats(self.method)}
        return {"format": FORMAT, **json.loads(json.dumps(plain, default=described))}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Run:
        """The run that a record describes."""
        if record.get("format") != FORMAT:
            raise InputError(
                f"the run is from an incompatible version of orat (format {record.get('format')}, not {FORMAT}): "
                "use that version, or train again in a new folder"
            )
        plain = {name: value for name, value in record.items() if name != "format"}
        from orat.methods.base import method_of  # here, because it imports torch

        method = dict(plain.pop("method"))
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
        if plain.get("attack") is not None:
            plain["attack"] = FromRecord(plain["attack"])
        return cls(method=method_of(method.pop("name"), method), **plain)


def check_method(method: object) -> None:
    """Refuses a value that is no training method, or a method whose fields clash with those of a run."""
    from orat.methods.base import Method, check_class  # here, because it imports torch

    if method is None:
        raise unknown("method", "None", METHODS)
    if not isinstance(method, Method):
        raise InputError(f"method = {method!r}: give a value such as orat.methods.ORAT(m=0.3)")
    check_class(type(method))
    taken = {"name", *(field.name for field in fields(Run))}
    if clashes := [field.name for field in fields(method) if field.name in taken]:
        raise InputError(f"{type(method).__name__}.{clashes[0]} is a field of every run: give the field another name")


def check_attack(run: Run) -> None:
    """Refuses settings of PGD beside another attack."""
    if run.attack is None:
        return
    for name in OF_PGD:
        if getattr(run, name) is not None:
            raise InputError(
                f"both {name} = {getattr(run, name)} and attack = {in_words(run.attack)}: {name} is for the PGD of the "
                "run, so leave one of them out"
            )
    if run.attack_mode != "eval":
        raise InputError(f"attack_mode = {run.attack_mode} is for the PGD of the run: set the mode of the attack")


def check(run: Run) -> None:
    """Refuses values without a meaning."""
    if run.eps is not None and not run.eps >= 0:
        raise InputError(f"eps = {run.eps:g}: the radius of an attack is a number of 0 or more")
    if isinstance(run.data, str) and run.data in NAMES and run.norm == "linf" and run.eps > 1:
        raise InputError(f"eps = {run.eps:g}: images live in [0, 1], so the radius does; did you mean {run.eps:g}/255?")
    if not 0 <= run.noise_rate < 1:
        raise InputError(f"noise_rate = {run.noise_rate:g}: give a share in [0, 1), such as 0.4")
    if run.noise != "none" and run.noise_rate == 0:
        raise InputError(f"noise = {run.noise!r} with noise_rate = 0 flips nothing: give a rate, such as 0.4")
    if run.noise == "none" and run.noise_rate > 0:
        raise InputError(f"noise_rate = {run.noise_rate:g} without noise: give its kind, such as --noise symmetric")
    if run.labels is not None and run.noise != "none":
        raise InputError(f"both labels = {run.labels!r} and noise = {run.noise!r}: give one of them")
    if run.validation is not None and not 0 <= run.validation < 1:
        raise InputError(f"validation = {run.validation:g}: give a share in [0, 1), such as 0.05")
    if run.bounds != "data":
        check_bounds(run.bounds)
    check_numbers(run)


def check_reading(run: Run, domain: Domain) -> None:
    """Refuses data that were read with other bounds or frozen columns than those of the run."""
    theirs = domain.columns
    if (theirs.bounds, {*theirs.frozen}) != (run.bounds, {*run.frozen}):
        given = f"bounds={run.bounds!r}, frozen={run.frozen!r}"
        raise InputError(
            f"the data were read with bounds={theirs.bounds!r}, frozen={theirs.frozen!r}, but the run has {given}: "
            f"read them as the run does, by orat.load_data(..., {given})"
        )


def read_run(folder: Path) -> Run:
    """The run in a folder."""
    file = folder / "run.json"
    if not file.is_file():
        raise InputError(f"{folder} is not a run folder: there is no run.json in it; give the folder of a run")
    try:
        return Run.from_record(json.loads(file.read_text()))
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file} is damaged ({error}): it was not written by this version of orat") from None
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def floats(value: DataclassInstance) -> dict[str, float | None]:
    """The fields of type float, as floats even where a whole number was given."""
    hints = field_types(type(value))
    given = {one.name: getattr(value, one.name) for one in fields(value) if one.init and hints[one.name] in FLOATS}
    return {name: None if number is None else float(number) for name, number in given.items()}
