"""Numbers that look random as a function of a counter: SplitMix64 (Steele, Lea, Flood, 2014)."""

from __future__ import annotations

from torch import Tensor

# As int64, whose products wrap around.
GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
MIXERS = ((30, 0xBF58476D1CE4E5B9 - (1 << 64)), (27, 0x94D049BB133111EB - (1 << 64)))


def mixed(bits: Tensor) -> Tensor:
    """Every bit of the result depends on every bit given."""
    for shift, factor in MIXERS:
        bits = (bits ^ shifted(bits, shift)) * factor
    return bits ^ shifted(bits, 31)


def shifted(bits: Tensor, by: int) -> Tensor:
    """A shift to the right that brings in zeros, whatever the sign."""
    return (bits >> by) & ((1 << (64 - by)) - 1)
