"""The paper on CIFAR-10 and CIFAR-100 as they are: a queue of runs that knows what is done, resumes, and stops in time.

    python experiments/cifar_queue.py                                                       # what is done, what waits
    python experiments/cifar_queue.py --data-dir data --runs runs/queue --out out --seconds 560 --begin
    python experiments/merge_reports.py out/*.json                                          # into results/

Runs and checkpoints are in --runs; the same command resumes. Whenever a run ends, the reports in --out are replaced. Runs
in reports of `orat paper reproduce` under results/, or given as --known, are done.
"""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from markdown import grouped, table_head, table_line
from merge_reports import FORMS, RESULTS, write_report

from orat.core.console import Display
from orat.training.run_folder import RunFolder
from orat_paper.reproduce.artifacts import AUTOMATIC, MEASURED, Artifact, artifact, beside_orat
from orat_paper.reproduce.cells import Cell, choose, read_only
from orat_paper.reproduce.command import places_of
from orat_paper.reproduce.costs import seconds
from orat_paper.reproduce.outcomes import broken, in_folder, is_done, whole
from orat_paper.reproduce.settings import PRETRAINED, Places, Trial, trial_of
from orat_paper.reproduce.trials import Execution, missing_data, run_trials, time_words

# Runs at once where that is quicker, and how much: measured with 8 of LeNet and 2 of Small-CNN.
AT_ONCE = {"lenet": (8, 1.4), "small_cnn": (2, 1.1)}
WORTH_BEGINNING = 60.0  # seconds, in which a network is compiled

TEN, HUNDRED = "data=cifar10,eps=8/255", "data=cifar100,eps=8/255"
NONE, TWENTY, FORTY, PAIRS = (
    f"noise={noise},rate={rate}"
    for noise, rate in (("none", 0), ("symmetric", 20), ("symmetric", 40), ("asymmetric", 40))
)
PAIR = "method=AT,method=ORAT"
THREE = f"{PAIR},method={AUTOMATIC}"


@dataclass(frozen=True)
class Item:
    """Cells of one table or figure, in one place of the queue."""

    block: str
    name: str
    only: str  # as `orat paper reproduce --only`
    protocol: str = "ours"
    seeds: tuple[int, ...] = (0,)


PLACES = [*(f"{TEN},{noise}" for noise in (NONE, TWENTY, FORTY, PAIRS)), f"{HUNDRED},{NONE}", f"{HUNDRED},{FORTY}"]
QUEUE = (
    *(Item("first", "table1", f"{place},{THREE}") for place in PLACES),
    Item("lost classes", "table1", f"data=mnist,method={MEASURED}"),
    *(Item("second", "autoattack", f"{place},{THREE}") for place in PLACES),
    Item("second", "table1", f"{TEN},{FORTY},method=RAA,method=WMMR,method=MAIL,method=GAIRAT,method=ST"),
    *(Item("second", "table1", f"data=cifar10,eps=2/255,{noise},{PAIR}") for noise in (NONE, TWENTY, FORTY, PAIRS)),
    *(Item("second", "table1", f"{TEN},{TWENTY},method=ST,method=AT", protocol) for protocol in ("authors", "authors-right")),
    Item("second", "at-without", f"data=cifar100,{TWENTY}"),
    Item("second", "table1", f"data=cifar100,eps=2/255,{TWENTY},method=ORAT"),
    Item("second", "pretrained", f"data=cifar100,{TWENTY}"),
    Item("second", "wide-resnet-short", f"{TEN},{PAIR}"),
    Item("second", "effect-of-m", f"{TEN},method=ORAT"),
    *(Item("second", "table1", f"{place},{THREE}", seeds=(1, 2)) for place in PLACES),
)  # fmt: skip
# Ours in place of the paper's weights of ImageNet.
FIRST_WEIGHTS = Artifact(
    "pretraining", "weights for pretrained", (Cell("cifar10", "2/255", "none", 0, "AT", model="resnet18"),)
)


@dataclass(frozen=True)
class Entry:
    """One trial of the queue."""

    block: str
    artifact: Artifact
    trial: Trial

    @property
    def seconds(self) -> float:
        """The seconds left on an H200, alone."""
        return 0.0 if self.done else seconds([self.trial], self.artifact.columns, "cuda")

    @property
    def done(self) -> bool:
        """Whether all columns are measured, here or in a report."""
        return is_done(self.trial, self.artifact.columns)

    @property
    def state(self) -> str:
        """The state in a word."""
        if self.done:
            return "done"
        if broken(self.trial):
            return "broken"
        folder = RunFolder(self.trial.folder)
        trained = folder.result() is not None
        return "trained" if trained else f"epoch {len(folder.history())}" if folder.can_resume() else "waiting"

    @property
    def ready(self) -> bool:
        """Whether the trial can run: not broken, and with the weights that it starts from."""
        weights = self.trial.run.init_from
        return not broken(self.trial) and (weights is None or RunFolder(Path(weights)).result() is not None)


