"""Schedules that read and write whole words of NCHW lines: pure functions, deterministic."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from convt_onnx.plugins.conv_transpose.geometry import fusable, lifted_axes
from convt_onnx.plugins.conv_transpose.packing import Packing, tap_table
from convt_onnx.plugins.conv_transpose.problem import Problem
from convt_onnx.plugins.conv_transpose.schedule import LINES, Schedule, axis_plans

# Bytes of a word of y.
WORD_BYTES = 8
# Unrolled products and reads beyond these take long to compile, and registers.
MAX_PRODUCTS = 64
MAX_READS = 18
ROWS = 1024
WARPS = 4


def lines_schedule(problem: Problem) -> Schedule | None:
    """The schedule, or None where lines of y are not made of whole words, or much is unrolled."""
    spec = problem.spec
    axes = lifted_axes(spec)
    odd = axes[2].stride % 2 == 1
    if problem.channels_last_in or problem.channels_last_out or not all(map(fusable, axes)):
        return None
    rows = 32 * WARPS * each(problem) if odd else ROWS
    schedule = Schedule(
        LINES, (True,) * 3, (True,) * 3, block_m=rows, block_n=1, block_k=0, warps=WARPS, stages=1
    )
    plans = axis_plans(problem, schedule)
    width, out = plans[2], problem.out_sizes[2]
    whole = width.exact(out) and width.rows(out) % each(problem) == 0
    reads = plans[0].count * plans[1].count * spec.in_per_group
    products = prod(spec.kernel) * spec.in_per_group
    if not whole or reads > MAX_READS or products > MAX_PRODUCTS:
        return None
    return schedule


def preferred_lines(problem: Problem) -> Schedule | None:
    """The schedule to take instead of the direct one, or None where that is faster.

    With an odd stride a store of a thread is 8 bytes, its neighbour's lies a stride away.
    """
    odd = lifted_axes(problem.spec)[2].stride % 2 == 1
    return None if odd and problem.element_bytes > 2 else lines_schedule(problem)


def lines_candidates(problem: Problem) -> list[Schedule]:
    """What the autotuner tries."""
    base = lines_schedule(problem)
    if base is None:
        return []
    return [
        replace(base, block_m=m, warps=w) for m, w in ((512, 4), (1024, 4), (2048, 4), (512, 2))
    ]


def each(problem: Problem) -> int:
    """Rows q of a thread, which are elements of a word."""
    return WORD_BYTES // problem.element_bytes


def taps(problem: Problem, schedule: Schedule) -> tuple[int, ...]:
    """Tap of each (shift, phase), or -1."""
    spec = problem.spec
    plans = axis_plans(problem, schedule)
    packing = Packing(plans, spec.group, spec.in_per_group, spec.out_per_group, 1, 1)
    return tuple(int(t) for t in tap_table(packing))
