"""The memory by sample: rows by id, in place, in the precision of the column, and part of every checkpoint."""

from __future__ import annotations

import torch
from torch import nn

from orat.methods.base import SampleTable


def table(n: int = 5) -> SampleTable:
    """A table of a number, a row of two and a truth value for each sample."""
    return SampleTable(n, loss=torch.tensor(torch.nan), pair=torch.tensor([1.0, 2.0]), seen=torch.tensor(False))


def test_every_sample_begins_with_a_copy_of_the_first_row() -> None:
    memory = table()
    assert len(memory) == 5
    assert memory["loss"].isnan().tolist() == [True] * 5
    assert memory["pair"].tolist() == [[1.0, 2.0]] * 5
    memory["pair"][0] = 9.0  # rows do not share memory
    assert memory["pair"].tolist() == [[9.0, 9.0]] + 4 * [[1.0, 2.0]]


def test_rows_are_written_by_id_and_all_others_stay() -> None:
    memory = table()
    memory.put(torch.tensor([3, 0]), loss=torch.tensor([0.5, 2.0]), pair=torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    assert memory["loss"].tolist()[0::3] == [2.0, 0.5]
    assert memory["loss"].isnan().tolist() == [False, True, True, False, True]
    assert memory["pair"].tolist() == [[5.0, 6.0], [1.0, 2.0], [1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]
    assert not memory["seen"].any()


def test_values_take_the_type_of_their_column_and_leave_their_graph() -> None:
    memory = table()
    losses = torch.tensor([0.1, 0.2], dtype=torch.float64, requires_grad=True)
    memory.put(torch.tensor([1, 2]), loss=losses * 2, seen=torch.tensor([1, 0]))
    assert memory["loss"].dtype == torch.float32
    assert not memory["loss"].requires_grad
    assert memory["seen"].tolist() == [False, True, False, False, False]


def test_writing_keeps_the_place_in_memory_so_that_a_recorded_step_can_write_too() -> None:
    memory = table()
    places = [memory[name].data_ptr() for name in ("loss", "pair", "seen")]
    memory.put(torch.arange(5), loss=torch.rand(5), pair=torch.rand(5, 2), seen=torch.ones(5))
    assert [memory[name].data_ptr() for name in ("loss", "pair", "seen")] == places


def test_a_checkpoint_holds_all_columns() -> None:
    owner = nn.Module()
    owner.memory = table()
    owner.memory.put(torch.tensor([2]), loss=torch.tensor([7.0]))
    saved = owner.state_dict()
    assert saved.keys() == {"memory.loss", "memory.pair", "memory.seen"}
    again = nn.Module()
    again.memory = table()
    again.load_state_dict(saved)
    assert again.memory["loss"][2] == 7
    assert list(again.parameters()) == []


def test_the_memory_of_a_training_without_samples_is_empty() -> None:
    memory = table(0)
    memory.put(torch.zeros(0, dtype=torch.int64), loss=torch.zeros(0))
    assert len(memory) == 0
