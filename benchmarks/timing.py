"""Times pieces of work by turns: the device, the clock and the memory."""

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
    """A device and the clock for its work."""

    device: torch.device
    clock: Callable[[], float] = time.perf_counter

    def seconds(self, work: Step, times: int) -> float:
        """The seconds until the work has been done this many times."""
        self.settle()
        began = self.clock()
        for _ in range(times):
            work()
        self.settle()
        return self.clock() - began

    @property
    def kind(self) -> str:
        """The key for sizes and warm-ups: cuda or cpu."""
        return "cuda" if self.device.type == "cuda" else "cpu"

    def settle(self) -> None:
        """Waits until a GPU has finished all its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def memory_meter(self) -> Callable[[], float | None]:
        """A function that returns the peak memory in MiB: since now on a GPU, of the whole process on a CPU."""
        gc.collect()
        if self.device.type != "cuda":
            return peak_resident
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        return lambda: (torch.cuda.max_memory_allocated(self.device) - before) / 2**20


def peak_resident() -> float | None:
    """The peak memory of this process in MiB; None on Windows."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, else KiB
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


@dataclass(frozen=True)
class Timing:
    """The milliseconds a step of one contender, the mean of every round, and its peak memory in MiB."""

    rounds: list[float]
    memory: float | None

    @property
    def typical(self) -> float:
        """The median over the rounds."""
        return median(self.rounds)


def in_turn(
    makers: Mapping[str, Callable[[], Step]], rounds: Iterable[int], steps: int, warm_up: int, machine: Machine
) -> dict[str, Timing]:
    """Makes and warms up every contender, then times all contenders by turns, round after round."""
    contenders, peaks = {}, {}
    for name, make in makers.items():
        peak = machine.memory_meter()
        contenders[name] = make()
        machine.seconds(contenders[name], warm_up)
        peaks[name] = peak()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in rounds:
        for name, step in contenders.items():
            times[name].append(1000 * machine.seconds(step, steps) / steps)
    return {name: Timing(times[name], peaks[name]) for name in contenders}
