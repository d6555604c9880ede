"""The engine of recorded steps, with CUDA graphs played by objects that repeat what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from quick_runs import Heard
from torch import Tensor

from orat.training import graph as graphs
from orat.training.graph import Graph


class Steps:
    """A training step that notes its ids, and whether it was executed or replayed."""

    def __init__(self) -> None:
        self.recorder: FakeGraph | None = None
        self.done: list[tuple[str, list[int]]] = []
        self.trouble: Callable[[], None] = lambda: None

    def __call__(self, ids: Tensor) -> Tensor:
        """A step, or its record, which reads the ids from their place at every replay."""
        self.trouble()
        if self.recorder is None:
            self.done.append(("executed", ids.tolist()))
        else:
            self.recorder.operations.append(lambda: self.done.append(("replayed", ids.tolist())))
        return torch.zeros(())


class FakeGraph:
    """Repeats the recorded operations."""

    def __init__(self) -> None:
        self.operations: list[Callable[[], None]] = []
        self.pool: Any = None

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Nothing: there is no device."""

    def replay(self) -> None:
        """All operations again."""
        for operation in self.operations:
            operation()


class Other:
    """What the engine needs of a learner."""

    def __init__(self, compiled: bool = False) -> None:
        self.generator = torch.Generator().manual_seed(5)
        self.compiled = compiled

    def stop_compiling(self) -> None:
        """Goes on without compiled networks."""
        self.compiled = False


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """A step, with the parts of torch.cuda that the engine uses played."""
    step, pools = Steps(), iter(range(99))

    @contextmanager
    def recorded(graph: FakeGraph, pool: Any, stream: Any) -> Iterator[None]:
        step.recorder, graph.pool = graph, pool
        try:
            yield
        finally:
            step.recorder = None

    fakes = SimpleNamespace(CUDAGraph=FakeGraph, graph=recorded, graph_pool_handle=lambda: next(pools))
    monkeypatch.setattr(graphs, "torch", SimpleNamespace(**vars(torch) | {"cuda": fakes}))
    monkeypatch.setattr(graphs, "own_stream", lambda: None)
    return step


def train(engine: Graph, step: Steps, tickets: Sequence[Sequence[int]], key: Any = None) -> list[str]:
    """Steps on these ids; how each came about."""
    step.done.clear()
    for ids in tickets:
        engine(step, (torch.tensor(ids),), key)
    assert [ids for _, ids in step.done] == [list(ids) for ids in tickets]
    return [how for how, _ in step.done]


@pytest.mark.parametrize("key", [None, (None, 1.0), ("phase", 0.5)], ids=str)
def test_the_first_step_is_executed_the_second_recorded_and_all_others_replayed(steps: Steps, key: Any) -> None:
    """Every replay reads the ids of its own ticket; a step has a record for each batch size, in one pool."""
    engine = Graph(Other(), Heard())
    tickets = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10], [2, 1, 0], [5, 4], [3, 7]]
    how = train(engine, steps, tickets, key)
    assert how == ["executed", "replayed", "replayed", "executed", "replayed", "replayed", "replayed"]
    assert {size: graph.pool for size, (graph, _) in engine.records.items()} == {3: 0, 2: 0}


def test_a_new_key_throws_records_away(steps: Steps) -> None:
    engine = Graph(Other(), Heard())
    for key in ("plain", "ranked", "plain"):
        assert train(engine, steps, [[1], [2], [3]], key) == ["executed", "replayed", "replayed"]
    assert engine.records[1][0].pool == 2


def test_a_step_that_cannot_be_recorded_is_executed_from_then_on_which_one_line_says(steps: Steps) -> None:
    learner, heard = Other(), Heard()
    engine, before = Graph(learner, heard), learner.generator.get_state()

    def trouble() -> None:
        if steps.recorder is not None:
            raise RuntimeError("operation not permitted when stream is capturing\nand much more")

    steps.trouble = trouble
    assert train(engine, steps, [[1], [2], [3], [4, 5], [6, 7]]) == ["executed"] * 5
    assert train(engine, steps, [[1], [2]], key="another") == ["executed"] * 2
    assert heard.lines == [
        "steps are not recorded, so that each waits for Python: operation not permitted when stream is capturing"
    ]
    assert torch.equal(learner.generator.get_state(), before)  # a new generator in the same state


def test_a_network_that_cannot_be_compiled_is_used_as_it_is_which_one_line_says(steps: Steps) -> None:
    learner, heard = Other(compiled=True), Heard()

    def trouble() -> None:
        if learner.compiled:
            raise RuntimeError("no compiler found")

    steps.trouble = trouble
    assert train(Graph(learner, heard), steps, [[1], [2], [3]]) == ["executed", "replayed", "replayed"]
    assert heard.lines == ["the network is not compiled, so that steps take longer: no compiler found"]


@pytest.mark.parametrize("compiled", [False, True])
def test_errors_of_the_step_itself_and_a_full_memory_are_not_hidden(steps: Steps, compiled: bool) -> None:
    def full() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    steps.trouble = full
    with pytest.raises(torch.OutOfMemoryError):
        Graph(Other(compiled), Heard())(steps, (torch.tensor([1]),), None)

    def broken() -> None:
        raise RuntimeError("a bug")

    steps.trouble = broken
    with pytest.raises(RuntimeError, match="a bug"):
        Graph(Other(), Heard())(steps, (torch.tensor([1]),), None)
