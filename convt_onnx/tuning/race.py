"""Runs in turn, so that a change of the machine's speed meets all.

Every round has an order of its own, in which nobody follows itself: what runs again at once finds
in the cache what it reads. Where a session's memory happens to lie makes a small model some percent
faster or slower for as long as the session lives; a race may therefore load its entries anew for
every round.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median

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
# After how many rounds it is asked whether the last two are apart: asked after every round, a draw
# would sooner or later look like a win.
LOOKS = (8, 16, 32, 64)
# Rounds that are shared out over as many loads as there is time for. After a load entries run as
# often as takes about as long as loading, and this often at most.
SURE = 16
MAX_TURNS = 5

Loader = Callable[[], Timed]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to run: seconds in all, rounds at most, and at least whatever the time."""

    seconds: float
    rounds: int = LOOKS[-1]
    least: int = 1


@dataclass(slots=True)
class Race:
    """Entries timed in turn until it is clear which is the fastest.

    Attributes:
        loaders: Of entries by name; the first is the one to beat and stays to the end.
        margin: What a lead must exceed to count.
        to_the_end: Whether every entry stays, and only the limits end the race.
        fresh: Whether rounds have entries of their own, loaded for them, as far as the time allows;
            where it allows no more of them, a race of SURE rounds ends.
        entries: What is loaded now.
        samples: Seconds of one run by name; the i-th of each are of the same round. None of what
            failed in any round.
        dropped: Why an entry left early.
    """

    loaders: Mapping[str, Loader]
    limits: Limits
    clock: Callable[[], float] = time.perf_counter
    margin: float = MARGIN
    to_the_end: bool = False
    fresh: bool = False
    entries: dict[str, Timed] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    _repeats: int = 1
    _last: str = ""
    _random: random.Random = field(default_factory=lambda: random.Random(0))
    _load_seconds: float = 0.0
    _turn_seconds: float = 0.0
    _turns: int = 1

    @property
    def first(self) -> str:
        """The entry to beat."""
        return next(iter(self.loaders))

    @property
    def running(self) -> list[str]:
        """Entries that are still in."""
        return [name for name in self.loaders if name not in self.dropped]

    def ratio(self, name: str, to: str) -> Ratio:
        """Time of one entry over another's, in the rounds that both ran."""
        return paired_ratio(self.samples[name], self.samples[to])

    def run(self) -> None:
        """Load and time the entries; at least one round, whatever the limits.

        Raises:
            RunError: The first entry does not load or run.
        """
        end = self.clock() + self.limits.seconds
        self.samples = {name: [] for name in self.loaders}
        start = self.clock()
        self._load(self.running)
        self._warm_up(end)
        self._load_seconds = self.clock() - start
        since = 0
        while True:
            self._round()
            since += 1
            rounds, now = len(self.samples[self.first]), self.clock()
            if rounds >= self.limits.rounds or (rounds >= self.limits.least and now >= end):
                return
            if not self.to_the_end:
                self._drop(rounds)
                if not self.running[1:] or (rounds in LOOKS and self._decided(rounds)):
                    return
            if not self.fresh:
                continue
            if since >= self._rounds_a_load(rounds, end - now):
                self._renew()
                since = 0
            elif rounds >= max(SURE, self.limits.least) and end - now < self._renewal_seconds:
                return

    @property
    def _renewal_seconds(self) -> float:
        """Of loading anew and of the turns that follow."""
        return self._load_seconds + min(MAX_TURNS * self._turn_seconds, self._load_seconds)

    def _rounds_a_load(self, rounds: int, seconds: float) -> float:
        """After how many rounds to load anew; infinite where no time is left for it."""
        if seconds < self._renewal_seconds:
            return inf
        missing = max(0, SURE - rounds)
        loads = max(0.0, seconds - missing * self._turn_seconds) / max(self._renewal_seconds, 1e-9)
        return max(1.0, missing / (1 + loads))

    def _renew(self) -> None:
        """Load everything anew for the next round."""
        start = self.clock()
        names = self.running
        self._random.shuffle(names)
        self._load(names)
        for name in names:
            if name in self.entries:
                self._sample(name, WARM_UP)
        self._load_seconds = self.clock() - start
        turns = self._load_seconds / max(self._turn_seconds, 1e-9)
        self._turns = max(1, min(MAX_TURNS, round(turns)))

    def _load(self, names: Sequence[str]) -> None:
        """All of them together, so that none is given the place that its last one had."""
        self.entries.clear()
        for name in names:
            try:
                self.entries[name] = self.loaders[name]()
            except RunError as error:
                self._fail(name, error)

    def _fail(self, name: str, error: RunError) -> None:
        if name == self.first:
            raise error
        self.dropped[name] = f"{error.what}: {error.where}"
        # However fast it was until then, it cannot be chosen.
        self.samples[name].clear()

    def _warm_up(self, end: float) -> None:
        limit = LONG_RUN
        for name in self.running:
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

    def _shuffled(self) -> list[str]:
        """The order of the next round."""
        order = self.running
        self._random.shuffle(order)
        if len(order) > 1 and order[0] == self._last:
            other = self._random.randrange(1, len(order))
            order[0], order[other] = order[other], order[0]
        return order

    def _round(self) -> None:
        """Every entry's median of a few turns."""
        start = self.clock()
        times: dict[str, list[float]] = {}
        for _ in range(self._turns):
            for name in self._shuffled():
                seconds = self._sample(name, self._repeats)
                if seconds is not None:
                    times.setdefault(name, []).append(seconds)
        for name in self.running:
            self.samples[name].append(median(times[name]))
        self._turn_seconds = (self.clock() - start) / self._turns
        self._turns = 1

    def _sample(self, name: str, runs: int) -> float | None:
        self._last = name
        try:
            return self.entries[name].seconds(runs)
        except RunError as error:
            self._fail(name, error)
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
            elif slower.low > 1 or (self._same(slower) and self._later(name, best)):
                self.dropped[name] = f"not faster than {best}"

    def _same(self, ratio: Ratio) -> bool:
        """Whether neither of the two can be ahead by the margin.

        The best so far is the one with the shortest sample, which is not always the fastest.
        """
        return ratio.low > 1 / (1 + self.margin) and ratio.high < 1 + self.margin

    def _later(self, name: str, other: str) -> bool:
        order = list(self.loaders)
        return order.index(name) > order.index(other)

    def _decided(self, rounds: int) -> bool:
        """Whether the last two are clearly apart, or the second is not ahead in SURE rounds."""
        if len(self.running) > 2:
            return False
        ratio = self.ratio(self.first, self.running[1])
        if rounds >= SURE and ratio.median < 1:
            return True
        return ratio.low > 1 + self.margin or ratio.high < 1 + self.margin
