"""How many neighbours of x one load may read at once: of its channels, or of its width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convt_onnx.plugins.conv_transpose.lines import WORD_BYTES
from convt_onnx.plugins.conv_transpose.problem import Problem
from convt_onnx.plugins.conv_transpose.schedule import (
    DIRECT,
    GEMM,
    Schedule,
    axis_plans,
    largest_divisor,
)

if TYPE_CHECKING:
    import torch

LOAD_BYTES = 16


def neighbours(problem: Problem, schedule: Schedule, x: torch.Tensor) -> int:
    """Elements of `x`, contiguous and aligned to their own size, that a load may read.

    Along the width none of them lies in another line.
    """
    words = reads_words(problem, schedule)
    limit = LOAD_BYTES if schedule.kind == GEMM or not words else WORD_BYTES
    limit //= problem.element_bytes
    inner = x.ndim - 1 if words else 1
    if x.stride(inner) != 1 or x.data_ptr() % 16 or not (words or problem.channels_last_in):
        return 1
    others = [s for i, s in enumerate(x.stride()) if i != inner and x.shape[i] > 1]
    if not words:
        return largest_divisor(limit, problem.spec.in_per_group, *others)
    width = axis_plans(problem, schedule)[2]
    return largest_divisor(limit, problem.sizes[-1], width.rows(problem.out_sizes[2]), *others)


def reads_words(problem: Problem, schedule: Schedule) -> bool:
    """Whether NCHW lines of x are read in words.

    A GEMM does so with 2-byte types where its rows q are positions of x: one shift, which is 0.
    """
    if problem.channels_last_in or schedule.kind == DIRECT:
        return False
    if schedule.kind != GEMM:
        return True
    width = axis_plans(problem, schedule)[2]
    still = width.fused and (width.first, width.count) == (0, 1)
    return still and not schedule.flat and problem.element_bytes == 2
