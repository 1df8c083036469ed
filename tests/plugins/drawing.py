"""Random small geometries, operands and schedules for the kernels' tests."""

import random
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import torch

from convt_onnx.plugins.conv_transpose import op
from convt_onnx.plugins.conv_transpose.activations import make_activation
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import Schedule, keeps_weights
from convt_onnx.reference import conv_transpose as oracle
from convt_onnx.spec import ConvTransposeSpec

from ..benchmark import benchmark

gpu_drawing, gpu_geometries = benchmark("gpu_drawing"), benchmark("gpu_geometries")

# Largest error over the largest wanted value.
TOLERANCE = {torch.float32: 1e-3, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}

# Few channels in NCHW, whose lines of y are whole words; phases without a tap among them.
WHOLE_LINES = (
    ConvTransposeSpec(3, 3, 3, (4,), (2,), (1,), (1,), (1,), (0,)),
    ConvTransposeSpec(4, 4, 2, (3, 6), (2, 3), (1, 1), (1, 2), (0, 2), (1, 1)),
    ConvTransposeSpec(2, 4, 2, (3, 3), (2, 2), (1, 2), (1, 1), (2, 2), (1, 0)),
    ConvTransposeSpec(2, 2, 2, (2, 1, 3), (2, 1, 5), (1, 1, 1), (1, 0, 1), (0, 0, 0), (0, 0, 3)),
)
# Groups whose pixels are few bytes of channels-last y.
NARROW_GROUPS = (
    ConvTransposeSpec(32, 24, 2, (3, 2), (3, 2), (1, 1), (1, 0), (1, 1), (0, 0)),
    ConvTransposeSpec(32, 16, 4, (4, 3), (2, 2), (1, 1), (1, 1), (1, 1), (0, 1)),
    ConvTransposeSpec(5, 5, 5, (8, 8), (4, 4), (1, 1), (2, 2), (2, 2), (0, 0)),
)
# NCHW lines of an even length, made of three phases.
THREE_PHASES = ConvTransposeSpec(16, 8, 2, (3, 5), (2, 3), (1, 1), (1, 2), (0, 2), (1, 0))


# Small, as the interpreter takes its time for each program and channel; tiles are large for it.
SMALL = gpu_geometries.Ranges(
    axes=(1, 2, 2, 3),
    kernel=(7, 3, 3),
    stride=(4, 4, 4),
    dilations=(1, 1, 2, 3),
    groups=(1, 1, 2, 3),
    channels=((1, 2, 5, 16), (1, 3, 4, 16)),
)
TILES = gpu_drawing.Tiles(
    block_m=(64,),
    block_n=(64,),
    resident_m=(32, 64),
    resident_n=(16, 32, 64),
    resident_k=(16, 32),
    workers=(1, 2, 3),
)


def draw_spec(rng: random.Random) -> ConvTransposeSpec:
    """A small geometry of any kind."""
    return gpu_geometries.draw_spec(rng, SMALL)


def draw_sizes(rng: random.Random, spec: ConvTransposeSpec, most: int = 5) -> tuple[int, ...]:
    """Small sizes whose output is not empty."""
    return gpu_geometries.sizes_with_output(
        spec, lambda failed: tuple(rng.randint(1, most + failed) for _ in range(spec.ndim))
    )


def draw_schedule(rng: random.Random, problem: Problem) -> Schedule:
    """A schedule of the implicit GEMM with every switch drawn."""
    schedule = gpu_drawing.draw_gemm(rng, problem, Device(), TILES)
    return replace(schedule, round_x=problem.tf32 and rng.random() < 0.5)


def draw_resident(rng: random.Random, problem: Problem) -> Schedule | None:
    """A schedule that keeps the weight in shared memory, or None where that is not done."""
    if not gpu_drawing.all_fusable(problem) or not keeps_weights(problem):
        return None
    schedule = gpu_drawing.draw_resident(rng, problem, Device(), TILES)
    return replace(schedule, round_x=problem.tf32 and rng.random() < 0.5)


