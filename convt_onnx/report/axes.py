"""Logarithmic axes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, log10

MAX_TICKS = 8


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled place, in percent of the axis from its low end."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class LogAxis:
    """From 10**low to 10**high."""

    low: int
    high: int

    @classmethod
    def over(cls, values: Iterable[float], *, decades: int = 1) -> LogAxis:
        """The whole decades around the positive ones of the values, at least so many."""
        logs = [log10(v) for v in values if v > 0] or [0.0]
        low, high = floor(min(logs) - 1e-9), ceil(max(logs) + 1e-9)
        return cls(low, max(high, low + decades))

    def at(self, value: float) -> float:
        """Percent from the low end; beyond the ends, and for 0, the end itself."""
        if value <= 0:
            return 0.0
        share = (log10(value) - self.low) / (self.high - self.low)
        return 100 * min(max(share, 0.0), 1.0)

    def ticks(self) -> list[Tick]:
        """Decades, some of them left out where there are many."""
        step = ceil((self.high - self.low) / MAX_TICKS)
        return [
            Tick(100 * (e - self.low) / (self.high - self.low), decade_text(e))
            for e in range(self.low, self.high + 1, step)
        ]


def decade_text(exponent: int) -> str:
    """A power of ten, written out where that is short."""
    if -2 <= exponent <= 4:
        return f"{10**exponent:,}" if exponent >= 0 else f"{10**exponent:g}"
    return f"1e{exponent}"
