"""Where a walk was measured to gain: pure functions, deterministic. README.md has the figures."""

from __future__ import annotations

from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.resident_choice import MEASURED, computes
from convt_onnx.plugins.conv_transpose.schedule import (
    Schedule,
    axis_plans,
    packing_of,
    program_count,
    walk_lines,
)
from convt_onnx.plugins.conv_transpose.walk import products, walk_schedule

# What was measured to gain channels last; others spill up to 612 bytes, or are bound by memory.
CHANNELS, SHIFTS, STRIDE = 64, 3, 2
# Lines that a walk should have for each that it reads before its first: these are read twice.
LINES_EACH = 8
# The same in words, and the least (shift, C_in) that gains there.
LINES_EACH_WORDS = 1.5
LEAST_ROWS = 192
# With three phases of the width: products (and stores), past which registers spill.
MOST_THIRDS = 24
# Along one axis: the most channels out, lines of a program that make a long walk, shifts that gain
# in it with two phases, and (shift, C_in, C_out) that gain in short ones.
MOST_OUT = 64
LONG_LINES = 5
LONG_SHIFTS = 3
LEAST_SHORT = 10_240
# Share of the processors that have a program at least, in quarters.
BUSY = 3


def preferred_walk(problem: Problem, device: Device, base: Schedule) -> Schedule | None:
    """The walk to take instead of the GEMM schedule `base`, or None where that is faster."""
    if device.capability // 10 != MEASURED:
        return None
    schedule = walk_schedule(problem, device, base)
    if schedule is None:
        return None
    if problem.spec.ndim == 1:
        taken = _gains_along(problem, schedule, device)
    elif axis_plans(problem, schedule)[2].stride == 3 and not problem.channels_last_in:
        taken = _few_products(problem, schedule) and _fills(problem, schedule, device)
    else:
        taken = _gains_by_length(problem, schedule)
    return schedule if taken else None


def _gains_along(problem: Problem, schedule: Schedule, device: Device) -> bool:
    """Whether a walk along one axis is long, or computes much in each line."""
    blocks = packing_of(problem, schedule).blocks
    three = axis_plans(problem, schedule)[2].stride == 3
    channels = problem.spec.out_per_group
    if channels > MOST_OUT or (three and not _few_products(problem, schedule)):
        return False
    if walk_lines(problem, schedule) >= LONG_LINES * schedule.workers:
        return three or blocks >= LONG_SHIFTS
    work = blocks * problem.spec.in_per_group * channels
    share = 1 if schedule.block_k <= CHANNELS else 2  # lines of many channels take longer to read
    return work >= share * LEAST_SHORT and _fills(problem, schedule, device, share)


def _few_products(problem: Problem, schedule: Schedule) -> bool:
    return sum(1 + len(part) for part in products(problem, schedule)) <= MOST_THIRDS


def _fills(problem: Problem, schedule: Schedule, device: Device, each: int = 1) -> bool:
    """Whether most processors have `each` programs."""
    return 4 * program_count(problem, schedule) >= BUSY * device.processors * each


def _gains_by_length(problem: Problem, schedule: Schedule) -> bool:
    """Whether a walk is long against what it reads before, and what it adds up is enough."""
    height = axis_plans(problem, schedule)[1]
    lines = walk_lines(problem, schedule)
    before = schedule.workers * (height.count - 1)
    if problem.channels_last_in:
        return lines >= before * LINES_EACH and _gains_by_fragments(problem, schedule)
    blocks = packing_of(problem, schedule).blocks
    enough = blocks > 1 and blocks * problem.spec.in_per_group >= LEAST_ROWS
    return lines >= before * LINES_EACH_WORDS and enough


def _gains_by_fragments(problem: Problem, schedule: Schedule) -> bool:
    axes = list(zip(axis_plans(problem, schedule), problem.out_sizes, strict=True))[1:]
    return (
        computes(problem)
        and problem.spec.in_per_group == schedule.block_k == CHANNELS
        and all(a.count == SHIFTS and a.stride == STRIDE and a.exact(out) for a, out in axes)
    )
