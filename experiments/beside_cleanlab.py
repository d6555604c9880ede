"""How well, and in what time, wrong labels are found by ORAT's scouts and by cleanlab, on the same data in one process.

    python benchmarks/beside_cleanlab.py --data mnist --kinds symmetric:0.4,asymmetric:0.4 --seeds 0,1,2 \
        --out results/beside-cleanlab.json

Who answers: the scouts of automatic ORAT; or networks like them, cross-validated, which learn all folds but one in the
scouts' batches, at their rates, for as many epochs and on the same engine. Of these networks, the answers after the last
epoch are judged, as is usual with cleanlab, and those averaged over epochs as scouts' are. With --held-out, also those of
`orat outliers --held-out`. Who judges: orat, or cleanlab's find_label_issues. All judge all answers; those of scouts and
of --held-out are of networks that learned without what orat cut.

`seconds` are of the answers and the verdict, and hold what an engine takes to compile or record steps; `steady` are the
same at the pace of all epochs but the first of each network, which leaves that out. Reading data is in neither. On a
machine that others use, --clock cpu counts what this process is given.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import torch
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from orat.training.held_out import check_folds, held_out_answers
from timing import Machine
from torch import Tensor

import orat
from orat.core.console import SILENT
from orat.core.device import choose_device, commit, hardware, versions
from orat.core.losses import cross_entropy
from orat.core.types import Batch
from orat.data.source import Dataset
from orat.evaluation.accuracy import logits_of
from orat.methods.automatic import Watch, cut_in
from orat.methods.base import State
from orat.noise.judge import area, found_removed, judge
from orat.training.engine import engine_for
from orat.training.learner import Learner, end_epoch, train_epoch
from orat.training.run import Run
from orat.training.setup import Scouting, build_model, cheaper, groups_of
from orat.training.train import Job, open_job

FIGURES = ("precision", "recall", "f1", "auc", "seconds", "steady")
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
WIDTHS = {"labels": 18, "answers": 27, "judge": 30}


def main() -> None:
    """Writes a row as soon as it is there, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sample")
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--kinds", default="symmetric:0.4,asymmetric:0.4", help="noise and rate, with commas between")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--fields", default="{}", help="other fields of the runs, as JSON")
    parser.add_argument("--scout-epochs", type=int, default=None, help="of scouts; if not given, as suits the run")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--fold-epochs", type=int, default=None, help="of cross-validation; if not given, the scouts'")
    parser.add_argument("--held-out", action="store_true", help="ask as `orat outliers --held-out` does, too")
    parser.add_argument("--whole", action="store_true", help="train the run to its end, too, when the network is heard")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--clock", default="wall", choices=CLOCKS)
    parser.add_argument("--commit", default=commit(), help="where git does not know it")
    arguments = parser.parse_args()
    check_folds(arguments.folds, arguments.fold_epochs)
    origin = {**hardware(choose_device(arguments.device)), **versions(), "cleanlab": version("cleanlab")}
    origin |= {"commit": arguments.commit, "clock": arguments.clock, "data": arguments.data}
    rows: list[dict[str, Any]] = []
    for row in measured(arguments):
        rows.append(row)
        arguments.out.write_text(json.dumps({"rows": rows, **origin}, indent=1) + "\n")
        print(json.dumps(row), flush=True)
    print(*table(rows), sep="\n")


@dataclass(frozen=True, eq=False)
class Answers:
    """What networks say of all samples, and what it took to hear it."""

    said: Tensor  # (n, classes) logarithms of probabilities
    seconds: float
    steady: float  # the same, without what only a first epoch takes


Judge = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # answers, labels -> which are cut, and what ranks them


