"""The cross-entropy of noisy labels: sums of chances, the plain cross-entropy without noise, and finite differences."""

from __future__ import annotations

import torch
from torch import Tensor

from orat.core.losses import cross_entropy, noisy_cross_entropy

N, CLASSES = 40, 5


def logits() -> Tensor:
    return 3 * torch.randn(N, CLASSES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def labels() -> Tensor:
    return torch.arange(N) % CLASSES


def transition() -> Tensor:
    chances = torch.rand(CLASSES, CLASSES, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return chances / chances.sum(1, keepdim=True)


def test_the_loss_is_the_surprise_at_the_given_label_summed_over_right_classes() -> None:
    given = logits().softmax(1) @ transition()
    expected = -given[torch.arange(N), labels()].log()
    torch.testing.assert_close(noisy_cross_entropy(logits(), labels(), transition()), expected)


def test_without_wrong_labels_the_loss_and_its_gradient_are_those_of_cross_entropy() -> None:
    found = []
    for loss in (cross_entropy, lambda x, y: noisy_cross_entropy(x, y, torch.eye(CLASSES, dtype=torch.float64))):
        x = (100 * logits()).requires_grad_()  # chances that are zero in float64, too
        losses = loss(x, labels())
        losses.sum().backward()
        found.append((losses, x.grad))
    torch.testing.assert_close(*found)


def test_gradients_are_those_of_finite_differences() -> None:
    x = logits()[:6].requires_grad_()
    assert torch.autograd.gradcheck(lambda given: noisy_cross_entropy(given, labels()[:6], transition()), x)


def test_the_best_logits_of_many_noisy_labels_are_those_of_the_right_class() -> None:
    """Labels of one class, 45 % wrong: cross-entropy learns a coin flip, the corrected loss the class."""
    chances = torch.tensor([[0.55, 0.45, 0.0], [0.0, 0.55, 0.45], [0.45, 0.0, 0.55]])
    given = torch.tensor([0] * 55 + [1] * 45)
    learned = []
    for matrix in (torch.eye(3), chances):
        x = torch.zeros(3, requires_grad=True)
        optimizer = torch.optim.SGD([x], lr=1.0)
        for _ in range(2000):
            optimizer.zero_grad()
            noisy_cross_entropy(x.expand(100, 3), given, matrix).mean().backward()
            optimizer.step()
        learned.append(x.detach().softmax(0))
    torch.testing.assert_close(learned[0], torch.tensor([0.55, 0.45, 0.0]), atol=0.01, rtol=0)
    assert learned[1][0] > 0.98
