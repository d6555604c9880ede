"""One step of ORAT as in the authors' code, written from its description: the reference for our step time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from orat.core.types import Images, Indices, Labels, PerSample
from orat.data.source import Dataset
from orat.models.catalog import build, network
from orat.models.layers import Dropout
from orat.training.run import Run


class Textbook:
    """PGD by whole backward passes, then Algorithm 1 with both scalars on the host."""

    def __init__(self, model: nn.Module, data: Dataset, run: Run, k: int, m: int) -> None:
        self.model, self.data, self.run = model, data, run
        self.k, self.m = k / len(data), m / len(data)  # shares of the samples
        self.random = np.random.default_rng(run.seed)
        self.optimizer = torch.optim.SGD(
            model.parameters(), lr=run.lr, momentum=run.momentum, weight_decay=run.weight_decay
        )
        self.lower: float | None = None  # lambda; None before the first losses
        self.width = 0.0  # lambda-hat

    def step(self, index: Indices) -> None:
        """Trains on these samples."""
        x, y = self.data.images[index].float() / 255, self.data.labels[index]
        self.learn(self.attack(x, y), y)

    def attack(self, x: Images, y: Labels) -> Images:
        """PGD from a random start; every backward pass computes the gradients of the parameters, too."""
        eps, size = self.run.eps, self.run.attack_step_size
        self.model.eval()
        noise = torch.from_numpy(self.random.uniform(-eps, eps, tuple(x.shape))).float().to(x.device)
        adv = (x + noise).clamp(0, 1)
        for _ in range(self.run.attack_steps):
            adv = adv.detach().requires_grad_()
            self.model.zero_grad()
            cross_entropy(self.model(adv), y).backward()
            assert adv.grad is not None
            adv = adv.detach() + size * adv.grad.sign()
            adv = torch.min(torch.max(adv, x - eps), x + eps).clamp(0, 1)
        return adv

    def learn(self, adv: Images, y: Labels) -> None:
        """One update of the weights by the losses between both cuts."""
        self.model.train()
        self.optimizer.zero_grad()
        losses = cross_entropy(self.model(adv), y, reduction="none")
        loss = (self.kept(losses.detach().cpu()).to(losses.device) * losses).mean()
        loss.backward()
        self.optimizer.step()

    def kept(self, losses: PerSample) -> Tensor:
        """1 for every loss between the cuts, else 0; moves both scalars along their gradients."""
        if self.lower is None:
            ranked = losses.sort(descending=True).values
            low, high = (ranked[max(round(share * len(ranked)), 1) - 1].item() for share in (self.k, self.m))
            self.lower, self.width = low, high - low
        below = losses < self.lower + self.width
        kept = (below & (losses > self.lower)).float()
        self.lower -= self.run.lr * (self.k - self.m - kept.mean().item())
        self.width += self.run.lr * (1 - self.m - below.float().mean().item())
        return kept


def textbook_network(name: str, shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
    """Our network with torch's dropout and memory layout, and without normalization."""
    model = network(name, shape, classes)
    model.load_state_dict(build(name, shape, classes, seed).get_submodule("1").state_dict())
    for parent in model.modules():
        for child, module in parent.named_children():
            if isinstance(module, Dropout):
                setattr(parent, child, nn.Dropout(module.p))
    return model
