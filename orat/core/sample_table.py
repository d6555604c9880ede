"""The memory of a training, one row a sample."""

from __future__ import annotations

from torch import Tensor, nn

from orat.core.types import Indices


class SampleTable(nn.Module):
    """Named columns of n rows, one row a training sample: the only memory by sample, part of every checkpoint."""

    def __init__(self, n: int, **columns: Tensor) -> None:
        """Fills each column with n copies of one row."""
        super().__init__()
        self.n = n
        for name, row in columns.items():
            self.register_buffer(name, row.expand(n, *row.shape).clone())

    def __getitem__(self, name: str) -> Tensor:
        """A whole column."""
        return self.get_buffer(name)

    def put(self, ids: Indices, **columns: Tensor) -> None:
        """Writes the rows of these samples."""
        for name, values in columns.items():
            column = self[name]
            column.index_copy_(0, ids, values.detach().to(column.dtype))

    def __len__(self) -> int:
        return self.n
