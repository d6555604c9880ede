"""What a module holds outside of its state dict, where no checkpoint finds it."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

GENERATORS = (torch.Generator, np.random.Generator, Random)
OF_MODULES = frozenset(vars(nn.Module()))  # attributes of every module


def unsaved(module: nn.Module) -> dict[str, Hashable]:
    """Each plain attribute, and each buffer that is not persistent, by its path, in a form that can be compared."""
    return {path: form(value) for path, value in attributes(module).items()}


def attributes(module: nn.Module) -> dict[str, Any]:
    """The attributes of a module and of the modules in it that are in no state dict, by their path."""
    found: dict[str, Any] = {}
    for path, one in module.named_modules():
        prefix = f"{path}." if path else ""
        found |= {f"{prefix}{name}": value for name, value in vars(one).items() if name not in OF_MODULES}
        found |= {f"{prefix}{name}": one._buffers[name] for name in one._non_persistent_buffers_set}
    return found


def remembered(module: nn.Module, work: Callable[[], object]) -> list[str]:
    """The attributes and buffers that some work changes, without generators of random numbers."""
    before = form(dict(module.named_buffers())), unsaved(module)
    work()
    after = unsaved(module)
    kept = {name: value for name, value in attributes(module).items() if not isinstance(value, GENERATORS)}
    changed = [name for name in kept if before[1].get(name) != after[name]]
    return changed if form(dict(module.named_buffers())) == before[0] else [*changed, "its buffers"]


def form(value: Any, above: frozenset[int] = frozenset()) -> Hashable:
    """A value in a form that is equal for equal contents; `above` has the objects that hold it."""
    if isinstance(value, Tensor):
        return type(value).__name__ if is_lazy(value) else (tuple(value.shape), str(value.dtype), content(value))
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, GENERATORS):
        return state_of(value)
    if inspect.isroutine(value) or isinstance(value, type | ModuleType) or id(value) in above:
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    inside = above | {id(value)}
    if isinstance(value, nn.Module):
        return form({**value.state_dict(), **attributes(value)}, inside)
    if isinstance(value, Mapping):
        return tuple((form(key, inside), form(one, inside)) for key, one in value.items())
    if isinstance(value, list | tuple | deque):
        return tuple(form(one, inside) for one in value)
    if isinstance(value, set | frozenset):
        return frozenset(form(one, inside) for one in value)
    if hasattr(value, "__dict__"):
        return type(value).__qualname__, form(vars(value), inside)
    return repr(value) if isinstance(value, int | float | complex | str | bytes | None) else type(value).__qualname__


def content(value: Tensor) -> bytes:
    """The bytes of a tensor, in which NaN is equal to itself."""
    return value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def state_of(generator: torch.Generator | np.random.Generator | Random) -> Hashable:
    """The state of a generator of random numbers."""
    if isinstance(generator, torch.Generator):
        return content(generator.get_state())
    return repr(generator.bit_generator.state) if isinstance(generator, np.random.Generator) else generator.getstate()
