"""Several attempts at a sample: the first success counts, whole."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from orat.attacks import restarts as module
from orat.attacks.restarts import attempts, first_broken, lost


def test_the_first_row_that_broke_a_sample_is_taken_for_it() -> None:
    sample = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2])
    broken = torch.tensor([0, 0, 0, 1, 0, 1, 1, 0, 1]).bool()
    assert sorted(first_broken(broken, sample).tolist()) == [3, 5]
    assert lost(broken, sample).tolist() == [True, False, True]
    assert first_broken(torch.zeros(9).bool(), sample).tolist() == []


@pytest.mark.parametrize("rows", [1, 4, 8, 100])
def test_attempts_end_with_the_first_success_and_points_are_never_mixed(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CPU_ROWS", rows)
    x = torch.zeros(4, 50)
    breaks_at = torch.tensor([0, 2, 9, 3])  # the attempt that breaks each sample, as all later ones do
    made = []

    def attempt(sample: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        made.extend(zip(sample.tolist(), number.tolist(), strict=True))
        return number[:, None].float().expand(-1, 50), number >= breaks_at[sample]

    adv = attempts(attempt, x, 6)
    assert torch.equal(adv, adv[:, :1].expand(-1, 50))
    assert adv[:, 0].tolist() == [0, 2, 5, 3]  # what is never broken ends where its last attempt ended
    assert len(set(made)) == len(made)
    if rows == 1:
        assert sorted(made) == [
            (0, 0),
            *((1, n) for n in range(3)),
            *((2, n) for n in range(6)),
            *((3, n) for n in range(4)),
        ]
