"""A method with memory, which a stopped training finds again.

orat train --data sample --noise symmetric --noise-rate 0.3 --method examples/own_state.py:Drop --share 0.3
"""

from dataclasses import dataclass

import orat
from orat.core.losses import cross_entropy


class Memory(orat.State):
    def __init__(self, n, share):
        super().__init__()
        self.drops = int(share * n)
        self.table = orat.methods.SampleTable(n, mean=0.0, keep=True)  # one row of each column

    def end_epoch(self):
        self.table["keep"].fill_(True)[self.table["mean"].topk(self.drops).indices] = False
        return {"kept": int(self.table["keep"].sum())}

    def decision(self):
        return orat.methods.Decision(keep=self.table["keep"])


@dataclass(frozen=True)
class Drop(orat.Method):
    """Drops the share of the largest mean losses after the first epoch."""

    share: float = 0.1

    def start(self, setting):
        return Memory(setting.n, self.share)

    def loss(self, step):
        table, ids = step.state.table, step.batch.id
        losses = cross_entropy(step.model(step.adversary(step.batch.x, step.batch.y)), step.batch.y)
        table.put(ids, mean=0.9 * table["mean"][ids] + 0.1 * losses)
        return (losses * table["keep"][ids]).mean()
