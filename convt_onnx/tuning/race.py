"""Runs in turn: A B C, C B A, A B C, ... so that a change of the machine's speed meets all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from convt_onnx.tuning.runtime import Timed
from convt_onnx.tuning.statistics import Ratio, paired_ratio
from convt_onnx.verify.session import RunError

WARM_UP = 2
# A sample of the first entry is at least this long, so that what surrounds a run hardly counts.
# All entries run as often in a row: the second run finds what it reads in the cache.
SAMPLE_SECONDS = 1e-3
MAX_REPEATS = 32
# Times that differ by less are the same.
MARGIN = 0.03
# Slower than this in every one of the first rounds is not worth more of them.
HOPELESS = 1.5
HOPELESS_AFTER = 3
# Slower than this in the very first run, which may be a slow one, where runs are long.
HOPELESS_AT_ONCE = 5
LONG_RUN = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to run: seconds in all, rounds at most."""

    seconds: float
    rounds: int = 100


@dataclass(slots=True)
class Race:
    """Entries timed in turn until it is clear which is the fastest.

    Attributes:
        entries: By name; the first is the one to beat and stays to the end.
        margin: What a lead must exceed to count.
        to_the_end: Whether every entry stays, and only the limits end the race.
        samples: Seconds of one run by name; the i-th of each are of the same round.
        dropped: Why an entry left early.
    """

    entries: Mapping[str, Timed]
    limits: Limits
    clock: Callable[[], float] = time.perf_counter
    margin: float = MARGIN
    to_the_end: bool = False
    samples: dict[str, list[float]] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    _repeats: int = 1

    @property
    def first(self) -> str:
        """The entry to beat."""
        return next(iter(self.entries))

    @property
    def running(self) -> list[str]:
        """Entries that are still in."""
        return [name for name in self.entries if name not in self.dropped]

    def ratio(self, name: str, to: str) -> Ratio:
        """Time of one entry over another's, in the rounds that both ran."""
        return paired_ratio(self.samples[name], self.samples[to])

    def run(self) -> None:
        """Time the entries; at least one round, whatever the limits."""
        end = self.clock() + self.limits.seconds
        self._warm_up(end)
        while True:
            self._round(len(self.samples[self.first]))
            rounds = len(self.samples[self.first])
            if rounds >= self.limits.rounds or self.clock() >= end:
                return
            if not self.to_the_end:
                self._drop(rounds)
                if self._decided():
                    return

    def _warm_up(self, end: float) -> None:
        limit = LONG_RUN
        for name in self.entries:
            self.samples[name] = []
            seconds = self._sample(name, 1)
            if seconds is None:
                continue
            if seconds > limit and name != self.first and not self.to_the_end:
                self.dropped[name] = f"{seconds:.2g} s in its first run"
                continue
            if name == self.first:
                limit = max(LONG_RUN, HOPELESS_AT_ONCE * seconds)
            if self.clock() < end:
                seconds = min(seconds, self._sample(name, WARM_UP - 1) or seconds)
            if name == self.first:
                self._repeats = min(MAX_REPEATS, int(SAMPLE_SECONDS / max(seconds, 1e-9)) + 1)

    def _round(self, number: int) -> None:
        order = self.running if number % 2 == 0 else self.running[::-1]
        for name in order:
            seconds = self._sample(name, self._repeats)
            if seconds is not None:
                self.samples[name].append(seconds)

    def _sample(self, name: str, runs: int) -> float | None:
        try:
            return self.entries[name].seconds(runs)
        except RunError as error:
            if name == self.first:
                raise
            self.dropped[name] = f"{error.what}: {error.where}"
            return None

    def _drop(self, rounds: int) -> None:
        best = min(self.running, key=lambda n: min(self.samples[n]))
        for name in self.running[1:]:
            if name == best:
                continue
            slower = self.ratio(name, best)
            if rounds == HOPELESS_AFTER and min(self.samples[name]) > HOPELESS * max(
                self.samples[best]
            ):
                self.dropped[name] = f"{slower.median:.2f} times slower than {best}"
            elif slower.low > 1 or (slower.high < 1 + self.margin and self._later(name, best)):
                self.dropped[name] = f"not faster than {best}"

    def _later(self, name: str, other: str) -> bool:
        order = list(self.entries)
        return order.index(name) > order.index(other)

    def _decided(self) -> bool:
        rivals = self.running[1:]
        if not rivals:
            return True
        if len(rivals) > 1:
            return False
        ratio = self.ratio(self.first, rivals[0])
        return ratio.low > 1 + self.margin or ratio.high < 1 + self.margin
