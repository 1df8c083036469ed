"""`phases-blocked`: `phases` with what it takes to be computed in blocks of channels.

ONNX Runtime's CPU provider computes a convolution over two axes with the channels in blocks of a
vector's width, faster than its GEMM, where the input channels are a multiple of 4 or, one channel
a group, the groups a multiple of the block. So

* one group: zero channels up to a multiple of 4;
* one channel a group, one axis: the phases of a channel cannot be its output channels there, so
  they become rows. Kernel [s, T] over [1, L] with s - 1 rows of padding at either side gives
  [N, C, s, L+rows], row r reading kernel row s-1-r alone; rows of padding cost no arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.forms.base import Form, Setting, Work
from convt_onnx.forms.convolution import convolve, window
from convt_onnx.forms.fused import finish, ordered, packable, phase_order, work_of
from convt_onnx.forms.interleave import layout_of
from convt_onnx.forms.weights import Packing, combine, pack_bias, pack_weight, packed_array
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand
from convt_onnx.phases import ConvAxis, PhaseAxis, plan_aligned
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

# Input channels come in multiples of this, but fewer than a block are read as they are.
ALIGNMENT, BLOCK = 4, 8


def _check(node: ConvTransposeNode, setting: Setting) -> Refusal | None:
    spec = node.spec
    if not setting.mlas:
        return Refusal("CT313", "phases-blocked")
    if not isinstance(node.weight, ConstantOperand):
        return Refusal("CT314", f"weight {node.weight.value.name}")
    if all(s == 1 for s in spec.strides):
        return Refusal("CT302", f"strides = {list(spec.strides)}")
    if setting.opset < 2:
        return Refusal("CT306", f"Pad needs opset 2, the model has {setting.opset}")
    if not _gains(spec):
        return Refusal("CT315", f"{spec.in_channels} channels, {spec.group} groups")
    return packable(node, setting)


def _gains(spec: ConvTransposeSpec) -> bool:
    """Whether the form makes a blocked convolution out of one that was none."""
    if _by_rows(spec):
        return spec.group % BLOCK == 0
    return spec.ndim <= 2 and spec.group == 1 and _missing(spec) > 0


def _by_rows(spec: ConvTransposeSpec) -> bool:
    return spec.ndim == 1 and spec.group > 1 and spec.in_per_group == spec.out_per_group == 1


def _missing(spec: ConvTransposeSpec) -> int:
    """Zero channels up to the next multiple."""
    return 0 if spec.in_channels < BLOCK else -spec.in_channels % ALIGNMENT


def _emit(em: Emitter, node: ConvTransposeNode, setting: Setting) -> ir.Value:
    spec = node.spec
    axes = [plan_aligned(a) for a in spec.axes()]
    fused = [a.fused() for a in axes]
    if _by_rows(spec):
        return _rows(em, node, setting, axes[0], fused[0])
    weight = node.weight
    if not isinstance(weight, ConstantOperand):
        raise TypeError(weight)
    order = phase_order(node, axes, setting, group=1)
    missing, lifted = _missing(spec), spec.ndim == 1
    table = ordered(combine(fused, spec.kernel), spec, order)
    packing = Packing(spec, table, window(fused, lifted=lifted), layout_of(order))
    y = convolve(
        em,
        em.pad(node.x, [0] * (2 + spec.ndim), [0, missing, *[0] * spec.ndim]),
        _wider(em, weight, packing, missing),
        pack_bias(em, node.bias, packing),
        fused,
        group=1,
        lifted=lifted,
    )
    return finish(em, y, node, axes, setting, order=order, group=1)


def _rows(
    em: Emitter, node: ConvTransposeNode, setting: Setting, axis: PhaseAxis, fused: ConvAxis
) -> ir.Value:
    spec, s = node.spec, axis.stride
    order = phase_order(node, [axis], setting, group=spec.group)
    upside_down = combine([fused], spec.kernel)[::-1].reshape(1, -1)
    packing = Packing(spec, upside_down, (s, fused.taps))
    y = em.conv(
        em.unsqueeze(node.x, [2]),
        pack_weight(em, node.weight, packing),
        None if node.bias is None else node.bias.value,
        kernel=packing.taps,
        dilations=[1, fused.dilation],
        low=[s - 1, fused.low],
        high=[s - 1, fused.high],
        group=spec.group,
    )
    # [N, C, s, L+rows] has the elements of [N, C*s, L+rows] in its order.
    return finish(em, y, node, [axis], setting, order=order, group=spec.group)


def _wider(em: Emitter, weight: ConstantOperand, packing: Packing, missing: int) -> ir.Value:
    """[P * C_out, C_in + missing, *taps]."""

    def make() -> npt.NDArray[np.generic]:
        array = packed_array(weight, packing)
        outputs, inputs = array.shape[:2]
        wide = np.zeros((outputs, inputs + missing, *packing.taps), dtype=array.dtype)
        wide[:, :inputs] = array
        return wide

    key = (weight.value, packing.table.tobytes(), packing.shape, packing.layout, missing)
    return em.shared(key, make, "weight")


def _work(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> Work:
    return work_of(plan_aligned, spec, batch, sizes)


PHASES_BLOCKED = Form(
    "phases-blocked",
    "`phases` brought into a blocked layout",
    _check,
    _emit,
    _work,
)
