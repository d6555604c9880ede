"""ORAT (automatic): who judges the labels and when, what is remembered, and which labels are learned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from planted_noise import logits, truth
from torch import Tensor
from torch.nn import functional

from orat.core.console import SILENT
from orat.core.losses import cross_entropy
from orat.core.types import Batch
from orat.data.source import Dataset
from orat.methods import AT, ORAT, Setting
from orat.methods.automatic import FEWEST_FLAGS, MEMORY, ExpectedLoss, average
from orat.methods.ranked_range import RankedRangeLoss
from orat.noise.judge import judge
from orat.training.run import Run, read_run
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare
from orat.training.train import train

N, CLASSES = 2000, 2
IDS = torch.arange(N)
TRUE = truth(N, CLASSES)
GIVEN = torch.where(torch.rand(N, generator=torch.Generator().manual_seed(0)) < 0.2, 1 - TRUE, TRUE)
WRONG = GIVEN != TRUE
BATCH = Batch(torch.zeros(N, 1), GIVEN, IDS)


def predictions(sharpness: float, seed: int = 0) -> Tensor:
    """Log-probabilities of cross-fitted networks; the larger the sharpness, the better."""
    return logits(TRUE, sharpness, seed, CLASSES).double().log_softmax(1)


def state_of(sharpness: float = 5.0) -> ExpectedLoss:
    """The state at the beginning of a training on 2,000 labels, a fifth of them wrong."""
    return ExpectedLoss(predictions(sharpness), GIVEN)


def epoch(state: ExpectedLoss, answers: Tensor, ids: Tensor = IDS) -> dict[str, float]:
    """An epoch in which the network gives these logits for the attacked samples."""
    state.observe(Batch(BATCH.x[ids], GIVEN[ids], ids), answers[ids])
    return state.end_epoch()


def are_most(flagged: Tensor, wrong: Tensor) -> bool:
    """Whether at least three quarters of the wrong labels are flagged, and at most one other label in a hundred."""
    found = int((flagged & wrong).sum())
    return found > 0.75 * int(wrong.sum()) and int((flagged & ~wrong).sum()) < 0.01 * len(wrong)


def test_orat_without_m_judges_labels_and_with_m_ranks_losses() -> None:
    setting = Setting(N, N, CLASSES, steps=10, epochs=20, labels=GIVEN, predictions=predictions(5.0))
    assert isinstance(ORAT().start(setting), ExpectedLoss)
    assert isinstance(ORAT(m=0.3).start(setting), RankedRangeLoss)
    assert ORAT(m=0.3).scouts() is None
    scouts = ORAT(scout_model="lenet", scout_epochs=3).scouts()
    assert scouts is not None
    assert (scouts.model, scouts.epochs) == ("lenet", 3)


def test_before_the_first_epoch_the_cross_fitted_predictions_alone_judge() -> None:
    state = state_of()
    assert torch.equal(state.cut(), judge(predictions(5.0), GIVEN).flagged())
    assert are_most(state.cut(), WRONG)
    assert torch.equal(state.decision().flagged(GIVEN), state.cut())


def test_the_loss_is_the_mean_over_the_right_class_by_its_chances() -> None:
    """Beside the double sum over samples and classes."""
    answers = torch.randn(N, CLASSES, dtype=torch.float64)
    state, verdict = state_of(2.0), judge(predictions(2.0), GIVEN)
    each = torch.stack([cross_entropy(answers, torch.full_like(GIVEN, label)) for label in range(CLASSES)], 1)
    total = 0.0
    for sample in range(N):
        for label in range(CLASSES):
            right = 1 - verdict.p_wrong[sample] if label == GIVEN[sample] else verdict.p_wrong[sample]
            total += float(right * each[sample, label])  # the other of two classes is right if the label is wrong
    assert float(state(state.losses(answers, BATCH), IDS)) == pytest.approx(total / N, rel=1e-6)


def test_chances_of_three_classes_are_those_of_the_posterior() -> None:
    true = truth(N, 3)
    given = torch.where(torch.rand(N, generator=torch.Generator().manual_seed(1)) < 0.2, (true + 1) % 3, true)
    known = logits(true, 4.0, 0, 3).double().log_softmax(1)
    state, verdict = ExpectedLoss(known, given), judge(known, given)
    chances = state.chances(Batch(torch.zeros(N, 1), given, IDS))
    assert torch.allclose(chances.sum(1), torch.ones(N))
    assert torch.allclose(1 - chances.gather(1, given[:, None]).squeeze(1), verdict.p_wrong.float(), atol=1e-6)
    wrong = given != true
    assert float((chances.argmax(1) == true)[wrong].double().mean()) > 0.9
    assert float(verdict.others.gather(1, given[:, None]).abs().max()) == 0


def test_the_attack_increases_the_loss_of_the_likeliest_class() -> None:
    state = state_of(8.0)
    attacked, learned = state.attacked(BATCH), state.decision().labels
    assert learned is not None
    assert torch.equal(attacked, learned)
    assert torch.equal(attacked[state.cut()], 1 - GIVEN[state.cut()])
    assert are_most(attacked != GIVEN, WRONG)


def test_a_sample_that_is_not_flagged_is_learned_at_least_half_as_given() -> None:
    """Where more of a class is doubted than may be flagged."""
    state = state_of()
    verdict = state.verdict()
    doubted = replace(verdict, p_wrong=torch.full_like(verdict.p_wrong, 0.9))
    state.keep_verdict(doubted)
    assert doubted.flagged().sum() < N
    assert torch.equal(state.cut(), doubted.flagged())
    assert float(state.chance[~doubted.flagged()].max()) == 0.5


def test_hardly_any_flag_changes_nothing() -> None:
    """Right labels are flagged now and then: the loss is that of adversarial training, to the bit."""
    state, answers = state_of(), torch.randn(N, CLASSES)
    verdict = state.verdict()
    few = torch.zeros_like(verdict.p_wrong)
    few[: int(FEWEST_FLAGS * N) - 1] = 0.9
    state.keep_verdict(replace(verdict, p_wrong=few))
    assert state.verdict().flagged().sum() > 0
    assert not state.cut().any()
    assert torch.equal(state.losses(answers, BATCH), cross_entropy(answers, GIVEN))
    assert torch.equal(state.attacked(BATCH), GIVEN)


def test_unreliable_predictions_flag_no_label_with_a_warning() -> None:
    state = state_of(sharpness=0.5)
    assert not state.cut().any()
    assert (state.verdict().p_wrong > 0.5).any()
    assert "too unreliable to judge labels" in str(state.warning())
    numbers = epoch(state, logits(TRUE, 8.0, 3, CLASSES))
    assert numbers["reliability"] < 0.5
    assert numbers["cut"] == 0


def test_reliable_predictions_flag_about_as_many_labels_as_are_wrong_without_a_warning() -> None:
    state = state_of(sharpness=5.0)
    assert state.verdict().reliability > 0.8
    assert state.cut().double().mean() == pytest.approx(0.2, abs=0.06)
    assert state.warning() is None
    assert state.describe() == f"automatic, {state.verdict().noise_rate:.1%} of the labels estimated wrong " + (
        "by cross-fitted scout networks"
    )


def test_the_network_judges_after_1_2_4_and_8_epochs() -> None:
    """A wrong label that cross-fitting overlooks is flagged only while the network, when it judged last, was right."""
    state = state_of(sharpness=3.0)
    missed = int((WRONG & ~state.cut()).nonzero()[0])
    sure = 9.0 * functional.one_hot(TRUE, CLASSES)
    flagged = []
    for number in range(1, 18):
        right = number in (1, 3, 4, 9, 10, 16)  # it judges after 1, 2, 4, 8 and 16
        state.memory["average"].copy_(sure if right else sure.flip(1))
        state.end_epoch()
        flagged.append(bool(state.cut()[missed]))
    assert flagged == [True] + 2 * [False] + 4 * [True] + 8 * [False] + 2 * [True]


def test_a_good_network_corrects_the_verdict_and_a_blind_one_does_not_change_it() -> None:
    accuracy = {}
    for sharpness in (6.0, 0.0):
        state = state_of(sharpness=2.0)
        before = state.cut().clone()
        epoch(state, logits(TRUE, sharpness, 1, CLASSES))
        accuracy[sharpness] = [float((flagged == WRONG).double().mean()) for flagged in (before, state.cut())]
    assert accuracy[6.0][1] > max(0.98, accuracy[6.0][0] + 0.02)
    assert accuracy[0.0][1] == pytest.approx(accuracy[0.0][0], abs=0.01)


def test_predictions_of_the_network_are_averaged_over_epochs_and_kept_where_a_sample_was_not_seen() -> None:
    state = state_of()
    answers = [torch.randn(N, CLASSES, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    half = IDS[::2]
    for logits_, ids in zip(answers, (IDS, half, IDS), strict=True):
        epoch(state, logits_, ids)
    first, second, third = (one.log_softmax(1) for one in answers)
    expected = first.clone()
    expected[half] = MEMORY * first[half] + (1 - MEMORY) * second[half]
    expected = MEMORY * expected + (1 - MEMORY) * third
    assert torch.allclose(state.memory["average"], expected, atol=1e-6)
    assert state.memory["seen"].all()


def test_the_epochs_in_which_a_sample_was_flagged_are_counted() -> None:
    state, counts = state_of(), torch.zeros(N, dtype=torch.int64)
    for number in range(3):
        counts += state.cut()  # during the epoch
        epoch(state, logits(TRUE, 4.0, number, CLASSES))
    assert torch.equal(state.memory["times_cut"], counts)


def test_a_checkpoint_brings_the_state_back_and_predictions_are_no_part_of_it() -> None:
    state = state_of()
    epoch(state, logits(TRUE, 4.0, 1, CLASSES))
    saved = state.state_dict()
    assert not {"predictions", "given"} & saved.keys()
    again = state_of()
    again.load_state_dict(saved)
    for one in (state, again):
        epoch(one, logits(TRUE, 6.0, 2, CLASSES))  # the network judges after its second epoch
    assert all(torch.equal(value, again.tensors()[name]) for name, value in state.tensors().items())
    assert {"chance", "verdict_p_wrong", "verdict_others", "memory.average"} <= state.tensors().keys()
    assert "memory.latest" not in state.tensors()


def test_verdicts_are_written_in_place_so_that_a_recorded_step_reads_them() -> None:
    state = state_of()
    places = {name: value.data_ptr() for name, value in state.named_buffers()}
    epoch(state, logits(TRUE, 6.0, 1, CLASSES))
    assert {name: value.data_ptr() for name, value in state.named_buffers()} == places


# On real images: small versions of the measured claims.


def trained(folder: Path, **more: Any) -> RunFolder:
    """Eight epochs of cross-fitting and two of training on the bundled digits, without m."""
    changes: dict[str, Any] = {"eps": 0.02, "attack_steps": 1, "epochs": 2, "milestones": ()} | more
    train(Run(data="sample", **({"method": ORAT(scout_epochs=8)} | changes)), folder, display=SILENT, device="cpu")
    return RunFolder(folder)


def test_a_third_of_wrong_labels_is_found_and_learned_as_the_right_class(tmp_path: Path) -> None:
    """One run for three questions: found labels, learned labels, and the judgment of cleanlab on the predictions."""
    folder = trained(tmp_path, noise="symmetric", noise_rate=0.3)
    result, state, data = folder.result(), folder.load_tensors("state"), prepare(read_run(folder.path)).train
    assert result is not None
    assert abs(folder.history()[-1]["state"]["noise_rate"] - 0.3) < 0.04
    assert result["outliers"]["precision"] > 0.85
    assert result["outliers"]["recall"] > 0.75
    check_corrections(result["corrections"], state, data)
    check_beside_cleanlab(folder.load_tensors("predictions")["log_probs"], state, data)


def check_corrections(found: dict[str, Any], state: dict[str, Tensor], data: Dataset) -> None:
    """Wrong labels are learned as their true class; the saved state agrees with the result."""
    assert data.truth is not None
    assert found["changed"] > 0.75 * found["flipped"]
    assert found["precision"] > 0.85
    relabeled = state["chance"] > 0.5
    assert int(relabeled.sum()) == found["changed"]
    assert int((state["labels"] == data.truth)[relabeled].sum()) == found["rightly"]


def check_beside_cleanlab(log_probs: Tensor, state: dict[str, Tensor], data: Dataset) -> None:
    """Labels are judged better than by the default of cleanlab from the same cross-fitted predictions.

    A network of two epochs is a poor witness: the verdict with its predictions finds a little less.
    """
    from cleanlab.filter import find_label_issues

    theirs = torch.from_numpy(find_label_issues(data.labels.numpy(), average(log_probs).exp().numpy(), n_jobs=1))
    assert data.wrong is not None
    assert f1(judge(log_probs, data.labels).flagged(), data.wrong) > f1(theirs, data.wrong) + 0.005
    assert f1(state["verdict_p_wrong"] > 0.5, data.wrong) > 0.94


def f1(found: Tensor, wrong: Tensor) -> float:
    """The harmonic mean of precision and recall."""
    return 2 * int((found & wrong).sum()) / (int(found.sum()) + int(wrong.sum()))


def test_right_labels_are_left_alone_and_the_network_is_that_of_adversarial_training(tmp_path: Path) -> None:
    folder = trained(tmp_path / "orat")
    result = folder.result()
    assert result is not None
    assert folder.history()[-1]["state"]["noise_rate"] < 0.02
    assert result["outliers"]["cut"] == 0
    adversarial = trained(tmp_path / "at", method=AT())
    ours, theirs = folder.load_tensors("model"), adversarial.load_tensors("model")
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
