"""Predictions of another model: wrong labels found by least squares in five parts, without a run of orat."""

from __future__ import annotations

import torch
from torch.nn.functional import one_hot

import orat
from orat.noise.inject import symmetric

train = orat.load_data("sample").train
x, truth = train.images.flatten(1) / 255, train.labels
labels = symmetric(truth, classes=10, rate=0.1, seed=0)  # a tenth of the labels is wrong

scores = torch.empty(len(x), 10)
parts = torch.randperm(len(x), generator=torch.Generator().manual_seed(0)).tensor_split(5)
for number, part in enumerate(parts):  # every sample is predicted by a model that was not trained on it
    rest = torch.cat([other for place, other in enumerate(parts) if place != number])
    inverse = torch.linalg.pinv(x[rest].T @ x[rest] + torch.eye(784))
    scores[part] = 10 * x[part] @ inverse @ x[rest].T @ one_hot(labels[rest]).float()

found = orat.find_label_issues(predictions=scores, labels=labels)
wrong = labels != truth
print("\n".join(found.notes()))
print(f"{found.verdict.noise_rate:.1%} of the labels are estimated to be wrong, {wrong.float().mean():.1%} are")
hits = (found.flags & wrong).sum()
print(f"precision {hits / found.flags.sum():.1%}, recall {hits / wrong.sum():.1%}")
