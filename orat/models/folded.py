"""A network as an attack sees it: in evaluation mode, nothing to learn, and as few operations as will do.

Batch normalization is folded into the convolution before it, dropout is left out, convolutions of few channels are
matrix products, which a GPU is made for, and numbers of channels are what its tensor cores take. It gives the
network's own answers, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from orat.models.folded_layers import ALIGNED, Cast, Convolution, Narrow, Patches, Product
from orat.models.layers import Dropout, Normalize

FEW = 8  # channels below which a convolution leaves tensor cores idle

Refresh = Callable[[], Any]
Layer = TypeVar("Layer", bound=nn.Module)


@dataclass(frozen=True)
class Form:
    """What a replica is made like, and what brings its tensors up to date."""

    dtype: torch.dtype
    pools: bool  # whether convolutions of few channels take in the pooling after them
    links: list[Refresh] = field(default_factory=list)


class Replica(nn.Module):
    """The mirror of a network; `refresh` brings it up to date after the network has learned.

    With `pools`, it is one to compile for a GPU: elsewhere torch's own pooling is quicker, several times so on a GPU.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype, pools: bool = False) -> None:
        super().__init__()
        form = Form(dtype, pools)
        self.links = form.links
        self.network = mirrored(model, form)
        self.eval().requires_grad_(False)
        self.answers = at_least_single(dtype)
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """Takes over what the network has learned since."""
        for link in self.links:
            link()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x)
        return logits.to(self.answers)


def at_least_single(dtype: torch.dtype) -> torch.dtype:
    """The precision of what a half would spoil: statistics, and the logits."""
    return torch.promote_types(dtype, torch.float32)


def mirrored(module: nn.Module, form: Form) -> nn.Module:
    """A module that computes the same in evaluation mode, with links that bring its tensors up to date."""
    if isinstance(module, Normalize):
        return nn.Sequential(copied(module, at_least_single(form.dtype), form.links), Cast(form.dtype))
    if isinstance(module, Dropout):
        return nn.Identity()
    if convolves(module):
        return convolution(module, None, form)
    if computes_as(module, nn.Linear) and module.out_features % ALIGNED:
        return product(module, form)
    if computes_as(module, nn.Sequential):
        return nn.Sequential(*chained(list(module.children()), form))
    kept = at_least_single(form.dtype) if isinstance(module, nn.BatchNorm2d) else form.dtype
    twin = copied(module, kept, form.links)
    twin._modules = {name: mirrored(child, form) for name, child in module.named_children()}
    return twin


def computes_as(module: nn.Module, kind: type[Layer]) -> TypeGuard[Layer]:
    """Whether this is a layer of torch's as torch computes it: what derives from one may compute anything."""
    return isinstance(module, kind) and type(module).forward is kind.forward


def chained(modules: list[nn.Module], form: Form) -> list[nn.Module]:
    """The mirrors of modules that follow each other; a convolution takes in what it can of those after it."""
    mirrors = []
    while modules:
        first, *modules = modules
        if not convolves(first):
            mirrors.append(mirrored(first, form))
            continue
        norm = modules[0] if modules and keeps_statistics(modules[0]) else None
        modules = modules if norm is None else modules[1:]
        side = pooled(first, modules[0]) if modules and form.pools else 1
        modules = modules[1:] if side > 1 else modules
        mirrors.append(convolution(first, norm, form, side))
    return aligned(mirrors)


def convolves(module: nn.Module) -> TypeGuard[nn.Conv2d]:
    """Whether this is a convolution with zeros around the image."""
    if not computes_as(module, nn.Conv2d) or type(module)._conv_forward is not nn.Conv2d._conv_forward:
        return False
    return module.padding_mode == "zeros"


def keeps_statistics(module: nn.Module) -> TypeGuard[nn.BatchNorm2d]:
    """Whether this normalizes by statistics that it keeps."""
    return computes_as(module, nn.BatchNorm2d) and module.running_mean is not None


def pooled(layer: nn.Module, then: nn.Module) -> int:
    """The side of the squares that a pooling takes the largest of, if the mirror of a convolution can do it; else 1."""
    if not (isinstance(layer, nn.Conv2d) and computes_as(then, nn.MaxPool2d) and by_patches(layer)):
        return 1
    side = then.kernel_size
    whole = then.stride == side and (then.padding, then.dilation, then.ceil_mode) == (0, 1, False)
    if not isinstance(side, int) or not whole:
        return 1
    return side if all((size - 1) % side == 0 for size in layer.kernel_size) else 1


def aligned(mirrors: list[nn.Module]) -> list[nn.Module]:
    """The same with channels for tensor cores: those too many are zero, and cut off where they would be seen."""
    result, extra = list[nn.Module](), 0
    for mirror in mirrors:
        if isinstance(mirror, Convolution) and not mirror.grouped:
            extra = mirror.widen(extra)
        elif extra and not any(computes_as(mirror, kind) for kind in (nn.ReLU, nn.MaxPool2d, nn.Identity)):
            result.append(Narrow(extra))
            extra = 0
        result.append(mirror)
    return [*result, Narrow(extra)] if extra else result


def copied(module: nn.Module, dtype: torch.dtype, links: list[Refresh]) -> nn.Module:
    """A shallow copy with tensors of its own."""
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
    """Whether a convolution is mirrored by a product of patches: one of few channels, and nothing special."""
    plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.stride == (1, 1)
    return plain and layer.in_channels < FEW and isinstance(layer.padding, tuple)


def convolution(layer: nn.Conv2d, norm: nn.BatchNorm2d | None, form: Form, pool: int = 1) -> nn.Module:
    """The mirror of a convolution and, if there are such, the normalization and the pooling after it."""
    mirror = Patches(layer, form.dtype, pool) if by_patches(layer) else Convolution(layer, form.dtype)
    form.links.append(lambda: mirror.update(*folded(layer, norm)))
    return mirror


def folded(layer: nn.Conv2d, norm: nn.BatchNorm2d | None) -> tuple[Tensor, Tensor]:
    """Weight and bias of one convolution that does what a convolution and its normalization do."""
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


def product(layer: nn.Linear, form: Form) -> nn.Module:
    """The mirror of a linear layer whose outputs are no multiple of what tensor cores take."""
    mirror = Product(layer, form.dtype)
    bias = layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias
    form.links.append(lambda: mirror.update(layer.weight, bias))
    return mirror


def as_it_is(function: Any) -> Any:
    """Does not compile."""
    return function


def quickened(function: Any) -> Any:
    """Compiled for the shapes at hand, with more than one way tried for each kernel."""
    return torch.compile(function, dynamic=False, options={"max_autotune_pointwise": True})
