"""How a step is executed: plainly, with attacks on a replica of the network, or recorded as a CUDA graph and replayed.

A method and the loop know nothing of it: an engine puts quicker forms of the network in the learner's hands and calls
the same `train_step`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor, nn

from orat.core.console import Display
from orat.core.errors import InputError, unknown
from orat.core.types import Indices
from orat.data.loader import steps_per_epoch
from orat.data.source import Dataset
from orat.evaluation.searchers import OneSize
from orat.models.folded import Folded, as_it_is, quickened
from orat.training.learner import Engine, Learner, Plain
from orat.training.views import Mixed, ReplicaSight, takes_halves

KINDS = ("auto", "plain", "replica", "recorded", "compiled")
WORTH_COMPILING = 4000  # steps: fewer are done before what compiling takes is won back


def engine_for(learner: Learner, data: Dataset, display: Display, kind: str = "auto", steps: int = 0) -> Engine:
    """The engine of this kind; `auto` is the quickest that the device allows for so many steps."""
    if kind not in KINDS:
        raise unknown("engine", kind, KINDS)
    device = learner.loss_sum.device
    if kind == "auto":
        kind = "replica" if device.type == "cpu" else "compiled" if steps >= WORTH_COMPILING else "recorded"
    if kind in ("recorded", "compiled") and data.labels.device != device:
        display.line("steps are not recorded: the data does not fit on the device, each batch comes from the host")
        kind = "replica"
    if kind in ("recorded", "compiled") and device.type == "cpu":
        raise InputError(f"engine {kind} is for GPUs: leave --engine out, or give plain or replica")
    if kind == "plain":
        return Plain(learner, data)
    return Mirrored(learner, data) if kind == "replica" else Recorded(learner, data, display, kind == "compiled")


class Mirrored(Plain):
    """Every operation as Python comes to it, with attacks on a replica of the network."""

    name = "replica"

    def __init__(self, learner: Learner, data: Dataset, quick: Callable[..., Any] = as_it_is) -> None:
        super().__init__(learner, data)
        half = takes_halves(learner.run.precision, learner.loss_sum.device)
        self.attack_type = torch.bfloat16 if half else torch.float32
        self.equip(quick)

    def equip(self, quick: Callable[..., Any]) -> None:
        """Makes the forms of the network for the usual step, which may be compiled, and for the rare others."""
        run, model, device = self.learner.run, self.learner.model, self.learner.loss_sum.device
        dtype = self.attack_type
        wrap = Mixed if dtype == torch.bfloat16 and device.type == "cuda" else as_it_is
        seen_as, scouts = wrap(model), [wrap(scout) for scout in self.learner.state.scouts]
        quick_scouts = [quick(scout) for scout in scouts] if self.scouts_take_long() else scouts
        self.forms = {
            usual: (make(seen_as), ReplicaSight(model, dtype, make) if run.attack_mode == "eval" else None, those)
            for usual, make, those in ((True, quick, quick_scouts), (False, as_it_is, scouts))
        }

    def scouts_take_long(self) -> bool:
        """Whether they take so many steps that compiling them is worth it."""
        state = self.learner.state
        return state.ahead > 0 and state.ahead * steps_per_epoch(len(self.data), state.batch_size) >= WORTH_COMPILING

    def step(self, index: Indices) -> None:
        """One step on these samples."""
        learner = self.learner
        usual = len(index) == learner.batch_size and learner.pace == 1
        learner.seen_as, learner.sight, learner.state.sees = self.forms[usual]
        if learner.sight is not None:
            learner.sight.stale = True
        super().step(index)

    def searcher(self, size: int) -> nn.Module:
        """A replica, which takes batches of any size."""
        return Folded(self.learner.model, self.attack_type)


class Recorded(Mirrored):
    """Steps on a GPU. The first of a kind is executed, the second is recorded as a CUDA graph, all others replay it.

    A kind is the number of samples and the method's phase. What a record reads and writes stays where it is: weights,
    state, optimizer, rates, sums, data, and the places of the batch's samples, which are copied in before a replay.
    """

    def __init__(self, learner: Learner, data: Dataset, display: Display, compiled: bool) -> None:
        super().__init__(learner, data, quickened if compiled else as_it_is)
        self.display = display
        self.name = "compiled" if compiled else "recorded"
        self.records: dict[int, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self.met: set[int] = set()
        self.phase: Hashable = None
        self.works = True
        self.found: OneSize | None = None  # what was searched with last

    def step(self, index: Indices) -> None:
        """One step on these samples."""
        phase = self.learner.run.method.phase(self.learner.state, self.learner.epoch), self.learner.pace
        if phase != self.phase:
            self.phase = phase
            self.records.clear()
            self.met.clear()
            self.pool = torch.cuda.graph_pool_handle()  # the old one is gone with the last record in it
        size = len(index)
        if size in self.records:
            graph, places = self.records[size]
            places.copy_(index)
            graph.replay()
        elif size in self.met and self.works:
            self.record(index)
        else:
            self.met.add(size)
            self.execute(index)

    def searcher(self, size: int) -> nn.Module:
        """A replica that is compiled where the network is, once for all searches in batches of this size."""
        if self.name != "compiled":
            return super().searcher(size)
        if self.found is None or self.found.size != size:
            self.found = OneSize(Folded(self.learner.model, self.attack_type, pools=True), size)
        self.found.folded.refresh()
        return self.found

    def execute(self, index: Indices) -> None:
        """The step itself; what cannot be compiled is said once and done without."""
        try:
            super().step(index)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if self.name != "compiled":
                raise
            self.name = "recorded"
            self.display.line(f"the network is not compiled, so that steps take longer: {first_line(error)}")
            self.equip(as_it_is)
            super().step(index)

    def record(self, index: Indices) -> None:
        """Records a step like this one, and replays it; where that cannot be done, says why and goes on without."""
        places, graph = index.clone(), torch.cuda.CUDAGraph()
        generator = self.learner.generator
        randomness = generator.get_state()
        graph.register_generator_state(generator)
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=own_stream()):
                super().step(places)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.works = False
            self.learner.generator = torch.Generator(generator.device)  # the old one waits for a record for good
            self.learner.generator.set_state(randomness)
            self.display.line(f"steps are not recorded, so that each waits for Python: {first_line(error)}")
            super().step(index)
            return
        self.records[len(index)] = graph, places
        graph.replay()


def own_stream() -> torch.cuda.Stream | None:
    """The stream that steps are replayed on, to record them there too; None where it is the device's default.

    Matrix products have a workspace for each stream. Records made on one and the same share it, and those of two runs
    that are replayed side by side would write into each other's sums.
    """
    stream = torch.cuda.current_stream()
    return None if stream == torch.cuda.default_stream() else stream


def first_line(error: Exception) -> str:
    """The beginning of what an error says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
