"""Gradients of losses by the input, and the refusal of a network that cuts the graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from orat.core.errors import InputError
from orat.core.types import Images, PerSample


def slope(losses: PerSample, x: Images) -> Images:
    """The gradient of each loss by its input; 0 where the gradient is not finite."""
    return gradient_of(losses, x).nan_to_num(0, 0, 0)


def gradient_at(objective: Callable[[Images], PerSample], x: Images) -> Images:
    """The gradient of each objective by its input, also where the caller disabled gradients."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        losses = objective(x)
        if not isinstance(losses, Tensor) or losses.shape != (len(x),):
            shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            raise InputError(
                f"the loss of the attack gives {shape} for {len(x)} samples: give one number per sample, without "
                "mean or sum"
            )
        return gradient_of(losses, x)


def gradient_of(losses: PerSample, x: Images) -> Images:
    """The gradient of each loss by its input; refuses a network that cuts the graph, where attacks stand still."""
    gradient = reaching(losses, x)
    if gradient is None:
        raise cut_graph()
    return gradient


def reaching(losses: PerSample, x: Images) -> Images | None:
    """The gradient of each loss by its input; None where the network cuts the graph."""
    if not losses.requires_grad:
        return None
    (gradient,) = torch.autograd.grad(losses.sum(), x, allow_unused=True)
    return gradient


def cut_graph() -> InputError:
    """The error for logits whose gradient does not reach the input."""
    if torch.is_inference_mode_enabled():
        return InputError("torch.inference_mode() hides gradients from attacks: leave it, or use torch.no_grad()")
    return InputError(
        "no gradient of the network reaches its input, as behind detach(), no_grad() or NumPy in its forward: "
        "remove what cuts the graph, or give only attacks without gradients (square)"
    )


def check_gradients_on() -> None:
    """Refuses a training where the caller switched gradients off."""
    for off, name in ((torch.is_inference_mode_enabled(), "inference_mode"), (not torch.is_grad_enabled(), "no_grad")):
        if off:
            raise InputError(f"torch.{name}() hides gradients from the training: call it outside of torch.{name}()")
