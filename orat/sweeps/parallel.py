"""Several runs at once on one GPU, which a small network does not fill; one after the other on a CPU.

Each run has its own data, network, state, generator and CUDA stream, and shares no tensor with another: what one
does cannot reach another, so that a run ends as it would have alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from orat.core.console import Display
from orat.core.device import choose_device
from orat.core.errors import TrainingError
from orat.training.run import Run
from orat.training.train import Done, Job, open_job

AT_ONCE = 8  # on a GPU


def train_many(
    runs: Mapping[str | Path, Run],
    data_dir: str | Path | None = None,
    device: str = "auto",
    display: Display | None = None,
    engine: str = "auto",
    at_once: int = AT_ONCE,
) -> dict[str | Path, dict[str, Any]]:
    """Trains runs in their folders and returns their results; a run that breaks leaves its error, and others go on."""
    display = display or Display()
    where = choose_device(device)
    opened = (
        Sitting(folder, run, data_dir, where, Named(display, Path(folder).name), engine) for folder, run in runs.items()
    )
    results: dict[str | Path, dict[str, Any]] = {}
    for sitting in finished(opened, at_once if where.type == "cuda" else 1):
        if sitting.error is not None:
            display.line(f"{sitting.folder}: {sitting.error}")
        results[sitting.folder] = sitting.job.result if sitting.error is None else {"error": sitting.error}
        display.line(f"{len(results)} of {len(runs)} runs are done")
    return {folder: results[folder] for folder in runs}


def finished(waiting: Iterator[Sitting], at_once: int) -> Iterator[Sitting]:
    """Runs as they end, so many at once, each a step in its turn; the next is opened when there is room for it."""
    under_way = deque[Sitting]()
    newest, more = None, True
    while more or under_way:
        if more and len(under_way) < at_once and (newest is None or newest.is_on_its_way(at_once)):
            newest = next(waiting, None)
            more = newest is not None
            under_way.extend(() if newest is None else (newest,))
            continue
        sitting = under_way.popleft()
        if sitting.step():
            under_way.append(sitting)
        else:
            yield sitting


class Sitting:
    """One run among others, on a stream of its own."""

    def __init__(
        self,
        folder: str | Path,
        run: Run,
        data_dir: str | Path | None,
        where: torch.device,
        display: Display,
        engine: str,
    ) -> None:
        self.folder = folder
        self.stream = torch.cuda.Stream(where) if where.type == "cuda" else None
        with self.own_stream():
            self.job: Job | Done = open_job(run, folder, data_dir, str(where), display, engine)
        self.steps: Iterator[None] = self.job.steps()
        self.taken = 0
        self.ended = False
        self.error: str | None = None  # that it ended with

    def step(self) -> bool:
        """Goes one step on; whether there may be more."""
        try:
            with self.own_stream():
                self.ended = next(self.steps, END) is END
        except TrainingError as error:
            self.ended, self.error = True, str(error)
        self.taken += 1
        if self.ended:  # what it had on the device goes before the next run comes
            self.job, self.steps = Done(self.job.result), iter(())
        return not self.ended

    def is_on_its_way(self, share: int) -> bool:
        """Whether it has done this share of an epoch, so that the next one's epochs end, and are tested, later."""
        return self.ended or isinstance(self.job, Done) or self.taken * share >= self.job.epoch_steps

    def own_stream(self) -> Any:
        """All that the run does on a GPU is done there, in its order."""
        return torch.cuda.stream(self.stream) if self.stream else nullcontext()


END = object()  # what no step yields


class Named(Display):
    """Lines with the name of a run before them, and no bars, of which there would be many."""

    def __init__(self, display: Display, name: str) -> None:
        super().__init__(display.shown)
        self.name = name

    def line(self, text: str) -> None:
        """One line that stays."""
        super().line(f"{self.name}: {text}")

    def track(self, items: Any, label: str, total: int, start: int = 0) -> Iterator[Any]:
        """The items."""
        yield from items
