"""A run: all settings of a training as a frozen value with an id. Imports no torch, to keep help texts quick."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orat.core.errors import InputError, unknown
from orat.core.options import check_choices, field_types, option, size, size_text
from orat.data.catalog import plugin
from orat.methods import METHODS

if TYPE_CHECKING:
    from orat.attacks.threat import Threat
    from orat.methods.base import Method

FORMAT = 2  # of run.json

NOT_NEGATIVE = (
    "lr", "momentum", "weight_decay", "warmup", "seed", "noise_seed", "attack_steps", "attack_step_size",
    "attack_warmup",
)  # fmt: skip
# Default fields by data set: the paper's (appendix D.2) for its data sets; milestones are shares of the epochs. The
# warm-up is ours: without a warm-up, Small-CNN at 8/255 with lr 0.1 collapses.
PAPER_CIFAR: dict[str, Any] = {
    "eps": 8 / 255, "epochs": 100, "lr": 0.1, "milestones": (0.3, 0.6), "warmup": 5.0, "augment": "crop-flip",
    "validation": 0.05, "batch_size": 128,
}  # fmt: skip
DEFAULTS: dict[str, dict[str, Any]] = {
    "mnist": {
        "model": "lenet", "eps": 0.1, "epochs": 50, "lr": 0.03, "milestones": (0.4, 0.8), "warmup": 0.0,
        "augment": "none", "validation": 0.05, "batch_size": 128,
    },
    "sample": {
        "model": "demo_cnn", "eps": 0.1, "epochs": 22, "lr": 0.05, "milestones": (0.7,), "warmup": 1.0,
        "attack_warmup": 2.0, "attack_steps": 5, "augment": "none", "validation": 0.05, "batch_size": 64,
        "weight_decay": 0.0,
    },
    "cifar10": PAPER_CIFAR | {"model": "small_cnn"},
    "cifar100": PAPER_CIFAR | {"model": "resnet18"},
    "files": PAPER_CIFAR | {"model": "resnet18"},
}  # fmt: skip

EVERYWHERE: dict[str, Any] = {"weight_decay": 2e-4, "attack_steps": 10, "attack_warmup": 0.0}


def defaults_for(data: str) -> dict[str, Any]:
    """The default fields of a run on a data set."""
    if (other := plugin(data)) is not None:
        return EVERYWHERE | DEFAULTS["files"] | dict(other.defaults)
    return EVERYWHERE | DEFAULTS.get(data, DEFAULTS["files"])


@dataclass(frozen=True)
class Run:
    """All settings of a training; a field left None gets a value for the data set, so that a run is complete."""

    data: str = option(
        "sample", "data set: a name (see `orat list data`), an image folder, a .npz or a .tar file", shown="NAME|PATH"
    )
    method: Method = option(
        None, "training method, such as at or orat; see `orat list methods`", type=object, shown="NAME"
    )
    model: str = option(None, "network, such as lenet or resnet18; see `orat list models`", shown="NAME")
    eps: float = option(None, "radius of the attacks on inputs in [0, 1], such as 0.1 or 8/255")
    norm: Literal["linf", "l2", "l1"] = option("linf", "norm of the radius")
    attack_steps: int = option(None, "steps of the training attack")
    attack_step_size: float = option(None, "size of a step", unset="eps/4")
    attack_start: Literal["uniform", "gaussian", "none"] = option(
        None, "start of the training attack", unset="gaussian for trades, mart and mail, else uniform"
    )
    attack_warmup: float = option(None, "epochs over which the radius of the training attack rises from 0")
    attack_mode: Literal["eval", "train"] = option("eval", "mode of the network during the attack")
    noise: Literal["none", "symmetric", "asymmetric", "asymmetric-authors", "instance"] = option(
        "none", "kind of noise added to the training labels"
    )
    noise_rate: float = option(0.0, "share of the labels to change")
    noise_seed: int = option(0, "seed of the noise, independent of --seed")
    labels: str | None = option(None, "file with other training labels (.npy, .csv, .txt)", shown="FILE")
    init_from: str | None = option(None, "start from the weights of a finished run or in a file", shown="PATH")
    validation: float = option(None, "share of the training set held out to choose an epoch")
    epochs: int = option(None, "passes over the training set")
    lr: float = option(None, "learning rate")
    milestones: tuple[int, ...] = option(None, "epochs at which the learning rate is divided by 10, such as 20,40")
    warmup: float = option(None, "epochs over which the learning rate rises from 0")
    batch_size: int = option(None, "samples in a training step")
    momentum: float = option(0.9, "momentum of SGD")
    weight_decay: float = option(None, "weight decay of SGD")
    augment: Literal["none", "crop", "flip", "crop-flip"] = option(None, "random changes of the training images")
    image_size: tuple[int, int] | None = option(
        None, "resize the images of a folder to this, such as 32x48", parse=size, write=size_text
    )
    normalize: bool = option(False, "normalize by the mean and deviation of the training set, inside the network")
    precision: Literal["auto", "mixed", "tf32", "float32"] = option(
        "auto", "arithmetic: bfloat16 mixed with float32, TF32, or float32; auto: mixed on a GPU, float32 on a CPU"
    )
    seed: int = option(0, "seed of weights, batches and attacks")

    def __post_init__(self) -> None:
        check_method(self.method)
        defaults = defaults_for(self.data)
        epochs = defaults["epochs"] if self.epochs is None else self.epochs
        scaled = {round(share * epochs) for share in defaults["milestones"]}
        defaults["milestones"] = tuple(sorted(scaled - {0, 1}))  # a run of few epochs has no drop before its second
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        object.__setattr__(self, "method", self.method.filled(self.data))
        if self.attack_start is None:
            object.__setattr__(self, "attack_start", self.method.attack_start)
        if self.attack_step_size is None:
            object.__setattr__(self, "attack_step_size", self.eps / 4)
        check_choices(self)
        check(self)

    @property
    def method_name(self) -> str:
        """The method's name on the command line."""
        return METHODS.name_of(type(self.method))

    @property
    def threat(self) -> Threat:
        """The radius and norm of the attacks."""
        from orat.attacks.threat import Threat  # here, because it imports torch

        return Threat(self.eps, self.norm)

    @property
    def id(self) -> str:
        """A short hash of all fields: the same run has the same id anywhere."""
        return hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode()).hexdigest()[:10]

    def record(self) -> dict[str, Any]:
        """The run as plain JSON."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain |= floats(self)
        plain["method"] = {"name": self.method_name, **asdict(self.method), **floats(self.method)}
        return {"format": FORMAT, **json.loads(json.dumps(plain))}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Run:
        """The run that a record describes."""
        if record.get("format") != FORMAT:
            raise InputError(
                f"the run is from an incompatible version of orat (format {record.get('format')}, not {FORMAT}): "
                "use that version, or train again in a new folder"
            )
        plain = {name: value for name, value in record.items() if name != "format"}
        method = dict(plain.pop("method"))
        for name in ("milestones", "image_size"):
            plain[name] = None if plain[name] is None else tuple(plain[name])
        return cls(method=method_class(method.pop("name"))(**method), **plain)


def method_class(name: str) -> type[Method]:
    """The class of a recorded method: built in, or in an imported module; a record never imports code."""
    if name in METHODS:
        return METHODS[name]
    from orat.methods.base import Method  # here, because it imports torch

    module, _, attribute = name.partition(":")
    found = getattr(sys.modules.get(module), attribute, None)
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise InputError(f"the method {name} of the run is not part of orat: import {module} before")
    return found


def floats(value: Run | Method) -> dict[str, float]:
    """The fields of type float, as floats even where a whole number was given."""
    return {name: float(getattr(value, name)) for name, hint in field_types(type(value)).items() if hint is float}


def check_method(method: object) -> None:
    """Refuses a value that is no training method."""
    from orat.methods.base import Method  # here, because it imports torch

    if method is None:
        raise unknown("method", "None", METHODS)
    if not isinstance(method, Method):
        raise InputError(f"method = {method!r}: give a value such as orat.methods.ORAT(m=0.3)")


def check(run: Run) -> None:
    """Refuses values without a meaning."""
    if not run.eps >= 0 or (run.norm == "linf" and run.eps > 1):
        raise InputError(
            f"eps = {run.eps:g}: inputs live in [0, 1], so the radius does too; did you mean {run.eps:g}/255?"
        )
    if not 0 <= run.noise_rate < 1:
        raise InputError(f"noise_rate = {run.noise_rate:g}: give a share in [0, 1), such as 0.4")
    if run.noise != "none" and run.noise_rate == 0:
        raise InputError(f"noise = {run.noise!r} with noise_rate = 0 flips nothing: give a rate, such as 0.4")
    if run.noise == "none" and run.noise_rate > 0:
        raise InputError(f"noise_rate = {run.noise_rate:g} without noise: give its kind, such as --noise symmetric")
    if run.labels is not None and run.noise != "none":
        raise InputError(f"both labels = {run.labels!r} and noise = {run.noise!r}: give one of them")
    if not 0 <= run.validation < 1:
        raise InputError(f"validation = {run.validation:g}: give a share in [0, 1), such as 0.05")
    for name in ("epochs", "batch_size"):
        if getattr(run, name) < 1:
            raise InputError(f"{name} = {getattr(run, name)}: give 1 or more")
    for name in NOT_NEGATIVE:
        if not getattr(run, name) >= 0:
            raise InputError(f"{name} = {getattr(run, name)}: give 0 or more")


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
