"""The robustness of a network that was not trained by orat, with warnings where the numbers cannot be trusted."""

from __future__ import annotations

import torch
from torch import nn

import orat
from orat.evaluation.report import Plan, examine

splits = orat.load_data("sample")
torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
for ids in torch.randperm(6000).repeat(3).split(100):
    optimizer.zero_grad()
    nn.functional.cross_entropy(network(splits.train.images[ids] / 255), splits.train.labels[ids]).backward()
    optimizer.step()


class Rounded(nn.Module):
    """The network behind rounded inputs, whose gradient is zero: PGD finds nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = network((4 * x).round() / 4)
        return logits


test = splits.test.first(100)
for name, model in (("plain", network.eval()), ("rounded", Rounded().eval())):
    report = examine(model, test, Plan(orat.Threat(0.1), attacks=("pgd20", "square")))
    shares = ", ".join(f"{attack} {share:.0%}" for attack, share in report["accuracy"].items())
    print(f"{name}: {shares}")
    for warning in report["warnings"]:
        print(f"  {warning}")
