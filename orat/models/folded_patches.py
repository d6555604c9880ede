"""Convolutions of few channels as matrix products of patches, for folded networks."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

ALIGNED = 8  # tensor cores take multiples of so many channels and columns


class Patches(nn.Module):
    """A convolution of few channels as one product of all patches with a matrix.

    With a pooling, a patch covers all inputs of one pooling square, and the matrix computes all places of the square.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, layer: nn.Conv2d, dtype: torch.dtype, pool: int = 1) -> None:
        super().__init__()
        self.kernel, self.pool, self.outputs = layer.kernel_size, pool, layer.out_channels
        self.size = (layer.kernel_size[0] + pool - 1, layer.kernel_size[1] + pool - 1)
        rows, columns = (int(side) for side in layer.padding)
        self.padding = (columns, columns, rows, rows)
        values = layer.in_channels * self.size[0] * self.size[1]
        self.spare = -values % ALIGNED
        self.register_buffer("weight", layer.weight.new_zeros(self.outputs * pool**2, values + self.spare, dtype=dtype))
        self.register_buffer("bias", layer.weight.new_zeros(self.outputs, dtype=dtype))

    def update(self, weight: Tensor, bias: Tensor) -> None:
        """Takes new weights; in a patch, the place comes before the channel."""
        whole = self.weight[:, : self.weight.shape[1] - self.spare]
        kernels = whole.unflatten(1, (*self.size, -1)).unflatten(0, (-1, self.outputs))
        for place, kernel in enumerate(kernels):
            row, column = divmod(place, self.pool)
            own = kernel[:, row : row + self.kernel[0], column : column + self.kernel[1]]
            own.copy_(weight.permute(0, 2, 3, 1))
        self.bias.copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        patches = Gather.apply(functional.pad(x, self.padding), self.size, self.pool, self.spare)
        if self.pool == 1:
            return functional.linear(patches, self.weight, self.bias).movedim(-1, 1)
        places = functional.linear(patches, self.weight).unflatten(-1, (-1, self.outputs))
        columns = places.flatten(0, 2).transpose(1, 2).unsqueeze(-1)  # the places of a square, one below the other
        largest = functional.max_pool2d(columns, (self.pool**2, 1)).view(*patches.shape[:3], self.outputs)
        return (largest + self.bias).movedim(-1, 1)


class Gather(torch.autograd.Function):
    """Images -> the patch at each place, (n, rows, columns, values).

    Patches are `stride` apart, and their sides are multiples of the stride.
    """

    @staticmethod
    def forward(x: Tensor, size: tuple[int, int], stride: int, spare: int) -> Tensor:
        patches = x.unfold(2, size[0], stride).unfold(3, size[1], stride).permute(0, 2, 3, 4, 5, 1).flatten(3)
        return functional.pad(patches, (0, spare))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        x, ctx.size, ctx.stride, ctx.spare = inputs
        ctx.shape = x.shape

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[no-untyped-def]
        """Patches consist of blocks of stride x stride pixels: sums the images of all first, second, ... blocks."""
        n, channels, height, width = ctx.shape
        side, (_, rows, columns, values) = ctx.stride, gradient.shape
        high, wide = (size // side for size in ctx.size)
        blocks = gradient[..., : values - ctx.spare].unflatten(-1, (high, side, wide, side, channels))
        below, right = height - (rows + high - 1) * side, width - (columns + wide - 1) * side  # pixels in no patch
        total = None
        for row in range(high):
            for column in range(wide):
                image = blocks[:, :, :, row, :, column].permute(0, 5, 1, 3, 2, 4)
                image = image.reshape(n, channels, rows * side, columns * side)
                across = (column * side, (wide - 1 - column) * side + right)
                part = functional.pad(image, (*across, row * side, (high - 1 - row) * side + below))
                total = part if total is None else total + part
        return total, None, None, None
