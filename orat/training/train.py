"""Run -> folder: prepare, cross-fit where the method needs predictions, train, test, and resume."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks.pgd import PAPER
from orat.core.console import Display
from orat.core.device import choose_device, hardware, versions
from orat.core.losses import check_gradients_on
from orat.data.loader import loader
from orat.data.source import Dataset
from orat.evaluation.accuracy import Searchers, evaluate
from orat.methods.base import Decision, State
from orat.models.catalog import is_own
from orat.models.layers import dropouts
from orat.noise.truth import found_corrections, found_removed
from orat.training.engine import Execution, execution, possible
from orat.training.events import Event
from orat.training.first_weights import load_first, origin_words
from orat.training.forecast import choices, expected, few_samples, first_line
from orat.training.learner import RunLearner
from orat.training.load import load_model
from orat.training.loop import TRAINING, Sitting, result_of
from orat.training.observers import Corrections, Guard, History, Lines, Observer, Validate, Warnings
from orat.training.plan import Plan, affordable, plan_for
from orat.training.probe import suited
from orat.training.rehearsal import rehearse
from orat.training.run import Run
from orat.training.run_folder import RunFolder, default_folder, weights
from orat.training.setup import Parts, build_model, notes_of, prepare, read_data, state_of

Result = dict[str, Any]
MakeObservers = Callable[["Session", RunLearner], Sequence[Observer]]


def train(
    run: Run,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    display: Display | None = None,
    engine: str = "auto",
    observers: MakeObservers | None = None,
    model: Any = None,
) -> Result:
    """Trains and tests a run in its folder, from its last checkpoint on; returns the content of its result.json.

    `engine` says how steps are executed: plain, folded, recorded, compiled, or auto for the quickest. `model` takes the
    place of the run's network: a network, which is trained in place, a function that returns a network, or a name.
    """
    run = run if model is None else replace(run, model=model)
    return result_of(training(run, out, data_dir, device, display or Display(), engine, observers))


def training(
    run: Run,
    out: str | Path | None,
    data_dir: str | Path | None,
    device: str,
    display: Display,
    engine: str,
    observers: MakeObservers | None = None,
) -> Generator[Event, None, Result]:
    """The same as a generator: yields after each step, so that several runs can take turns, and returns the result."""
    check_gradients_on()
    folder = RunFolder(Path(out) if out else default_folder(run))
    run = folder.begun(run)
    folder.check(run)
    if (result := folder.finished(run)) is not None:
        display.line(folder.finished_words(run))
        if isinstance(run.model, nn.Module):
            load_model(folder.path, device=device, model=run.model)
        return result
    where, chosen = choose_device(device), run.unset
    run, splits = read_data(run, None if data_dir is None else Path(data_dir), where)
    session = Session(run, folder, prepare(run, splits=splits), where, display, engine, chosen)
    session.notes += notes_of(run, splits)
    return (yield from session.events(observers))


class Session(Sitting):
    """One sitting at a run in its folder: from the last checkpoint to the result, or to the next interruption."""

    folder: RunFolder

    def __init__(
        self,
        run: Run,
        folder: RunFolder,
        parts: Parts,
        device: torch.device,
        display: Display,
        engine: str,
        chosen: Sequence[str] = (),  # fields that the data decided
    ) -> None:
        super().__init__(run, folder, parts, device, display, engine)
        self.loader = loader(parts.train, run.batch_size, run.seed, device, run.augment)
        self.wanted = self.execution = possible(
            execution(engine, device, self.loader.steps * run.epochs), self.loader, display, run.attack is not None
        )
        self.chosen = chosen
        self.notes: list[str] = []  # lines about the network

    def events(self, make: MakeObservers | None) -> Generator[Event, None, Result]:
        """Trains from the last checkpoint to the last epoch, then tests."""
        run, parts, scouts = self.run, self.parts, self.run.method.scouts()
        model = self.network()
        plan = None if scouts is None else affordable(plan_for(run, parts, scouts, network=model), run, scouts.epochs)
        state = state_of(run, parts) if plan is None else None
        if run.runs_code:
            rehearse(run, parts.train, model, state)
        with self.folder.claimed(run, parts.train):
            self.introduce(state, model, plan)
            saved = self.load()
            if plan is not None:
                predictions = yield from self.cross_fit(plan, saved, len(dropouts(model)))
                state = state_of(run, parts, predictions.to(self.device))
                if run.runs_code:
                    rehearse(run, parts.train, model, state)
                self.display.line(f"{run.method_name}: {state.describe()}")
            assert state is not None
            how, domain = self.execution, parts.train.domain
            learner = RunLearner(run, model, state.to(self.device), how.form, domain, how.draws)
            validate = Validate(run, model, parts.validation)
            extra = [] if make is None else make(self, learner)
            yield from self.train(learner, validate, extra, saved)
            result = self.test(learner, validate)
            self.folder.finish(result)
        return result

    def network(self) -> nn.Module:
        """The run's network with its initial weights, on the device; the execution is changed to suit a user's."""
        run, train = self.run, self.parts.train
        model = build_model(run, train, self.notes.append)
        if run.init_from is not None and not self.folder.can_resume():
            self.origin = load_first(model, run, run.init_from, len(train.classes))
            self.notes.append(origin_words(self.origin, len(train.classes)))
        model = model.to(self.device)
        if is_own(run.model):
            self.execution = suited(self.wanted, model, train, run.precision, self.notes.append)
        return model

    def introduce(self, state: State | None, model: nn.Module, plan: Plan | None) -> None:
        """Prints what is about to happen, how long it takes, what was chosen for the data, and the notes."""
        if not self.display.shown:
            return
        time_left = (
            "" if self.folder.can_resume() else f", {expected(self.run, self.parts, model, self.execution, plan)}"
        )
        self.display.line(first_line(self.run, self.parts, state, self.device) + time_left)
        chosen = [choices(self.run, self.parts, self.device, self.chosen)] if self.chosen else []
        for line in (*chosen, *few_samples(self.parts.train), *self.notes):
            self.display.line(line)

    def train(
        self, learner: RunLearner, validate: Validate, extra: Sequence[Observer], saved: dict[str, Any] | None
    ) -> Generator[Event, None, None]:
        """The epochs of the run."""
        run, parts, state = self.run, self.parts, learner.state
        lines = Lines(self.display, run.epochs)
        observers = [
            Corrections(state, parts.train), validate, *extra, History(self.folder),
            Warnings(self.display, state, parts.train, lines.name), lines,
        ]  # fmt: skip
        if not any(isinstance(one, Guard) for one in extra):
            observers.append(Guard(run, learner.model, parts.validation, parts.train, self.loader.steps))
        yield from self.observed(TRAINING, learner, self.loader, self.execution, observers, lines, saved)

    def test(self, learner: RunLearner, validate: Validate) -> Result:
        """Writes weights and state, and tests the last epoch and the epoch that validation chose."""
        run = self.run
        self.folder.save_tensors("model", learner.model.state_dict())
        self.folder.save_tensors("state", state_tensors(learner.state, self.parts))
        result: Result = {
            "run": run.id,
            **radius_of(run, self.parts.train),
            "examples": len(self.parts.test) if self.parts.test else 0,
            "last": {"epoch": run.epochs, **self.accuracy(learner.model, "last epoch")},
            "chosen": None,
            **quality(learner.state.decision() or Decision(), self.parts.train),
            "left_out": self.parts.left_out,
            "init_from": self.origin,
        }
        if validate.epoch:
            self.folder.save_tensors("chosen", validate.weights)
            result["chosen"] = result["last"]
            if validate.epoch != run.epochs:
                last = weights(learner.model)
                learner.model.load_state_dict(validate.weights)
                result["chosen"] = {"epoch": validate.epoch, **self.accuracy(learner.model, "chosen epoch")}
                learner.model.load_state_dict(last)  # with which a network in memory is handed back
        learner.model.eval()
        seconds = self.seconds + time.monotonic() - self.started
        return result | {
            "seconds": round(seconds, 1),
            "fingerprint": self.fingerprint,
            "made_with": made_with(self.execution, learner),
        }

    def accuracy(self, model: nn.Module, label: str, searchers: Searchers | None = None) -> dict[str, float]:
        """Accuracy on the test part under the paper's attacks, which may search on a quicker form of the network."""
        if self.parts.test is None:
            return {}
        self.display.line(f"testing the {label} on {len(self.parts.test)} samples")
        threat = self.run.threat_in(self.parts.train.domain)
        built_in = not is_own(self.run.model)
        return evaluate(model, self.parts.test, PAPER, threat, self.run.seed, self.display, searchers, built_in)


