"""A network of one's own, not trained by this package: how robust is it, and can the number be trusted?"""

from __future__ import annotations

import torch
from torch import nn

import orat

splits = orat.load_data("sample")
torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
for index in torch.randperm(6000).repeat(3).split(100):
    optimizer.zero_grad()
    nn.functional.cross_entropy(network(splits.train.images[index] / 255), splits.train.labels[index]).backward()
    optimizer.step()


class Rounded(nn.Module):
    """The same network behind rounded inputs: no gradient comes through, so that PGD finds nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = network((4 * x).round() / 4)
        return logits


test = splits.test.take(torch.arange(100))
for name, model in (("plain", network.eval()), ("rounded", Rounded().eval())):
    report = orat.evaluation.examine(model, test, orat.evaluation.Plan(orat.Threat(0.1), attacks=("pgd20", "square")))
    shares = ", ".join(f"{attack} {share:.0%}" for attack, share in report["accuracy"].items())
    print(f"{name}: {shares}")
    for warning in report["warnings"]:
        print(f"  {warning}")
