"""The grids that QuantizeLinear and DequantizeLinear put the values around a node on.

Runtimes fuse a convolution into an integer kernel only where DequantizeLinear, Conv and
QuantizeLinear are neighbours. A form that moves elements about before or after its convolution
therefore repeats the pair there::

    Conv -> interleave -> Q -> DQ   becomes   Conv -> Q -> DQ -> interleave -> Q -> DQ

The values are the same, for Q(DQ(Q(v))) = Q(v) on one grid, and the second pair cancels with the
first in a runtime that moves integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.operands import ONE_ELEMENT, ConstantOperand, constant, quantised
from convt_onnx.reasons import Refusal
from convt_onnx.standard import is_standard

INTEGERS = frozenset(
    {
        ir.DataType.INT8,
        ir.DataType.UINT8,
        ir.DataType.INT4,
        ir.DataType.UINT4,
        ir.DataType.INT16,
        ir.DataType.UINT16,
    }
)
# Of the significand. bfloat16 holds 8: too few for DQ and Q to give an 8-bit integer back.
SIGNIFICAND_BITS = {ir.DataType.FLOAT16: 11, ir.DataType.FLOAT: 24}
INTEGER_VARIANTS = frozenset(
    {"QLinearConvTranspose", "ConvTransposeInteger", "DynamicQuantizeConvTranspose"}
)


@dataclass(frozen=True, slots=True)
class Grid:
    """scale * (q - zero_point) for each q of an integer type; `relu`: a Relu stands before Q."""

    scale: ConstantOperand
    zero_point: ConstantOperand | None
    dtype: ir.DataType
    relu: bool = False

    @property
    def step(self) -> float:
        """Distance of two neighbours."""
        return float(np.asarray(self.scale.array(), dtype=np.float64).reshape(()))

    @property
    def low(self) -> float:
        """The smallest value."""
        return self.step * (int(ml_dtypes.iinfo(self.dtype.numpy()).min) - self._zero)

    @property
    def high(self) -> float:
        """The largest value."""
        return self.step * (int(ml_dtypes.iinfo(self.dtype.numpy()).max) - self._zero)

    @property
    def _zero(self) -> int:
        return 0 if self.zero_point is None else int(self.zero_point.array().reshape(()))

    def same_as(self, other: Grid) -> bool:
        """Whether both hold the same values."""
        return (self.step, self._zero, self.dtype) == (other.step, other._zero, other.dtype)

    @property
    def stable(self) -> bool:
        """Whether Q(DQ(q)) = q for every q, for which the float must be precise enough."""
        float_type = self.scale.tensor.dtype
        bits = 8 * self.dtype.itemsize
        if self.dtype not in INTEGERS or SIGNIFICAND_BITS.get(float_type, 0) < bits + 2:
            return False
        limit = float(ml_dtypes.finfo(float_type.numpy()).max)
        return self.step > 0 and self.step * 2 ** (bits + 1) < limit


def input_grid(x: ir.Value, ir_version: int) -> Grid | None:
    """The grid that DequantizeLinear with one constant scale puts a value on, else None."""
    node = x.producer()
    if node is None or not is_standard(node, "DequantizeLinear"):
        return None
    integers = node.inputs[0]
    return _grid(node, None if integers is None else integers.dtype, ir_version)


def output_grid(node: ir.Node, dtype: ir.DataType | None, ir_version: int) -> Grid | None:
    """The grid that every reader of the node's output puts it on at once, else None.

    Args:
        node: The node; a Relu may stand between it and its readers if the grid has nothing below
            zero, since to quantise is then to rectify.
        dtype: Of its output, where known.
        ir_version: The model's.
    """
    y, relu = node.outputs[0], False
    readers = [user for user, _ in y.uses()]
    if len(readers) == 1 and is_standard(readers[0], "Relu"):
        if y.is_graph_output() or readers[0].graph is not node.graph:
            return None
        y, relu = readers[0].outputs[0], True
    grids = [_reader_grid(user, y, node.graph, ir_version) for user, _ in y.uses()]
    first = grids[0] if grids else None
    if first is None or y.is_graph_output() or not first.stable:
        return None
    if dtype is not None and dtype != first.scale.tensor.dtype:
        return None
    if not all(g is not None and g.same_as(first) for g in grids):
        return None
    return None if relu and first.low < 0 else replace(first, relu=relu)


def _reader_grid(
    user: ir.Node, y: ir.Value, graph: ir.Graph | ir.Function | None, ir_version: int
) -> Grid | None:
    if not is_standard(user, "QuantizeLinear") or user.graph is not graph:
        return None
    if user.inputs[0] is not y:
        return None
    wanted = user.attributes.get("output_dtype")
    number = 0 if wanted is None or wanted.is_ref() else wanted.as_int()
    return _grid(user, ir.DataType(number) if number else ir.DataType.UINT8, ir_version)


def _grid(node: ir.Node, integers: ir.DataType | None, ir_version: int) -> Grid | None:
    block = node.attributes.get("block_size")
    if block is not None and (block.is_ref() or block.as_int()):
        return None
    scale = constant(node.inputs[1], ir_version)
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    zero_point = constant(zero, ir_version)
    if scale is None or scale.shape not in ONE_ELEMENT or (zero is not None and zero_point is None):
        return None
    if zero_point is not None and zero_point.shape not in ONE_ELEMENT:
        return None
    dtype = integers if zero_point is None else zero_point.tensor.dtype
    return None if dtype is None else Grid(scale, zero_point, dtype)


def integer_variants(model: ir.Model) -> Iterator[tuple[str, Refusal]]:
    """Name of each node that is a transposed convolution on integers, and what it is."""
    for graph in (model.graph, *(f.graph for f in model.functions.values())):
        for node in ir.traversal.RecursiveGraphIterator(graph):
            if node.op_type in INTEGER_VARIANTS:
                domain = node.domain or "ai.onnx"
                yield node.name or "", Refusal("CT461", f"{domain}.{node.op_type}")


def scale_refusal(node: ir.Node, ir_version: int) -> Refusal | None:
    """Why a node with quantised weights cannot run in integers, None where nothing says so."""
    weight = node.inputs[1] if len(node.inputs) > 1 else None
    source = None if weight is None else weight.producer()
    if weight is None or source is None or source.op_type != "DequantizeLinear":
        return None
    operand = quantised(weight, ir_version)
    block = source.attributes.get("block_size")
    if operand is None:
        blocked = block is not None and not block.is_ref() and block.as_int() > 0
        return Refusal("CT463", f"block_size = {block.as_int()}") if blocked and block else None
    if operand.axis is not None and operand.axis > 1:
        return Refusal("CT463", f"axis = {operand.axis}")
    group = node.attributes.get("group")
    groups = 1 if group is None or group.is_ref() else group.as_int()
    if operand.axis == 0 and operand.shape[0] > groups:
        return Refusal("CT462", f"{operand.shape[0]} scales, group = {groups}")
    return None


def put_on_grid(em: Emitter, y: ir.Value, grid: Grid) -> ir.Value:
    """DequantizeLinear(QuantizeLinear(y))."""
    zero_point = (
        em.constant(np.zeros((), dtype=grid.dtype.numpy()), "zero_point")
        if grid.zero_point is None
        else _visible(em, grid.zero_point, "zero_point")
    )
    parameters = [_visible(em, grid.scale, "scale"), zero_point]
    integers = em.op("QuantizeLinear", [y, *parameters])
    return em.op("DequantizeLinear", [integers, *parameters])


def _visible(em: Emitter, operand: ConstantOperand, hint: str) -> ir.Value:
    """The value itself, or a copy where a Constant node makes it, which may stand further down."""
    if operand.value.producer() is None:
        return operand.value
    array: npt.NDArray[np.generic] = operand.array()
    return em.constant(array, hint)
