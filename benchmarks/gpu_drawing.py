"""Random schedules, for the benchmarks and for the kernels' tests."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from math import prod

import torch

from convt_onnx.plugins.conv_transpose import heuristics, op
from convt_onnx.plugins.conv_transpose.geometry import fusable, lifted_axes
from convt_onnx.plugins.conv_transpose.lines import lines_schedule
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.resident_choice import MAX_PRODUCTS
from convt_onnx.plugins.conv_transpose.schedule import (
    RESIDENT,
    WALK,
    Schedule,
    axis_plans,
    joinable,
    keeps_weights,
    resident_parts,
    takes_fragments,
)
from convt_onnx.plugins.conv_transpose.walk import products, walks

# Taps times channels beyond which unrolled loops would take the compiler long.
MOST_UNROLLED = 512
MOST_MERGED = 64
# Shifts of x that a thread holds in registers.
MOST_HELD = 12


@dataclass(frozen=True, slots=True)
class Tiles:
    """What the tiles of a schedule are drawn from.

    Attributes:
        block_m, block_n, block_k, stages: Of the implicit GEMM.
        resident_m, resident_n, resident_k, resident_warps: With the weight in shared memory.
        workers: Programs that share the work then.
    """

    block_m: tuple[int, ...] = (16, 32, 64, 128)
    block_n: tuple[int, ...] = (16, 32, 64)
    block_k: tuple[int, ...] = (16, 32)
    stages: tuple[int, ...] = (2, 3)
    resident_m: tuple[int, ...] = (64, 128)
    resident_n: tuple[int, ...] = (32, 64)
    resident_k: tuple[int, ...] = (16, 32, 64)
    resident_warps: tuple[int, ...] = (4, 8)
    workers: tuple[int, ...] = (1, 3, 132)


LARGE_TILES = Tiles()


def draw_schedule(rng: random.Random, problem: Problem, x: torch.Tensor) -> Schedule:
    """The heuristic's schedule, or a forced one of any kind."""
    device = op.device_of(x)
    lines = lines_schedule(problem)
    if lines is not None and rng.random() < 0.7:
        return replace(lines, block_m=rng.choice((256, 512, 1024)), warps=rng.choice((1, 4)))
    walk = draw_walk(rng, problem, device) if rng.random() < 0.7 else None
    if walk is not None:
        return walk
    kind = rng.choice(("chosen", "gemm", "gemm", "direct", "resident", "resident"))
    if problem.channels_last_in and problem.element_bytes == 2 and rng.random() < 0.5:
        kind = "resident"  # which reads x as fragments there alone
    if kind == "chosen":
        return heuristics.choose(problem, device)
    if kind == "direct":
        return heuristics.direct_schedule(problem)
    merge = draw_merge(rng, problem)
    problem = problem.merged(merge)
    small = prod(problem.spec.kernel) * problem.spec.in_per_group <= MOST_UNROLLED
    if kind == "resident" and all_fusable(problem) and keeps_weights(problem) and small:
        return replace(draw_resident(rng, problem, device), merge=merge)
    return replace(draw_gemm(rng, problem, device), merge=merge)


def all_fusable(problem: Problem) -> bool:
    """Whether the phases of every axis can be computed as one."""
    return all(fusable(a) for a in lifted_axes(problem.spec))


def draw_gemm(
    rng: random.Random, problem: Problem, device: Device, tiles: Tiles = LARGE_TILES
) -> Schedule:
    """A schedule of the implicit GEMM with every switch drawn."""
    fused = [fusable(a) and rng.random() < 0.6 for a in lifted_axes(problem.spec)]
    schedule = heuristics.gemm_schedule(problem, device, (fused[0], fused[1], fused[2]))
    return replace(
        schedule,
        aligned=(rng.random() < 0.5,) * 3,
        block_m=rng.choice(tiles.block_m),
        block_n=schedule.block_n if schedule.interleave else rng.choice(tiles.block_n),
        block_k=rng.choice(tiles.block_k),
        warps=4,
        stages=rng.choice(tiles.stages),
        flat=rng.random() < 0.4,
        k_major=rng.random() < 0.5,
    )


