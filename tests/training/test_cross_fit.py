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

import orat.training.cross_fit
from orat.core.types import Batch
from orat.data.source import Dataset, relabel
from orat.methods import AT, ORAT, ST
from orat.methods.automatic import MEMORY
from orat.methods.base import Scouts
from orat.models.layers import Dropout, dropouts
from orat.noise.judge import Verdict, area, judge
from orat.training.cross_fit import (
    ScoutLearner,
    cross_fit,
    lesson,
    mean_over,
    scout_learner,
    scout_loader,
    without,
)
from orat.training.engine import Eager
from orat.training.loop import EpochDone, fit
from orat.training.run import Run
from orat.training.setup import Parts, Plan, plan_for, prepare

CPU = torch.device("cpu")
N, CLASSES, INPUTS = 40, 2, 6
KEPT = torch.ones(N, dtype=torch.bool)
FOLDS = pytest.mark.parametrize("folds", [2, 3, 5])


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


def gradients(scouts: list[nn.Module], batch: Batch, kept: Tensor = KEPT) -> list[Tensor]:
    """The gradient of each network, in one row each."""
    for scout in scouts:
        scout.zero_grad()
    lesson(scouts, batch, kept)[0].backward()
    return [torch.cat([p.grad.flatten() for p in scout.parameters() if p.grad is not None]) for scout in scouts]


# One step.


@FOLDS
def test_a_network_predicts_the_fold_that_it_does_not_learn(folds: int) -> None:
    scouts, batch = networks(folds), samples()
    loss, logits, ordered = lesson(scouts, batch, KEPT)
    each = torch.stack([scout(batch.x) for scout in scouts])
    used = ~logits.isnan().any(1)
    for place in used.nonzero().flatten().tolist():
        index = int(ordered.id[place])
        assert torch.allclose(logits[place], each[(index - 1) % folds, index], atol=1e-6)
    assert int((~used).sum()) <= 2 * folds  # surplus samples of a fold are left out
    assert torch.equal(ordered.y, batch.y[ordered.id])
    own = [used & (ordered.id % folds != (scout + 1) % folds) for scout in range(folds)]
    losses = [functional.cross_entropy(s(ordered.x[o]), ordered.y[o]) for s, o in zip(scouts, own, strict=True)]
    assert loss.item() == pytest.approx(sum(one.item() for one in losses) / folds)


def test_surplus_samples_of_a_fold_are_neither_learned_nor_predicted() -> None:
    """Seven samples of the first fold and three of the second: two of the seven are left out."""
    scouts, whole = networks(2), samples()
    ids = torch.tensor([0, 2, 4, 1, 6, 8, 3, 10, 12, 5])
    batch = Batch(whole.x[ids], whole.y[ids], ids)
    _, logits, ordered = lesson(scouts, batch, KEPT)
    left_out = ordered.id[logits.isnan().any(1)]
    assert left_out.tolist() == [10, 12]
    before = gradients(scouts, batch)
    labels = torch.where(ids >= 10, 1 - batch.y, batch.y)
    assert all(map(torch.equal, before, gradients(scouts, Batch(batch.x, labels, ids))))


@FOLDS
def test_the_labels_of_a_fold_do_not_reach_the_network_that_predicts_it(folds: int) -> None:
    scouts, batch = networks(folds), samples()
    before = gradients(scouts, batch)
    for fold in range(folds):
        labels = torch.where(batch.id % folds == fold, 1 - batch.y, batch.y)
        after = gradients(scouts, Batch(batch.x, labels, batch.id))
        same = [torch.equal(*pair) for pair in zip(before, after, strict=True)]
        assert same == [(scout + 1) % folds == fold for scout in range(folds)]


def test_the_gradient_of_a_network_is_that_of_its_own_loss_over_the_kept_samples() -> None:
    scouts, batch, kept = networks(2), samples(), KEPT.clone()
    kept[::4] = False  # half of the first fold
    found = gradients(scouts, batch, kept)
    learned = torch.arange(2, N, 4)
    loss = functional.cross_entropy(scouts[0](batch.x[learned]), batch.y[learned])
    expected = torch.autograd.grad(loss, list(scouts[0].parameters()))
    assert torch.allclose(found[0], torch.cat([part.flatten() for part in expected]), atol=1e-6)
    labels = torch.where(kept, batch.y, 1 - batch.y)
    assert all(map(torch.equal, found, gradients(scouts, Batch(batch.x, labels, batch.id), kept)))


def test_predictions_use_no_dropout_and_lessons_do() -> None:
    """Statistics of batch norm are those of the training: a prediction is the network's but for the dropout."""
    scouts = [nn.Sequential(network(number), nn.BatchNorm1d(2), Dropout(0.5)) for number in range(2)]
    loss, logits, ordered = lesson(scouts, samples(), KEPT)
    for number, scout in enumerate(scouts):
        predicted = slice(20, 40) if number == 0 else slice(0, 20)
        assert torch.allclose(logits[predicted], scout[1](scout[0](ordered.x[predicted])), atol=1e-6)
        assert scout[2].asked == 1  # in the lesson
        assert scout[2].training
    assert loss.requires_grad


def test_without_a_slice_the_other_values_keep_their_order() -> None:
    values = torch.arange(10)
    assert without(values, slice(0, 3)).tolist() == [3, 4, 5, 6, 7, 8, 9]
    assert without(values, slice(4, 6)).tolist() == [0, 1, 2, 3, 6, 7, 8, 9]
    assert without(values, slice(8, 10)).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert mean_over(values.float(), values < 0).item() == 0
    assert mean_over(values.float(), values > 7).item() == 8.5


# Several epochs.


