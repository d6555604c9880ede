"""Cross-fitting: every sample is predicted by networks that did not learn it, and is learned by all others."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from quick_runs import NOISE, quick
from torch import Tensor, nn
from torch.nn import functional

import orat.training.scouts
from orat.core.types import Batch
from orat.data.source import Dataset, relabel
from orat.methods import AT, ORAT, ST
from orat.methods.automatic import MEMORY
from orat.methods.base import Scouts
from orat.models.layers import Dropout, dropouts
from orat.noise.judge import Verdict, judge
from orat.noise.truth import area
from orat.training.cross_fit import cross_fit
from orat.training.engine import Eager
from orat.training.events import EpochDone
from orat.training.loop import fit
from orat.training.plan import Plan, plan_for
from orat.training.run import Run
from orat.training.scouts import (
    BALANCE,
    ScoutLearner,
    is_due,
    lesson,
    mean_over,
    picked,
    rarity,
    scout_learner,
    scout_loader,
)
from orat.training.setup import Parts, prepare

CPU = torch.device("cpu")
N, CLASSES, INPUTS = 60, 2, 6
CERTAIN = torch.eye(CLASSES)  # every given label is right
SHARES = torch.tensor([0.25, 0.75])  # of the given labels, in most tests
DESIGNS = pytest.mark.parametrize(("folds", "sets"), [(2, 1), (3, 1), (3, 2), (4, 2), (6, 2), (5, 3)])


def network(number: int) -> nn.Module:
    """A small smooth network, another one for each number."""
    with torch.random.fork_rng():
        torch.manual_seed(number)
        return nn.Sequential(nn.Linear(INPUTS, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def networks(folds: int) -> list[nn.Module]:
    """One network per fold."""
    return [network(number) for number in range(folds)]


def samples() -> Batch:
    """All samples at once; the label is the sign of the first value."""
    x = torch.rand((N, INPUTS), generator=torch.Generator().manual_seed(0))
    return Batch(x, (x[:, 0] > 0.5).long(), torch.arange(N))


def gradients(scouts: list[nn.Module], batch: Batch, transition: Tensor = CERTAIN, sets: int = 1) -> list[Tensor]:
    """The gradient of each network, in one row each."""
    for scout in scouts:
        scout.zero_grad()
    lesson(scouts, batch, transition, SHARES.expand(len(scouts), -1), sets)[0].backward()
    return [torch.cat([p.grad.flatten() for p in scout.parameters() if p.grad is not None]) for scout in scouts]


def lacking(predicted: Tensor) -> Tensor:
    """The divergence of the shares from the mean prediction."""
    mean = predicted.mean(0)
    return functional.kl_div(mean.log(), SHARES, reduction="sum")


# One step.


def predicts(scout: int, ids: Tensor, folds: int, sets: int) -> Tensor:
    """The samples that a scout predicts: those of the next folds."""
    return (ids - scout - 1) % folds < sets


@DESIGNS
def test_a_network_predicts_the_folds_that_it_does_not_learn(folds: int, sets: int) -> None:
    scouts, batch = networks(folds), samples()
    loss, logits, ordered = lesson(scouts, batch, CERTAIN, SHARES.expand(folds, -1), sets)
    each = torch.stack([scout(batch.x) for scout in scouts])
    used = ~logits.isnan().any(2).any(1)
    for place in used.nonzero().flatten().tolist():
        index = int(ordered.id[place])
        others = [scout for scout in range(folds) if predicts(scout, torch.tensor(index), folds, sets)]
        found = sorted(logits[place].tolist())
        assert found == [pytest.approx(row, abs=1e-6) for row in sorted(each[others, index].tolist())]
    assert int((~used).sum()) <= 2 * folds  # surplus samples of a fold are left out
    assert torch.equal(ordered.y, batch.y[ordered.id])
    own = [used & ~predicts(scout, ordered.id, folds, sets) for scout in range(folds)]
    total = 0.0
    for scout, mask in zip(scouts, own, strict=True):
        answers = scout(ordered.x[mask])
        total += (
            functional.cross_entropy(answers, ordered.y[mask]).item() + BALANCE * lacking(answers.softmax(1)).item()
        )
    assert loss.item() == pytest.approx(total / folds)


def test_surplus_samples_of_a_fold_are_neither_learned_nor_predicted() -> None:
    """Seven samples of the first fold and three of the second: two of the seven are left out."""
    scouts, whole = networks(2), samples()
    ids = torch.tensor([0, 2, 4, 1, 6, 8, 3, 10, 12, 5])
    batch = Batch(whole.x[ids], whole.y[ids], ids)
    _, logits, ordered = lesson(scouts, batch, CERTAIN, SHARES.expand(2, -1))
    left_out = ordered.id[logits.isnan().any(2).any(1)]
    assert left_out.tolist() == [10, 12]
    before = gradients(scouts, batch)
    labels = torch.where(ids >= 10, 1 - batch.y, batch.y)
    assert all(map(torch.equal, before, gradients(scouts, Batch(batch.x, labels, ids))))


@DESIGNS
def test_the_labels_of_a_fold_do_not_reach_the_networks_that_predict_it(folds: int, sets: int) -> None:
    scouts, batch = networks(folds), samples()
    before = gradients(scouts, batch, sets=sets)
    for fold in range(folds):
        labels = torch.where(batch.id % folds == fold, 1 - batch.y, batch.y)
        after = gradients(scouts, Batch(batch.x, labels, batch.id), sets=sets)
        same = [torch.equal(*pair) for pair in zip(before, after, strict=True)]
        assert same == [bool(predicts(scout, torch.tensor(fold), folds, sets)) for scout in range(folds)]


def test_the_gradient_of_a_network_is_that_of_its_own_loss_by_the_chances_of_given_labels() -> None:
    scouts, batch = networks(2), samples()
    transition = torch.tensor([[0.7, 0.3], [0.1, 0.9]])
    found = gradients(scouts, batch, transition)
    learned = torch.arange(0, N, 2)
    right = scouts[0](batch.x[learned]).softmax(1)
    loss = functional.nll_loss((right @ transition).log(), batch.y[learned]) + BALANCE * lacking(right)
    expected = torch.autograd.grad(loss, list(scouts[0].parameters()))
    assert torch.allclose(found[0], torch.cat([part.flatten() for part in expected]), atol=1e-6)


def test_a_class_without_samples_costs_nothing_and_a_class_that_is_not_predicted_costs_much() -> None:
    """Finite, with a gradient that raises the class that is predicted too rarely."""
    logits = torch.tensor([[30.0, 0.0, 0.0]]).repeat(8, 1).requires_grad_()
    everyone, none = torch.ones(8, dtype=torch.bool), torch.zeros(8, dtype=torch.bool)
    assert rarity(logits, everyone, torch.tensor([1.0, 0.0, 0.0])).item() == pytest.approx(0, abs=1e-6)
    assert rarity(logits, none, torch.tensor([0.5, 0.5, 0.0])).item() == 0
    value = rarity(logits, everyone, torch.tensor([0.5, 0.5, 0.0]))
    assert 10 < value.item() < 20
    value.backward()
    assert logits.grad is not None
    assert (logits.grad[:, 1] < -0.01).all()
    assert (logits.grad[:, 0] > 0.01).all()


def test_predictions_use_no_dropout_and_lessons_do() -> None:
    """Statistics of batch norm are those of the training: a prediction is the network's but for the dropout."""
    scouts = [nn.Sequential(network(number), nn.BatchNorm1d(2), Dropout(0.5)) for number in range(2)]
    loss, logits, ordered = lesson(scouts, samples(), CERTAIN, SHARES.expand(2, -1))
    for number, scout in enumerate(scouts):
        predicted = slice(N // 2, N) if number == 0 else slice(0, N // 2)
        assert torch.allclose(logits[predicted, 0], scout[1](scout[0](ordered.x[predicted])), atol=1e-6)
        assert scout[2].asked == 1  # in the lesson
        assert scout[2].training
    assert loss.requires_grad


def test_values_are_picked_in_the_order_of_the_places() -> None:
    values = torch.arange(10)
    assert picked(values, [slice(8, 10), slice(0, 3)]).tolist() == [8, 9, 0, 1, 2]
    assert mean_over(values.float(), values < 0).item() == 0
    assert mean_over(values.float(), values > 7).item() == 8.5


# Several epochs.


def learner_of(batch: Batch, epochs: int = 9, **more: Any) -> ScoutLearner:
    """Scouts of four folds on these samples, before their first step."""
    plan = Plan(network, 1.0, False, epochs, N, 1.0)
    return ScoutLearner(Run(data="mnist", method=ORAT(), lr=0.1), batch.y, CLASSES, plan, "plain", **more)


def test_predictions_are_averaged_over_epochs() -> None:
    learner, batch = learner_of(samples()), samples()
    expected: Tensor | None = None
    for _ in range(3):
        each = torch.stack([network(batch.x).log_softmax(1) for network in learner.modules["networks"]])
        newest = torch.stack([each[(batch.id - 1 - number) % 4, batch.id] for number in range(2)], 1).detach()
        expected = newest if expected is None else MEMORY * expected + (1 - MEMORY) * newest
        learner.pace(learner.epoch - 0.5)
        learner.advance(batch, 1.0)
        learner.end_epoch()
    assert torch.allclose(learner.table["average"], expected, atol=1e-6)
    assert learner.predictions().shape == (2, N, CLASSES)
    assert torch.allclose(learner.predictions().exp().sum(2), torch.ones(2, N, dtype=torch.float64))


def test_labels_are_judged_after_epochs_that_come_less_and_less_often_and_after_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner, batch = learner_of(samples(), epochs=11), samples()
    epochs = []

    def recording(log_probs: Tensor, labels: Tensor) -> Verdict:
        epochs.append(learner.epoch)
        assert torch.equal(log_probs, learner.predictions())
        return judge(log_probs, labels)

    monkeypatch.setattr(orat.training.scouts, "judge", recording)
    monkeypatch.setattr(learner, "settled", lambda *_: False)
    for _ in range(11):
        learner.pace(learner.epoch - 0.5)
        learner.advance(batch, 1.0)
        learner.end_epoch()
    assert epochs == [1, 2, 3, 4, 6, 8, 11]
    assert [epoch for epoch in range(1, 50) if is_due(epoch)] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]


