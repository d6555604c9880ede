"""Everything that a training changes is in a learner, and a checkpoint holds all of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks import PGD, Adversary, Attack, attack
from orat.attacks.own import CheckedAdversary, as_attack
from orat.core.domain import UNIT, Domain
from orat.core.errors import InputError, TrainingError
from orat.core.random import Draws, seeded
from orat.core.registry import IN_MEMORY, FromRecord, name_of, names_code
from orat.core.types import Batch, Scalar
from orat.methods.base import State, Step
from orat.models.layers import dropouts, seed_dropout
from orat.models.weights import fit
from orat.training.engine import View, Views
from orat.training.run import Run

DROP = 0.1  # factor of the learning rate at a milestone


class Learner(ABC):
    """Modules, optimizer, randomness and position of a training."""

    modules: nn.Module  # everything with weights or memory, for the checkpoint
    epochs: int
    batch_size: int

    def __init__(self, run: Run, modules: nn.Module, groups: list[dict[str, Any]], device: torch.device) -> None:
        self.run, self.modules, self.device = run, modules, device
        self.optimizer = torch.optim.SGD(
            groups, lr=run.lr, momentum=run.momentum, weight_decay=run.weight_decay, fused=device.type == "cuda"
        )
        if device.type == "cuda":  # rates where the kernels read them, so that a change needs no new record of a step
            for group in self.optimizer.param_groups:
                group["lr"] = torch.tensor(run.lr, device=device)
        self.rates: list[float] = []  # one a group
        self.generator = torch.Generator(device).manual_seed(run.seed)
        self.epoch, self.step = 1, 0  # the running epoch, and its finished steps
        self.loss_sum = torch.zeros((), device=device)

    @abstractmethod
    def loss(self, batch: Batch) -> Scalar:
        """The number to minimize on a batch."""

    @abstractmethod
    def pace(self, progress: float) -> None:
        """Sets the rates after `progress` epochs, a fraction within an epoch."""

    @abstractmethod
    def close(self) -> dict[str, float]:
        """Closes the epoch of the method's state and returns the numbers for its record."""

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """What a step depends on besides tensors."""

    @property
    @abstractmethod
    def views(self) -> list[Views]:
        """The forms of the networks that learn."""

    @property
    def learns(self) -> bool:
        """Whether the steps of the running epoch change anything but the state's memory."""
        return True

    @property
    def order(self) -> int:
        """The number of the running epoch that decides the order of the samples."""
        return self.epoch

    @property
    def compiled(self) -> bool:
        """Whether networks are compiled."""
        return any(views.form == "compiled" for views in self.views)

    def stop_compiling(self) -> None:
        """Goes on without compiled networks."""
        for views in self.views:
            views.stop_compiling()

    def advance(self, batch: Batch, share: float) -> Scalar:
        """One step on a batch: the loss, its gradient, the optimizer; `share` is the batch's share of the epoch."""
        loss = self.loss(batch)
        if self.learns:
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.loss_sum += loss.detach() * share
        return loss.detach()

    def end_epoch(self) -> dict[str, Any]:
        """Closes the epoch and returns its record."""
        loss = self.loss_sum.item()
        record: dict[str, Any] = {"epoch": self.epoch, "lr": self.rates[0], "loss": loss}
        self.check_finite(loss)
        record["state"] = self.close()
        self.epoch, self.step = self.epoch + 1, 0
        self.loss_sum.zero_()
        return record

    def set_rates(self, rates: list[float]) -> None:
        """Writes the rate of each parameter group to the place where the optimizer reads it."""
        if rates == self.rates:
            return
        self.rates = rates
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def check_finite(self, loss: float) -> None:
        """Stops a training whose loss is NaN or infinite."""
        if loss - loss != 0:
            raise TrainingError(
                f"the loss became {loss} in epoch {self.epoch}: lower --lr (now {self.run.lr:g}) "
                f"or lengthen --warmup (now {self.run.warmup:g} epochs), and start in a new folder"
            )

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs."""
        return {
            "modules": self.modules.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "dropout": [module.asked for module in dropouts(self.modules)],
            "epoch": self.epoch,
            "step": self.step,
            "loss_sum": self.loss_sum,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restores everything."""
        fit(self.modules, saved["modules"], "the network or the method is not that of the checkpoint")
        self.optimizer.load_state_dict(saved["optimizer"])
        self.rates = []
        self.generator.set_state(saved["generator"].cpu())
        for module, asked in zip(dropouts(self.modules), saved["dropout"], strict=True):
            module.asked.copy_(asked)
        self.epoch, self.step = saved["epoch"], saved["step"]
        self.loss_sum = saved["loss_sum"].to(self.loss_sum.device)