def learner_of(batch: Batch, epochs: int = 9, **more: Any) -> ScoutLearner:
    """Scouts of two folds on these samples, before their first step."""
    plan = Plan(network, 1.0, False, epochs, N, 1.0)
    return ScoutLearner(Run(data="mnist", method=ORAT(), lr=0.1), batch.y, CLASSES, plan, "plain", **more)


def test_predictions_are_averaged_over_epochs() -> None:
    learner, batch = learner_of(samples()), samples()
    expected: Tensor | None = None
    for _ in range(3):
        first, second = (network(batch.x).log_softmax(1) for network in learner.modules["networks"])
        newest = torch.where(batch.id[:, None] % 2 == 0, second, first).detach()
        expected = newest if expected is None else MEMORY * expected + (1 - MEMORY) * newest
        learner.pace(learner.epoch - 0.5)
        learner.advance(batch, 1.0)
        learner.end_epoch()
    assert torch.allclose(learner.table["average"], expected, atol=1e-6)
    assert torch.allclose(learner.predictions().exp().sum(1), torch.ones(N, dtype=torch.float64))


def test_labels_are_judged_after_the_first_epoch_and_every_third_up_to_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner, batch = learner_of(samples(), epochs=11), samples()
    judged = []

    def recording(log_probs: Tensor, labels: Tensor) -> Verdict:
        judged.append(learner.epoch)
        assert torch.equal(log_probs, learner.predictions())
        return judge(log_probs, labels)

    monkeypatch.setattr(orat.training.cross_fit, "judge", recording)
    for _ in range(11):
        learner.pace(learner.epoch - 0.5)
        learner.advance(batch, 1.0)
        learner.end_epoch()
    assert judged == [1, 2, 5, 8, 11]


def test_flagged_samples_are_not_learned_any_more() -> None:
    batch, wrong = samples(), torch.arange(N) % 10 == 3
    given = Batch(batch.x, torch.where(wrong, 1 - batch.y, batch.y), batch.id)
    learner = learner_of(given)
    learner.table["average"].copy_((6.0 * functional.one_hot(batch.y, CLASSES)).log_softmax(1))
    learner.close()
    flagged = ~learner.table["kept"]
    assert torch.equal(flagged, judge(learner.predictions(), given.y).flagged())
    assert learner.numbers["cut"] == flagged.sum() > 0
    other = Batch(given.x, torch.where(flagged, 1 - given.y, given.y), given.id)
    for kept in (learner.table["kept"], KEPT):
        one, two = (gradients(list(learner.modules["networks"]), labeled, kept) for labeled in (given, other))
        assert all(map(torch.equal, one, two)) == (kept is not KEPT)


def test_the_dropouts_of_scouts_are_numbered_after_those_of_the_network() -> None:
    def dropping(number: int) -> nn.Module:
        return nn.Sequential(Dropout(0.5), network(number), Dropout(0.5))

    plan = Plan(dropping, 1.0, False, 3, N, 1.0)
    run = Run(data="mnist", method=ORAT(), seed=2)
    learner = ScoutLearner(run, samples().y, CLASSES, plan, "plain", first_dropout=3)
    numbers = [int(module.asked) for module in dropouts(learner.modules)]
    assert numbers == [(2 << 40) + (number << 32) for number in range(3, 7)]


# Networks that memorize.


def memorized(labels: Tensor) -> tuple[Parts, Run]:
    """Images and labels by chance: there is nothing to learn, but each image can be memorized."""
    images = torch.randint(0, 256, (len(labels), 1, 6, 6), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    parts = Parts(Dataset(images, labels, ("a", "b", "c")), None, None, torch.arange(len(labels)), len(labels))
    return parts, quick("files", ORAT(), model="mlp-64", batch_size=20, lr=0.1, weight_decay=0.0)


LABELS = torch.randint(3, (60,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("folds", [2, 3])
def test_a_memorized_label_does_not_reach_the_prediction_of_its_sample(folds: int) -> None:
    """The label of one sample is changed: only the predictions of other folds change, by the networks that learn it."""
    parts, run = memorized(LABELS)
    before = cross_fit(run, parts, folds, epochs=30, device="cpu")
    for sample in (0, 1, 17, 59):
        labels = torch.where(torch.arange(60) == sample, (LABELS + 1) % 3, LABELS)
        after = cross_fit(run, memorized(labels)[0], folds, epochs=30, device="cpu")
        changed = (before != after).any(1)
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
    x, fold = parts.train.images.float() / 255, torch.arange(60) % 2
    for number, scout in enumerate(learner.modules["networks"].eval()):
        right = scout(x).argmax(1) == LABELS
        assert right[fold == number].double().mean() > 0.95  # it learns its own fold of two
    assert (learner.predictions().argmax(1) == LABELS).double().mean() < 0.5
    assert learner.table["kept"].all()


# Predictions of a run.


def test_predictions_of_the_first_epoch_do_not_depend_on_the_labels_of_their_fold(tiny: str) -> None:
    """Later, all labels take part in the verdict on what is learned."""
    run = quick(tiny, AT(), **NOISE)
    parts = prepare(run)
    before = cross_fit(run, parts, folds=3, epochs=1, device="cpu")
    own = torch.arange(270) % 3 == 1
    labels = torch.where(own, (parts.train.labels + 1) % 3, parts.train.labels)
    after = cross_fit(run, replace(parts, train=relabel(parts.train, labels)), folds=3, epochs=1, device="cpu")
    assert before.shape == (270, 3)
    assert torch.equal(before[own], after[own])
    assert (before != after).any(1)[~own].double().mean() > 0.5


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
    assert records[3]["state"] == records[2]["state"] == records[1]["state"]  # judged after epochs 1, 2 and 5
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
