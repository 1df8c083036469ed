"""The interleave as moves of one axis at a time, which is what ONNX Runtime's CPU is fast at.

Its Transpose has a vectorised path for a matrix, and a copy of whole blocks for one axis that goes
further in; every other permutation, like its DepthToSpace, takes 3 to 15 times as long an element.
With the phases of the last axis in front, [N, g, s_n, s_1 .. s_{n-1}, M, Q_1 .. Q_n], one matrix
transposition puts them behind everything, then each other axis' phases go in past their rows:

    [N, g, s_n, R] -> [N, g, R, s_n],  then  [N, pre, s_j, mid, w] -> [N, pre, mid, s_j, w]

The matrix transposition is vectorised from four rows on. Where the last axis has two phases of four
bytes each and the one before it has some too ("pairs"), those of both axes are its rows, and the
last axis' positions then go in past the other's phases, two elements at a time as one of eight
bytes, for which Transpose has a loop of its own:

    [N, g, s_{n-1} * 2, R] -> [N, g, R, s_{n-1} * 2],
    then  [N, pre, Q_n, s_{n-1}, 2] -> [N, pre, s_{n-1}, Q_n, 2]

Each group is a matrix of its own, and with several threads each is divided among them on its own.
Joined, the rows of all groups are first brought in front of them, for one matrix in all:

    [N, g, s_n, R] -> [N, s_n, g, R]

A unit axis makes these read as moves inwards: a move outwards by one place is the same permutation,
and ONNX Runtime 1.32 copies that with an index calculation a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from convt_onnx.forms.base import Setting
from convt_onnx.forms.order import Interleave, Order, in_front
from convt_onnx.forms.shapes import Shapes
from convt_onnx.forms.weights import Table
from convt_onnx.graph.emitter import Emitter


def can_move(sizes: Sequence[int | None], setting: Setting) -> bool:
    """Whether the target gains from it, and its shapes can be written."""
    open_sizes = sum(n is None for n in sizes)
    return setting.mlas and (open_sizes <= 1 or setting.can_compute_shapes)


def fits_pairs(strides: Sequence[int], dtype: ir.DataType | None) -> bool:
    """Whether the last two axes' phases make pairs of eight bytes and four rows or more."""
    return len(strides) > 1 and strides[-1] == 2 <= strides[-2] and dtype == ir.DataType.FLOAT


def last_phases_first(table: Table, strides: Sequence[int], order: Order) -> Table:
    """Rows [s_1 .. s_n, T] of a table of taps with the last axis' phases, or two's, in front."""
    count = in_front(order)
    if count == 0:
        return table
    split = table.reshape(prod(strides[:-count]), prod(strides[-count:]), -1)
    return split.swapaxes(0, 1).reshape(table.shape)


def move_phases(em: Emitter, y: ir.Value, plan: Interleave, setting: Setting) -> ir.Value:
    """[N, g, s_n, s_1 .. s_{n-1}, M, *Q] with its channels merged -> [N, g*M, *(Q * stride)].

    The order of pairs has [N, g, s_{n-1}, s_n, s_1 ..]. Needs at least one stride above 1.
    """
    shapes = Shapes(em, y, plan, setting)
    strides, group = plan.strides, plan.group
    n, out_per_group = len(strides), plan.channels // group
    every = tuple(range(n))
    count = in_front(plan.order)
    rows = prod(strides[-count:])
    if rows > 1:
        rest = (out_per_group * prod(strides[:-count]), every)
        if plan.joined:
            y = shapes.reshape(y, [(group, ()), (rows, ()), (1, ()), rest])
            y = em.transpose(y, [0, 2, 3, 1, 4])
            y = shapes.reshape(y, [(1, ()), (rows, ()), (group * rest[0], every)])
        else:
            y = shapes.reshape(y, [(group, ()), (rows, ()), rest])
        y = em.transpose(y, [0, 1, 3, 2])
    if plan.order == "pairs":
        pre = (plan.channels * prod(strides[:-2]), every[:-1])
        ends = [(1, every[-1:]), (strides[-2], ()), (1, ()), (strides[-1], ())]
        y = shapes.reshape(y, [pre, *ends])
        y = em.transpose(y, [0, 1, 3, 4, 2, 5])
    for j in reversed(range(n - count)):
        if strides[j] > 1:
            # Groups lead, then the phases still to be moved, this axis' and the channels.
            pre = (group * prod(strides[:j]), ())
            mid = (out_per_group, every[: j + 1])
            width = (prod(strides[j + 1 :]), every[j + 1 :])
            y = shapes.reshape(y, [pre, (strides[j], ()), mid, (1, ()), width])
            y = em.transpose(y, [0, 1, 3, 4, 2, 5])
    return shapes.reshape(y, [(plan.channels, ()), *((strides[i], (i,)) for i in every)])
