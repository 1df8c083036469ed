"""Tiles of NCHW lines that are stored element by element: pure functions, deterministic.

The figures behind the choices are in README.md.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import (
    Schedule,
    axis_plans,
    pair_width,
    program_count,
    vector_width,
)

# The generation that the tiles were measured on.
MEASURED = 9
# Channels in of groups whose products are short.
NARROW = 16
# Programs of a processor from which tiles of 128 rows are faster than of 64.
LARGER_FROM = 2


def loop_length(problem: Problem, schedule: Schedule) -> int:
    """Most (shift, C_in) that a program of a GEMM adds up."""
    plans = axis_plans(problem, schedule)
    taps = prod(a.count if a.fused else -(-a.kernel // a.tap_step) for a in plans)
    return taps * problem.spec.in_per_group


def single_stores(problem: Problem, device: Device, schedule: Schedule) -> Schedule:
    """Other tiles of a GEMM whose programs compute one product and store single elements.

    The stores take the time. Where an axis is split, most of its phases have the bias alone.
    """
    width = axis_plans(problem, schedule)[2]
    exact = problem.dtype == "float32" and not problem.tf32
    if (
        device.capability // 10 != MEASURED
        or exact
        or schedule.flat
        or not (schedule.interleave and width.stride > 2)
        or vector_width(problem, schedule) * pair_width(problem, schedule) > 1
        or loop_length(problem, schedule) > schedule.block_k
    ):
        return schedule
    block_n = schedule.block_n
    if problem.element_bytes == 4:
        block_m, warps = 32 if block_n > 64 else 64, 4
    else:
        few = schedule.block_k <= NARROW or not all(schedule.fused)
        block_n = min(block_n, 32 if schedule.block_k <= NARROW else 64)
        block_m, warps = (32, 1) if few else (64, 4)
    tiled = replace(schedule, block_m=block_m, block_n=block_n, warps=warps, stages=1)
    if (block_m, warps, problem.element_bytes) == (64, 4, 2):
        larger = replace(tiled, block_m=128, warps=8)
        if program_count(problem, larger) >= LARGER_FROM * device.processors:
            return larger
    return tiled if program_count(problem, tiled) >= device.processors else schedule