def radius_of(run: Run, train: Dataset) -> dict[str, Any]:
    """The radius and the norm of the attacks, and the unit of the radius for features."""
    unit = {} if train.domain.scale is None else {"unit": train.domain.unit.strip()}
    return {"eps": run.eps, "norm": run.norm, **unit}


def quality(decision: Decision, train: Dataset) -> dict[str, Any]:
    """How many samples were removed and relabeled, and how rightly where the true labels are known."""
    keep, labels = decision.keep, decision.labels
    return {
        "outliers": None if keep is None else found_removed(decision.flagged(train.labels), train.wrong),
        "corrections": None if labels is None else found_corrections(labels, train.labels, train.truth),
    }


def state_tensors(state: State, parts: Parts) -> dict[str, Tensor]:
    """The method's tensors, its decision for every training sample, and the samples' positions in the data set."""
    decision, given = state.decision(), parts.train.labels
    tensors = state.tensors() | {"id": parts.ids}
    if decision is not None:
        keep = torch.ones(len(given), dtype=torch.bool) if decision.keep is None else decision.keep
        tensors |= {"keep": keep, "labels": given if decision.labels is None else decision.labels}
    return tensors


def made_with(execution: Execution, learner: RunLearner) -> dict[str, str]:
    """The versions and the hardware behind a result, and how steps were executed."""
    return versions() | {
        "device": f"{learner.device.type} {hardware(learner.device)['device']}",
        "engine": execution.name if execution.form == learner.form.form else "recorded",
        "attacks_in": str(learner.form.attack_type).removeprefix("torch."),
    }