def settling(batch: Batch, epoch: int, **last: float) -> tuple[ScoutLearner, Verdict]:
    """Scouts with these estimates of the last verdict, and the verdict on perfect predictions of some wrong labels."""
    learner = learner_of(batch, epochs=30)
    learner.table["average"].copy_((6.0 * functional.one_hot(samples().y, CLASSES)).log_softmax(1)[:, None])
    learner.epoch, learner.numbers = epoch, dict(last)
    return learner, judge(learner.predictions(), batch.y)


@pytest.mark.parametrize(
    ("changes", "same", "expected"),
    [
        ({}, True, True),
        ({"noise_rate": 0.9}, True, False),  # outside of the interval
        ({"reliability": 0.1}, True, False),  # far below that of this verdict
        ({}, False, False),  # flags that were no flags before
    ],
)
def test_a_verdict_has_settled_if_rate_flags_and_reliability_stay(
    changes: dict[str, float], same: bool, expected: bool
) -> None:
    batch = samples()
    given = Batch(batch.x, torch.where(torch.arange(N) % 10 == 3, 1 - batch.y, batch.y), batch.id)
    _, verdict = settling(given, 8)
    last = {"noise_rate": verdict.noise_rate, "reliability": verdict.reliability} | changes
    learner, _ = settling(given, 8, **last)
    learner.table["flagged"].copy_(verdict.flagged() & same)
    assert verdict.flagged().any()
    learner.close()
    assert (learner.epochs, learner.falls) == ((12, 8.0) if expected else (30, pytest.approx(20.0)))
    learner.pace(10.0)
    fresh, _ = settling(given, 8)
    fresh.pace(10.0)
    assert learner.rates[0] == pytest.approx(fresh.rates[0] * (0.5 if expected else 1))


