"""Schedules that walk down the height with lines of x in registers: pure functions, deterministic.

The figures behind the choice are in README.md.
"""

from __future__ import annotations

from dataclasses import replace

from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.resident_choice import (
    MAX_PRODUCTS,
    OLDEST,
)
from convt_onnx.plugins.conv_transpose.schedule import (
    WALK,
    Schedule,
    axis_plans,
    fragment_sums,
    packing_of,
    resident_bytes,
    resident_parts,
    takes_fragments,
    takes_words,
    walk_lines,
    walk_tiles,
)

BLOCK_M, BLOCK_N, WARPS = 64, 32, 4
# Shifts that a product adds up: fewer leave waiting between products, more are copied to lie
# side by side.
JOINED, JOINED_FEW = 4, 2
# Products before a line is wanted: none but the oldest line's registers are free for it before.
# Words take fewer registers: all products.
PREFETCH, PREFETCH_WORDS = 2, MAX_PRODUCTS
# Two programs hide each other's waiting; that leaves each thread 255 registers. Lines of one axis
# are short work: as many programs as have registers.
PROGRAMS = 2
REGISTERS = 255
FILE_REGISTERS = 65_536
# Registers of a thread beside x and its sums.
OTHER_REGISTERS = 46
# Along one axis up to twice as many channels are held: a line is read before the last product, and
# one shift is a product where registers are short; up to 140 bytes are spilled then (Triton 3.6).
CHANNELS_ALONG, REGISTERS_ALONG = 128, 288
# Phases of the width, by their number, that a thread stores at a time; one of four is none.
STORED = {2: 2, 3: 4}


def walks(problem: Problem, schedule: Schedule) -> bool:
    """Whether a walk can compute this: x and y by way of registers, shifts of whole channels."""
    height = axis_plans(problem, schedule)[1]
    fragments = problem.spec.ndim == 2 and _by_fragments(problem, schedule)
    return (
        problem.spec.ndim < 3
        and all(schedule.fused)
        and not schedule.flat
        and min(schedule.prefetch, schedule.workers, schedule.joined) > 0
        and schedule.joined & (schedule.joined - 1) == 0
        and (height.count == 1 or height.step == 1)
        and packing_of(problem, schedule).rows == schedule.block_k
        and (fragments or takes_words(problem, schedule))
    )


def _by_fragments(problem: Problem, schedule: Schedule) -> bool:
    return takes_fragments(problem, schedule) and fragment_sums(problem, schedule)


def products(problem: Problem, schedule: Schedule) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Weight blocks of each product of each part of the columns.

    Those of the oldest line of x come first, so that a line which is read ahead can take its
    registers.
    """
    packing = packing_of(problem, schedule)
    width = packing.axes[2].blocks
    order = sorted(range(packing.blocks), key=lambda b: (-(b // width), b % width))
    parts = resident_parts(problem, schedule).blocks
    return tuple(_grouped([b for b in order if bits >> b & 1], schedule.joined) for bits in parts)


def _grouped(blocks: list[int], joined: int) -> tuple[tuple[int, ...], ...]:
    """Runs of `joined` blocks, and of smaller powers of two at the end."""
    found = []
    while blocks:
        count = min(joined, 1 << (len(blocks).bit_length() - 1))
        found.append(tuple(blocks[:count]))
        blocks = blocks[count:]
    return tuple(found)


def walk_schedule(problem: Problem, device: Device, base: Schedule) -> Schedule | None:
    """The walk with the layout of the GEMM schedule `base`, or None where it does not fit."""
    schedule = replace(
        base,
        kind=WALK,
        block_m=BLOCK_M,
        block_n=BLOCK_N,
        warps=WARPS,
        stages=1,
        flat=False,
        fragments=True,
        joined=JOINED,
        prefetch=PREFETCH,
    )
    words = not problem.channels_last_in
    if words:
        schedule = _in_words(problem, schedule)
    aligned = words or problem.spec.in_per_group * problem.element_bytes % 16 == 0
    if device.capability < OLDEST or not aligned or not walks(problem, schedule):
        return None
    if sum(1 + len(part) for part in products(problem, schedule)) > MAX_PRODUCTS:
        return None  # a part's stores take as long to compile as a product
    registers = _held_registers(problem, schedule) + OTHER_REGISTERS
    if problem.spec.ndim == 1 and REGISTERS < registers <= REGISTERS_ALONG + OTHER_REGISTERS:
        schedule = replace(schedule, joined=1)
        registers = REGISTERS
    fitting = device.shared_bytes // resident_bytes(problem, schedule)
    if registers > REGISTERS or fitting < PROGRAMS:
        return None
    programs = PROGRAMS
    if problem.spec.ndim == 1:
        programs = max(PROGRAMS, min(fitting, FILE_REGISTERS // (32 * schedule.warps * registers)))
    lines = walk_lines(problem, schedule)
    tiles = walk_tiles(problem, schedule) * problem.spec.group
    return replace(schedule, workers=max(1, min(lines, programs * device.processors // tiles)))


def _in_words(problem: Problem, schedule: Schedule) -> Schedule:
    """The walk over NCHW lines: a part is one phase, y starts with the first of the width."""
    channels = problem.spec.out_per_group
    depth, height, _ = schedule.aligned
    wide = problem.spec.ndim == 1 and schedule.block_k < problem.spec.in_per_group
    schedule = replace(
        schedule,
        aligned=(depth, height, True),
        block_n=channels,
        block_k=CHANNELS_ALONG if wide else schedule.block_k,
        interleave=False,
        prefetch=1 if wide else PREFETCH_WORDS,
    )
    two = axis_plans(problem, schedule)[2].stride == 2
    few = packing_of(problem, schedule).blocks <= 2 * JOINED_FEW and channels <= BLOCK_N and two
    return replace(schedule, joined=JOINED_FEW) if few else schedule


def _held_registers(problem: Problem, schedule: Schedule) -> int:
    """Registers that a thread keeps lines of x in, one that is being read, and sums."""
    _, height, width = axis_plans(problem, schedule)
    threads = 32 * schedule.warps
    sums = schedule.block_m * schedule.block_n // threads
    each = schedule.block_m * schedule.block_k * problem.element_bytes // (4 * threads)
    if problem.channels_last_in:
        return (height.count + 1) * width.count * each + sums
    leftmost, rightmost = -(width.first + (width.count - 1) * width.step), 1 - width.first
    positions, words = rightmost - leftmost + 1, rightmost // 2 - leftmost // 2 + 1
    return height.count * positions * each // 2 + words * each + STORED[width.stride] * sums
