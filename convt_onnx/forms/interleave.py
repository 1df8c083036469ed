"""Phases back into space: [N, channels and phases, *Q] -> [N, C, *(Q * stride)].

Five ways that give the same, for every size: single-axis moves (`moves`, where the target is fast
at those alone); DepthToSpace (two equal strides); Reshape with at most one size left open; Reshape
with sizes read from the tensor; and, where a target has no shape arithmetic and several sizes are
open, one axis after the other with Reshape's "copy" zeros alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from convt_onnx.forms.base import Setting
from convt_onnx.forms.moves import can_move, fits_pairs, move_phases
from convt_onnx.forms.order import Interleave, Order
from convt_onnx.forms.weights import Layout
from convt_onnx.graph.emitter import Emitter


def order_for(
    sizes: Sequence[int | None],
    strides: Sequence[int],
    dtype: ir.DataType | None,
    *,
    group: int,
    phases_may_lead: bool,
    setting: Setting,
) -> Order:
    """How a convolution should order channels and phases for its `interleave`.

    Args:
        sizes: Sizes before the interleave, None where open.
        strides: One an axis.
        dtype: Of the elements that it moves, None where that is not known.
        group: Groups of the convolution, which keep their channels together.
        phases_may_lead: Whether the convolutions' results can come in any order.
        setting: Where it is to run; DepthToSpace below opset 11 needs phases that lead.
    """
    if can_move(sizes, setting):
        return "pairs" if fits_pairs(strides, dtype) else "moves"
    if phases_may_lead or (group == 1 and setting.opset < 11):
        return "phase"
    return "channel"


def layout_of(order: Order) -> Layout:
    """The weight's layout that makes a convolution write this order."""
    return "channel" if order == "channel" else "phase"


def interleave(em: Emitter, y: ir.Value, plan: Interleave, setting: Setting) -> ir.Value:
    """Write the nodes; returns [N, C, *(Q * stride)]."""
    if not plan.strided:
        return y
    if plan.order in ("moves", "pairs"):
        return move_phases(em, y, plan, setting)
    if _fits_depth_to_space(plan, setting):
        if setting.opset < 11:
            return em.op("DepthToSpace", [y], blocksize=plan.strides[0])
        mode = "DCR" if plan.phase_first else "CRD"
        return em.op("DepthToSpace", [y], blocksize=plan.strides[0], mode=mode)
    open_sizes = sum(n is None for n in plan.sizes)
    empty_batch_fails = plan.batch is None and open_sizes > 0
    if open_sizes <= 1 and not (empty_batch_fails and setting.can_compute_shapes):
        return _with_constant_shapes(em, y, plan)
    if setting.can_compute_shapes:
        return _with_computed_shapes(em, y, plan)
    return _axis_by_axis(em, y, plan)


def _fits_depth_to_space(plan: Interleave, setting: Setting) -> bool:
    if not setting.depth_to_space or len(plan.strides) != 2:
        return False
    return plan.strides[0] == plan.strides[1] and (plan.phase_first or setting.opset >= 11)


def _inner_perm(plan: Interleave) -> list[int]:
    """[N, split channels, *Q] -> [N, C, Q1, s1, Q2, s2, ...]."""
    phases = len(plan.strided)
    channel = 1 + phases if plan.phase_first else 1
    first_phase = 1 if plan.phase_first else 2
    perm = [0, channel]
    for i in range(len(plan.strides)):
        perm.append(2 + phases + i)
        if i in plan.strided:
            perm.append(first_phase + plan.strided.index(i))
    return perm


def _with_constant_shapes(em: Emitter, y: ir.Value, plan: Interleave) -> ir.Value:
    sizes = [-1 if n is None else n for n in plan.sizes]
    wide = [-1 if n is None else n * s for n, s in zip(plan.sizes, plan.strides, strict=True)]
    y = em.reshape(y, [0, *plan.split, *sizes])
    y = em.transpose(y, _inner_perm(plan))
    return em.reshape(y, [0, plan.channels, *wide])


def _with_computed_shapes(em: Emitter, y: ir.Value, plan: Interleave) -> ir.Value:
    n = len(plan.strides)
    shape = em.op("Shape", [y])
    spatial = em.slice(shape, [0], [-n], [np.iinfo(np.int32).max])
    wide = em.op("Mul", [spatial, em.ints(plan.strides, "strides")])
    split = em.op("Concat", [em.ints([0, *plan.split], "split"), spatial], axis=0)
    merged = em.op("Concat", [em.ints([0, plan.channels], "merged"), wide], axis=0)
    y = em.transpose(em.op("Reshape", [y, split]), _inner_perm(plan))
    return em.op("Reshape", [y, merged])


def _axis_by_axis(em: Emitter, y: ir.Value, plan: Interleave) -> ir.Value:
    n = len(plan.strides)
    y = em.transpose(y, [0, *range(2, 2 + n), 1])
    y = em.reshape(y, [0] * (1 + n) + plan.split)
    phases = [f"s{i}" for i in plan.strided]
    labels = ["N", *(f"q{i}" for i in range(n))]
    labels += [*phases, "C"] if plan.phase_first else ["C", *phases]
    for i in plan.strided:
        others = [x for x in labels if x not in (f"q{i}", f"s{i}")]
        wanted = [*others, f"q{i}", f"s{i}"]
        y = em.transpose(y, [labels.index(x) for x in wanted])
        y = em.reshape(y, [0] * len(others) + [-1])
        labels = [*others, f"q{i}"]
    final = ["N", "C", *(f"q{i}" for i in range(n))]
    return em.transpose(y, [labels.index(x) for x in final])


def interleave_elements(channels: int, strides: Sequence[int], sizes: Sequence[int]) -> int:
    """Elements that the interleave reads and writes for one batch entry."""
    if prod(strides) == 1:
        return 0
    return 2 * channels * prod(strides) * prod(sizes)
