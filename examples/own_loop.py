"""The ranked range in your own training loop: remove the 30 % largest losses of attacked digits."""

from __future__ import annotations

import torch
from torch.nn import Flatten, Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

import orat
from orat.noise.inject import symmetric

BATCH, EPOCHS, EPS = 100, 6, 0.1

splits = orat.load_data("sample")
images, truth = splits.train.images / 255, splits.train.labels
labels = symmetric(truth, classes=10, rate=0.3, seed=0)

torch.manual_seed(0)
model = Sequential(Flatten(), Linear(784, 256), ReLU(), Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
attack = orat.PGD(steps=5, step=0.5)
starts = torch.Generator().manual_seed(0)  # without a generator, every batch starts from the same noise
fold = orat.RankedRangeLoss(n=len(labels), k=len(labels), m=1800, burn_in=2)

for epoch in range(EPOCHS):
    for ids in torch.randperm(len(labels)).split(BATCH):
        adv = attack(model, images[ids], labels[ids], EPS, starts)
        losses = cross_entropy(model(adv), labels[ids], reduction="none")
        optimizer.zero_grad()
        fold(losses, ids).backward()
        optimizer.step()
    fold.end_epoch()
    accuracy = orat.evaluate(model, splits.test, ["pgd20"], EPS)
    print(f"epoch {epoch + 1}: natural {accuracy['natural']:.1%}, PGD-20 {accuracy['pgd20']:.1%}")

removed = fold.removed()
wrong = (labels != truth)[removed].float().mean()
print(f"{removed.sum()} samples removed, {wrong:.1%} of them with a wrong label")
