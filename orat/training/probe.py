"""What is known of a user's network before the first step: it can learn, whether it draws, and whether it folds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from orat.core.errors import InputError
from orat.core.random import global_states
from orat.core.registry import as_input_error
from orat.core.types import Images
from orat.core.unsaved import remembered
from orat.data.loader import as_input
from orat.data.source import Dataset
from orat.evaluation.checks import checked
from orat.models.adapted import SAMPLES, Say, undisturbed
from orat.models.folded import Folded
from orat.training.engine import Execution, takes_halves

MOVED = 0.1  # of a weight, so that layers that start at 0 count in a comparison
CLOSE = {torch.float32: 1e-3, torch.bfloat16: 0.35}  # relative error of a folded network; most comes from ReLUs at 0


def first_samples(train: Dataset, device: torch.device) -> Images:
    """Two training samples."""
    return as_input(train.images[torch.arange(SAMPLES) % len(train)].to(device))


def check_network(model: nn.Module, train: Dataset) -> None:
    """Refuses a network that cannot be trained on the data."""
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not learned:
        raise InputError("the network has no parameter that learns: give one with requires_grad")
    if odd := [name for name, value in model.state_dict().items() if not isinstance(value, Tensor)]:
        raise InputError(f"the network has a state that is no tensor, {odd[0]}: make it a buffer")
    for training in (False, True):
        x = first_samples(train, learned[0].device).requires_grad_()
        inputs = f"inputs of shape {tuple(x.shape)}"
        with undisturbed(model, training), as_input_error(f"the network on {inputs}", "let it take such inputs"):
            logits = model(x)
            if not logits.is_floating_point():
                raise InputError(f"the network gives {logits.dtype} for {inputs}: give floating-point logits")
            checked(logits, SAMPLES, len(train.classes))
            check_graph(model, logits, x, learned)
            check_memory(model, x.detach(), training)


def check_memory(model: nn.Module, x: Images, training: bool) -> None:
    """Refuses a network that counts or remembers outside of its buffers; a cache that stays is none."""

    def call() -> None:
        with undisturbed(model, training), torch.no_grad():
            model(x)

    call()
    if changed := remembered(model, call):
        raise InputError(
            f"the network changes {changed[0]} whenever it is called, which no checkpoint has: make it a buffer with "
            "register_buffer, which eval() leaves alone"
        )


def check_graph(model: nn.Module, logits: Tensor, x: Images, learned: list[nn.Parameter]) -> None:
    """Refuses logits without a gradient by the inputs or by the weights, and weights that nothing registers."""
    gradients: tuple[Tensor | None, ...] = (None,)
    if logits.requires_grad:
        gradients = torch.autograd.grad(logits.sum(), [x, *learned], retain_graph=True, allow_unused=True)
    if gradients[0] is None:
        raise InputError(
            "no gradient of the network reaches its inputs, so that no attack finds a direction: remove no_grad, "
            "detach or conversions to numbers from its forward"
        )
    if all(one is None for one in gradients[1:]):
        raise InputError(
            "no gradient of the network reaches its parameters, so that nothing learns: use them in forward"
        )
    known = {id(x), *map(id, model.parameters())}
    for leaf in leaves(logits):
        if id(leaf) not in known:
            raise InputError(
                f"the network uses weights of shape {tuple(leaf.shape)} that it does not register, so that they would "
                "not be saved: make them attributes, or use nn.ParameterList"
            )


def leaves(result: Tensor) -> Iterator[Tensor]:
    """The tensors with a gradient from which a result was computed."""
    seen, waiting = set(), [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad":
            yield node.variable  # type: ignore[attr-defined]  # of this class alone
        waiting += [before for before, _ in node.next_functions]


def draws(model: nn.Module, x: Images) -> bool:
    """Whether a forward pass in train mode draws from a global generator, as functional dropout does."""
    with undisturbed(model, training=True), torch.no_grad():
        before = global_states(x.device)
        model(x)
        return global_states(x.device) != before


def suited(wanted: Execution, model: nn.Module, train: Dataset, precision: str, say: Say) -> Execution:
    """The execution that suits a network: without records where it draws, without folding where that would be wrong."""
    x = first_samples(train, next(model.parameters()).device)
    if draws(model, x):
        say("the network draws random numbers: each step seeds them by run, epoch and step, and is not recorded")
        wanted = replace(wanted, draws=True)
    dtype = torch.bfloat16 if takes_halves(precision, x.device) else torch.float32
    if wanted.form != "plain" and (reason := misfolded(model, x, dtype)) is not None:
        say(f"attacks search on the network itself, which takes longer: {reason}")
        wanted = replace(wanted, folds=False)
    return wanted


def misfolded(model: nn.Module, x: Images, dtype: torch.dtype) -> str | None:
    """Why the folded form of a network cannot replace it; None if logits and gradients are equal after a change.

    The network is in train mode while its folded form computes, which finds forms that use modules of the network.
    """
    try:
        with undisturbed(model, training=True), as_input_error("its folded form", "results are the same"):
            folded = Folded(model, dtype)
            with moved_weights(model):
                folded.refresh()
                got = answers(folded, x)
                model.eval()
                wanted = answers(model, x)
    except InputError as error:
        return str(error)
    errors = [float((one - two).norm() / two.norm()) for one, two in zip(got, wanted, strict=True)]
    if all(error <= CLOSE[dtype] for error in errors):
        return None
    return f"its folded form has other logits or gradients (relative errors {errors[0]:.1g} and {errors[1]:.1g})"


def answers(model: nn.Module, x: Images) -> tuple[Tensor, Tensor]:
    """The logits, and the gradient by the inputs of a sum that weighs every logit differently."""
    x = x.detach().clone().requires_grad_()
    logits = model(x)
    weights = torch.linspace(-1, 2, logits.numel(), device=x.device).view_as(logits)
    (gradient,) = torch.autograd.grad((logits * weights).sum(), x)
    return logits.detach(), gradient


@contextmanager
def moved_weights(model: nn.Module) -> Iterator[None]:
    """Changes all weights a little, and restores them."""
    before = [(parameter, parameter.detach().clone()) for parameter in model.parameters()]
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter, value in before:
            noise = torch.randn(value.shape, generator=generator).to(value)
            parameter.add_(MOVED * (value.abs().mean() + MOVED) * noise)
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value in before:
                parameter.copy_(value)
