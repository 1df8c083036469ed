"""What groups of few channels ask for: pure functions, deterministic.

The figures behind the choices are in README.md.
"""

from __future__ import annotations

from math import prod

from convt_onnx.plugins.conv_transpose.fusing import pixels_join
from convt_onnx.plugins.conv_transpose.geometry import lifted_axes
from convt_onnx.plugins.conv_transpose.problem import Problem

# Channels of groups computed as one, and bytes of y that are to be neighbours.
MAX_MERGED = 64
NEIGHBOURS = 64
# With fewer elements of y than that, the call takes as long as its latencies, however y is stored.
MERGED_FROM = 1 << 20


def merge_count(problem: Problem) -> int:
    """Groups to compute as one, so that more than a few bytes of channels-last y are neighbours.

    The zeros between the groups cost little where memory bounds the call.
    """
    spec = problem.spec
    axes = lifted_axes(spec)
    last = problem.channels_last_in and problem.channels_last_out
    small = problem.out_elements < MERGED_FROM
    exact = problem.dtype == "float32" and not problem.tf32
    if spec.group == 1 or not last or small or (exact and any(a.extent > a.stride for a in axes)):
        return 1  # exact products of several shifts take longer than the stores
    if direct_is_better(problem):
        # Its programs have all channels, but write single elements of an odd number of them.
        joined = pixels_join(problem.merged(spec.group), axes[2])
        return spec.group if joined and spec.in_channels <= MAX_MERGED else 1
    able = [n for n in range(1, spec.group + 1) if spec.group % n == 0]
    able = [n for n in able if n * max(spec.in_per_group, spec.out_per_group) <= MAX_MERGED]
    enough = (n for n in able if n * spec.out_per_group * problem.element_bytes >= NEIGHBOURS)
    return next(enough, max(able, default=1))


def direct_is_better(problem: Problem) -> bool:
    """Few channels in and out of a group: a tile of matrix instructions would be mostly zeros."""
    spec = problem.spec
    columns = prod(spec.strides) * spec.out_per_group
    if columns >= 64 and not problem.channels_last_out:
        return False  # whole lines of NCHW are written from the phases of one channel
    return spec.in_per_group * min(columns, 64) < 128 and spec.in_per_group <= 4