def main() -> None:
    """Runs what fits, and prints the queue."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="reports of other machines")
    parser.add_argument("--runs", type=Path, default=Path("runs/queue"), help="folders of runs, with checkpoints")
    parser.add_argument("--out", type=Path, default=Path("runs/queue-reports"), help="the reports of these runs")
    parser.add_argument("--seconds", type=float, help="run what fits into this time, and stop then")
    parser.add_argument("--begin", action="store_true", help="fill the time with runs that a next call ends")
    parser.add_argument("--block", help="only this block, such as first")
    parser.add_argument("--at-once", type=int, help="in place of 8 LeNets, 2 Small-CNNs, 1 of others")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--data", action="append", default=[], metavar="NAME=PATH", help="as in orat paper reproduce")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--commit", help="the commit, for a machine without git")
    arguments = parser.parse_args()
    known = [*sorted(RESULTS.glob("reproduce-*.json")), *arguments.known]
    places = places_of(argparse.Namespace(data=arguments.data, out=arguments.runs, weights=None, known=known))
    entries = [entry for entry in queue(places) if arguments.block in (None, entry.block)]
    if arguments.seconds is not None:
        run(entries, places, arguments)
    print("\n".join(table(entries)))


def queue(places: Places) -> list[Entry]:
    """All trials in their order, each once."""
    first = trial_of(FIRST_WEIGHTS, FIRST_WEIGHTS.cells[0], "ours", 0, places)
    places = replace(places, weights=str(first.folder))
    found: dict[tuple[str, Path], Entry] = {}
    for item in QUEUE:
        wanted = artifact(item.name)
        cells = choose(beside_orat(wanted.cells, FORMS), read_only([item.only]), item.name)
        for seed in item.seeds:
            own = [Entry(item.block, wanted, trial_of(wanted, cell, item.protocol, seed, places)) for cell in cells]
            if any(entry.trial.cell.method == PRETRAINED and not entry.done for entry in own):
                own.insert(0, Entry(item.block, FIRST_WEIGHTS, first))
            for entry in own:
                found.setdefault((entry.artifact.name, entry.trial.folder), entry)
    return list(found.values())


def table(entries: Sequence[Entry]) -> list[str]:
    """One line a trial, with its state and its seconds; below, the time left of every block."""
    lines = table_head(["block", "of", "run", "protocol", "seed", "state", "seconds left"])
    for entry in entries:
        trial = entry.trial
        words = [entry.block, entry.artifact.name, trial.cell.words(), trial.protocol, trial.seed]
        lines.append(table_line([*words, entry.state, f"{entry.seconds:.0f}"]))
    lines += ["", *table_head(["block", "done", "time left on an H200, one run at once"])]
    for block, own in grouped(entries, lambda entry: entry.block):
        left = time_words(sum(entry.seconds for entry in own))
        lines.append(table_line([block, f"{sum(entry.done for entry in own)} of {len(own)}", left]))
    return lines


class TimeIsUp(KeyboardInterrupt):
    """The time of this call is over. An interrupt, because compilers of networks catch errors."""


def run(entries: Sequence[Entry], places: Places, arguments: argparse.Namespace) -> None:
    """Runs what fits and has its data until the time is up; reports are replaced whenever a run ends."""

    def stop(_: int, __: FrameType | None) -> None:
        raise TimeIsUp

    def write() -> None:
        write_reports(entries, arguments.out)

    end = time.monotonic() + arguments.seconds
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, arguments.seconds)
    try:
        write()  # runs that ended just before a kill
        missing = missing_data({entry.trial.cell.data: None for entry in entries}, places, arguments.data_dir)
        print(*missing.values(), sep="\n")
        present = [entry for entry in entries if entry.trial.cell.data not in missing]
        while batch := next_batch(present, end - time.monotonic(), arguments.at_once, arguments.begin):
            execution = Execution(
                places, arguments.data_dir, arguments.device, Display(), at_once=len(batch), commit=arguments.commit,
                finished=write,
            )  # fmt: skip
            trials, columns = [entry.trial for entry in batch], batch[0].artifact.columns
            for trial, error in run_trials(trials, columns, execution).items():
                print(f"{trial.folder}: {error}")
    except TimeIsUp:
        print("the time is up: the same command goes on")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def next_batch(entries: Sequence[Entry], left: float, at_once: int | None, begin: bool) -> list[Entry]:
    """The next trials to run at once: the first that fit into the time left, else, with `begin`, the first."""
    waiting = [entry for entry in entries if not entry.done and entry.ready]
    batches = list(batches_of(waiting, at_once))
    fits = (batch for batch in batches if needed(batch) <= left)
    return next(fits, batches[0] if begin and batches and left > WORTH_BEGINNING else [])


def batches_of(entries: Sequence[Entry], at_once: int | None) -> Iterator[list[Entry]]:
    """Trials of one network and the same columns, as many as run at once."""
    while entries:
        first = entries[0]
        count = at_once or AT_ONCE.get(first.trial.run.model, (1, 1.0))[0]
        alike = [entry for entry in entries if kind(entry) == kind(first)][:count]
        yield alike
        entries = [entry for entry in entries if entry not in alike]


def kind(entry: Entry) -> tuple[Any, ...]:
    """What trials at once have in common."""
    return entry.block, entry.trial.run.model, entry.trial.every_epoch, entry.artifact.columns


def needed(batch: Sequence[Entry]) -> float:
    """The seconds of trials at once."""
    gain = AT_ONCE.get(batch[0].trial.run.model, (1, 1.0))[1] if len(batch) > 1 else 1.0
    return sum(entry.seconds for entry in batch) / gain


def write_reports(entries: Iterable[Entry], out: Path) -> None:
    """One report for each table and data set, with the runs of this machine."""
    here = [entry for entry in entries if whole(in_folder(entry.trial), entry.artifact.columns)]
    for (name, data), own in grouped(here, lambda entry: (entry.artifact.name, entry.trial.cell.data)):
        write_report(out / f"{name}-{data}.json", own[0].artifact, [entry.trial for entry in own])


if __name__ == "__main__":
    main()
