"""`unfold`: shifted copies of the input as channels, then a ConvTranspose without overlap.

With y[q*s + r] = sum over positions t of x[q + t - low] * w_t[r], the copies x[q + t - low] become
T times the input channels of a transposed convolution whose kernel is its stride:

    x [N, C_in, *L] -> [N, g * T * C_in/g, *(L+rows)] -> ConvTranspose, kernel = stride

ONNX Runtime's CPU kernel writes a column for every tap of every input row and adds the columns up;
without overlap there are T times fewer of them, for the same multiply-adds. Pays where that is
most of the work: few channels a group and a kernel of several large strides. Each output row then
has one column, so a constant bias can be the weight of one more channel, which holds ones; the
kernel would add it in a pass over the whole output.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.fused import check_kernels, packable
from convt_onnx.forms.weights import Channels, Packing, combine, pack_weight, packed_array
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand
from convt_onnx.phases import ConvAxis, plan_aligned
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

MAX_COPIES = 64


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    spec = node.spec
    refusal = check_kernels("unfold", node, setting)
    if refusal is not None:
        return refusal
    if all(s == 1 for s in spec.strides):
        return Refusal("CT302", f"strides = {list(spec.strides)}")
    if setting.opset < 4:
        return Refusal("CT306", f"Concat needs opset 4, the model has {setting.opset}")
    refusal = packable(node, setting)  # first, since it bounds the phases that are planned
    if refusal is not None:
        return refusal
    copies = prod(f.taps for f in _fused(spec))
    if copies > MAX_COPIES:
        return Refusal("CT305", f"{copies} copies, at most {MAX_COPIES}")
    return None


def _fused(spec: ConvTransposeSpec) -> list[ConvAxis]:
    return [plan_aligned(a).fused() for a in spec.axes()]


def _emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    spec = node.spec
    axes = [plan_aligned(a) for a in spec.axes()]
    fused = _fused(spec)
    packing = Packing(
        spec, combine(fused, spec.kernel), tuple(f.taps for f in fused), layout="unfolded"
    )
    x, channels = _copies(em, node, fused)
    inputs = [node.bias.value] if node.bias is not None else []
    if isinstance(node.weight, ConstantOperand) and isinstance(node.bias, ConstantOperand):
        x, channels = _with_ones(em, x, channels, node.bias, spec.ndim)
        inputs, weight = [], _with_bias(em, node.weight, node.bias, packing)
    else:
        weight = pack_weight(em, node.weight, packing)
    order = channels.reshape(-1)
    if (order[1:] < order[:-1]).any():
        x = em.op("Gather", [x, em.constant(order, "channels")], axis=1)
    return em.op(
        "ConvTranspose",
        [x, weight, *inputs],
        kernel_shape=list(spec.strides),
        strides=list(spec.strides),
        dilations=[1] * spec.ndim,
        pads=[*(a.crop_begin for a in axes), *(a.crop_end for a in axes)],
        output_padding=[0] * spec.ndim,
        group=spec.group,
    )


def _copies(
    em: Emitter, node: ConvTransposeNode, fused: Sequence[ConvAxis]
) -> tuple[ir.Value, Channels]:
    """[N, T * C_in, *(L+rows)], what each position of the fused window reads.

    Also which of these channels each group is to have, [g, T * C_in/g].
    """
    spec = node.spec
    where = [2 + i for i in range(spec.ndim)]
    low, high = ([0, 0, *ends] for ends in zip(*((f.low, f.high) for f in fused), strict=True))
    x = em.pad(node.x, low, high)
    parts = []
    for position in product(*(range(f.taps) for f in fused)):
        begin = [t * f.dilation for t, f in zip(position, fused, strict=True)]
        end = [(f.taps - 1) * f.dilation - b for b, f in zip(begin, fused, strict=True)]
        part = em.crop(x, where, begin, end)
        if part is not x:
            em.name_sizes(part, node.dtype, spec.ndim + 2)
        parts.append(part)
    copied = np.arange(len(parts) * spec.in_channels).reshape(len(parts), spec.group, -1)
    channels = copied.swapaxes(0, 1).reshape(spec.group, -1)
    return parts[0] if len(parts) == 1 else em.op("Concat", parts, axis=1), channels


def _with_ones(
    em: Emitter, x: ir.Value, channels: Channels, bias: ConstantOperand, ndim: int
) -> tuple[ir.Value, Channels]:
    """A channel of ones behind the others, read by every group."""
    rest = [0] * ndim
    ones = em.pad(x, [0, 0, *rest], [0, 1, *rest], np.ones((), bias.array().dtype))
    return ones, np.pad(channels, [(0, 0), (0, 1)], constant_values=channels.size)


def _with_bias(
    em: Emitter, weight: ConstantOperand, bias: ConstantOperand, packing: Packing
) -> ir.Value:
    """[g * (T * C_in/g + 1), M, *strides]: the bias is what the ones are multiplied by."""
    spec = packing.spec

    def make() -> npt.NDArray[np.generic]:
        taps = packed_array(weight, packing)
        split = taps.reshape(spec.group, -1, *taps.shape[1:])
        row = bias.array().reshape(spec.group, 1, -1, *[1] * spec.ndim)
        row = np.broadcast_to(row, (spec.group, 1, *taps.shape[1:]))
        return np.concatenate([split, row], axis=1).reshape(-1, *taps.shape[1:])

    return em.shared((weight.value, bias.value, packing.key), make, "weight")


def _work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    axes = [plan_aligned(a) for a in spec.axes()]
    rows = prod(n + a.rows for n, a in zip(sizes, axes, strict=True))
    positions = prod(f.taps for f in _fused(spec))
    phases = prod(spec.strides)
    packed = phases * spec.out_channels * spec.in_per_group * positions
    copied = 3 * positions * spec.in_channels * rows
    columns = 2 * phases * spec.out_channels * rows
    out = spec.out_channels * prod(spec.output_sizes(sizes))
    return Work(batch * packed * rows, batch * (copied + columns + out) + packed)


UNFOLD = Form(
    "unfold",
    "shifted copies as channels, then ConvTranspose without overlap",
    _check,
    _emit,
    _work,
)
