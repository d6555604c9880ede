"""Attacks of your own, for training and evaluation.

orat train --data sample --method at --attack examples/own_attack.py:MINE
orat evaluate RUN --attacks pgd20,examples/own_attack.py:noise,examples/own_attack.py:MINE
"""

import torch

import orat


def runner_up(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The lead of the likeliest wrong class: one number per sample."""
    return logits.scatter(1, y[:, None], -torch.inf).amax(1) - logits.gather(1, y[:, None]).squeeze(1)


MINE = orat.PGD(steps=5, loss=runner_up)


def noise(model, x, y, threat, draws):
    """A random point of the threat; `draws` are the random numbers of these samples."""
    return threat.start(x, draws)


if __name__ == "__main__":
    run = orat.Run(data="sample", method=orat.methods.AT(), attack=MINE, model="mlp-32", epochs=2)
    print(orat.train(run, "runs/mine")["last"])
    model, test = orat.load_model("runs/mine"), orat.load_data("sample").test
    print(orat.evaluate(model, test, {"noise": noise, "mine": MINE}, run.threat))
