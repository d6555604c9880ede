"""Several runs at once on one GPU, which a small network does not fill; one after the other on a CPU.

Each run has its own data, network, state, generator and CUDA stream, and shares no tensor with another: what one
does cannot reach another, so that a run ends as it would have alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from orat.core.console import Bar, Display
from orat.core.device import choose_device
from orat.core.errors import InputError, TrainingError
from orat.training.events import Event, StepDone
from orat.training.run import Run
from orat.training.train import MakeObservers, training

AT_ONCE = 8  # on a GPU


def train_many(
    runs: Mapping[str | Path, Run],
    data_dir: str | Path | None = None,
    device: str = "auto",
    display: Display | None = None,
    engine: str = "auto",
    at_once: int = AT_ONCE,
    observers: MakeObservers | None = None,
) -> dict[str | Path, dict[str, Any]]:
    """Trains runs in their folders and returns their results; a failed run leaves its error, others continue.

    If none of the runs can begin, the first reason is raised.
    """
    display = display or Display()
    where = choose_device(device)
    opened = (
        Turn(folder, training(run, folder, data_dir, str(where), Named(display, Path(folder).name), engine, observers))
        for folder, run in runs.items()
    )
    results: dict[str | Path, dict[str, Any]] = {}
    refused: dict[str | Path, InputError] = {}
    for turn in finished(opened, at_once if where.type == "cuda" else 1):
        results[turn.folder] = turn.result
        if turn.refusal is not None:
            refused[turn.folder] = turn.refusal
            continue
        if "error" in turn.result:
            display.line(f"{turn.folder}: {turn.result['error']}")
        display.line(f"{len(results)} of {len(runs)} runs are done")
    check_any(runs, refused)
    for folder, error in refused.items():
        display.line(f"{folder} is left out: {error}")
    return {folder: results[folder] for folder in runs}


def check_any(runs: Mapping[str | Path, Run], refused: Mapping[str | Path, InputError]) -> None:
    """Raises the reason of the first run if none could begin."""
    if runs and len(refused) == len(runs):
        folder, error = next((folder, refused[folder]) for folder in runs)
        raise error if len(runs) == 1 else InputError(f"{Path(folder).name}: {error}") from error


def finished(waiting: Iterator[Turn], at_once: int) -> Iterator[Turn]:
    """Runs as they end, `at_once` of them taking turns step by step; the next one begins when there is room."""
    running = deque[Turn]()
    newest, more = None, True
    while more or running:
        if more and len(running) < at_once and (newest is None or newest.share >= 1 / at_once):
            newest = next(waiting, None)
            more = newest is not None
            running.extend(() if newest is None else (newest,))
            continue
        turn = running.popleft()
        if turn.step():
            running.append(turn)
        else:
            yield turn


class Turn:
    """A run that takes turns with other runs, on its own CUDA stream."""

    def __init__(self, folder: str | Path, events: Generator[Event, None, dict[str, Any]]) -> None:
        self.folder, self.events = folder, events
        self.stream = torch.cuda.Stream() if torch.cuda.is_available() else None
        self.share = 0.0  # of its first epoch that is done, so that epochs of different runs end at different times
        self.result: dict[str, Any] = {}
        self.refusal: InputError | None = None  # of a run that cannot begin

    def step(self) -> bool:
        """Takes one step, and returns whether there may be more."""
        with torch.cuda.stream(self.stream) if self.stream else nullcontext():
            try:
                event = next(self.events)
            except StopIteration as end:
                self.result, self.share = end.value, 1.0
                return False
            except (InputError, TrainingError) as error:
                self.result, self.share = {"error": str(error)}, 1.0
                self.refusal = error if isinstance(error, InputError) else None
                return False
        if self.share < 1:
            self.share = event.step / event.steps if isinstance(event, StepDone) else 1.0
        return True


class Named(Display):
    """Lines with the name of a run before them, and no bars, of which there would be many."""

    def __init__(self, display: Display, name: str) -> None:
        super().__init__(display.shown)
        self.name = name

    def line(self, text: str) -> None:
        """One line that stays."""
        super().line(f"{self.name}: {text}")

    @contextmanager
    def bar(self) -> Iterator[Bar]:
        """No bar."""
        yield Bar()

    def track(self, items: Any, label: str, total: int, start: int = 0) -> Iterator[Any]:
        """The items."""
        yield from items
