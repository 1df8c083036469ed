"""Geometries and forced schedules of walks down the height, in both layouts."""

from dataclasses import replace
from typing import Any

from convt_onnx.plugins.conv_transpose import heuristics
from convt_onnx.plugins.conv_transpose.problem import Device, Problem
from convt_onnx.plugins.conv_transpose.schedule import WALK, Schedule
from convt_onnx.plugins.conv_transpose.walk import walks
from convt_onnx.spec import ConvTransposeSpec

# Three lines and shifts, of channels that are no whole piece.
LARGE = ConvTransposeSpec(40, 32, 1, (5, 5), (2, 2), (1, 1), (2, 2), (2, 2), (1, 1))


def row(
    dtype: str = "float16", sizes: tuple[int, int] = (128, 128), batch: int = 32,
    *, last: bool, **changes: Any,
) -> Problem:  # fmt: skip
    """The problem that is k5 s2, 64 to 32 channels."""
    spec = ConvTransposeSpec(64, 32, 1, (5, 5), (2, 2), (1, 1), (2, 2), (2, 2), (1, 1))
    return Problem(replace(spec, **changes).canonical(), batch, sizes, dtype, last, last)


def forced(problem: Problem, joined: int = 4, prefetch: int = 2, **changes: Any) -> Schedule:
    """A walk of small tiles: by fragments with channels last, else in words."""
    base = heuristics.gemm_schedule(problem, Device(), (True, True, True))
    channels = next(c for c in (32, 64, 128) if problem.spec.in_per_group <= c)
    schedule = replace(
        base, kind=WALK, block_m=32, block_n=32, block_k=channels, stages=1, flat=False,
        fragments=True, workers=2, joined=joined, prefetch=prefetch,
    )  # fmt: skip
    if not problem.channels_last_in:
        schedule = replace(
            schedule, warps=2, block_n=problem.spec.out_per_group, interleave=False,
            aligned=(True, True, True),
        )  # fmt: skip
    schedule = replace(schedule, **changes)
    assert walks(problem, schedule)
    return schedule
