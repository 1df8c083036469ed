"""Choice of kernel, fused axes and tiles from the geometry alone: pure functions, deterministic.

The figures behind the choices are in README.md.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from convt_onnx.plugins.conv_transpose.fusing import (
    MAX_FUSED_COLUMNS,
    MAX_ROWS_ADDED,
    Flags,
    fused_axes,
    is_wide,
    pixels_join,
    rows_added,
    starts_aligned,
)
from convt_onnx.plugins.conv_transpose.geometry import fusable, lifted_axes, shift_count
from convt_onnx.plugins.conv_transpose.groups import direct_is_better, merge_count
from convt_onnx.plugins.conv_transpose.lines import lines_candidates, preferred_lines
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.resident_choice import preferred, resident_schedules
from convt_onnx.plugins.conv_transpose.schedule import (
    DIRECT,
    GEMM,
    RESIDENT,
    UNPACKED,
    WALK,
    Schedule,
    keeps_weights,
    packing_of,
    program_count,
    resident_bytes,
)
from convt_onnx.plugins.conv_transpose.single_stores import loop_length, single_stores
from convt_onnx.plugins.conv_transpose.walk import walk_schedule, walks
from convt_onnx.plugins.conv_transpose.walk_choice import preferred_walk

# Beyond this many channels in, the direct kernel never came first.
MAX_DIRECT_CHANNELS = 32
# A loop over that many (shift, C_in) does not suffer from narrow tiles.
MAX_SHORT = 2048
# (block_m, block_n, warps, stages) that the autotuner tries.
_TILES = (
    (128, 128, 4, 3),
    (128, 64, 4, 3),
    (64, 128, 4, 3),
    (64, 64, 4, 4),
    (128, 256, 8, 3),
    (256, 128, 8, 3),
    (128, 128, 8, 4),
    (256, 64, 8, 3),
    (64, 256, 8, 3),
    (32, 64, 4, 4),
    (128, 32, 4, 4),
    (32, 32, 4, 3),
)


def choose(problem: Problem, device: Device) -> Schedule:
    """The schedule for one problem."""
    count = merge_count(problem)
    merged = problem.merged(count)
    if direct_is_better(merged):
        return preferred_lines(problem) or direct_schedule(problem)
    if count > 1:
        # Zeros would fill the shared memory of resident weights.
        return replace(_merged_schedule(merged, device), merge=count)
    return (
        _resident(problem, device)
        or _one_product(problem, device)
        or single_stores(problem, device, gemm_schedule(problem, device, fused_axes(problem)))
    )


def _merged_schedule(problem: Problem, device: Device) -> Schedule:
    """Tiles of the implicit GEMM for groups that are computed as one."""
    schedule = gemm_schedule(problem, device, fused_axes(problem))
    if problem.element_bytes > 2 or schedule.block_m < 64:
        return schedule
    schedule = replace(schedule, block_m=64, stages=2, warps=4)
    few = program_count(problem, schedule) < 4 * device.processors
    return replace(schedule, block_m=32) if few else schedule


def _one_product(problem: Problem, device: Device) -> Schedule | None:
    """A GEMM of channels-last data where one product a program adds up all there is, or None.

    What is multiplied by zeros costs nothing then, the stores take the time: all axes are fused.
    """
    every = (True, True, True)
    last = problem.channels_last_in and problem.channels_last_out
    exact = problem.dtype == "float32" and not problem.tf32
    able = all(map(fusable, lifted_axes(problem.spec)))
    if exact or not last or not able or fused_axes(problem) == every:
        return None
    schedule = gemm_schedule(problem, device, every)
    packing = packing_of(problem, schedule)
    if packing.blocks * packing.rows > packing.tile_k or packing.columns > MAX_FUSED_COLUMNS:
        return None
    for rows in (128, 64) if problem.element_bytes == 2 else (64,):
        tile = replace(schedule, block_m=rows, block_n=64, stages=2, warps=4)
        if packing.columns > 64 and program_count(problem, tile) >= 6 * device.processors:
            return tile
    return None


def _resident(problem: Problem, device: Device) -> Schedule | None:
    """The schedule with resident weights, where that is faster than the GEMM."""
    axes = lifted_axes(problem.spec)
    all_fused = (True, True, True)
    if (
        is_wide(problem)
        or not all(fusable(a) for a in axes)
        or rows_added(problem, axes, all_fused) > MAX_ROWS_ADDED
    ):
        return None
    base = gemm_schedule(problem, device, all_fused)
    return preferred_walk(problem, device, base) or preferred(problem, device, base)


def direct_schedule(problem: Problem) -> Schedule:
    """Tiles of the direct kernel: about 2048 outputs a program."""
    width = lifted_axes(problem.spec)[2]
    fused = fusable(width) and not problem.channels_last_out and width.stride <= 64
    aligned = not fused or starts_aligned(width)
    if problem.channels_last_out:
        last = min(_power(problem.spec.out_channels), 128)
    else:
        last = _power(width.stride) if fused else 1
    return Schedule(
        DIRECT,
        (False, False, fused),
        (True, True, aligned),
        block_m=max(32, min(1024, 2048 // last)),
        block_n=last,
        block_k=0,
        warps=4,
        stages=1,
    )


def gemm_schedule(problem: Problem, device: Device, fused: Flags) -> Schedule:
    """Tiles of the implicit GEMM with given fused axes."""
    spec = problem.spec
    axes = lifted_axes(spec)
    aligned = [not f or starts_aligned(a) for a, f in zip(axes, fused, strict=True)]
    aligned[2] |= pixels_join(problem, axes[2])
    width = axes[2].stride if fused[2] else 1
    interleave = not problem.channels_last_out and 1 < width <= 32
    columns = prod(a.stride for a, f in zip(axes, fused, strict=True) if f) * spec.out_per_group
    if interleave:
        columns = columns // width * _power(width)
    flat = spec.in_per_group < 16
    large = problem.dtype == "float32" and columns > 64
    schedule = Schedule(
        GEMM,
        fused,
        (aligned[0], aligned[1], aligned[2]),
        block_m=64 if interleave and width > 2 and not large else 128,
        block_n=_block_n(columns),
        block_k=_block_k(problem, flat),
        warps=8 if large else 4,
        stages=3,
        flat=flat,
        interleave=interleave,
        k_major=problem.dtype == "float32",
    )
    if device.capability < 80:  # Triton has no matrix instructions there: registers are short
        schedule = replace(schedule, block_m=32, block_n=min(schedule.block_n, 64), block_k=16)
    return _fill(problem, device, schedule)


def candidates(problem: Problem, device: Device, limit: int = 24) -> list[Schedule]:
    """Schedules for the autotuner to time: the heuristic's choice first, then its neighbours."""
    found = [choose(problem, device)]
    for count in sorted({1, found[0].merge}, reverse=True):
        here = _candidates(problem.merged(count), device)
        found += [replace(s, merge=count) for s in here if count == 1 or s.kind not in UNPACKED]
    return list(dict.fromkeys(found))[:limit]