def test_a_resumed_cross_fitting_remembers_that_it_has_settled() -> None:
    learner, again = learner_of(samples()), learner_of(samples())
    learner.epochs, learner.falls = 6, 4.0
    again.load_state_dict(learner.state_dict())
    assert (again.epochs, again.falls, again.order) == (6, 4.0, 1 - 9)


def judged(agreeing: bool) -> ScoutLearner:
    """Scouts after a verdict on labels, a tenth wrong, by sure predictions of the right class or of one class."""
    batch, wrong = samples(), torch.arange(N) % 10 == 3
    learner = learner_of(Batch(batch.x, torch.where(wrong, 1 - batch.y, batch.y), batch.id))
    predicted = batch.y if agreeing else torch.zeros_like(batch.y)
    learner.table["average"].copy_((6.0 * functional.one_hot(predicted, CLASSES)).log_softmax(1)[:, None])
    learner.close()
    return learner


def test_a_verdict_decides_by_which_chances_labels_are_learned() -> None:
    learner = judged(agreeing=True)
    verdict = judge(learner.predictions(), learner.labels)
    assert learner.numbers["cut"] == int(verdict.flagged().sum()) > 0
    assert torch.equal(learner.transition, verdict.transition().float())
    assert learner.transition.diagonal().tolist() == pytest.approx([0.9, 0.9], abs=0.1)
    batch = Batch(samples().x, learner.labels, samples().id)
    networks = list(learner.modules["networks"])
    learned = [~predicts(scout, batch.id, len(networks), 2) for scout in range(len(networks))]
    shares = torch.stack([torch.bincount(batch.y[mask], minlength=CLASSES) / int(mask.sum()) for mask in learned])
    expected = lesson(networks, batch, verdict.transition().float(), shares, 2)[0]
    assert learner.loss(batch).item() == expected.item()


