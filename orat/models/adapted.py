"""Changes that let a user's network train: modules are registered, dropout is seeded, and the output is the logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from orat.core.errors import InputError
from orat.core.random import seeded
from orat.core.registry import as_input_error
from orat.core.types import Images
from orat.models.layers import Dropout

Say = Callable[[str], object]  # takes a line for the user
TORCHS = frozenset(vars(nn.Module()))  # attributes of every module
SAMPLES = 2  # of a trial: batch normalization needs two


class Adapted(nn.Module):
    """A network with the logits of its output as output; weights keep the names that the network gives.

    `contiguous` is for networks that cannot take images with channels last in memory.
    """

    def __init__(self, network: nn.Module, contiguous: bool) -> None:
        super().__init__()
        self.network, self.contiguous = network, contiguous

    def forward(self, x: Images) -> Tensor:
        # A clone: to torch, images of one channel are contiguous in both formats.
        return logits_of(self.network(x.clone(memory_format=torch.contiguous_format) if self.contiguous else x))

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The weights under the names of the network."""
        return self.network.state_dict(*args, **kwargs)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Gives the weights to the network."""
        for name in [name for name in state_dict if name.startswith(prefix)]:
            state_dict[f"{prefix}network.{name.removeprefix(prefix)}"] = state_dict.pop(name)
        super()._load_from_state_dict(state_dict, prefix, *args)


def logits_of(output: object) -> Tensor:
    """The logits in the output of a network: a tensor, `.logits`, the entry "logits", or the only tensor."""
    if isinstance(output, Tensor):
        return output
    if isinstance(found := getattr(output, "logits", None), Tensor):
        return found
    if isinstance(output, Mapping) and isinstance(found := output.get("logits"), Tensor):
        return found
    parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, list | tuple) else ()
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if len(tensors) != 1:
        raise InputError(
            f"the network returns a {type(output).__name__} with {len(tensors)} tensors: "
            'return the logits as a tensor, as .logits, or in a dict with "logits"'
        )
    return tensors[0]


def adapt(network: nn.Module, shape: tuple[int, ...], what: str, say: Say) -> nn.Module:
    """The network of a user in a form that can be trained: itself, or behind an adapter."""
    if names := register_hidden(network):
        say(f"{what} has modules in plain lists, tuples or dicts, which torch does not see: registered {listed(names)}")
    replace_dropout(network)
    x = trial_inputs(network, shape)
    with as_input_error(f"{what} on inputs of shape {tuple(x.shape)}", "let it take such inputs"):
        outputs = tried(network, x)  # before the memory format, which lazy modules do not have yet
        for output in outputs:
            logits_of(output)
    contiguous = x.dim() == 4 and not takes_channels_last(network, x)
    return (
        Adapted(network, contiguous) if contiguous or not all(isinstance(one, Tensor) for one in outputs) else network
    )


def listed(names: list[str]) -> str:
    """The first names, and the number of all."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def trial_inputs(network: nn.Module, shape: tuple[int, ...]) -> Tensor:
    """Two samples of random values in [0, 1] on the device of a network."""
    device = next((tensor.device for tensor in network.parameters()), torch.device("cpu"))
    return torch.rand(SAMPLES, *shape, generator=torch.Generator().manual_seed(0)).to(device)


def tried(network: nn.Module, x: Images) -> list[object]:
    """The outputs in evaluation mode and in train mode; the network stays as it is."""
    outputs = []
    for mode in (False, True):
        with undisturbed(network, mode), torch.no_grad():
            outputs.append(network(x.clone()))
    return outputs


def takes_channels_last(network: nn.Module, x: Images) -> bool:
    """Whether a network works with channels last, the memory format of batches; `view` may fail in it."""
    try:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # stubs of torch lack this form
        tried(network, x.contiguous(memory_format=torch.channels_last))
    except RuntimeError:
        network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        return False
    return True


@contextmanager
def undisturbed(network: nn.Module, training: bool) -> Iterator[None]:
    """Puts a network into a mode; modes, buffers and global random states are restored."""
    modes = [(module, module.training) for module in network.modules()]
    buffers = [(one, one.clone()) for one in network.buffers() if not is_lazy(one)]
    network.train(training)
    try:
        with seeded(0):
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def replace_dropout(network: nn.Module) -> None:
    """Replaces torch's dropout, which draws from torch's global generator, by dropout with its own random numbers."""
    made: dict[nn.Module, Dropout] = {}
    for parent in list(network.modules()):
        for name, child in parent._modules.items():
            if type(child) is nn.Dropout and 0 < child.p < 1:
                parent._modules[name] = made.setdefault(child, Dropout(child.p)).train(child.training)


def register_hidden(network: nn.Module) -> list[str]:
    """Registers modules in plain lists, tuples and dicts under their natural names; returns the names."""
    names, known = [], set(network.modules())
    for path, module in network.named_modules():  # which continues with the modules that are registered here
        hidden = {name: value for name, value in vars(module).items() if name not in TORCHS}
        for name, value in hidden.items():
            if isinstance(value, list | tuple | dict) and not held_by(value) <= known:
                place = f"{path}.{name}" if path else name
                setattr(module, name, container(value, place))
                known |= set(getattr(module, name).modules())
                names.append(place)
    return names


def held_by(value: object) -> set[nn.Module]:
    """The modules in plain containers, at any depth."""
    if isinstance(value, nn.Module):
        return {value}
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return {module for part in parts for module in held_by(part)}


def container(value: Any, place: str) -> nn.Module:
    """The registered form of a plain container; refuses a container with anything but modules."""
    if isinstance(value, nn.Module):
        return value
    if isinstance(value, list | tuple):
        return nn.ModuleList([container(part, f"{place}[{index}]") for index, part in enumerate(value)])
    if not isinstance(value, dict):
        raise InputError(
            f"{place} is a {type(value).__name__} beside modules in a plain container, which cannot be registered: "
            "use nn.ModuleList or nn.ModuleDict for the modules alone"
        )
    with as_input_error(f"registering {place}", "use nn.ModuleDict, with texts as keys"):
        return nn.ModuleDict({name: container(part, f"{place}[{name!r}]") for name, part in value.items()})