def _candidates(problem: Problem, device: Device) -> list[Schedule]:
    """Schedules that fit, for groups as they are."""
    found = []
    if problem.spec.in_per_group <= MAX_DIRECT_CHANNELS:
        found.append(direct_schedule(problem))
        found += lines_candidates(problem)
    if prod(problem.spec.kernel) * problem.spec.in_per_group > 1:
        bases = [gemm_schedule(problem, device, f) for f in _fusions(problem)]
        found += [s for b in bases for s in (walk_schedule(problem, device, b),) if s is not None]
        found += [s for base in bases for s in resident_schedules(problem, device, base)]
        found += bases
        for tiles in _TILES:
            found += [_retiled(problem, base, *tiles) for base in bases]
    return [s for s in found if fits(problem, s, device)]


def fits(problem: Problem, schedule: Schedule, device: Device) -> bool:
    """Whether a schedule's tiles fit shared memory (as Triton pipelines them), and the call."""
    if schedule.kind in UNPACKED:
        return True
    if schedule.kind == WALK and not walks(problem, schedule):
        return False
    if schedule.kind == RESIDENT and not keeps_weights(problem):
        return False
    if schedule.kind in (RESIDENT, WALK):
        return resident_bytes(problem, schedule) <= device.shared_bytes
    tile = (schedule.block_m + schedule.block_n) * schedule.block_k * problem.element_bytes
    out = schedule.block_m * schedule.block_n * problem.element_bytes
    return max(tile * schedule.stages, out) + 1024 <= device.shared_bytes


def _retiled(
    problem: Problem, base: Schedule, block_m: int, block_n: int, warps: int, stages: int
) -> Schedule:
    columns = _power(packing_of(problem, base).columns)
    block_n = max(32 if base.interleave else 16, min(block_n, columns))
    return replace(base, block_m=block_m, block_n=block_n, warps=warps, stages=stages)


def _fusions(problem: Problem) -> list[Flags]:
    """Fusions worth trying: all axes that can be, the width alone, none."""
    axes = lifted_axes(problem.spec)
    able = tuple(fusable(a) for a in axes)
    found = []
    for fused in (able, (False, False, able[2]), (False, False, False)):
        flags = tuple(f or a.stride == 1 for f, a in zip(fused, axes, strict=True))
        columns = prod(a.stride for a, f in zip(axes, flags, strict=True) if f)
        if columns * problem.spec.out_per_group <= MAX_FUSED_COLUMNS:
            found.append((flags[0], flags[1], flags[2]))
    return list(dict.fromkeys(found))


def _fill(problem: Problem, device: Device, schedule: Schedule) -> Schedule:
    """Smaller tiles while the device would be partly idle, or while they do not fit."""
    while not fits(problem, schedule, device) and schedule.stages > 2:
        schedule = replace(schedule, stages=schedule.stages - 1)
    while not fits(problem, schedule, device) and schedule.block_m > 16:
        schedule = replace(schedule, block_m=schedule.block_m // 2, warps=4)
    # Two programs a processor hide each other's first loads; below 64 rows that gain is gone.
    lines = problem.channels_last_out or schedule.interleave
    twice = (2 if lines else 1) * device.processors
    while schedule.block_m > 64 and program_count(problem, schedule) < twice:
        schedule = replace(schedule, block_m=schedule.block_m // 2, warps=4)
    idle = device.processors * 3 // 4
    short = loop_length(problem, schedule) <= MAX_SHORT
    if short and schedule.block_n > 64 and program_count(problem, schedule) < idle:
        schedule = replace(schedule, block_n=64)
    if schedule.block_m > 32 and program_count(problem, schedule) < idle:
        schedule = replace(schedule, block_m=32, warps=4)
    return schedule


def _block_n(columns: int) -> int:
    """128 columns a tile, or 64 where 128 would pad too many zeros."""
    if columns <= 128:
        return max(16, _power(columns))
    return 64 if -(-columns // 128) * 128 > 1.2 * columns else 128


def _block_k(problem: Problem, flat: bool) -> int:
    channels = problem.spec.in_per_group
    if flat:
        axes = lifted_axes(problem.spec)
        taps = prod(shift_count(a, aligned=True) for a in axes)
        channels *= taps
    limit = 64 if problem.element_bytes == 2 else 32
    return max(16, min(_power(channels), limit))


def _power(value: int) -> int:
    """Smallest power of two that is not smaller."""
    return 1 << max(0, value - 1).bit_length()
