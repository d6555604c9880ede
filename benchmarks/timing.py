"""Work timed by turns: where it runs, by which clock, and the memory that it takes."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

import torch

Step = Callable[[], object]


@dataclass(frozen=True)
class Machine:
    """Where steps run, and the clock that times them."""

    device: torch.device
    clock: Callable[[], float] = time.perf_counter

    def seconds(self, work: Step, times: int) -> float:
        """How long it takes to do this so many times, and to have it done."""
        self.settle()
        began = self.clock()
        for _ in range(times):
            work()
        self.settle()
        return self.clock() - began

    @property
    def kind(self) -> str:
        """What it is like, as to sizes and warm-ups."""
        return "cuda" if self.device.type == "cuda" else "cpu"

    def settle(self) -> None:
        """Waits until all that was asked of a GPU is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def watch(self) -> Callable[[], float | None]:
        """What tells later the most MiB that were taken since; on a CPU, by the whole process at any time."""
        gc.collect()
        if self.device.type != "cuda":
            return peak_resident
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        return lambda: (torch.cuda.max_memory_allocated(self.device) - before) / 2**20


def peak_resident() -> float | None:
    """The most MiB that this process ever had in memory, where the system tells."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, else KiB
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


@dataclass(frozen=True)
class Timing:
    """One contender's milliseconds a step, the mean of each round, and the most memory that it took, in MiB."""

    rounds: list[float]
    memory: float | None

    @property
    def typical(self) -> float:
        """The median over the rounds."""
        return median(self.rounds)


def in_turn(
    makers: Mapping[str, Callable[[], Step]], rounds: Iterable[int], steps: int, warm_up: int, machine: Machine
) -> dict[str, Timing]:
    """Times contenders by turns, round after round; each is made and warmed up before."""
    contenders, peaks = {}, {}
    for name, make in makers.items():
        peak = machine.watch()
        contenders[name] = make()
        machine.seconds(contenders[name], warm_up)
        peaks[name] = peak()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in rounds:
        for name, step in contenders.items():
            times[name].append(1000 * machine.seconds(step, steps) / steps)
    return {name: Timing(times[name], peaks[name]) for name in contenders}
