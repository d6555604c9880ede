"""A step that is repeated many times: called again on a CPU, recorded once and replayed on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

Step = Callable[..., tuple[Tensor, ...]]  # state and what is given -> the next state


class Replay:
    """State that a step moves on. A small network leaves a GPU waiting for Python; a CUDA graph does not."""

    def __init__(self, step: Step, state: tuple[Tensor, ...], given: Tensor, former: Replay | None = None) -> None:
        self.step = step
        self.state = state
        self.graph: torch.cuda.CUDAGraph | None = None
        if given.is_cuda:
            with suppress(RuntimeError):  # a model that waits for the device cannot be recorded, only called
                self.record(given, former.graph if former else None)

    def __call__(self, given: Tensor) -> None:
        """One step with what is given."""
        if self.graph is None:
            self.state = self.step(*self.state, given)
            return
        self.given.copy_(given)
        self.graph.replay()

    def record(self, given: Tensor, former: torch.cuda.CUDAGraph | None) -> None:
        """Records a step that writes its result over the state it started from, in the memory of a former record."""
        state, self.given = tuple(value.clone() for value in self.state), given.clone()
        self.step(*state, self.given)  # libraries set themselves up at their first call, which is no part of a graph
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=former.pool() if former else None):
            for value, new in zip(state, self.step(*state, self.given), strict=True):
                value.copy_(new)
        self.state, self.graph = state, graph
