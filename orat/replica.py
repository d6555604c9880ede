"""A network as an attack sees it: in evaluation mode, nothing to learn, and as few operations as will do.

Batch normalization is folded into the convolution before it, dropout is left out, and convolutions of few channels are
matrix products, which a GPU is made for. It gives the network's own answers, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from orat.models.dropout import Dropout
from orat.models.normalize import Normalize

FEW = 8  # channels below which a convolution leaves tensor cores idle
ALIGNED = 8  # columns that a matrix product on tensor cores wants a multiple of

Refresh = Callable[[], Any]


class Replica(nn.Module):
    """The mirror of a network; `refresh` brings it up to date after the network has learned."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.links: list[Refresh] = []
        self.network = mirrored(model, dtype, self.links)
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


def mirrored(module: nn.Module, dtype: torch.dtype, links: list[Refresh]) -> nn.Module:
    """A module that computes the same in evaluation mode, with links that bring its tensors up to date."""
    if isinstance(module, Normalize):
        return nn.Sequential(copied(module, at_least_single(dtype), links), Cast(dtype))
    if isinstance(module, Dropout):
        return nn.Identity()
    if isinstance(module, nn.Conv2d) and module.padding_mode == "zeros":
        return convolution(module, None, dtype, links)
    if isinstance(module, nn.Linear) and module.out_features % ALIGNED:
        return product(module, dtype, links)
    if type(module).forward is nn.Sequential.forward:
        return nn.Sequential(*chained(list(module.children()), dtype, links))
    kept = at_least_single(dtype) if isinstance(module, nn.BatchNorm2d) else dtype
    twin = copied(module, kept, links)
    twin._modules = {name: mirrored(child, dtype, links) for name, child in module.named_children()}
    return twin


def chained(modules: list[nn.Module], dtype: torch.dtype, links: list[Refresh]) -> list[nn.Module]:
    """The mirrors of modules that follow each other; a convolution takes in the normalization after it."""
    mirrors = []
    while modules:
        first, *modules = modules
        if modules and foldable(first, modules[0]):
            norm, *modules = modules
            mirrors.append(convolution(first, norm, dtype, links))  # type: ignore[arg-type]
        else:
            mirrors.append(mirrored(first, dtype, links))
    return mirrors


def foldable(first: nn.Module, then: nn.Module) -> bool:
    """Whether these are a convolution and a normalization by statistics that it keeps."""
    convolves = isinstance(first, nn.Conv2d) and first.padding_mode == "zeros"
    return convolves and isinstance(then, nn.BatchNorm2d) and then.running_mean is not None


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


class Cast(nn.Module):
    """Gives its input another precision."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        return x.to(self.dtype)


def convolution(layer: nn.Conv2d, norm: nn.BatchNorm2d | None, dtype: torch.dtype, links: list[Refresh]) -> nn.Module:
    """The mirror of a convolution and, if there is one, the normalization after it."""
    plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.stride == (1, 1)
    kind = Patches if plain and layer.in_channels < FEW and isinstance(layer.padding, tuple) else Convolution
    mirror = kind(layer, dtype)
    links.append(lambda: mirror.update(*folded(layer, norm)))
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


class Convolution(nn.Module):
    """A convolution with given weights."""

    weight: Tensor
    bias: Tensor

    def __init__(self, layer: nn.Conv2d, dtype: torch.dtype) -> None:
        super().__init__()
        self.settings: tuple[Any, ...] = (layer.stride, layer.padding, layer.dilation, layer.groups)
        self.register_buffer("weight", layer.weight.detach().to(dtype, copy=True))
        self.register_buffer("bias", layer.weight.new_zeros(layer.out_channels, dtype=dtype))

    def update(self, weight: Tensor, bias: Tensor) -> None:
        """Takes new weights."""
        self.weight.copy_(weight)
        self.bias.copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, self.bias, *self.settings)


def product(layer: nn.Linear, dtype: torch.dtype, links: list[Refresh]) -> nn.Module:
    """The mirror of a linear layer whose outputs are no multiple of what tensor cores take."""
    mirror = Product(layer, dtype)
    bias = layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias
    links.append(lambda: mirror.update(layer.weight, bias))
    return mirror


class Product(nn.Module):
    """A linear layer with some more outputs, which are cut off again."""

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


class Patches(nn.Module):
    """A convolution of few channels as one product of all patches with a matrix."""

    weight: Tensor
    bias: Tensor

    def __init__(self, layer: nn.Conv2d, dtype: torch.dtype) -> None:
        super().__init__()
        self.size = (layer.kernel_size[0], layer.kernel_size[1])
        rows, columns = (int(side) for side in layer.padding)
        self.padding = (columns, columns, rows, rows)
        values = layer.in_channels * self.size[0] * self.size[1]
        self.spare = -values % ALIGNED
        self.register_buffer("weight", layer.weight.new_zeros(layer.out_channels, values + self.spare, dtype=dtype))
        self.register_buffer("bias", layer.weight.new_zeros(layer.out_channels, dtype=dtype))

    def update(self, weight: Tensor, bias: Tensor) -> None:
        """Takes new weights; in a patch, the place in the kernel comes before the channel."""
        flat = weight.permute(0, 2, 3, 1).flatten(1)
        self.weight[:, : flat.shape[1]].copy_(flat)
        self.bias.copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        patches = Gather.apply(functional.pad(x, self.padding), self.size, self.spare)
        return functional.linear(patches, self.weight, self.bias).movedim(-1, 1)


class Gather(torch.autograd.Function):
    """Images -> the patch around each place, (n, rows, columns, values); back, each pixel sums its places in them."""

    @staticmethod
    def forward(x: Tensor, size: tuple[int, int], spare: int) -> Tensor:
        patches = x.unfold(2, size[0], 1).unfold(3, size[1], 1).permute(0, 2, 3, 4, 5, 1).flatten(3)
        return functional.pad(patches, (0, spare))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        x, ctx.size, _ = inputs
        ctx.channels = x.shape[1]

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[no-untyped-def]
        high, wide = ctx.size
        total = None
        for place in range(high * wide):
            row, column = divmod(place, wide)
            part = gradient[..., place * ctx.channels : (place + 1) * ctx.channels].movedim(-1, 1)
            around = (column, wide - 1 - column, row, high - 1 - row)
            total = functional.pad(part, around) if total is None else total + functional.pad(part, around)
        return total, None, None
