"""Run -> folder: load, train, evaluate, checkpoint, resume."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from orat.attacks import Threat, suite
from orat.core.console import Display
from orat.core.device import choose_device, until_done
from orat.core.errors import InputError
from orat.core.numbers import radius
from orat.core.provenance import hardware, versions
from orat.data.loader import on_device, steps_per_epoch
from orat.data.source import Dataset
from orat.evaluation.accuracy import Searchers, evaluate, predict
from orat.noise.truth import found_corrections, found_outliers, lost_classes
from orat.training.engine import engine_for
from orat.training.filtering import left_out_words
from orat.training.first_weights import load_first, origin_words
from orat.training.learner import Learner, check_finite, end_epoch, train_epoch
from orat.training.lines import Pace, collapse, epoch_line, epoch_name, lost_words
from orat.training.run import Run
from orat.training.run_folder import RunFolder, weights
from orat.training.setup import Parts, build_model, prepare, setting_of

SAVE_EVERY = 300.0  # seconds within a long epoch
SAVE_AT_MOST_EVERY = 1.0  # seconds between the checkpoints and the lines of very short epochs
SAVED_IN = 0.01  # seconds: checkpoints that take longer come less often, to take 1 % of the time at most
FORMAT = 8  # of checkpoints: an older one was made by other steps
VALIDATION_ATTACK = "pgd10"
WATCHED = 1000  # samples that are looked at for a collapse where nothing is held out
COLLAPSED_EPOCHS, COLLAPSED_STEPS = 3, 300  # with one class for everything: a network that learns has left it by then


def default_folder(run: Run) -> Path:
    """Where a run goes if nothing is said: the same run, the same folder."""
    return Path("runs") / f"{Path(run.data).stem}-{run.method_name}-{run.id}"


def train(
    run: Run,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    display: Display | None = None,
    engine: str = "auto",
) -> dict[str, Any]:
    """Trains and tests a run in its folder, from where it stands; returns the content of its result.json.

    `engine` says how steps are executed: plain, replica, recorded, compiled, or auto for the quickest.
    """
    job = open_job(run, out, data_dir, device, display or Display(), engine)
    for _ in job.steps():
        pass
    return job.result


def open_job(
    run: Run, out: str | Path | None, data_dir: str | Path | None, device: str, display: Display, engine: str
) -> Job | Done:
    """A run in its folder, ready to go on; nothing is left to do where it is finished."""
    folder = RunFolder(Path(out) if out else default_folder(run))
    folder.check(run)
    if (result := folder.result()) is not None:
        display.line(f"{folder.path} is finished already")
        return Done(result)
    where = choose_device(device)
    parts = prepare(run, None if data_dir is None else Path(data_dir), str(where))
    model = build_model(run, parts.train)
    origin = None if folder.can_resume() else load_first(model, run)
    model = model.to(where)
    state = run.method.start(setting_of(run, parts)).to(where)
    return Job(folder, Learner(run, model, state), parts, display, where, origin, engine)


@dataclass(frozen=True)
class Done:
    """A run that is finished."""

    result: dict[str, Any]

    def steps(self) -> Iterator[None]:
        """None is left."""
        yield from ()


class Job:
    """One training in its folder, from the last checkpoint to the result."""

    def __init__(
        self,
        folder: RunFolder,
        learner: Learner,
        parts: Parts,
        display: Display,
        device: torch.device,
        origin: dict[str, Any] | None = None,
        engine: str = "auto",
    ) -> None:
        self.folder, self.learner, self.display, self.device = folder, learner, display, device
        self.run, self.parts, self.origin = learner.run, parts, origin
        self.data = on_device(parts.train, device)
        steps = steps_per_epoch(len(self.data), learner.run.batch_size) * learner.run.epochs
        self.engine = engine_for(learner, self.data, display, engine, steps)
        self.result: dict[str, Any] = {}
        self.fingerprint = parts.train.fingerprint()
        self.chosen: dict[str, Any] = {"epoch": 0, "score": -1.0, "weights": {}}
        self.constant_epochs = 0  # in a row, in which the network gave one class to everything
        self.seconds = 0.0  # of training, over all sittings
        self.warned: set[str] = set()  # kinds of warnings that were said
        self.saved_at = self.told_at = self.started = time.monotonic()
        self.pace = Pace()
        self.saving = 0.0  # seconds that the last checkpoint took

    @property
    def epoch_steps(self) -> int:
        """Those of the epoch under way."""
        return steps_per_epoch(len(self.data), self.learner.batch_size)

    def steps(self) -> Iterator[None]:
        """Goes on to the last epoch, a step at a time, then tests."""
        self.folder.claim(self.run, self.parts.train)
        try:
            self.introduce()
            self.resume()
            while self.learner.epoch <= self.run.epochs:
                yield from self.one_epoch()
            self.save()
            self.result = self.test()
            self.folder.finish(self.result)
        finally:
            self.folder.lock.release()

    def introduce(self) -> None:
        """What is about to happen, in one line, and where the first weights come from, in another."""
        parts, run = self.parts, self.run
        counts = [f"{len(part):,} {name}" for name, part in vars(parts).items() if isinstance(part, Dataset)]
        counts += [left_out_words(parts.left_out)] if parts.left_out else []
        state = self.learner.state.describe()
        self.display.line(
            f"{run.method_name}{f' ({state})' if state else ''}: {run.model} on {run.data} ({', '.join(counts)}), "
            f"{run.norm} eps {radius(run.eps)}, {run.epochs} epochs, {self.device.type}"
        )
        if self.origin:
            self.display.line(origin_words(self.origin, len(parts.train.classes)))

    def resume(self) -> None:
        """Takes up the last checkpoint, if there is one, and drops the history that it does not know of."""
        saved = self.folder.load_resume(self.device)
        if saved is None:
            self.folder.write_history([])
            return
        if saved.get("format") != FORMAT:
            raise InputError(
                f"{self.folder.path} was stopped by another version of orat, whose steps were other ones: "
                "finish it with that one, or give --out a new folder"
            )
        if saved["device"] != self.device.type:
            raise InputError(
                f"{self.folder.path} was started on {saved['device']}, not on {self.device.type}: "
                f"go on with --device {saved['device']}, or give --out a new folder"
            )
        if saved["fingerprint"] != self.fingerprint:
            raise InputError(
                f"the data of {self.folder.path} changed since it was stopped "
                f"({saved['fingerprint']} then, {self.fingerprint} now): bring it back, or give --out a new folder"
            )
        self.learner.load_state_dict(saved["learner"])
        self.chosen, self.constant_epochs = saved["chosen"], saved["constant_epochs"]
        self.seconds, self.origin = saved["seconds"], saved["origin"]
        known = [record for record in self.folder.history() if record["epoch"] < self.learner.epoch]
        self.folder.write_history(known)
        at = self.name_of(self.learner.epoch) + (f", step {self.learner.step + 1}" if self.learner.step else "")
        self.display.line(f"{self.folder.path}: going on from {at}")

    def save(self) -> None:
        """Replaces the checkpoint."""
        started = time.monotonic()
        content = {
            "format": FORMAT,
            "device": self.device.type,
            "fingerprint": self.fingerprint,
            "learner": self.learner.state_dict(),
            "chosen": self.chosen,
            "constant_epochs": self.constant_epochs,
            "origin": self.origin,
            "seconds": self.seconds + started - self.started,
        }
        self.folder.save_resume(content)
        self.saved_at = time.monotonic()
        self.saving = self.saved_at - started

    def one_epoch(self) -> Iterator[None]:
        """The rest of the epoch under way: its steps, its validation, its line, its checkpoint."""
        learner, started = self.learner, time.monotonic()
        epoch = train_epoch(learner, self.data, self.engine)
        for _ in self.display.track(epoch, self.name_of(learner.epoch), self.epoch_steps, learner.step):
            yield
            if time.monotonic() - self.saved_at > SAVE_EVERY:
                check_finite(learner, learner.loss_sum.item())
                self.save()
        yield from until_done(self.device)
        record = end_epoch(learner)
        if (used := learner.state.corrected()) is not None:
            record["corrections"] = found_corrections(used, self.data)
        record["validation"] = self.validate(record["epoch"]) if record["epoch"] > 0 else {}
        record["seconds"] = round(time.monotonic() - started, 3)
        self.folder.append_history(record)
        self.tell(record)
        if self.constant_epochs >= max(COLLAPSED_EPOCHS, COLLAPSED_STEPS / self.epoch_steps, self.run.epochs / 20):
            raise collapse(self.run, self.constant_epochs)
        if time.monotonic() - self.saved_at > SAVE_AT_MOST_EVERY * max(1.0, self.saving / SAVED_IN):
            self.save()

    def validate(self, epoch: int) -> dict[str, float]:
        """Accuracy on what is held out; remembers the best epoch and watches for a collapse."""
        model, held_out = self.learner.model, self.parts.validation
        watched = held_out or self.parts.train.take(torch.arange(min(WATCHED, len(self.data))))
        one_class = len(predict(model, watched).unique()) == 1 and len(watched.labels.unique()) > 1
        self.constant_epochs = self.constant_epochs + 1 if one_class and epoch > self.run.warmup else 0
        if held_out is None:
            return {}
        accuracy = evaluate(model, held_out, [VALIDATION_ATTACK], Threat(self.run.eps, self.run.norm), self.run.seed)
        if accuracy[VALIDATION_ATTACK] >= self.chosen["score"]:
            self.chosen = {"epoch": epoch, "score": accuracy[VALIDATION_ATTACK], "weights": weights(model)}
        return accuracy

    def tell(self, record: dict[str, Any]) -> None:
        """The epoch as one line, and each kind of warning once."""
        cut = self.learner.state.cut() if record["state"].get("cut") else None
        lost = None if cut is None else lost_words(lost_classes(cut, self.parts.train))
        for kind, warning in (("method", self.learner.state.warning()), ("class", lost)):
            if warning and kind not in self.warned:
                self.display.line(f"warning: {self.name_of(record['epoch'])}: {warning}")
                self.warned.add(kind)
        self.pace.add(record)
        last = record["epoch"] == self.run.epochs
        if time.monotonic() - self.told_at < SAVE_AT_MOST_EVERY and not last:
            return
        self.told_at = time.monotonic()
        self.display.line(epoch_line(record, self.name_of(record["epoch"]), self.run.epochs, self.pace.take()))

    def name_of(self, epoch: int) -> str:
        """An epoch as people are told of it."""
        return epoch_name(epoch, self.run.epochs, self.learner.state.ahead)

    def test(self) -> dict[str, Any]:
        """Weights and state to their files, and accuracy on the test part: of the last epoch, and of the chosen one."""
        learner, parts = self.learner, self.parts
        cut, used = learner.state.cut(), learner.state.corrected()
        self.folder.save_tensors("model", learner.model.state_dict())
        self.folder.save_tensors("state", learner.state.tensors() | {"index": parts.index})
        result: dict[str, Any] = {
            "run": self.run.id,
            "eps": self.run.eps,
            "norm": self.run.norm,
            "examples": len(parts.test) if parts.test else 0,
            "last": {"epoch": self.run.epochs, **self.accuracy("last epoch")},
            "chosen": None,
            "outliers": None if cut is None else found_outliers(cut, parts.train),
            "corrections": None if used is None else found_corrections(used, self.data),
            "left_out": parts.left_out,
            "init_from": self.origin,
        }
        if self.chosen["epoch"]:
            self.folder.save_tensors("chosen", self.chosen["weights"])
            result["chosen"] = result["last"]
            if self.chosen["epoch"] != self.run.epochs:
                learner.model.load_state_dict(self.chosen["weights"])
                result["chosen"] = {"epoch": self.chosen["epoch"], **self.accuracy("chosen epoch")}
        seconds = self.seconds + time.monotonic() - self.started
        return result | {
            "seconds": round(seconds, 1),
            "fingerprint": self.fingerprint,
            "made_with": self.made_with(),
        }

    def made_with(self) -> dict[str, str]:
        """The versions and the hardware behind the result, and how steps were executed."""
        return versions() | {
            "device": f"{self.device.type} {hardware(self.device)['device']}",
            "engine": self.engine.name,
            "attacks_in": str(self.engine.attack_type).removeprefix("torch."),
        }

    def accuracy(self, label: str, searchers: Searchers | None = None) -> dict[str, float]:
        """Accuracy on the test part under the paper's attacks, which may go uphill on a quicker form of the network."""
        if self.parts.test is None:
            return {}
        self.display.line(f"testing the {label} on {len(self.parts.test)} images")
        threat = Threat(self.run.eps, self.run.norm)
        return evaluate(self.learner.model, self.parts.test, suite(), threat, self.run.seed, self.display, searchers)
