"""Scouts in several parts: who learns what, who is asked about what, and how `orat outliers --held-out` asks them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from orat.training.held_out import held_out_answers
from quick_runs import NOISE, quick
from test_watching import network, samples
from torch import Tensor, nn
from torch.nn import functional

import orat
from orat.core.console import SILENT
from orat.core.errors import InputError
from orat.core.types import Batch
from orat.data.source import relabel
from orat.models.layers import Dropout
from orat.training.setup import lesson, prepare, without

N = 40
KEPT = torch.ones(N, dtype=torch.bool)


def gradients(scouts: list[nn.Module], batch: Batch, kept: Tensor = KEPT) -> list[Tensor]:
    """The gradient of each scout, in one row each."""
    for scout in scouts:
        scout.zero_grad()
    lesson(scouts, batch, kept)[0].backward()
    return [torch.cat([p.grad.flatten() for p in scout.parameters() if p.grad is not None]) for scout in scouts]


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_a_scout_says_what_it_sees_in_the_one_part_that_it_does_not_learn(parts: int) -> None:
    scouts, batch = [network(number) for number in range(parts)], samples()
    loss, answers, ordered = lesson(scouts, batch, KEPT)
    said = torch.stack([scout(batch.x) for scout in scouts])
    for place, index in enumerate(ordered.id.tolist()):
        if not answers[place].isnan().any():
            assert torch.allclose(answers[place], said[(index - 1) % parts, index], atol=1e-6)
    assert int(answers.isnan().any(1).sum()) <= 2 * parts  # of 40 samples, those that are too many of their part
    assert ordered.y.equal(batch.y[ordered.id])
    learned = ~answers.isnan().any(1)
    own = [learned & (ordered.id % parts != (scout + 1) % parts) for scout in range(parts)]
    each = [functional.cross_entropy(scout(ordered.x[o]), ordered.y[o]) for scout, o in zip(scouts, own, strict=True)]
    assert loss.item() == pytest.approx(sum(one.item() for one in each) / parts)


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_no_label_of_the_part_that_it_is_asked_about_reaches_a_scout(parts: int) -> None:
    scouts, batch = [network(number) for number in range(parts)], samples()
    before = gradients(scouts, batch)
    for part in range(parts):
        other = torch.where(batch.id % parts == part, 1 - batch.y, batch.y)
        after = gradients(scouts, Batch(batch.x, other, batch.id))
        same = [torch.equal(*pair) for pair in zip(before, after, strict=True)]
        assert same == [(scout + 1) % parts == part for scout in range(parts)]


def test_what_is_not_kept_is_not_learned() -> None:
    scouts, batch, kept = [network(number) for number in range(3)], samples(), KEPT.clone()
    kept[:20] = False
    other = Batch(batch.x, torch.where(kept, batch.y, 1 - batch.y), batch.id)
    for one, two in zip(gradients(scouts, batch, kept), gradients(scouts, other, kept), strict=True):
        assert torch.equal(one, two)


def test_scouts_drop_nothing_when_they_are_asked_and_learn_with_dropout() -> None:
    """Statistics of a batch stay those of training: an answer is the network's but for the dropout."""
    scouts = [nn.Sequential(network(number), nn.BatchNorm1d(2), Dropout(0.5)) for number in range(2)]
    batch = samples()
    loss, answers, ordered = lesson(scouts, batch, KEPT)
    for part, scout in enumerate(scouts):
        asked = slice(20, 40) if part == 0 else slice(0, 20)
        assert torch.allclose(answers[asked], scout[1](scout[0](ordered.x[asked])), atol=1e-6)
        assert scout[2].asked == 1  # where it learned
        assert scout[2].training
    assert loss.requires_grad


def test_without_a_part_the_others_are_left_in_their_order() -> None:
    values = torch.arange(10)
    assert without(values, slice(0, 3)).tolist() == [3, 4, 5, 6, 7, 8, 9]
    assert without(values, slice(4, 6)).tolist() == [0, 1, 2, 3, 6, 7, 8, 9]
    assert without(values, slice(8, 10)).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_what_is_said_of_a_held_out_part_does_not_depend_on_its_labels(tiny: str) -> None:
    """In the first epoch, after which they take part in the verdict on what is learned."""
    run = quick(tiny, orat.methods.AT(), **NOISE)
    parts = prepare(run)
    before = held_out_answers(run, parts, folds=3, epochs=1, device="cpu")
    own = torch.arange(270) % 3 == 1
    labels = torch.where(own, (parts.train.labels + 1) % 3, parts.train.labels)
    other = replace(parts, train=relabel(parts.train, labels))
    after = held_out_answers(run, other, folds=3, epochs=1, device="cpu")
    assert before.shape == (270, 3)
    assert torch.equal(before[own], after[own])
    assert (before != after).any(1)[~own].double().mean() > 0.5  # what other networks say, which learned it


def test_held_out_networks_do_as_well_with_any_run_of_the_same_labels(tiny: str, tmp_path: Path) -> None:
    """They are the same whatever the run's method was, and the second time."""
    found = []
    for name, method in (("a", orat.methods.ST()), ("b", orat.methods.AT())):
        orat.train(replace(quick(tiny, method, **NOISE), epochs=2), tmp_path / name, device="cpu", display=SILENT)
        found.append(orat.find_label_issues(tmp_path / name, device="cpu", held_out=True, folds=4, epochs=12))
    assert found[0].judged_by == "held-out networks"
    assert found[0].mean_loss.equal(found[1].mean_loss)
    truth = found[0].truth()
    assert truth is not None
    assert truth["auc"] > 0.97
    assert truth["precision"] > 0.9


def test_parts_that_cannot_be_are_refused(tiny: str) -> None:
    run = quick(tiny, orat.methods.AT())
    parts = prepare(run)
    few = replace(parts, train=parts.train.take(torch.arange(4)), index=torch.arange(4), total=4)
    with pytest.raises(InputError, match="folds = 5: give 2 to 20, and no more than there are samples"):
        held_out_answers(run, few, folds=5, device="cpu")
    with pytest.raises(InputError, match="folds = 21: give 2 to 20"):
        held_out_answers(run, parts, folds=21, device="cpu")
