"""The training loop: one, for every method. All that changes in it is a Learner, and a checkpoint holds all of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks import PGD, TrainingAttack
from orat.data.batches import batches, shuffled, steps_per_epoch
from orat.data.dataset import Dataset
from orat.errors import TrainingError
from orat.run import Run
from orat.state import State
from orat.types import Batch

DROP = 0.1  # what a milestone does to the learning rate


class Learner:
    """Everything that a training changes: network, method's state, optimizer, randomness, and how far it is."""

    def __init__(self, run: Run, model: nn.Module, state: State) -> None:
        self.run, self.model, self.state = run, model, state
        device = next(model.parameters()).device
        learned = {"params": list(model.parameters()), "decays": True}
        self.optimizer = torch.optim.SGD(
            [learned, *state.param_groups(run.lr)],
            lr=run.lr,
            momentum=run.momentum,
            weight_decay=run.weight_decay,
        )
        self.generator = torch.Generator(device).manual_seed(run.seed)
        self.pace = 1.0  # share of the radius that the attack of this step has
        self.epoch = 1  # the epoch under way, from 1
        self.step = 0  # steps done in it
        self.loss_sum = torch.zeros((), device=device)

    @property
    def attack(self) -> TrainingAttack:
        """The training attack at the radius of this step."""
        run, size = self.run, self.run.attack_step_size * self.pace
        pgd = PGD(run.eps * self.pace, run.attack_steps, size, run.norm, run.attack_start, mode=run.attack_mode)
        return TrainingAttack(pgd, self.generator)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs to go on as if it had never stopped."""
        return {
            "model": self.model.state_dict(),
            "state": self.state.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "global_generators": global_generators(self.loss_sum.device),
            "epoch": self.epoch,
            "step": self.step,
            "loss_sum": self.loss_sum,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Takes everything back."""
        self.model.load_state_dict(saved["model"])
        self.state.load_state_dict(saved["state"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.generator.set_state(saved["generator"].cpu())
        set_global_generators(saved["global_generators"], self.loss_sum.device)
        self.epoch, self.step = saved["epoch"], saved["step"]
        self.loss_sum = saved["loss_sum"].to(self.loss_sum.device)


def train_epoch(learner: Learner, data: Dataset) -> Iterator[int]:
    """The rest of the epoch under way, a step at a time; what is yielded is the number of steps done."""
    run = learner.run
    steps = steps_per_epoch(len(data), run.batch_size)
    learner.model.train()
    order = shuffled(len(data), run.seed, learner.epoch)
    for batch in batches(data, order, run.batch_size, run.augment, learner.generator, skip=learner.step):
        set_pace(learner, learner.epoch - 1 + (learner.step + 1) / steps)
        learner.loss_sum += train_step(learner, batch) * (len(batch.y) / len(data))
        learner.step += 1
        yield learner.step


def train_step(learner: Learner, batch: Batch) -> Tensor:
    """One batch: the method's loss, its gradient, one step of the optimizer."""
    loss = learner.run.method.loss(learner.model, batch, learner.attack, learner.state, learner.epoch)
    learner.optimizer.zero_grad()
    loss.backward()
    learner.optimizer.step()
    return loss.detach()


def end_epoch(learner: Learner) -> dict[str, Any]:
    """Closes the epoch and returns its line of the history."""
    loss = learner.loss_sum.item()
    record = {"epoch": learner.epoch, "lr": learner.optimizer.param_groups[0]["lr"], "loss": loss}
    check_finite(learner, loss)
    record["state"] = learner.state.end_epoch()
    learner.epoch, learner.step = learner.epoch + 1, 0
    learner.loss_sum.zero_()
    return record


def set_pace(learner: Learner, progress: float) -> None:
    """Rates and radius after `progress` epochs: linear warm-ups, and a tenth of the rate from each milestone on."""
    run = learner.run
    factor = warm(progress, run.warmup) * DROP ** sum(learner.epoch >= milestone for milestone in run.milestones)
    for group in learner.optimizer.param_groups:
        group["lr"] = run.lr * (factor if group["decays"] else 1.0)
    learner.pace = warm(progress, run.attack_warmup)


def warm(progress: float, epochs: float) -> float:
    """The share of the full value after `progress` epochs of a linear rise that takes `epochs`."""
    return min(1.0, progress / epochs) if epochs else 1.0


def check_finite(learner: Learner, loss: float) -> None:
    """Stops a training whose loss is no number any more."""
    if loss - loss != 0:  # NaN and infinity
        raise TrainingError(
            f"the loss became {loss} in epoch {learner.epoch}: lower --lr (now {learner.run.lr:g}) "
            f"or lengthen --warmup (now {learner.run.warmup:g} epochs), and start in a new folder"
        )


def global_generators(device: torch.device) -> list[Tensor]:
    """The state of torch's own generators, which dropout draws from."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def set_global_generators(states: list[Tensor], device: torch.device) -> None:
    """Puts torch's own generators back."""
    torch.set_rng_state(states[0].cpu())
    if device.type == "cuda" and len(states) > 1:
        torch.cuda.set_rng_state(states[1].cpu(), device)
