"""A folded network: a copy in evaluation mode with fewer operations, for attacks to search on.

Batch normalization is folded into the convolution before it, and dropout is left out. Convolutions of few channels
become matrix products, and channels are padded to the sizes of tensor cores. Logits are equal up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from orat.models.folded_patches import Patches
from orat.models.layers import Dropout, Normalize

ALIGNED = 8  # tensor cores take multiples of so many channels and columns
FEW = 8  # channels below which a convolution leaves tensor cores idle

Refresh = Callable[[], Any]
Layer = TypeVar("Layer", bound=nn.Module)


@dataclass(frozen=True)
class Form:
    """The settings of a folded network, and the functions that update its tensors."""

    dtype: torch.dtype
    pools: bool  # whether convolutions of few channels include the pooling after them
    links: list[Refresh] = field(default_factory=list)


class Folded(nn.Module):
    """The folded copy of a network; `refresh` takes over new weights.

    `pools` is for copies that are compiled for a GPU; without compilation, torch's own pooling is faster.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype, pools: bool = False) -> None:
        super().__init__()
        form = Form(dtype, pools)
        self.links = form.links
        self.network = fold(model, form)
        self.entry = at_least_single(dtype) if normalizes(model) else dtype
        self.eval().requires_grad_(False)
        self.answers = at_least_single(dtype)
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """Takes over weights and statistics of the network."""
        for link in self.links:
            link()

    def forward(self, x: Tensor) -> Tensor:
        """The logits, in single precision at least."""
        logits: Tensor = self.network(x.to(self.entry))
        return logits.to(self.answers)


class OneSize(nn.Module):
    """A folded network, compiled for batches of one size; smaller batches are padded."""

    def __init__(self, folded: Folded, size: int) -> None:
        super().__init__()
        self.folded, self.size = folded, size
        self.quick = quickened(folded.forward)

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        if len(x) > self.size:
            return torch.cat([self(part) for part in x.split(self.size)])
        whole = functional.pad(x, (0, 0) * (x.dim() - 1) + (0, self.size - len(x)))
        return self.quick(whole)[: len(x)]


def at_least_single(dtype: torch.dtype) -> torch.dtype:
    """The precision of statistics and logits, which half precision would spoil."""
    return torch.promote_types(dtype, torch.float32)


def fold(module: nn.Module, form: Form) -> nn.Module:
    """A module with the same outputs in evaluation mode, with links that update its tensors."""
    if isinstance(module, Normalize):
        return nn.Sequential(copied(module, at_least_single(form.dtype), form.links), Cast(form.dtype))
    if isinstance(module, Dropout):
        return nn.Identity()
    if convolves(module):
        return fold_convolution(module, None, form)
    if type(module) is nn.Linear and module.out_features % ALIGNED:  # attention reads the weights of a derived class
        return fold_linear(module, form)
    if computes_as(module, nn.Sequential):
        return nn.Sequential(*fold_chain(list(module), form))
    twin = copied(module, at_least_single(form.dtype) if isinstance(module, nn.BatchNorm2d) else form.dtype, form.links)
    children = module._modules.items()  # where a shared module is listed at each of its places
    twin._modules = {name: None if child is None else fold(child, form) for name, child in children}
    return twin


def normalizes(model: nn.Module) -> bool:
    """Whether a network begins with a normalization."""
    return isinstance(model, nn.Sequential) and isinstance(next(iter(model), None), Normalize)


def computes_as(module: nn.Module, kind: type[Layer]) -> TypeGuard[Layer]:
    """Whether a layer computes as torch's own class; a derived class may compute anything."""
    return isinstance(module, kind) and type(module).forward is kind.forward


def fold_chain(modules: list[nn.Module], form: Form) -> list[nn.Module]:
    """The folded modules of a sequence; a convolution includes the normalization and pooling after it."""
    result = []
    while modules:
        first, *modules = modules
        if not convolves(first):
            result.append(fold(first, form))
            continue
        norm = modules[0] if modules and keeps_statistics(modules[0]) else None
        modules = modules if norm is None else modules[1:]
        side = pooled(first, modules[0]) if modules and form.pools else 1
        modules = modules[1:] if side > 1 else modules
        result.append(fold_convolution(first, norm, form, side))
    return aligned(result)


def convolves(module: nn.Module) -> TypeGuard[nn.Conv2d]:
    """Whether a module is a convolution with zero padding."""
    if not computes_as(module, nn.Conv2d) or type(module)._conv_forward is not nn.Conv2d._conv_forward:
        return False
    return module.padding_mode == "zeros"


def keeps_statistics(module: nn.Module) -> TypeGuard[nn.BatchNorm2d]:
    """Whether a module normalizes by running statistics."""
    return computes_as(module, nn.BatchNorm2d) and module.running_mean is not None


def pooled(layer: nn.Module, then: nn.Module) -> int:
    """The side of a max-pooling that the folded convolution can include; else 1."""
    if not (isinstance(layer, nn.Conv2d) and computes_as(then, nn.MaxPool2d) and by_patches(layer)):
        return 1
    side = then.kernel_size
    whole = then.stride == side and (then.padding, then.dilation, then.ceil_mode) == (0, 1, False)
    if not isinstance(side, int) or not whole:
        return 1
    return side if all((size - 1) % side == 0 for size in layer.kernel_size) else 1


