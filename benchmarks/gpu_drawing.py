"""Random geometries, tensors and schedules for gpu_correctness.py."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod

import torch

from convt_onnx.errors import GeometryError
from convt_onnx.plugins.conv_transpose import heuristics, op
from convt_onnx.plugins.conv_transpose.geometry import fusable, lifted_axes
from convt_onnx.plugins.conv_transpose.lines import lines_schedule
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import (
    RESIDENT,
    Schedule,
    joinable,
    resident_parts,
    takes_fragments,
)
from convt_onnx.spec import ConvTransposeSpec

# Taps times channels beyond which unrolled loops would take the compiler long.
MOST_UNROLLED = 512
MOST_MERGED = 64


def draw_spec(rng: random.Random) -> ConvTransposeSpec:
    """Geometry with any stride, dilation, crop and grouping."""
    n = rng.choice((1, 1, 2, 2, 2, 3))
    most = {1: 17, 2: 6, 3: 4}[n]
    kernel = tuple(rng.randint(1, most) for _ in range(n))
    strides = tuple(rng.randint(1, {1: 9, 2: 5, 3: 3}[n]) for _ in range(n))
    dilations = tuple(rng.choice((1, 1, 1, 2, 3, 4)) for _ in range(n))
    crops = [
        tuple(rng.randint(0, (k - 1) * d) for k, d in zip(kernel, dilations, strict=True))
        for _ in range(2)
    ]
    extra = tuple(rng.randint(0, max(s, d)) for s, d in zip(strides, dilations, strict=True))
    group = rng.choice((1, 1, 1, 2, 3, 8))
    inner = rng.choice((1, 2, 3, 4, 8, 12, 16, 24, 32, 40, 64))
    outer = rng.choice((1, 2, 3, 4, 8, 12, 16, 24, 32, 40, 64))
    return ConvTransposeSpec(
        group * inner, group * outer, group, kernel, strides, dilations, *crops, extra
    )


def draw_whole_lines(rng: random.Random) -> ConvTransposeSpec:
    """Geometry of few-channel groups whose output is as wide as the input times the stride."""
    spec = draw_spec(rng)
    group, inner = rng.choice((1, 3, 8)), rng.choice((1, 1, 2, 4))
    kernel = (*(min(k, 4) for k in spec.kernel[:-1]), rng.randint(1, 8))
    width, stride, dilation = kernel[-1], spec.strides[-1], spec.dilations[-1]
    crop = (width - 1) * dilation + 1 - stride
    begin = rng.randint(0, max(0, crop))
    most = [(k - 1) * d for k, d in zip(kernel, spec.dilations, strict=True)]
    fronts = [min(p, m) for p, m in zip(spec.pads_begin, most, strict=True)]
    backs = [min(p, m) for p, m in zip(spec.pads_end, most, strict=True)]
    return ConvTransposeSpec(
        group * inner,
        group * rng.choice((1, 1, 2)),
        group,
        kernel,
        spec.strides,
        spec.dilations,
        (*fronts[:-1], begin),
        (*backs[:-1], max(0, crop) - begin),
        (*spec.output_padding[:-1], max(0, -crop)),
    )


def draw_sizes(rng: random.Random, spec: ConvTransposeSpec, word: int) -> tuple[int, ...]:
    """Spatial sizes whose output is not empty; the width is a multiple of `word`."""
    most = {1: 200, 2: 20, 3: 8}[spec.ndim]
    while True:
        *front, width = (rng.choice((1, rng.randint(1, most))) for _ in range(spec.ndim))
        # Odd sizes, and a width of whole words or not: few alignments to compile for.
        sizes = (*(n | 1 for n in front), (width | 1) * word)
        try:
            spec.output_sizes(sizes)
        except GeometryError:
            most += 2
            continue
        return sizes


def draw_schedule(rng: random.Random, problem: Problem, x: torch.Tensor) -> Schedule:
    """The heuristic's schedule, or a forced one of any kind."""
    device = op.device_of(x)
    lines = lines_schedule(problem)
    if lines is not None and rng.random() < 0.7:
        return replace(lines, block_m=rng.choice((256, 512, 1024)), warps=rng.choice((1, 4)))
    kind = rng.choice(("chosen", "gemm", "gemm", "direct", "resident", "resident"))
    if problem.channels_last_in and problem.element_bytes == 2 and rng.random() < 0.5:
        kind = "resident"  # which reads x as fragments there alone
    axes = lifted_axes(problem.spec)
    if kind == "chosen":
        return heuristics.choose(problem, device)
    if kind == "direct":
        return heuristics.direct_schedule(problem)
    merge = draw_merge(rng, problem)
    problem = problem.merged(merge)
    able = [fusable(a) for a in axes]
    small = prod(a.kernel for a in axes) * problem.spec.in_per_group <= MOST_UNROLLED
    if kind == "resident" and all(able) and small:
        return replace(draw_resident(rng, problem, device), merge=merge)
    fused = [f and rng.random() < 0.6 for f in able]
    schedule = heuristics.gemm_schedule(problem, device, (fused[0], fused[1], fused[2]))
    return replace(
        schedule,
        aligned=(rng.random() < 0.5,) * 3,
        block_m=rng.choice((16, 32, 64, 128)),
        block_n=schedule.block_n if schedule.interleave else rng.choice((16, 32, 64)),
        block_k=rng.choice((16, 32)),
        warps=4,
        stages=rng.choice((2, 3)),
        flat=rng.random() < 0.4,
        k_major=rng.random() < 0.5,
        merge=merge,
    )


def draw_merge(rng: random.Random, problem: Problem) -> int:
    """Groups to compute as one."""
    spec = problem.spec
    most = MOST_MERGED // max(spec.in_per_group, spec.out_per_group)
    return rng.choice([1, *(n for n in range(1, most + 1) if spec.group % n == 0)])


def draw_resident(rng: random.Random, problem: Problem, device: Device) -> Schedule:
    """A schedule that keeps the weight in shared memory."""
    base = heuristics.gemm_schedule(problem, device, (True, True, True))
    schedule = replace(
        base,
        kind=RESIDENT,
        aligned=(rng.random() < 0.5,) * 3,
        block_m=rng.choice((64, 128)),
        block_n=rng.choice((32, 64)),
        block_k=min(base.block_k, rng.choice((16, 32, 64))),
        warps=rng.choice((4, 8)),
        stages=rng.choice((1, 1, 2)),
        flat=False,
        k_major=base.k_major or rng.random() < 0.3,
        column_tiles=rng.choice((1, 1, 2, 3)),
        workers=rng.choice((1, 3, 132)),
        prefetch=rng.choice((0, 1, 3)),
    )
    if rng.random() < 0.8:
        schedule = draw_fragments(rng, problem, schedule)
    while not heuristics.fits(problem, schedule, device) or _sums(problem, schedule) > 128:
        schedule = replace(schedule, block_m=64, stages=1, column_tiles=2 * schedule.column_tiles)
    return schedule


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


def draw_layout(rng: random.Random) -> str:
    """NCHW, channels-last or, rarely, NCHW with gaps between elements."""
    return rng.choice(("nchw", "nchw", "nhwc", "nhwc", "gaps"))


def draw_tensor(shape: tuple[int, ...], dtype: torch.dtype, layout: str) -> torch.Tensor:
    """Random values in a layout of `draw_layout`."""
    if layout == "gaps":
        return torch.randn(*shape[:-1], shape[-1] * 2, device="cuda").to(dtype)[..., ::2]
    x = torch.randn(shape, device="cuda").to(dtype)
    return x if layout == "nchw" else x.movedim(1, -1).contiguous().movedim(-1, 1)
