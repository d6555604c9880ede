"""Run -> folder: prepare, cross-fit where the method needs predictions, train, test, and resume."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks import suite
from orat.attacks.gradients import check_gradients_on
from orat.core.console import Display
from orat.core.device import choose_device
from orat.data.loader import Loader, loader
from orat.evaluation.accuracy import Searchers, evaluate
from orat.methods.base import Decision, State
from orat.models.external import is_own
from orat.models.layers import dropouts
from orat.training.cross_fit import scout_learner, scout_loader
from orat.training.engine import Eager, Engine, Execution, execution, possible
from orat.training.first_weights import load_first, origin_words
from orat.training.forecast import choices, expected, first_line
from orat.training.graph import Graph
from orat.training.learner import Learner, RunLearner
from orat.training.load import load_model
from orat.training.loop import Event, fit
from orat.training.observers import (
    Checkpoints,
    Corrections,
    Guard,
    History,
    Lines,
    Observer,
    Steps,
    Validate,
    Warnings,
    by_name,
)
from orat.training.outcome import made_with, quality, state_tensors
from orat.training.probe import suited
from orat.training.rehearsal import rehearse
from orat.training.run import Run
from orat.training.run_folder import RunFolder, default_folder, weights
from orat.training.setup import Parts, Plan, affordable, build_model, plan_for, prepare, read_data, state_of

FORMAT = 9  # of checkpoints; a checkpoint of another format comes from other steps
CROSS_FITTING, TRAINING = "cross-fitting", "training"  # the stages of a run

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
    events = training(run, out, data_dir, device, display or Display(), engine, observers)
    while True:
        try:
            next(events)
        except StopIteration as end:
            return end.value


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
    session.notes += splits.notes
    return (yield from session.events(observers))


class Session:
    """One sitting at a run in its folder: from the last checkpoint to the result, or to the next interruption."""

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
        self.run, self.folder, self.parts, self.device, self.display = run, folder, parts, device, display
        self.loader = loader(parts.train, run.batch_size, run.seed, device, run.augment)
        self.wanted = self.execution = possible(
            execution(engine, device, self.loader.steps * run.epochs), self.loader, display, run.attack is not None
        )
        self.fingerprint, self.chosen = parts.train.fingerprint(), chosen
        self.seconds, self.started = 0.0, time.monotonic()  # of former sittings, and the start of this one
        self.origin: dict[str, Any] | None = None  # of the initial weights
        self.notes: list[str] = []  # lines about the network

    def events(self, make: MakeObservers | None) -> Generator[Event, None, Result]:
        """Trains from the last checkpoint to the last epoch, then tests."""
        run, parts, scouts = self.run, self.parts, self.run.method.scouts()
        model = self.network()
        plan = None if scouts is None else affordable(plan_for(run, parts, scouts, network=model), run, scouts.epochs)
        state = state_of(run, parts) if plan is None else None
        rehearse(run, parts.train, model, state)
        with self.folder.claimed(run, parts.train):
            self.introduce(state, model, plan)
            saved = self.load()
            if plan is not None:
                predictions = yield from self.cross_fit(plan, model, saved)
                state = state_of(run, parts, predictions.to(self.device))
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
        time_left = (
            "" if self.folder.can_resume() else f", {expected(self.run, self.parts, model, self.execution, plan)}"
        )
        self.display.line(first_line(self.run, self.parts, state, self.device) + time_left)
        chosen = [choices(self.run, self.parts, self.device, self.chosen)] if self.chosen else []
        for line in (*chosen, *self.notes):
            self.display.line(line)

    def cross_fit(self, plan: Plan, model: nn.Module, saved: dict[str, Any] | None) -> Generator[Event, None, Tensor]:
        """The cross-fitted predictions: those of the folder, or by training scout networks."""
        if saved is None:
            self.folder.remove_tensors("predictions")
        elif self.folder.has_tensors("predictions"):
            return self.folder.load_tensors("predictions")["log_probs"]
        batches = scout_loader(self.run, self.parts, plan, self.device)
        wanted = execution(self.wanted.kind, self.device, batches.steps * plan.epochs, at_most=True)
        how = possible(wanted, batches, self.display)
        learner = scout_learner(self.run, self.parts, plan, how.form, self.device, len(dropouts(model)))
        lines, history = Lines(self.display, plan.epochs, CROSS_FITTING), History(self.folder, "cross_fit.jsonl")
        yield from self.observed(CROSS_FITTING, learner, batches, how, [history, lines], lines, saved)
        predictions = learner.predictions()
        self.folder.save_tensors("predictions", {"log_probs": predictions, "id": self.parts.ids})
        return predictions

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

    def observed(
        self,
        stage: str,
        learner: Learner,
        batches: Loader,
        how: Execution,
        observers: Sequence[Observer],
        lines: Lines,
        saved: dict[str, Any] | None,
    ) -> Generator[Event, None, None]:
        """One stage from its last checkpoint on; every observer sees every event."""
        if saved is not None and saved["stage"] == stage:
            learner.load_state_dict(saved["learner"])
            for name, observer in by_name(observers).items():
                if name in saved["observers"]:
                    observer.load_state_dict(saved["observers"][name])
            at = f", step {learner.step + 1}" if learner.step else ""
            if learner.epoch <= learner.epochs:
                self.display.line(f"{self.folder.path}: resuming at {lines.name(learner.epoch)}{at}")
        for observer in observers:
            observer.begin(learner.epoch)
        engine: Engine = Graph(learner, self.display) if how.recorded else Eager()
        checkpoints = Checkpoints(
            lambda: self.save(stage, learner, observers),
            lambda: learner.check_finite(learner.loss_sum.item()),
            learner.epochs,
        )
        with self.display.bar() as bar:
            watching = [*observers, Steps(bar, lines.name), checkpoints]
            for event in fit(learner, batches, engine):
                for observer in watching:
                    observer(event)
                yield event

    def save(self, stage: str, learner: Learner, observers: Sequence[Observer]) -> None:
        """Replaces the checkpoint."""
        content = {
            "format": FORMAT,
            "device": self.device.type,
            "fingerprint": self.fingerprint,
            "stage": stage,
            "learner": learner.state_dict(),
            "observers": {name: one.state_dict() for name, one in by_name(observers).items()},
            "origin": self.origin,
            "seconds": self.seconds + time.monotonic() - self.started,
        }
        self.folder.save_resume(content)

    def load(self) -> dict[str, Any] | None:
        """The last checkpoint, or None before the first."""
        saved = self.folder.load_resume(self.device, FORMAT, self.fingerprint)
        if saved is not None:
            self.seconds, self.origin = saved["seconds"], saved["origin"]
        return saved

    def test(self, learner: RunLearner, validate: Validate) -> Result:
        """Writes weights and state, and tests the last epoch and the epoch that validation chose."""
        run = self.run
        self.folder.save_tensors("model", learner.model.state_dict())
        self.folder.save_tensors("state", state_tensors(learner.state, self.parts))
        result: Result = {
            "run": run.id,
            "eps": run.eps,
            "norm": run.norm,
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
        return evaluate(model, self.parts.test, suite(), threat, self.run.seed, self.display, searchers)