def aligned(modules: list[nn.Module]) -> list[nn.Module]:
    """The modules with channels padded for tensor cores; the extra channels are 0, and removed before other layers."""
    result, extra = list[nn.Module](), 0
    for module in modules:
        if isinstance(module, Convolution) and not module.grouped:
            extra = module.widen(extra)
        elif extra and not any(computes_as(module, kind) for kind in (nn.ReLU, nn.MaxPool2d, nn.Identity)):
            result.append(Narrow(extra))
            extra = 0
        result.append(module)
    return [*result, Narrow(extra)] if extra else result


def copied(module: nn.Module, dtype: torch.dtype, links: list[Refresh]) -> nn.Module:
    """A shallow copy with its own tensors."""
    twin = module.__new__(type(module))
    twin.__dict__ = dict(vars(module))
    for kind in ("_parameters", "_buffers"):
        own = {}
        for name, source in vars(module)[kind].items():
            own[name] = source
            if source is not None:
                own[name] = source.detach().to(dtype if source.is_floating_point() else source.dtype, copy=True)
                links.append(partial(own[name].copy_, source))
        setattr(twin, kind, own)
    return twin


def by_patches(layer: nn.Conv2d) -> bool:
    """Whether a convolution becomes a product of patches: few channels, no groups, dilation or stride."""
    plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.stride == (1, 1)
    return plain and layer.in_channels < FEW and isinstance(layer.padding, tuple)


def fold_convolution(layer: nn.Conv2d, norm: nn.BatchNorm2d | None, form: Form, pool: int = 1) -> nn.Module:
    """One module for a convolution and, where given, the normalization and the pooling after it."""
    folded = Patches(layer, form.dtype, pool) if by_patches(layer) else Convolution(layer, form.dtype)
    form.links.append(lambda: folded.update(*folded_weights(layer, norm)))
    return folded


def folded_weights(layer: nn.Conv2d, norm: nn.BatchNorm2d | None) -> tuple[Tensor, Tensor]:
    """Weight and bias of a convolution with the normalization folded in."""
    weight = layer.weight
    bias = torch.zeros_like(weight[:, 0, 0, 0]) if layer.bias is None else layer.bias
    if norm is None:
        return weight, bias
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = (norm.running_var + norm.eps).rsqrt()
    shift = -norm.running_mean * scale
    if norm.affine:
        scale, shift = scale * norm.weight, shift * norm.weight + norm.bias
    return weight * scale[:, None, None, None], bias * scale + shift


def fold_linear(layer: nn.Linear, form: Form) -> nn.Module:
    """A linear layer with outputs padded for tensor cores."""
    folded = Product(layer, form.dtype)
    bias = layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias
    form.links.append(lambda: folded.update(layer.weight, bias))
    return folded


def as_it_is(function: Any) -> Any:
    """The function itself, not compiled."""
    return function


def quickened(function: Any) -> Any:
    """The function, compiled for fixed shapes, with several variants of each kernel tried."""
    return torch.compile(function, dynamic=False, options={"max_autotune_pointwise": True})


class Cast(nn.Module):
    """Converts its input to another precision."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        return x.to(self.dtype)


class Narrow(nn.Module):
    """Cuts off the last channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        return x[:, : -self.channels]


class Convolution(nn.Module):
    """A convolution with given weights."""

    weight: Tensor
    bias: Tensor

    def __init__(self, layer: nn.Conv2d, dtype: torch.dtype) -> None:
        super().__init__()
        self.settings: tuple[Any, ...] = (layer.stride, layer.padding, layer.dilation, layer.groups)
        self.grouped = layer.groups > 1
        self.outputs, self.inputs = layer.weight.shape[:2]
        self.register_buffer("weight", layer.weight.detach().to(dtype, copy=True))
        self.register_buffer("bias", layer.weight.new_zeros(layer.out_channels, dtype=dtype))

    def widen(self, inputs: int) -> int:
        """Ignores some extra inputs, adds outputs of 0 for tensor cores, and returns the number of added outputs."""
        outputs = -self.outputs % ALIGNED
        if inputs or outputs:
            wider = functional.pad(self.weight, (0, 0, 0, 0, 0, inputs, 0, outputs))
            self.weight = wider.contiguous(memory_format=torch.channels_last)
            self.bias = functional.pad(self.bias, (0, outputs))
        return outputs

    def update(self, weight: Tensor, bias: Tensor) -> None:
        """Takes new weights."""
        self.weight[: self.outputs, : self.inputs].copy_(weight)
        self.bias[: self.outputs].copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, self.bias, *self.settings)


class Product(nn.Module):
    """A linear layer, computed with padded outputs."""

    weight: Tensor
    bias: Tensor

    def __init__(self, layer: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        self.outputs = layer.out_features
        wide = self.outputs + -self.outputs % ALIGNED
        self.register_buffer("weight", layer.weight.new_zeros(wide, layer.in_features, dtype=dtype))
        self.register_buffer("bias", layer.weight.new_zeros(wide, dtype=dtype))

    def update(self, weight: Tensor, bias: Tensor) -> None:
        """Takes new weights."""
        self.weight[: self.outputs].copy_(weight)
        self.bias[: self.outputs].copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)[..., : self.outputs]
