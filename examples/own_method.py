"""A method of your own: adversarial training with the focal loss, which weighs samples of low confidence more.

On the command line: orat train --data sample --method examples/own_method.py:Focal --gamma 3
"""

from dataclasses import dataclass

import torch

import orat
from orat.core.losses import cross_entropy


@dataclass(frozen=True)
class Focal(orat.Method):
    """The focal loss (Lin et al., 2017) of the attacked inputs: confident samples count less."""

    gamma: float = 2.0

    def loss(self, step: orat.Step) -> torch.Tensor:
        adv = step.adversary(step.batch.x, step.batch.y)
        losses = cross_entropy(step.model(adv), step.batch.y)
        return ((1 - (-losses).exp()) ** self.gamma * losses).mean()


if __name__ == "__main__":
    run = orat.Run(data="sample", method=Focal(gamma=3), model="mlp-32", epochs=2, attack_steps=2)
    print(orat.train(run, "runs/focal")["last"])
    print(orat.evaluate(orat.load_model("runs/focal"), orat.load_data("sample").test, ["pgd20"], 0.1))
