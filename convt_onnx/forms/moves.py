"""The interleave as moves of one axis at a time, which is what ONNX Runtime's CPU is fast at.

Its Transpose has a vectorised path for a matrix, and a copy of whole blocks for one axis that goes
further in; every other permutation, like its DepthToSpace, takes 3 to 15 times as long an element.
With the phases of the last axis in front, [N, g, s_n, s_1 .. s_{n-1}, M, Q_1 .. Q_n], one matrix
transposition puts them behind everything, then each other axis' phases go in past their rows:

    [N, g, s_n, R] -> [N, g, R, s_n],  then  [N, pre, s_j, mid, w] -> [N, pre, mid, s_j, w]

A unit axis between `mid` and `w` makes the latter read as a move inwards: a move outwards by one
place is the same permutation, and ONNX Runtime 1.32 copies that with an index calculation a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from convt_onnx.forms.base import Setting
from convt_onnx.forms.order import Interleave
from convt_onnx.forms.shapes import Shapes
from convt_onnx.forms.weights import Table
from convt_onnx.graph.emitter import Emitter


def can_move(sizes: Sequence[int | None], setting: Setting) -> bool:
    """Whether the target gains from it, and its shapes can be written."""
    open_sizes = sum(n is None for n in sizes)
    return setting.mlas and (open_sizes <= 1 or setting.can_compute_shapes)


def last_phase_first(table: Table, strides: Sequence[int]) -> Table:
    """Rows [s_1 .. s_n, T] of a table of taps in the order s_n, s_1 .. s_{n-1}."""
    split = table.reshape(prod(strides[:-1]), strides[-1], -1)
    return split.swapaxes(0, 1).reshape(table.shape)


def move_phases(em: Emitter, y: ir.Value, plan: Interleave, setting: Setting) -> ir.Value:
    """[N, g, s_n, s_1 .. s_{n-1}, M, *Q] with its channels merged -> [N, g*M, *(Q * stride)].

    Needs at least one stride above 1.
    """
    shapes = Shapes(em, y, plan, setting)
    strides, group = plan.strides, plan.group
    n, out_per_group = len(strides), plan.channels // group
    every = tuple(range(n))
    if strides[-1] > 1:
        rest = (out_per_group * prod(strides[:-1]), every)
        y = shapes.reshape(y, [(group, ()), (strides[-1], ()), rest])
        y = em.transpose(y, [0, 1, 3, 2])
    for j in reversed(range(n - 1)):
        if strides[j] > 1:
            # Groups lead, then the phases still to be moved, this axis' and the channels.
            pre = (group * prod(strides[:j]), ())
            mid = (out_per_group, every[: j + 1])
            width = (prod(strides[j + 1 :]), every[j + 1 :])
            y = shapes.reshape(y, [pre, (strides[j], ()), mid, (1, ()), width])
            y = em.transpose(y, [0, 1, 3, 4, 2, 5])
    return shapes.reshape(y, [(plan.channels, ()), *((strides[i], (i,)) for i in every)])
