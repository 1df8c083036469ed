"""Integer convolutions that saturate: what ONNX Runtime makes of Conv between Q and DQ.

ONNX Runtime computes ConvTranspose between DequantizeLinear and QuantizeLinear in floats, but Conv
in integers. On x86 processors without VNNI its kernels for int8 weights add two neighbouring
products of a uint8 and an int8 in saturating 16 bits (VPMADDUBSW; int8 activations are shifted to
uint8): https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html, "When and
why do I need to try U8U8?". Which products are neighbours is up to the kernel, and a file may run
on another processor than this one, so all pairs count:

    255 * |w_a| + 255 * |w_b| <= 32767   for any two, so   |w| <= 64

`reduce_range` of ONNX Runtime's quantiser keeps to that. The kernel multiplies the integers as
they are, whatever their zero point, and forms fill gaps with it. Weights of uint8 take a kernel
that widens first, and 16-bit activations none at all.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import QuantisedOperand
from convt_onnx.reasons import Refusal

SAFE = 64
EIGHT_BITS = frozenset({ir.DataType.INT8, ir.DataType.UINT8})
# ONNX Runtime moves DequantizeLinear behind the first six; the others it removes.
MOVERS = frozenset(
    "MaxPool Reshape Slice Squeeze Transpose Unsqueeze Dropout Flatten Identity".split()
)


def saturation(node: ConvTransposeNode) -> Refusal | None:
    """Why a Conv in the node's place may saturate, None where it cannot."""
    weight = node.weight
    if not isinstance(weight, QuantisedOperand):
        return None
    if weight.integers.tensor.dtype != ir.DataType.INT8 or not _from_integers(node.x):
        return None
    largest = max(_magnitude(o.array()) for o in (weight.integers, weight.zero_point) if o)
    return Refusal("CT465", f"weights up to {largest}") if largest > SAFE else None


def _magnitude(integers: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> int:
    """The largest |w|; -128 has no opposite in int8."""
    if integers.size == 0:
        return 0
    return max(int(integers.max()), -int(integers.min()))


def _from_integers(x: ir.Value) -> bool:
    """Whether a value is dequantised from 8 bits, or may be: by what calls a function."""
    source = x.producer()
    while source is not None and source.op_type in MOVERS and source.inputs[0] is not None:
        x = source.inputs[0]
        source = x.producer()
    if source is None:
        return x.dtype is None
    if source.op_type != "DequantizeLinear":
        return False
    integers = source.inputs[0]
    dtype = None if integers is None else integers.dtype
    zero = source.inputs[2] if len(source.inputs) > 2 else None
    dtype = dtype or (None if zero is None else zero.dtype)
    return dtype is None or dtype in EIGHT_BITS