def draw_merge(rng: random.Random, problem: Problem) -> int:
    """Groups to compute as one."""
    spec = problem.spec
    most = MOST_MERGED // max(spec.in_per_group, spec.out_per_group)
    return rng.choice([1, *(n for n in range(1, most + 1) if spec.group % n == 0)])


def draw_resident(
    rng: random.Random, problem: Problem, device: Device, tiles: Tiles = LARGE_TILES
) -> Schedule:
    """A schedule that keeps the weight in shared memory."""
    base = heuristics.gemm_schedule(problem, device, (True, True, True))
    schedule = replace(
        base,
        kind=RESIDENT,
        aligned=(rng.random() < 0.5,) * 3,
        block_m=rng.choice(tiles.resident_m),
        block_n=rng.choice(tiles.resident_n),
        block_k=min(base.block_k, rng.choice(tiles.resident_k)),
        warps=rng.choice(tiles.resident_warps),
        stages=rng.choice((1, 1, 2)),
        flat=False,
        k_major=base.k_major or rng.random() < 0.3,
        column_tiles=rng.choice((1, 1, 2, 3)),
        workers=rng.choice(tiles.workers),
        prefetch=rng.choice((0, 1, 3)),
    )
    if rng.random() < 0.8:
        schedule = draw_fragments(rng, problem, schedule)
    while not heuristics.fits(problem, schedule, device) or _sums(problem, schedule) > 128:
        schedule = replace(schedule, block_m=64, stages=1, column_tiles=2 * schedule.column_tiles)
    return schedule


def draw_walk(
    rng: random.Random, problem: Problem, device: Device, tiles: Tiles = LARGE_TILES
) -> Schedule | None:
    """A schedule that walks down the height, or None where none can."""
    if problem.element_bytes > 2 or not all_fusable(problem):
        return None
    base = heuristics.gemm_schedule(problem, device, (True, True, True))
    schedule = replace(
        base,
        kind=WALK,
        aligned=(rng.random() < 0.5,) * 3,
        block_m=rng.choice(tiles.resident_m),
        block_n=rng.choice((32, 64)),
        block_k=_channels_held(problem),
        warps=rng.choice(tiles.resident_warps),
        stages=1,
        flat=False,
        k_major=False,
        fragments=True,
        column_tiles=rng.choice((1, 1, 2)),
        workers=rng.choice((1, 2, 5)),
        joined=rng.choice((1, 2, 4, 8)),
        prefetch=rng.choice((1, 2, 4, 99)),
    )
    if not problem.channels_last_in:
        schedule = replace(
            schedule,
            aligned=(*schedule.aligned[:2], rng.random() < 0.8),
            block_m=16 * schedule.warps,
            block_n=problem.spec.out_per_group,
            interleave=False,
            column_tiles=1,
        )
    if not walks(problem, schedule) or not heuristics.fits(problem, schedule, device):
        return None
    _, height, width = axis_plans(problem, schedule)
    unrolled = sum(1 + len(part) for part in products(problem, schedule))
    shifts = width.count if problem.channels_last_in else (width.count - 1) * width.step + 2
    held = height.count * shifts * max(1, schedule.block_k // 64)
    return schedule if held <= MOST_HELD and unrolled <= MAX_PRODUCTS else None


def _channels_held(problem: Problem) -> int:
    """Channels that a walk holds: only along one axis of NCHW more than 64."""
    many = problem.spec.ndim == 1 and not problem.channels_last_in
    fitting = [n for n in ((32, 64, 128) if many else (32, 64)) if n >= problem.spec.in_per_group]
    return fitting[0] if fitting else 64


def draw_fragments(rng: random.Random, problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule with x read as fragments, some shifts joined, where it can be."""
    able = replace(schedule, block_k=rng.choice((32, 64)), stages=1, k_major=False)
    if not takes_fragments(problem, able):
        return schedule
    return replace(able, fragments=True, joined=rng.choice(joinable(problem, able)))


def _sums(problem: Problem, schedule: Schedule) -> int:
    """Sums that a thread keeps."""
    widths = resident_parts(problem, schedule).widths
    return schedule.block_m * sum(widths) // (32 * schedule.warps)
