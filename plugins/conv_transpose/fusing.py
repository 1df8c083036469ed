"""Which axes are fused and where their rows q start: pure functions, deterministic.

The figures behind the choices are in README.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from convt_onnx.plugins.conv_transpose.geometry import fusable, lifted_axes, plan_axis, shift_count
from convt_onnx.plugins.conv_transpose.problem import Problem
from convt_onnx.spec import Axis

Flags = tuple[bool, bool, bool]

# Fused columns beyond this many cost more registers and zeros than the reads they save.
MAX_FUSED_COLUMNS = 4096
# More rows q than that for the crop of small maps cost more than fused phases save.
MAX_ROWS_ADDED = 1.1


def fused_axes(problem: Problem) -> Flags:
    """Fuse every axis that can be, unless zeros would cost more than the reads they save."""
    axes = lifted_axes(problem.spec)
    able = tuple(fusable(a) for a in axes)
    if is_wide(problem):
        split = [f and _inflation(a) <= 1 for f, a in zip(able, axes, strict=True)]
        return split[0], split[1], split[2]
    order = sorted(range(3), key=lambda i: _inflation(axes[i]), reverse=True)
    fused = list(able)
    columns = prod(a.stride for a, f in zip(axes, fused, strict=True) if f)
    for i in order:
        too_wide = columns * problem.spec.out_per_group > MAX_FUSED_COLUMNS
        wasteful = _total_inflation(axes, fused) > 2.0 and i != 2
        if fused[i] and axes[i].stride > 1 and (too_wide or wasteful):
            fused[i] = False
            columns //= axes[i].stride
    if problem.spec.out_per_group >= 64 and (
        problem.channels_last_out or rows_added(problem, axes, fused) > MAX_ROWS_ADDED
    ):
        # A phase fills a tile of columns, and split axes need no rows for the crop.
        fused = [f and starts_aligned(a) for f, a in zip(fused, axes, strict=True)]
    return fused[0], fused[1], fused[2]


def rows_added(problem: Problem, axes: tuple[Axis, Axis, Axis], fused: Sequence[bool]) -> float:
    """Rows q with those for the crop of unaligned axes, over those without."""
    ratio = 1.0
    for axis, out, f in zip(axes, problem.out_sizes, fused, strict=True):
        if f and not starts_aligned(axis):
            rows = [plan_axis(axis, fused=True, aligned=a).rows(out) for a in (False, True)]
            ratio *= rows[0] / rows[1]
    return ratio


def is_wide(problem: Problem) -> bool:
    """Whether arithmetic, not memory, bounds the call: then no zeros are multiplied."""
    spec = problem.spec
    if spec.in_per_group * spec.out_per_group < 256 * 128:
        return False
    return spec.macs_exact(problem.batch, problem.sizes) > 5 * 10**9


def starts_aligned(axis: Axis) -> bool:
    """Whether starting at the first output row costs no shift more."""
    return shift_count(axis, aligned=True) <= shift_count(axis, aligned=False)


def pixels_join(problem: Problem, axis: Axis) -> bool:
    """Whether the pixels of a row q, unlike one of them, make up words of 8 bytes or more."""
    words = 8 // problem.element_bytes
    alone = problem.spec.group > 1 or problem.spec.out_channels % words == 0
    whole = plan_axis(axis, fused=True, aligned=True).exact(problem.out_sizes[2])
    return (
        problem.channels_last_out
        and not alone
        and whole
        and axis.stride * problem.spec.out_channels % words == 0
    )


def _inflation(axis: Axis) -> float:
    """Multiplications with zeros included, over those without, of a fused axis."""
    return shift_count(axis, aligned=False) * axis.stride / axis.kernel


def _total_inflation(axes: tuple[Axis, Axis, Axis], fused: list[bool]) -> float:
    return prod(_inflation(a) for a, f in zip(axes, fused, strict=True) if f)
