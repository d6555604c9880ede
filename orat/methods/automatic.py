"""The automatic ranked range: what a network says of every sample is watched, and labels that look wrong are cut.

The score that ranks and the loss that is minimized are two things. Under a strong attack, the loss does not tell a
wrong label from a hard image; what a network says of the natural image, averaged over epochs, does.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks import Adversary
from orat.core.errors import InputError
from orat.core.types import Batch, Indices, Logits, PerSample, Scalar
from orat.methods.base import State
from orat.noise.judge import DOUBTED, KNOWING, Hearing, ahead, hearing, two_groups, verdict_of
from orat.training.scouts import Scouting, groups_of, lesson

MOST_OF_A_CLASS = 0.5  # share of a class that is cut at most where no more is estimated wrong, so that none is lost
JUDGED_EVERY = 3  # epochs of scouts, in which averaged answers change enough for another verdict


@dataclass(frozen=True)
class Rule:
    """What of the averaged answers ranks the samples, and how many of them are cut."""

    measure: str  # "chance" of a wrong label, "loss", or the "margin" by which another class is ahead
    memory: float  # weight of former epochs in the averages
    burn_in: int  # epochs before the first cut
    m: int | None = None  # how many; where it is None, those rather wrong than right, or the upper of two groups
    confidence: float = 1.0  # chance to be of another class above which a cut sample is learned as one of it


class Watch(State):
    """Averages a network's answers to all n samples, and leaves out of the mean those whose label looks wrong.

    Those of them that surely are of another class come back as samples of that one.

    `asked` says who answers: "scout", two networks that learn one half of the samples each before the other begins,
    and are asked about the other half, which they cannot have learned by heart; or the network itself, about the
    "natural" or the "adversarial" image. "both" are scouts and the network, as a second witness: what it says of
    adversarial images costs nothing.
    """

    latest: Tensor
    answers: Tensor
    given: Tensor
    mean_loss: Tensor
    weights: Tensor
    restored: Tensor
    looks_like: Tensor
    wrong: Tensor
    sure: Tensor
    matrix: Tensor
    rate: Tensor
    error: Tensor
    known: Tensor
    times_cut: Tensor
    seen: Tensor
    own_answers: Tensor
    own_seen: Tensor

    def __init__(self, n: int, classes: int, asked: str, rule: Rule, scouting: Scouting | None = None) -> None:
        super().__init__()
        self.n, self.asked, self.rule, self.scouting = n, asked, rule, scouting
        self.epochs = 0  # that are over, those of scouts among them
        self.scouts_word: Hearing | None = None  # what follows from their answers, when they give no more
        if scouting is not None:
            self.scouts.extend(scouting.make(number) for number in range(scouting.parts))
            self.sees = list(self.scouts)
            self.ahead, self.batch_size = scouting.epochs, scouting.batch_size
        if asked == "both":
            self.register_buffer("own_answers", torch.zeros(n, classes))  # the network's, beside the scouts'
            self.register_buffer("own_seen", torch.zeros(n, dtype=torch.bool))
        self.register_buffer("latest", torch.full((n, classes), torch.nan))  # answers of the epoch under way
        self.register_buffer("answers", torch.zeros(n, classes))  # averaged logarithms of probabilities
        self.register_buffer("given", torch.zeros(n, dtype=torch.int64))
        self.register_buffer("mean_loss", torch.zeros(n))
        self.register_buffer("weights", torch.ones(n))  # in the mean: 0 of those that are not learned
        self.register_buffer("restored", torch.zeros(n, dtype=torch.bool))  # cut, and learned as what they look like
        self.register_buffer("wrong", torch.zeros(n))  # chance of a wrong label
        self.register_buffer("looks_like", torch.zeros(n, dtype=torch.int64))  # class
        self.register_buffer("sure", torch.zeros(n))  # chance to be of that one, where it is not the given one
        self.register_buffer("matrix", torch.eye(classes))
        self.register_buffer("rate", torch.zeros(()))  # share of wrong labels
        self.register_buffer("error", torch.zeros(()))  # of that share
        self.register_buffer("known", torch.zeros(()))  # how much those who are asked know, of what they could
        self.register_buffer("times_cut", torch.zeros(n, dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(n, dtype=torch.bool))  # whether there was an answer yet

    def forward(self, losses: PerSample, index: Indices) -> Scalar:
        """The mean of the losses, those of cut samples left out."""
        return (self.weights[index].to(losses.dtype) * losses).mean()

    def relabeled(self, batch: Batch) -> Batch:
        """The batch with the labels to learn."""
        own = batch.index
        return Batch(batch.x, torch.where(self.restored[own], self.looks_like[own], batch.y), own)

    @torch.no_grad()
    def watch(self, model: nn.Module, batch: Batch, attack: Adversary, logits: Logits) -> None:
        """Takes down what the network says of a batch, if it is asked."""
        if self.asked == "both":
            self.latest.index_copy_(0, batch.index, logits.float())
        elif self.scouting is None:
            said = logits if self.asked == "adversarial" else attack.logits(batch.x)
            self.latest.index_copy_(0, batch.index, said.float())
            self.given.index_copy_(0, batch.index, batch.y)

    def scout(self, batch: Batch) -> Scalar:
        """What scouts are to minimize on a batch; what they say of it is taken down."""
        loss, answers, batch = lesson(self.sees, batch, ~self.cut())
        self.latest.index_copy_(0, batch.index, answers)
        self.given.index_copy_(0, batch.index, batch.y)
        return loss

    def average(self) -> None:
        """Takes the answers of an epoch into the averages, the first to a sample as its own."""
        own = self.asked == "both" and self.epochs >= self.ahead
        averages, seen = (self.own_answers, self.own_seen) if own else (self.answers, self.seen)
        logs, answered = self.latest.log_softmax(1), ~self.latest[:, 0].isnan()
        newest = torch.where(seen, 1 - self.rule.memory, 1.0)
        averages.copy_(torch.where(answered[:, None], torch.lerp(averages, logs, newest[:, None]), averages))
        if not own:
            losses = -logs.gather(1, self.given[:, None]).squeeze(1)
            self.mean_loss.copy_(torch.where(answered, torch.lerp(self.mean_loss, losses, newest), self.mean_loss))
        seen |= answered
        self.latest.fill_(torch.nan)

    def param_groups(self, lr: float) -> list[dict[str, Any]]:
        """Those of scouts, if there are any."""
        return [] if self.scouting is None else groups_of(self.scouts, self.scouting, lr)

    def phase(self) -> Hashable:
        """Steps are all the same, but for those of scouts."""
        return self.epochs < self.ahead

    def end_epoch(self) -> dict[str, float]:
        """Judges all labels by what was said so far, if there is news, and moves the cut."""
        self.average()
        if self.epochs >= self.ahead:
            self.times_cut += self.cut()
        self.epochs += 1
        if self.has_news():
            kept, moved = self.judged()
            if self.epochs >= self.rule.burn_in:
                learned = kept | moved
                self.weights.copy_(learned * (self.n / learned.sum()))
                self.restored.copy_(moved)
        numbers = {"wrong": self.rate, "error": self.error, "known": self.known}
        return {name: number.item() for name, number in numbers.items()} | {"cut": int(self.cut().sum())}

    def has_news(self) -> bool:
        """Whether a verdict may be another than the last, or is the first to be acted on.

        The network is heard after its first epoch, and whenever it has learned for twice as long.
        """
        if self.scouting is None or self.epochs in (self.ahead, self.rule.burn_in):
            return True
        own = self.epochs - self.ahead
        return own % JUDGED_EVERY == 0 if own < 0 else self.asked == "both" and own.bit_count() == 1

    def warning(self) -> str | None:
        """Says so when those who were asked had their time, and know too little to judge."""
        by_chance = self.rule.measure == "chance" and self.rule.m is None
        if not by_chance or self.epochs < max(self.ahead, self.rule.burn_in) or self.known >= KNOWING:
            return None
        asked = "scouts know" if self.scouting else "the network knows"
        return (
            f"{asked} too little of these data to judge their labels ({self.known.item():.0%} of what can be known, "
            f"{KNOWING:.0%} are needed), so that none is cut: give more data or more epochs"
        )

    def judged(self) -> tuple[Tensor, Tensor]:
        """Which samples are kept, of no class fewer than must be, and which others surely are of another class."""
        heard = self.asked == "both" and self.epochs > self.ahead
        if self.scouts_word is None or self.epochs <= self.ahead or self.scouting is None:
            self.scouts_word = hearing(self.answers, self.given)
        verdict = verdict_of(self.scouts_word, self.own_answers if heard else None)
        for name in ("wrong", "looks_like", "sure", "matrix"):
            getattr(self, name).copy_(getattr(verdict, name))
        for number, value in ((self.rate, verdict.rate), (self.error, verdict.error), (self.known, verdict.knowledge)):
            number.fill_(value)
        margin = ahead(self.answers, self.given)
        score = {"chance": verdict.suspicion, "loss": self.mean_loss, "margin": margin}[self.rule.measure]
        if self.rule.m is not None:
            cut = torch.zeros_like(self.seen).index_fill(0, score.topk(self.rule.m).indices, True)
        elif self.rule.measure == "chance":
            cut = (self.wrong > DOUBTED) & (verdict.knowledge >= KNOWING)
        else:
            cut = score > two_groups(score)
        cut = sparing(cut, score, self.given, 1 - self.matrix.diagonal())
        may_move = verdict.knowledge >= KNOWING and (heard or self.asked == "scout")
        return ~cut, cut & (self.sure > self.rule.confidence) & may_move

    def corrected(self) -> Tensor | None:
        """The labels that are learned, where some may be others than those given."""
        if self.rule.confidence == 1 or self.epochs <= self.ahead:
            return None
        return torch.where(self.restored, self.looks_like, self.given)

    def cut(self) -> Tensor:
        """Which samples are not learned as what they were given."""
        return (self.weights == 0) | self.restored

    def describe(self) -> str:
        """Who is asked, and from when on labels are cut."""
        if self.scouting is None:
            return f"labels judged by the network on {self.asked} images, first cut in epoch {self.rule.burn_in + 1}"
        return f"labels judged by scouts of {self.ahead} epochs{' and the network' if self.asked == 'both' else ''}"

    def get_extra_state(self) -> dict[str, int]:
        """The epoch count, so that a checkpoint holds it."""
        return {"epochs": self.epochs}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Takes the epoch count back."""
        self.epochs = state["epochs"]


def cut_in(saved: dict[str, Tensor]) -> Tensor:
    """What a watch had cut whose tensors were saved."""
    if saved.get("restored", saved["weights"]).dtype != torch.bool:
        raise InputError("the run is of an earlier version of orat, which remembered other things: train it again")
    return (saved["weights"] == 0) | saved["restored"]


def sparing(cut: Tensor, score: Tensor, given: Tensor, wrong: Tensor) -> Tensor:
    """The same cut, but of no class more than may go: there, those of the highest scores.

    `wrong` is the share of each class that is estimated to be, and may go where it is more than half.
    """
    cut = cut.clone()
    for label in given.unique().tolist():
        own = (given == label).nonzero().squeeze(1)
        most = int(max(MOST_OF_A_CLASS, float(wrong[label])) * len(own))
        if int(cut[own].sum()) > most:
            cut[own] = False
            cut[own[score[own].topk(most).indices]] = True
    return cut