def draw_walk(
    rng: random.Random, dtype: torch.dtype, last: bool
) -> tuple[ConvTransposeSpec, tuple[int, ...], Schedule]:
    """A geometry, sizes and a schedule that walks down its height."""
    channels = ((8, 16, 24, 33, 64), (8, 16, 24, 32))
    ranges = replace(SMALL, axes=(2,) if last else (1, 2), channels=channels)
    draw = gpu_geometries.draw_spec if last else gpu_geometries.draw_few_phases
    name = str(dtype).removeprefix("torch.")
    while True:
        spec = draw(rng, ranges)
        sizes = draw_sizes(rng, spec, 6)
        problem = Problem(spec.canonical(), 2, sizes, name, last, last)
        schedule = gpu_drawing.draw_walk(rng, problem, Device(), TILES)
        if schedule is not None and prod(sizes) > 1:  # one pixel has either layout
            return spec, sizes, schedule


def problem(
    channels: tuple[int, int] = (64, 32), group: int = 1, kernel: int = 3, stride: int = 2,
    sizes: tuple[int, ...] = (64, 64), batch: int = 8, **more: Any,
) -> Problem:  # fmt: skip
    """A problem with the same numbers on every axis, cropped by 1, NCHW in float16."""
    each = [(v,) * len(sizes) for v in (kernel, stride, 1, 1, 1, 1)]
    spec = ConvTransposeSpec(*channels, group, *each).canonical()
    return Problem(spec, batch, sizes, more.pop("dtype", "float16"), **more)


def operands(
    spec: ConvTransposeSpec, batch: int, sizes: tuple[int, ...], dtype: torch.dtype, last: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x (channels-last where `last`), weight, bias."""
    x = torch.randn(batch, spec.in_channels, *sizes).to(dtype)
    if last:
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    w = (torch.randn(spec.weight_shape) / spec.in_per_group**0.5).to(dtype)
    return x, w, torch.randn(spec.out_channels).to(dtype)


def wanted(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, spec: ConvTransposeSpec
) -> np.ndarray:
    """The float64 oracle."""
    host = [None if t is None else t.double().numpy() for t in (x, w, b)]
    return oracle(*host, spec)


def check(y: torch.Tensor, want: np.ndarray, note: object) -> None:
    """Fail where an element was not written or is off."""
    got = y.double().numpy()
    assert np.isfinite(got).all(), f"not written: {note}"
    error = np.abs(got - want).max() / max(1.0, np.abs(want).max())
    assert error < TOLERANCE[y.dtype], f"error {error:.2e}: {note}"


def poisoned(x: torch.Tensor, spec: ConvTransposeSpec, tf32: bool) -> torch.Tensor:
    """A result full of NaN."""
    return op.empty_result(x, op.make_problem(x, spec, tf32=tf32)).fill_(float("nan"))


def contiguous(shape: tuple[int, ...], last: bool) -> tuple[int, ...]:
    """Strides of [N, C, D, H, W] by torch."""
    y = torch.empty(shape, device="meta")
    if last:
        y = torch.empty((shape[0], *shape[2:], shape[1]), device="meta").movedim(-1, 1)
    return y.stride()


def assert_right(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    spec: ConvTransposeSpec,
    schedule: Schedule,
) -> None:
    """The schedule gives what the oracle does."""
    y = poisoned(x, spec, tf32=False)
    op.conv_transpose(x, w, b, spec, schedule=schedule, out=y)
    check(y, wanted(x, w, b, spec), (spec, tuple(x.shape), schedule))


def assert_right_with_slopes(
    x: torch.Tensor, w: torch.Tensor, spec: ConvTransposeSpec, schedule: Schedule
) -> None:
    """Without a bias, and with a slope for each channel, it gives what the oracle does."""
    y = poisoned(x, spec, tf32=False)
    slope = torch.rand(spec.out_channels).to(x.dtype)
    op.conv_transpose(
        x, w, None, spec, activation=make_activation("prelu"), slope=slope, schedule=schedule,
        out=y,
    )  # fmt: skip
    sums = wanted(x, w, None, spec)
    factors = slope.double().numpy().reshape(1, -1, *(1,) * spec.ndim)
    check(y, np.where(sums > 0, sums, sums * factors), (spec, schedule))


def assert_right_with_epilogue(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor,
    spec: ConvTransposeSpec,
    schedule: Schedule,
) -> None:
    """With bias, residual and Relu the schedule gives what the oracle does."""
    y = poisoned(x, spec, tf32=False)
    residual = torch.randn_like(y)
    relu = make_activation("relu")
    op.conv_transpose(
        x, w, b, spec, activation=relu, residual=residual, schedule=schedule, out=y
    )  # fmt: skip
    want = np.maximum(wanted(x, w, b, spec) + residual.double().numpy(), 0)
    check(y, want, (spec, schedule))
