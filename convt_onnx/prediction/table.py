"""Nanoseconds for each count, as benchmarks/calibrate.py measured them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE_PATH = Path(__file__).with_name("ort_cpu.json")


@dataclass(frozen=True, slots=True)
class CostTable:
    """Coefficients by number of threads.

    Attributes:
        nanoseconds: Of one count, by threads and name of the count.
        switch_gain: How many times faster than the node itself a form must be expected to be.
        environment: What they were measured with.
    """

    nanoseconds: Mapping[int, Mapping[str, float]]
    environment: str
    switch_gain: float = 1.1

    def micros(self, counts: Mapping[str, float], threads: int) -> float:
        """Expected time; 0 threads, and more than were measured, are the most that were."""
        most = max(self.nanoseconds)
        wanted = min(threads or most, most)
        nearest = min(self.nanoseconds, key=lambda n: abs(n - wanted))
        table = self.nanoseconds[nearest]
        return sum(table.get(name, 0.0) * count for name, count in counts.items()) / 1e3


@cache
def cost_table() -> CostTable:
    """The table that comes with the package."""
    document = json.loads(TABLE_PATH.read_text())
    tables = {int(n): dict(table) for n, table in document["nanoseconds"].items()}
    return CostTable(tables, document["environment"], document["switch_gain"])