def orats(said: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
    """What automatic ORAT would cut, hearing this."""
    verdict = judge(said.double().log_softmax(1), given)
    return verdict.flagged(), verdict.score


def cleanlabs(filter_by: str, said: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
    """What cleanlab takes for an issue, and the opposite of its quality of labels."""
    labels, probabilities = given.numpy(), said.double().softmax(1).numpy()
    issues = find_label_issues(labels, probabilities, filter_by=filter_by, n_jobs=1)
    return torch.from_numpy(issues), -torch.from_numpy(get_label_quality_scores(labels, probabilities))


JUDGES: dict[str, Judge] = {
    "orat": orats,
    "cleanlab": partial(cleanlabs, "prune_by_noise_rate"),  # its default
    "cleanlab, confident_learning": partial(cleanlabs, "confident_learning"),
}


def measured(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of each noise and seed."""
    fields = json.loads(arguments.fields)
    fields |= {"milestones": tuple(fields["milestones"])} if "milestones" in fields else {}
    method = orat.methods.ORAT(scout_epochs=arguments.scout_epochs)
    for seed, kind in product(map(int, arguments.seeds.split(",")), arguments.kinds.split(",")):
        noise, _, rate = kind.partition(":")
        labels = {"noise": noise, "noise_rate": float(rate), "noise_seed": seed}
        run = Run(data=arguments.data, method=method, seed=seed, **labels, **fields)
        with TemporaryDirectory() as folder:
            job = open_job(run, folder, arguments.data_dir, arguments.device, SILENT, arguments.engine)
            assert isinstance(job, Job)
            if job.parts.train.wrong is None:
                raise SystemExit("it is not known which labels are wrong: give a noise, as in --kinds symmetric:0.4")
            for row in rows_of(job, arguments):
                yield {"noise": noise, "rate": float(rate), "seed": seed, **row}


def rows_of(job: Job, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Scouts as they judge, then every answer judged by everyone, then the whole training if it is wanted."""
    scouting, train = scouting_of(job), job.parts.train
    machine = Machine(job.device, CLOCKS[arguments.clock])
    like = {"network": cheaper(job.run, train), "engine": job.engine.name, "batch_size": scouting.batch_size}
    heard = scouted(job, machine)
    learned = {"epochs": scouting.epochs, "epoch_seconds": [record["seconds"] for record in job.folder.history()]}
    yield {"answers": "scouts", "judge": "orat", **own_figures(job), **times(heard), **learned, **like}
    epochs, folds = arguments.fold_epochs or scouting.epochs, arguments.folds
    answers = {"scouts": heard} | cross_validated(job, machine, replace(scouting, epochs=epochs), folds)
    answers |= held_out(job, machine, folds) if arguments.held_out else {}
    for (who, said), (name, judging) in list(product(answers.items(), JUDGES.items()))[1:]:  # the first is there
        learned = {"epochs": scouting.epochs} if who == "scouts" else {"folds": folds}
        learned |= {"epochs": epochs} if who.startswith("folds") else {}
        yield {"answers": who, "judge": name, **judged(judging, said, train, machine), **learned, **like}
    if arguments.whole:
        rest = sum(machine.seconds(partial(one_epoch, job), 1) for _ in range(job.run.epochs))
        whole = own_figures(job) | times(heard, rest) | {"epochs": job.run.epochs}
        yield {"answers": "scouts and network", "judge": "orat", **whole, **like}


def scouting_of(job: Job) -> Scouting:
    """How the scouts of a run learn."""
    assert isinstance(job.learner.state, Watch)
    assert job.learner.state.scouting is not None
    return job.learner.state.scouting


def one_epoch(job: Job) -> None:
    """The next epoch of a run."""
    for _ in job.one_epoch():
        pass


def scouted(job: Job, machine: Machine) -> Answers:
    """What scouts say when they have learned; epochs up to 0 are theirs."""
    epochs = [machine.seconds(partial(one_epoch, job), 1) for _ in range(job.learner.epoch, 1)]
    return Answers(job.learner.state.answers.cpu(), sum(epochs), sum(epochs) - first_extra(epochs))


def first_extra(epochs: list[float]) -> float:
    """How much longer the first epoch took than the others on average."""
    return epochs[0] - mean(epochs[1:] or epochs)


class Fold(State):
    """A network that learns as scouts do, but everything that it is given."""

    def __init__(self, scouting: Scouting, number: int) -> None:
        super().__init__()
        self.scouting = scouting
        self.scouts.append(scouting.make(number))
        self.sees = list(self.scouts)
        self.ahead, self.batch_size = scouting.epochs, scouting.batch_size

    def param_groups(self, lr: float) -> list[dict[str, Any]]:
        """As scouts learn."""
        return groups_of(self.scouts, self.scouting, lr)

    def scout(self, batch: Batch) -> Tensor:
        """The mean loss."""
        return cross_entropy(self.sees[0](batch.x), batch.y).mean()

    def phase(self) -> Hashable:
        """Steps are all the same."""
        return None


def cross_validated(job: Job, machine: Machine, scouting: Scouting, folds: int) -> dict[str, Answers]:
    """What networks say of the fold that they did not learn: after the last epoch, and averaged over all."""
    n = len(job.parts.train)
    check_folds(folds, scouting.epochs, n)
    part = torch.randperm(n, generator=torch.Generator().manual_seed(job.run.seed)) % folds
    last, averaged = torch.zeros(2, n, len(job.parts.train.classes))
    learning, asking, extra = 0.0, 0.0, 0.0  # seconds; of asking, those before the last epoch
    for fold in range(folds):
        asked, learned = ((part == fold) == own for own in (True, False))
        learns, asks, said = zip(*epochs_of(job, machine, Fold(scouting, fold), learned, asked), strict=True)
        last[asked], averaged[asked] = said[-1], average(said)
        learning, asking = learning + sum(learns) + asks[-1], asking + sum(asks[:-1])
        extra += first_extra(list(learns))
    both = Answers(averaged, learning + asking, learning + asking - extra)
    return {"folds, last epoch": Answers(last, learning, learning - extra), "folds, averaged": both}


def held_out(job: Job, machine: Machine, folds: int) -> dict[str, Answers]:
    """What scouts in so many parts say, who learn for as long as helps."""
    said: list[Tensor] = []
    seconds = machine.seconds(
        lambda: said.append(held_out_answers(job.run, job.parts, folds, None, str(job.device))), 1
    )
    return {"held-out": Answers(said[0], seconds, seconds)}


def epochs_of(
    job: Job, machine: Machine, state: Fold, learned: Tensor, asked: Tensor
) -> Iterator[tuple[float, float, Tensor]]:
    """Of each epoch, the seconds of learning and of asking, and what was said."""
    data, others = (job.parts.train.take(part.nonzero().squeeze(1)) for part in (learned, asked))
    data = data.to(job.device)
    learner = Learner(job.run, build_model(job.run, job.parts.train).to(job.device), state.to(job.device))
    engine = engine_for(learner, data, SILENT, job.engine.name)
    said: list[Tensor] = []

    def learn() -> None:
        for _ in train_epoch(learner, data, engine):
            pass
        end_epoch(learner)

    def ask() -> None:
        said[:] = [logits_of(state.scouts[0], others).float().log_softmax(1).cpu()]

    while learner.epoch < 1:
        yield machine.seconds(learn, 1), machine.seconds(ask, 1), said[0]


def average(said: tuple[Tensor, ...]) -> Tensor:
    """Answers averaged over epochs as those of scouts are."""
    averaged = said[0]
    for newest in said[1:]:
        averaged = torch.lerp(averaged, newest, 1 - orat.methods.ORAT.memory)
    return averaged


def judged(judging: Judge, answers: Answers, train: Dataset, machine: Machine) -> dict[str, Any]:
    """How rightly these answers are judged, and what it took."""
    found: list[tuple[Tensor, Tensor]] = []
    seconds = machine.seconds(lambda: found.append(judging(answers.said, train.labels)), 1)
    return figures(*found[0], train) | times(answers, seconds)


def own_figures(job: Job) -> dict[str, Any]:
    """How rightly the run itself has cut so far."""
    state = {name: value.cpu() for name, value in job.learner.state.tensors().items()}
    return figures(cut_in(state), saved_verdict(automatic(state), state["given"]).score, job.parts.train)


def times(answers: Answers, after: float = 0.0) -> dict[str, float]:
    """Seconds of answers and what came after them; the verdict of scouts is among those of their answers."""
    seconds = {"seconds": answers.seconds + after, "steady": answers.steady + after, "after_answers": after}
    return {name: round(value, 3) for name, value in seconds.items()}


def figures(cut: Tensor, score: Tensor, train: Dataset) -> dict[str, Any]:
    """How rightly was cut and ranked."""
    assert train.wrong is not None
    found = found_removed(cut, train.wrong)
    both = int(cut.sum()) + int(train.wrong.sum())
    f1 = 2 * int((cut & train.wrong).sum()) / both if both else None
    return {**found, "f1": f1, "auc": area(score, train.wrong)}


def table(rows: list[dict[str, Any]]) -> list[str]:
    """One line for each noise, answer and judge: means over the seeds."""
    named = [{"labels": f"{row['noise']} {row['rate']:g}", **row} for row in rows]
    lines = ["".join([*(f"{name:<{width}}" for name, width in WIDTHS.items()), *(f"{name:>10}" for name in FIGURES)])]
    for key in dict.fromkeys(tuple(row[name] for name in WIDTHS) for row in named):
        own = [row for row in named if tuple(row[name] for name in WIDTHS) == key]
        cells = [f"{text:<{width}}" for text, width in zip(key, WIDTHS.values(), strict=True)]
        for name in FIGURES:
            known = [row[name] for row in own if row[name] is not None]
            cells.append(f"{mean(known):>10.{1 if name in ('seconds', 'steady') else 4}f}" if known else f"{'-':>10}")
        lines.append("".join(cells))
    return lines


if __name__ == "__main__":
    main()