def test_a_verdict_that_is_not_trusted_does_not_change_how_labels_are_learned() -> None:
    learner = judged(agreeing=False)
    assert not judge(learner.predictions(), learner.labels).trusted
    assert torch.equal(learner.transition, CERTAIN)


def test_the_dropouts_of_scouts_are_numbered_after_those_of_the_network() -> None:
    def dropping(number: int) -> nn.Module:
        return nn.Sequential(Dropout(0.5), network(number), Dropout(0.5))

    plan = Plan(dropping, 1.0, False, 3, N, 1.0)
    run = Run(data="mnist", method=ORAT(), seed=2)
    learner = ScoutLearner(run, samples().y, CLASSES, plan, "plain", first_dropout=3)
    numbers = [int(module.asked) for module in dropouts(learner.modules)]
    assert numbers == [(2 << 40) + (number << 32) for number in range(3, 11)]


# Networks that memorize.


def memorized(labels: Tensor) -> tuple[Parts, Run]:
    """Images and labels by chance: there is nothing to learn, but each image can be memorized."""
    images = torch.randint(0, 256, (len(labels), 1, 6, 6), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    parts = Parts(Dataset(images, labels, ("a", "b", "c")), None, None, torch.arange(len(labels)), len(labels))
    return parts, quick("files", ORAT(), model="mlp-64", batch_size=20, lr=0.1, weight_decay=0.0)


LABELS = torch.randint(3, (60,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("folds", [3, 4])
def test_a_memorized_label_does_not_reach_the_prediction_of_its_sample(folds: int) -> None:
    """The label of one sample is changed: only the predictions of other folds change, by the networks that learn it."""
    parts, run = memorized(LABELS)
    before = cross_fit(run, parts, folds, epochs=30, device="cpu")
    for sample in (0, 1, 17, 59):
        labels = torch.where(torch.arange(60) == sample, (LABELS + 1) % 3, LABELS)
        after = cross_fit(run, memorized(labels)[0], folds, epochs=30, device="cpu")
        changed = (before != after).any(2).any(0)
        own_fold = torch.arange(60) % folds == sample % folds
        assert not changed[sample]
        assert not changed[own_fold].any()
        assert changed[~own_fold].all()


def test_scouts_do_memorize_what_they_learn_and_know_nothing_of_what_they_predict() -> None:
    """Otherwise the test above would prove little."""
    parts, run = memorized(LABELS)
    plan = replace(plan_for(run, parts, Scouts()), epochs=30)
    learner = scout_learner(run, parts, plan, "plain", CPU)
    for _ in fit(learner, scout_loader(run, parts, plan, CPU), Eager()):
        pass
    x, ids = parts.train.images.float() / 255, torch.arange(60)
    for number, scout in enumerate(learner.modules["networks"].eval()):
        right = scout(x).argmax(1) == LABELS
        assert right[~predicts(number, ids, 4, 2)].double().mean() > 0.95
    assert (learner.predictions().argmax(2) == LABELS).double().mean() < 0.5
    assert torch.equal(learner.transition, torch.eye(3))


# Predictions of a run.


def test_predictions_of_the_first_epoch_do_not_depend_on_the_labels_of_their_fold(tiny: str) -> None:
    """Later, all labels take part in the verdict on what is learned."""
    run = quick(tiny, AT(), **NOISE)
    parts = prepare(run)
    before = cross_fit(run, parts, folds=3, epochs=1, device="cpu")
    own = torch.arange(270) % 3 == 1
    labels = torch.where(own, (parts.train.labels + 1) % 3, parts.train.labels)
    after = cross_fit(run, replace(parts, train=relabel(parts.train, labels)), folds=3, epochs=1, device="cpu")
    assert before.shape == (2, 270, 3)
    assert torch.equal(before[:, own], after[:, own])
    assert (before != after).any(2).any(0)[~own].double().mean() > 0.5


def test_predictions_are_the_same_for_every_method_and_tell_wrong_labels(tiny: str) -> None:
    found = []
    for method in (ST(), AT()):
        run = quick(tiny, method, **NOISE)
        parts = prepare(run)
        found.append(cross_fit(run, parts, folds=4, epochs=12, device="cpu"))
    assert torch.equal(*found)
    verdict = judge(found[0], parts.train.labels)
    assert parts.train.wrong is not None
    score = area(verdict.score, parts.train.wrong)
    assert score is not None
    assert score > 0.97
    flagged = verdict.flagged()
    assert parts.train.wrong[flagged].double().mean() > 0.9


def test_every_epoch_has_a_record_with_the_last_estimates(tiny: str) -> None:
    run = quick(tiny, ORAT(), **NOISE)
    parts = prepare(run)
    plan = replace(plan_for(run, parts, Scouts()), epochs=5)
    learner = scout_learner(run, parts, plan, "plain", CPU)
    events = list(fit(learner, scout_loader(run, parts, plan, CPU), Eager()))
    records = [event.record for event in events if isinstance(event, EpochDone)]
    assert [record["epoch"] for record in records] == [1, 2, 3, 4, 5]
    assert all(set(record["state"]) == {"noise_rate", "error", "reliability", "cut"} for record in records)
    assert records[4]["state"] != records[3]["state"] != records[2]["state"]
    assert records[4]["state"] == learner.numbers


def test_a_checkpoint_brings_predictions_verdict_and_estimates_back(tiny: str) -> None:
    """Between two verdicts, records repeat the last estimates, after a stop too."""
    run = quick(tiny, ORAT(), **NOISE)
    parts = prepare(run)
    plan = replace(plan_for(run, parts, Scouts()), epochs=6)
    batches, whole, records = scout_loader(run, parts, plan, CPU), scout_learner(run, parts, plan, "plain", CPU), []
    for event in fit(whole, batches, Eager()):
        if isinstance(event, EpochDone):
            records.append(event.record)
        elif (event.epoch, event.step) == (2, 4):
            saved = deepcopy(whole.state_dict())
    again = scout_learner(run, parts, plan, "plain", CPU)
    again.load_state_dict(saved)
    assert again.numbers == records[0]["state"]
    resumed = [event.record for event in fit(again, batches, Eager()) if isinstance(event, EpochDone)]
    assert resumed == records[1:]
    assert torch.equal(again.predictions(), whole.predictions())
