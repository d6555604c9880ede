"""A repeated step: a call on a CPU, a recorded CUDA graph on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

Step = Callable[..., tuple[Tensor, ...]]  # state and input -> the next state


class Replay:
    """A state and its step. On a GPU, small networks wait for Python; a CUDA graph does not."""

    def __init__(self, step: Step, state: tuple[Tensor, ...], given: Tensor, former: Replay | None = None) -> None:
        self.step = step
        self.state = state
        self.graph: torch.cuda.CUDAGraph | None = None
        if given.is_cuda:
            with suppress(RuntimeError):  # a network that waits for the device cannot be recorded, only called
                self.record(given, former.graph if former else None)

    def __call__(self, given: Tensor) -> None:
        """One step with this input."""
        if self.graph is None:
            self.state = self.step(*self.state, given)
            return
        self.given.copy_(given)
        self.graph.replay()

    def record(self, given: Tensor, former: torch.cuda.CUDAGraph | None) -> None:
        """Records a step that overwrites its state, in the memory of a former record."""
        state, self.given = tuple(value.clone() for value in self.state), given.clone()
        self.step(*state, self.given)  # the first call sets up libraries, outside of the graph
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=former.pool() if former else None):
            for value, new in zip(state, self.step(*state, self.given), strict=True):
                value.copy_(new)
        self.state, self.graph = state, graph
