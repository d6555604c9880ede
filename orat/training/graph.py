"""Training steps on a GPU as CUDA graphs: executed once, recorded at the second, replayed from then on."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from orat.core.console import Display
from orat.data.loader import Ticket
from orat.training.engine import TrainStep
from orat.training.learner import Learner


class Graph:
    """Records one CUDA graph for each key and batch size.

    What a record reads and writes stays where it is: weights, state, optimizer, rates, sums and data. The parts of a
    ticket are copied to a fixed place before a replay.
    """

    def __init__(self, learner: Learner, display: Display) -> None:
        self.learner, self.display = learner, display
        self.records: dict[int, tuple[torch.cuda.CUDAGraph, Ticket]] = {}
        self.executed: set[int] = set()
        self.key: Hashable = object()  # before the first step; equal to no other key
        self.works = True

    def __call__(self, step: TrainStep, ticket: Ticket, key: Hashable) -> None:
        """Replays, records or executes a step."""
        if key != self.key:
            self.key = key
            self.records.clear()
            self.executed.clear()
            self.pool = torch.cuda.graph_pool_handle()  # the old pool is gone with its last record
        size = len(ticket[-1])
        if size in self.records:
            graph, places = self.records[size]
            for place, part in zip(places, ticket, strict=True):
                place.copy_(part)
            graph.replay()
        elif size in self.executed and self.works:
            self.record(step, ticket)
        else:
            self.executed.add(size)
            self.execute(step, ticket)

    def execute(self, step: TrainStep, ticket: Ticket) -> None:
        """The step itself; a network that cannot be compiled is used as it is from then on."""
        try:
            step(*ticket)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if not self.learner.compiled:
                raise
            self.display.line(f"the network is not compiled, so that steps take longer: {first_line(error)}")
            self.learner.stop_compiling()
            step(*ticket)

    def record(self, step: TrainStep, ticket: Ticket) -> None:
        """Records a step like this one and replays it; where recording fails, says why and goes on without."""
        places: tuple[Tensor, ...] = tuple(part.clone() for part in ticket)
        graph, generator = torch.cuda.CUDAGraph(), self.learner.generator
        randomness = generator.get_state()
        graph.register_generator_state(generator)
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=own_stream()):
                step(*places)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.works = False
            self.learner.generator = torch.Generator(generator.device)  # the old one waits for a record for good
            self.learner.generator.set_state(randomness)
            self.display.line(f"steps are not recorded, so that each waits for Python: {first_line(error)}")
            step(*ticket)
            return
        self.records[len(ticket[-1])] = graph, places
        graph.replay()


def own_stream() -> torch.cuda.Stream | None:
    """The stream for recording and replaying steps; None for the device's default stream.

    Matrix products have a workspace for each stream. Records of one stream share a workspace, and records of two runs
    that are replayed side by side would write into each other's sums.
    """
    stream = torch.cuda.current_stream()
    return None if stream == torch.cuda.default_stream() else stream


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
