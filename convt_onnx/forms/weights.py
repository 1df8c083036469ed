"""Repacking of a transposed convolution's weight and bias, whatever holds them.

A weight [C_in, M, *K] becomes the weight of a stride-1 convolution by picking taps from a table
[phases, positions] (-1 is a zero) and regrouping: [g, C_in/g, M, P, T] is then laid out as
[g, M, P, C_in/g, *T] (channel first) or as [g, P, M, C_in/g, *T] (phase first within each group).
Left as [C_in, M, *T] (native) or with the phases as the kernel, [g*T*C_in/g, M, *strides]
(unfolded), it is that of a transposed convolution. Constants and quantised constants are repacked
here, run-time weights by ONNX nodes that do the same.

Quantised weights stay integers with the scales that they had. One scale a tensor and one an output
channel give one scale an output channel of the convolution. One scale an input channel (axis 0,
unless a group has a single one) would be one along axis 1 of its weight, or blocks of it where
there are groups; ONNX Runtime 1.32 takes either for a scale an output channel when it makes a
QLinearConv, and computes something else or stops. Such integers are packed as [C_in, M*P, *T],
dequantised along axis 0 and brought into order by Reshape and Transpose behind that, which no
runtime takes for a weight that it can compute with in integers: there is no such kernel.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.operands import ConstantOperand, Operand, QuantisedOperand
from convt_onnx.phases import ConvAxis
from convt_onnx.spec import ConvTransposeSpec

Table = npt.NDArray[np.int64]
Channels = npt.NDArray[np.int64]
Layout = Literal["channel", "phase", "native", "unfolded"]
_PERMS: dict[Layout, tuple[int, ...]] = {
    "channel": (0, 2, 3, 1, 4),
    "phase": (0, 3, 2, 1, 4),
    "native": (3, 0, 1, 2, 4),
    "unfolded": (0, 4, 1, 2, 3),
}
_BY_INPUT: dict[Layout, tuple[int, ...]] = {
    "channel": (0, 1, 2, 3, 4),
    "phase": (0, 1, 3, 2, 4),
}


@dataclass(frozen=True, slots=True)
class Packing:
    """How to repack: `table` is [P, prod(taps)] of flat tap numbers, -1 for zero."""

    spec: ConvTransposeSpec
    table: Table
    taps: tuple[int, ...]
    layout: Layout = "channel"

    @property
    def phases(self) -> int:
        """P."""
        return int(self.table.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """[P*C_out, C_in/g, *taps]; native: [C_in, M, *taps]; unfolded: [T*C_in, M, *strides]."""
        if self.layout == "native":
            return (self.spec.in_channels, self.spec.out_per_group, *self.taps)
        if self.layout == "unfolded":
            positions = prod(self.taps)
            channels = self.spec.in_channels * positions
            return (channels, self.spec.out_per_group, *self.spec.strides)
        return (self.phases * self.spec.out_channels, self.spec.in_per_group, *self.taps)

    @property
    def shape_by_input(self) -> tuple[int, ...]:
        """[C_in, M * P, *taps]: the same elements with the input channels first."""
        return (self.spec.in_channels, self.spec.out_per_group * self.phases, *self.taps)

    @property
    def split_shape(self) -> tuple[int, ...]:
        """[g, C_in/g, M, P, T]."""
        s = self.spec
        return (s.group, s.in_per_group, s.out_per_group, self.phases, prod(self.taps))

    @property
    def perm(self) -> tuple[int, ...]:
        """Order of the split axes in the packed weight."""
        return _PERMS[self.layout]

    @property
    def key(self) -> Hashable:
        """What the packed weight depends on besides the weight."""
        return (self.spec.group, self.table.tobytes(), self.shape, self.layout)


def combine(axes: Sequence[ConvAxis], kernel: Sequence[int]) -> Table:
    """Table [P, T] over flat taps, phases and positions in row-major order of the axes."""
    flat = np.zeros((1, 1), dtype=np.int64)
    for axis, k in zip(axes, kernel, strict=True):
        table = np.array(axis.table, dtype=np.int64)
        joint = flat[:, None, :, None] * k + table[None, :, None, :]
        joint[
            np.broadcast_to(
                (flat < 0)[:, None, :, None] | (table < 0)[None, :, None, :], joint.shape
            )
        ] = -1
        flat = joint.reshape(flat.shape[0] * table.shape[0], -1)
    return flat


def pack_weight(em: Emitter, weight: Operand, packing: Packing) -> ir.Value:
    """The weight of the convolution, [P * C_out, C_in/g, *taps]."""
    if isinstance(weight, ConstantOperand):
        key = (weight.value, packing.key)
        return em.shared(key, lambda: packed_array(weight, packing), "weight")
    if isinstance(weight, QuantisedOperand) and weight.axis in (None, 0, 1):
        return _pack_quantised(em, weight, packing)
    return _pack_at_run_time(em, weight.value, packing)


def packed_array(weight: ConstantOperand, packing: Packing) -> npt.NDArray[np.generic]:
    """The packed weight as an array."""
    return _pack_array(weight.array(), packing, None)


def _pack_array(
    array: npt.NDArray[np.generic], packing: Packing, fill: npt.NDArray[np.generic] | None
) -> npt.NDArray[np.generic]:
    return _split_array(array, packing, fill).transpose(packing.perm).reshape(packing.shape)


def _split_array(
    array: npt.NDArray[np.generic], packing: Packing, fill: npt.NDArray[np.generic] | None
) -> npt.NDArray[np.generic]:
    """[g, C_in/g, M, P, T], with `fill` (zero by default) where the table has -1."""
    s = packing.spec
    flat = array.reshape(s.group, s.in_per_group, s.out_per_group, -1)
    column = np.zeros((*flat.shape[:3], 1), dtype=array.dtype)
    if fill is not None:
        column[...] = fill
    return np.concatenate([flat, column], axis=3)[..., packing.table]


def _output_channels(weight: QuantisedOperand, packing: Packing) -> Channels | None:
    """Channel whose scale each output channel of the convolution has; None where it has several."""
    s, p = packing.spec, packing.phases
    if weight.axis == 1:
        channels = np.arange(s.out_per_group)
        if packing.layout == "phase":
            return np.tile(channels, s.group * p)
        return np.tile(np.repeat(channels, p), s.group)
    if weight.axis == 0 and s.in_per_group == 1:
        return np.repeat(np.arange(s.in_channels), s.out_per_group * p)
    return None


def _pack_quantised(em: Emitter, weight: QuantisedOperand, packing: Packing) -> ir.Value:
    fill = _zero_points(weight, packing)
    key = (
        weight.integers.value,
        None if fill is None else (fill.shape, fill.tobytes()),
        packing.key,
    )

    def packed() -> npt.NDArray[np.generic]:
        return _pack_array(weight.integers.array(), packing, fill)

    def by_input() -> npt.NDArray[np.generic]:
        split = _split_array(weight.integers.array(), packing, fill)
        return split.transpose(_BY_INPUT[packing.layout]).reshape(packing.shape_by_input)

    if weight.axis is None or packing.layout == "native":
        return dequantise(em, weight, em.shared(key, packed, "weight"), weight.axis, None)
    channels = _output_channels(weight, packing)
    if channels is not None:
        return dequantise(em, weight, em.shared(key, packed, "weight"), 0, channels)
    integers = em.shared((*key, "by input"), by_input, "weight")
    return _in_order(em, dequantise(em, weight, integers, 0, None), packing)


def _zero_points(weight: QuantisedOperand, packing: Packing) -> npt.NDArray[np.generic] | None:
    """The integer that means zero, to be broadcast over [g, C_in/g, M, 1]."""
    if weight.zero_point is None:
        return None
    s = packing.spec
    zeros = weight.zero_point.array().reshape(-1)
    if weight.axis == 0:
        return zeros.reshape(s.group, s.in_per_group, 1, 1)
    return zeros.reshape(1, 1, s.out_per_group if weight.axis == 1 else 1, 1)


def _in_order(em: Emitter, weight: ir.Value, packing: Packing) -> ir.Value:
    """[C_in, M*P, *taps] -> [g*M*P, C_in/g, *taps] by nodes."""
    s = packing.spec
    channels = s.out_per_group * packing.phases
    split = em.reshape(weight, [s.group, s.in_per_group, channels, prod(packing.taps)])
    return em.reshape(em.transpose(split, [0, 2, 1, 3]), packing.shape)


def dequantise(
    em: Emitter,
    operand: QuantisedOperand,
    integers: ir.Value,
    axis: int | None,
    source: Channels | None,
) -> ir.Value:
    """DequantizeLinear of repacked integers: scale and zero point of channel `source[i]` at i.

    Zero points that are all zero are what the operator takes where it is given none.
    """
    inputs = [integers, _spread(em, operand.scale, source, "scale")]
    zeros = operand.zero_point
    if zeros is not None and (source is None or zeros.array().astype(np.float32).any()):
        inputs.append(_spread(em, zeros, source, "zero_point"))
    attributes = {a.name: a.value for a in operand.node.attributes.values() if a.name != "axis"}
    if axis is not None:
        attributes["axis"] = axis
    return em.op("DequantizeLinear", inputs, **attributes)


def _spread(
    em: Emitter, parameter: ConstantOperand, source: Channels | None, hint: str
) -> ir.Value:
    return parameter.value if source is None else em.constant(parameter.array()[source], hint)


def _pack_at_run_time(em: Emitter, weight: ir.Value, packing: Packing) -> ir.Value:
    s = packing.spec
    flat = em.reshape(weight, [s.in_channels, s.out_per_group, prod(s.kernel)])
    table = packing.table
    if (table < 0).any():
        flat = em.pad(flat, [0, 0, 0], [0, 0, 1])
        table = np.where(table < 0, prod(s.kernel), table)
    picked = em.op("Gather", [flat, em.constant(table.reshape(-1), "taps")], axis=2)
    split = em.reshape(picked, packing.split_shape)
    return em.reshape(em.transpose(split, packing.perm), packing.shape)


def pack_bias(em: Emitter, bias: Operand | None, packing: Packing) -> ir.Value | None:
    """The bias of the convolution, [P * C_out] in the order of the packed channels."""
    if bias is None:
        return None
    p, c = packing.phases, packing.spec.out_channels
    if p == 1:
        return bias.value
    source = np.repeat(np.arange(c), p)
    if packing.layout == "phase":
        source = source.reshape(packing.spec.group, -1, p).swapaxes(1, 2).reshape(-1)
    if isinstance(bias, ConstantOperand):
        key = (bias.value, source.tobytes())
        return em.shared(key, lambda: bias.array()[source], "bias")
    if isinstance(bias, QuantisedOperand):
        key = (bias.integers.value, source.tobytes())
        integers = em.shared(key, lambda: bias.integers.array()[source], "bias")
        per_channel = bias.axis is not None
        return dequantise(
            em, bias, integers, 0 if per_channel else None, source if per_channel else None
        )
    return em.op("Gather", [bias.value, em.constant(source, "channels")], axis=0)


def bias_column(em: Emitter, bias: Operand, spec: ConvTransposeSpec) -> ir.Value:
    """The bias as [C_out, 1, ...], to be added to an output."""
    shape = [spec.out_channels] + [1] * spec.ndim
    if isinstance(bias, ConstantOperand):
        return em.shared(
            (bias.value, "column", spec.ndim), lambda: bias.array().reshape(shape), "bias"
        )
    return em.reshape(bias.value, shape)


def spread_taps(em: Emitter, weight: Operand, spec: ConvTransposeSpec) -> ir.Value:
    """[C_in, M, *extent]: the same weight with zeros where the dilation skips rows."""
    table = [
        tuple(i // a.dilation if i % a.dilation == 0 else -1 for i in range(a.extent))
        for a in spec.axes()
    ]
    axes = [ConvAxis((row,), dilation=1, low=0, high=0) for row in table]
    taps = tuple(a.extent for a in spec.axes())
    return pack_weight(em, weight, Packing(spec, combine(axes, spec.kernel), taps, "native"))
