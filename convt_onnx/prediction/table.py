"""Nanoseconds for each count, as benchmarks/calibrate.py measured them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from convt_onnx.prediction.vectors import Vectors

TABLE_PATH = Path(__file__).with_name("ort_cpu.json")


@dataclass(frozen=True, slots=True)
class Switch:
    """What a form must be expected to gain before it replaces the node.

    Attributes:
        gain: How many times faster it must be.
        saving_us: How many microseconds it must save: of small nodes little is known.
    """

    gain: float
    saving_us: float

    def pays(self, keep_us: float, form_us: float) -> bool:
        """Whether to replace a node of the first time by a form of the second."""
        return keep_us >= self.gain * form_us and keep_us - form_us >= self.saving_us


@dataclass(frozen=True, slots=True)
class CostTable:
    """Coefficients and rules by number of threads.

    Wherever `threads` is asked for, 0 and more than were measured are the most that were.

    Attributes:
        nanoseconds: Of one count, by threads and name of the count.
        switches: When a form replaces the node, by threads.
        environment: What they were measured with.
    """

    nanoseconds: Mapping[int, Mapping[str, float]]
    switches: Mapping[int, Switch]
    environment: str

    def micros(self, counts: Mapping[str, float], threads: int) -> float:
        """Expected time."""
        table = self.nanoseconds[self._nearest(threads)]
        return sum(table.get(name, 0.0) * count for name, count in counts.items()) / 1e3

    def switch(self, threads: int) -> Switch:
        """When a form replaces the node."""
        return self.switches[self._nearest(threads)]

    def _nearest(self, threads: int) -> int:
        most = max(self.nanoseconds)
        wanted = min(threads or most, most)
        return min(self.nanoseconds, key=lambda n: abs(n - wanted))


@cache
def cost_table(vectors: Vectors) -> CostTable:
    """The table that comes with the package, for that kind of processor."""
    document = json.loads(TABLE_PATH.read_text())[vectors.name]
    tables = {int(n): dict(table) for n, table in document["nanoseconds"].items()}
    switches = {int(n): Switch(**switch) for n, switch in document["switch"].items()}
    return CostTable(tables, switches, document["environment"])