class RunLearner(Learner):
    """The network and the method's state of a run; `draws`: the network draws from global generators."""

    def __init__(
        self,
        run: Run,
        model: nn.Module,
        state: State,
        form: str = "plain",
        domain: Domain = UNIT,
        draws: bool = False,
    ) -> None:
        learned = {"params": list(model.parameters()), "decays": True}
        device = next(model.parameters()).device
        modules = nn.ModuleDict({"model": model, "state": state})
        super().__init__(run, modules, [learned, *state.param_groups(run.lr)], device)
        seed_dropout(modules, run.seed)
        self.model, self.state, self.domain = model, state, domain
        self.epochs, self.batch_size = run.epochs, run.batch_size
        self.attack = attack_of(run)
        mode = run.attack_mode if self.attack is None else self.attack.mode
        self.form = Views(model, form, run.precision, attacked=mode == "eval")
        self.radius = 1.0  # share of eps in this step
        self.rehearses = False  # checks the attack also where a check waits for the device
        self.seeds = draws or run.attack is not None or (run.has_own_method and device.type == "cpu")

    @property
    def views(self) -> list[Views]:
        """The forms of the network."""
        return [self.form]

    @property
    def learns(self) -> bool:
        """As the method's state says."""
        return self.state.learns()

    @property
    def key(self) -> Hashable:
        """The phase of the method, the radius, and whether the step learns."""
        return self.run.method.phase(self.state, self.epoch), self.radius, self.learns

    def loss(self, batch: Batch) -> Scalar:
        """The method's loss."""
        run = self.run
        view = self.form.at(usual=len(batch.y) == self.batch_size and self.radius == 1)
        return run.method.loss(Step(view.model, batch, self.adversary(view), self.state, self.epoch))

    def adversary(self, view: View) -> Adversary:
        """The attack of a step: PGD by the fields of the run, or the attack that the run names."""
        run, threat = self.run, self.run.threat_in(self.domain, self.radius)
        if self.attack is not None:
            return CheckedAdversary(
                self.attack, threat, self.model, self.generator, view.sight, name_of(run.attack), self.rehearses
            )
        size = run.attack_step_size * self.radius
        pgd = PGD(run.attack_steps, step_size=size, start=run.attack_start, mode=run.attack_mode)
        return Adversary(pgd, threat, view.model, self.generator, view.sight)

    def advance(self, batch: Batch, share: float) -> Scalar:
        """One step; random numbers that a user's code draws depend on the seed and the step alone."""
        if not self.seeds:
            return super().advance(batch, share)
        key = Draws.of(self.run.seed, torch.tensor([self.epoch])).fork(self.step).keys
        with seeded(int(key), self.device):
            return super().advance(batch, share)

    def pace(self, progress: float) -> None:
        """Linear warm-ups of rate and radius, and a tenth of the rate from each milestone on."""
        run = self.run
        factor = warm(progress, run.warmup) * DROP ** sum(self.epoch >= milestone for milestone in run.milestones)
        groups = self.optimizer.param_groups
        self.set_rates([run.lr * (factor if group.get("decays", True) else 1.0) for group in groups])
        self.radius = warm(progress, run.attack_warmup)

    def close(self) -> dict[str, float]:
        """Closes the epoch of the method's state."""
        return self.state.end_epoch() or {}


def attack_of(run: Run) -> Attack | None:
    """The training attack that a run names or holds; None for PGD by the fields of the run."""
    given = run.attack
    if given is None or not isinstance(given, str):
        return None if given is None else as_attack(given, name_of(given))
    if isinstance(given, FromRecord) and (names_code(given) or given.startswith(IN_MEMORY)):
        raise InputError(
            f"the attack {given} is known from a record alone, which runs no code: give --attack, or in Python "
            "Run(attack=...)"
        )
    return attack(given)


def warm(progress: float, epochs: float) -> float:
    """The share of the full value after `progress` epochs of a linear rise over `epochs`."""
    return min(1.0, max(0.0, progress) / epochs) if epochs else 1.0
