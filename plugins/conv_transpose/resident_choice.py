"""Tiles of schedules that keep the weight in shared memory: pure functions, deterministic.

The figures behind the choices are in README.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import (
    RESIDENT,
    Schedule,
    joinable,
    packing_of,
    pair_width,
    program_count,
    resident_bytes,
    resident_parts,
    row_count,
    takes_fragments,
    vector_width,
)

# Before it, shared memory holds few weights beside tiles of x.
OLDEST = 90
# The generation that the choice was measured on; on later ones the autotuner tries these schedules.
MEASURED = 9
# Unrolled products beyond this many take long to compile.
MAX_PRODUCTS = 40
REGISTERS = 65536
# Registers of a thread beside its sums.
OTHER_REGISTERS = 60
# Rows a processor up to which a call is small.
SMALL_ROWS = 8 * 64
# Bytes of a tile of rows that may be stored by single elements.
MAX_SINGLE = 20 << 10
# Multiplications and additions that an H200 does in float16 while it moves a byte.
OPERATIONS_PER_BYTE = 184


@dataclass(frozen=True, slots=True)
class Tile:
    """What a schedule varies; `each` counts programs on a processor."""

    block_m: int
    warps: int
    each: int
    prefetch: int
    stages: int = 1
    block_n: int = 64
    column_tiles: int = 1


# Few rows: everything is read at once; words of many channels take registers, so do many columns.
_SMALL, _SMALL_WORDS = (Tile(64, 4, 4, 8),), (Tile(64, 4, 3, 2),)
# Two programs a processor hide each other's waiting; else one, or columns divided among programs.
_LARGE = (
    Tile(128, 8, 2, 3),
    Tile(64, 4, 2, 0, 2),
    Tile(64, 4, 4, 1, 1, 128, 3),
    Tile(64, 4, 4, 2, 1, 64, 2),
    Tile(64, 4, 4, 2, 1, 64, 4),
    Tile(64, 4, 3, 2, 1, 64, 4),
    Tile(128, 8, 1, 4),
    Tile(128, 8, 1, 1),
)
# What else the autotuner tries.
_MORE = (Tile(128, 8, 2, 1), Tile(128, 8, 2, 1, 1, 128), Tile(32, 4, 4, 8))


def preferred(problem: Problem, device: Device, base: Schedule) -> Schedule | None:
    """The schedule to take instead of the GEMM schedule `base`, or None where that is faster."""
    if device.capability // 10 != MEASURED:
        return None
    last = problem.channels_last_in
    if problem.element_bytes != 2 or (last and computes(problem)):
        return None
    if problem.channels_last_out and not last:  # with words of x, stores are of pixels
        return None
    shifts = packing_of(problem, base).blocks > 1
    single = not last and not shifts and vector_width(problem, base) == 1
    stored = 64 * packing_of(problem, base).columns * problem.element_bytes
    rows = row_count(problem, base) * problem.spec.group
    if single and (stored > MAX_SINGLE or rows > SMALL_ROWS * device.processors):
        return None  # the stores take the time, and more programs have more of them in flight
    paired = pair_width(problem, base) > 1
    small = _SMALL if last or (base.block_k < 64 and not single) else _SMALL_WORDS
    tiles = small + _LARGE if rows <= SMALL_ROWS * device.processors else _LARGE + small
    wide = packing_of(problem, base).columns > 128
    for tile in tiles:
        if tile.column_tiles > 1 and not wide:
            continue
        # Whole tiles ahead gain where several shifts of channels-last data are read.
        if tile.stages > 1 and not (wide and last and shifts):
            continue
        if tile.prefetch > 3 and tile.each == 1 and not last:
            continue  # words of one step take as many registers as tiles of several
        if paired and tile.block_m == 64:
            tile = replace(tile, each=min(tile.each, 3))  # what words are made of takes registers
        for schedule in _schedules(problem, device, base, (tile,)):
            if program_count(problem, schedule) >= device.processors * 3 // 4:
                return schedule
    return None


def computes(problem: Problem) -> bool:
    """Whether arithmetic rather than memory bounds a call."""
    operations = 2 * problem.spec.macs_exact(problem.batch, problem.sizes)
    return operations > OPERATIONS_PER_BYTE * problem.floor_bytes


def resident_schedules(problem: Problem, device: Device, base: Schedule) -> list[Schedule]:
    """What the autotuner tries with the layout of the GEMM schedule `base`."""
    tiles = _LARGE + _SMALL + _SMALL_WORDS + _MORE
    found = _schedules(problem, device, base, tiles)
    # Shared memory under x as well, where the first of these read it as fragments.
    found += _schedules(problem, device, base, _LARGE[:2] + _SMALL, fragments=False)
    return list(dict.fromkeys(found))


def _schedules(
    problem: Problem,
    device: Device,
    base: Schedule,
    tiles: tuple[Tile, ...],
    *,
    fragments: bool = True,
) -> list[Schedule]:
    if device.capability < OLDEST or not all(base.fused) or problem.spec.in_per_group < 16:
        return []
    found = (_schedule(problem, device, base, tile, fragments) for tile in tiles)
    return list(dict.fromkeys(s for s in found if s is not None))


def _schedule(
    problem: Problem, device: Device, base: Schedule, tile: Tile, fragments: bool
) -> Schedule | None:
    """One schedule, or None where registers or shared memory do not suffice."""
    schedule = replace(
        base,
        kind=RESIDENT,
        block_m=tile.block_m,
        block_n=max(tile.block_n, packing_of(problem, base).width_phases if base.interleave else 1),
        warps=tile.warps,
        stages=tile.stages,
        flat=False,
        column_tiles=tile.column_tiles,
        prefetch=tile.prefetch,
    )
    packing, parts = packing_of(problem, schedule), resident_parts(problem, schedule)
    reads = packing.blocks * (packing.rows // packing.tile_k)
    if not problem.channels_last_in:
        reads //= packing.axes[2].blocks
    schedule = replace(schedule, prefetch=min(tile.prefetch, reads - 1))
    products = sum(b.bit_count() for b in parts.blocks) * (packing.rows // packing.tile_k)
    threads = 32 * tile.warps
    most = min(255, REGISTERS // (threads * tile.each))
    if (
        products > MAX_PRODUCTS
        or _sums(problem, schedule) + OTHER_REGISTERS > most
        or resident_bytes(problem, schedule) * tile.each > device.shared_bytes
    ):
        return None
    tiles = packing.padded_columns // packing.tile_n * problem.spec.group
    workers = max(1, device.processors * tile.each // tiles)
    registers = REGISTERS // (threads * tile.each) // 8 * 8
    schedule = replace(schedule, registers=registers if registers < 256 else 0)
    shares = -(-row_count(problem, schedule) // tile.block_m)
    schedule = replace(schedule, workers=min(workers, shares))
    return _with_fragments(problem, device, schedule, tile.each) if fragments else schedule


def _with_fragments(problem: Problem, device: Device, schedule: Schedule, each: int) -> Schedule:
    """The schedule with x and y by way of registers alone, where 16 bytes a thread are read."""
    able = replace(schedule, stages=1, fragments=True)
    if (
        not takes_fragments(problem, able)
        or problem.spec.in_per_group * problem.element_bytes % 16
        or schedule.block_m != 16 * schedule.warps
    ):
        return schedule
    threads = 32 * schedule.warps
    read = schedule.block_m * schedule.block_k * problem.element_bytes // (4 * threads)
    room = min(255, REGISTERS // (threads * each)) - _sums(problem, able) - OTHER_REGISTERS
    if 2 in joinable(problem, able) and 2 * read <= room:
        able = replace(able, joined=2, prefetch=0)
    elif each > 1:
        able = replace(able, prefetch=max(1, min(schedule.prefetch, room // read)))
    else:  # a program that has a processor to itself hides more with tiles in shared memory
        return schedule
    reads = packing_of(problem, able).blocks * packing_of(problem, able).rows // schedule.block_k
    able = replace(able, prefetch=min(able.prefetch, reads // able.joined - 1))
    return able if resident_bytes(problem, able) * each <= device.shared_bytes else schedule


def _sums(problem: Problem, schedule: Schedule) -> int:
    """Registers that a thread keeps sums in."""
    columns = sum(resident_parts(problem, schedule).widths)
    return schedule.block_m * columns // (32 * schedule.warps)
