"""The ranked range in a training loop of one's own: drop the 30 % largest losses of attacked digits."""

from __future__ import annotations

import torch
from torch import nn

import orat
from orat.training.setup import with_noise

BATCH, EPOCHS, EPS = 100, 6, 0.1

splits = orat.load_data("sample")
train = with_noise(splits.train, "symmetric", rate=0.3, seed=0)
images, labels = train.images / 255, train.labels

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
attack = orat.PGD(steps=5, step=0.5)
starts = torch.Generator().manual_seed(0)  # without one, every batch would start from the same noise
fold = orat.RankedRangeLoss(n=len(train), k=len(train), m=1800, burn_in=2)

for epoch in range(EPOCHS):
    for index in torch.randperm(len(train)).split(BATCH):
        adv = attack(model, images[index], labels[index], EPS, starts)
        losses = nn.functional.cross_entropy(model(adv), labels[index], reduction="none")
        optimizer.zero_grad()
        fold(losses, index).backward()
        optimizer.step()
    fold.end_epoch()
    accuracy = orat.evaluate(model, splits.test, ["pgd20"], EPS)
    print(f"epoch {epoch + 1}: natural {accuracy['natural']:.1%}, PGD-20 {accuracy['pgd20']:.1%}")

cut = fold.cut()
print(f"{cut.sum()} samples cut, {(train.wrong[cut]).float().mean():.1%} of them with a wrong label")
