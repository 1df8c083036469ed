"""Q/DQ pairs that keep a form's convolution next to the model's own.

Only where a runtime can have an integer kernel: an input and an output with one float32 scale
each, and integer weights with at most one scale an output channel. Elsewhere a pair would cost two
nodes for nothing, and with float16 scales ONNX Runtime 1.32 makes a QLinearConcat of the parts of
`phases-split` that it then refuses.
"""

from __future__ import annotations

import onnx_ir as ir

from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import QuantisedOperand
from convt_onnx.graph.quantised import put_on_grid

# From here on QuantizeLinear has output_dtype. ONNX Runtime 1.32 writes INT8 there when it repeats
# the pair behind the elements moved, as far as the next Relu, and then makes the zero point uint8
# where the processor multiplies no int8: the model does not load.
OUTPUT_DTYPE_OPSET = 21


def possible(node: ConvTransposeNode) -> bool:
    """Whether the convolution could run in integers once its neighbours are Q and DQ."""
    weight = node.weight
    if node.x_grid is None or node.y_grid is None or not isinstance(weight, QuantisedOperand):
        return False
    if {g.scale.tensor.dtype for g in (node.x_grid, node.y_grid)} != {ir.DataType.FLOAT}:
        return False
    by_output = weight.axis == 1 or (weight.axis == 0 and node.spec.in_per_group == 1)
    return weight.axis is None or by_output


def requantise_input(em: Emitter, x: ir.Value, node: ConvTransposeNode) -> ir.Value:
    """`x`, moved elements of the node's input and zeros, on the input's own grid."""
    if node.x_grid is None or not node.x_grid.stable or not possible(node):
        return x
    return put_on_grid(em, x, node.x_grid)


def requantise_output(
    em: Emitter, y: ir.Value, node: ConvTransposeNode, *, moves: bool
) -> ir.Value:
    """The convolution's result on the grid that its readers put it on behind what `moves` it."""
    grid = node.y_grid
    if grid is None or not (moves or node.late is not None) or not possible(node):
        return y
    if grid.relu and grid.dtype == ir.DataType.INT8 and em.opset >= OUTPUT_DTYPE_OPSET:
        return y
    return put_on_grid(em, y, grid)
