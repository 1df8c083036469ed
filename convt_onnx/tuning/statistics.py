"""What a handful of noisy times say: medians, and bounds that assume no distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import median, quantiles

from convt_onnx.tuning.times import Timing

# Chance that a ratio lies outside its bounds.
DOUBT = 0.01
# The fewest pairs that prove anything at that doubt.
ENOUGH = 8


@dataclass(frozen=True, slots=True)
class Ratio:
    """Median of the ratios of paired runs, and bounds that hold it but for DOUBT.

    The bounds are order statistics (the sign test, inverted): with fewer than 8 pairs there are
    none, and they are 0 and infinity.
    """

    median: float
    low: float
    high: float


def timing(seconds: Sequence[float]) -> Timing:
    """Median and quartiles in microseconds."""
    micros = [1e6 * s for s in seconds]
    low, middle, high = (
        quantiles(micros, n=4, method="inclusive") if len(micros) > 1 else micros * 3
    )
    return Timing(middle, low, high, len(micros))


def paired_ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """above / below, round by round; the longer of the two is cut."""
    ratios = sorted(a / b for a, b in zip(above, below, strict=False))
    rank = _rank(len(ratios))
    if rank == 0:
        return Ratio(median(ratios), 0.0, float("inf"))
    return Ratio(median(ratios), ratios[rank - 1], ratios[-rank])


def _rank(n: int) -> int:
    """The largest r whose r-th smallest and r-th largest of n hold the median but for DOUBT."""
    tail, rank = 0.0, 0
    while rank < n // 2:
        tail += comb(n, rank) / 2**n
        if 2 * tail > DOUBT:
            break
        rank += 1
    return rank
