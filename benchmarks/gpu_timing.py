"""Device times from CUDA-graph replays, with warm and with cold caches."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch

COLD_BYTES = 256 << 20  # several times the L2 cache of an H200
MAX_SETS = 256


def set_count(bytes_per_set: int) -> int:
    """Input sets to rotate through so that none is in the L2 cache when its turn comes."""
    return max(2, min(MAX_SETS, -(-COLD_BYTES // max(1, bytes_per_set))))


def graph_us(calls: Sequence[Callable[[], object]], replays: int = 7, launches: int = 20) -> float:
    """Median microseconds of one call; the calls take turns inside one graph."""
    count = max(launches, len(calls)) if len(calls) > 1 else launches
    for call in calls[:2]:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(count):
            calls[i % len(calls)]()
    graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(replays):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000 / count)
    del graph
    return statistics.median(times)
