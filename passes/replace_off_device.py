"""Operators that a target's device leaves to the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy)
import numpy as np
import onnx_ir as ir

from convt_onnx.graph.emitter import Emitter, NamePool, emitter_at
from convt_onnx.passes.base import Pass
from convt_onnx.reasons import Refusal
from convt_onnx.standard import is_standard, opset_of

# CumSum, and Equal of floats, came with it.
HARDMAX_OPSET = 11
# Up to here Hardmax takes its axis and all behind it for one.
LAST_FLATTENED_OPSET = 12
REDUCE_AXES_OPSET = 18
# Types that arithmetic takes in every opset.
WIDE = (ir.DataType.UINT32, ir.DataType.UINT64)
NARROW = (ir.DataType.UINT8, ir.DataType.UINT16)
FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16)


class ReplaceOffDevice(Pass):
    """Writes operators that the target's device does not run in operators that it does.

    Rules, for the whole model, since each such node costs a copy to the CPU and one back::

        1. Hardmax(x)      -> Cast(top and CumSum(top, exclusive) == 0), top = x == ReduceMax(x),
                              before opset 13 between Flatten(x, axis) and Reshape
        2. BitShift(x, n)  -> x * 2^n or x / 2^n, times 0 where n is not below the bits of x

    The values stay what they are, to the first of several maxima and to shifts beyond the width. A
    row with a NaN gets no 1 where ReduceMax gives NaN, which ONNX Runtime's providers decide by
    where in the row it is. Not in functions, whose values have no types, where the element type is
    not known, and rule 1 below opset 11 or, where it needs the Reshape, with a size that may be 0.
    """

    name = "replace-off-device"
    summary = "operators that the target's device leaves to the CPU become others"
    makes_values = True

    def run(self, model: ir.Model) -> Iterator[str]:
        """Rewrite, one line a node."""
        lacking = self.context.target.off_device_operators
        if not lacking:
            return
        opset = opset_of(model.opset_imports)
        names = NamePool(model)
        for graph in (model.graph, *model.graph.subgraphs()):
            for node in [n for n in graph if is_standard(n, *lacking)]:
                output, op_type = node.outputs[0].name or "", node.op_type
                em = emitter_at(model, node, names, opset)
                result = RULES[op_type](em, node)
                if isinstance(result, Refusal):
                    self.miss(node.name or output, result.id, f"{op_type}: {result.detail}")
                    continue
                em.splice(node, result)
                yield f"{output}: {op_type} written in other operators"
        for function in model.functions.values():
            for node in ir.traversal.RecursiveGraphIterator(function.graph):
                if is_standard(node, *lacking):
                    name = node.name or node.outputs[0].name or ""
                    self.miss(name, "CT576", f"{node.op_type}: in function {function.name}")


def _hardmax(em: Emitter, node: ir.Node) -> ir.Value | Refusal:
    """Rule 1."""
    x, attribute = node.inputs[0], node.attributes.get("axis")
    if x is None or x.dtype not in FLOATS:
        return Refusal("CT576", "its element type is not known")
    if em.opset < HARDMAX_OPSET:
        return Refusal("CT576", f"opset {em.opset}, CumSum needs {HARDMAX_OPSET}")
    flattens = em.opset <= LAST_FLATTENED_OPSET
    default = 1 if flattens else -1
    axis = default if attribute is None else attribute.as_int()
    last = axis == -1 or (x.shape is not None and axis == len(x.shape) - 1)
    flattened = flattens and not last
    if flattened and not _fits_reshape(x.shape, axis):
        return Refusal("CT576", f"opset {em.opset}, a size that may be 0")
    # The providers have no comparison of bfloat16; float32 holds it exactly.
    rows = em.cast(x, ir.DataType.FLOAT) if x.dtype == ir.DataType.BFLOAT16 else x
    if flattened:
        rows = em.op("Flatten", [rows], axis=axis)
    ones = em.cast(_first_of_largest(em, rows, -1 if flattens else axis), x.dtype)
    if flattened:
        ones = em.op("Reshape", [ones, em.op("Shape", [x])])
    return ones


def _fits_reshape(shape: ir.Shape | None, axis: int) -> bool:
    """Whether Reshape makes `shape` of what Flatten made of it at `axis`.

    Reshape below opset 14 copies a size for each 0, and of the two that Flatten leaves only the
    first is 0 wherever the tensor's first size, not behind the axis, is.
    """
    if shape is None:
        return False
    first = 0 if axis in (0, -len(shape)) else 1
    return all(isinstance(size, int) and size > 0 for size in list(shape)[first:])


def _first_of_largest(em: Emitter, x: ir.Value, axis: int) -> ir.Value:
    """Whether an element is the largest along the axis, and the first of several."""
    if em.opset < REDUCE_AXES_OPSET:
        largest = em.op("ReduceMax", [x], axes=[axis], keepdims=1)
    else:
        largest = em.op("ReduceMax", [x, em.ints([axis], "axes")], keepdims=1)
    top = em.op("Equal", [x, largest])
    counted = em.cast(top, ir.DataType.INT32)
    where = em.constant(np.array(axis, np.int64), "axis")
    before = em.op("CumSum", [counted, where], exclusive=1)
    none = em.op("Equal", [before, em.constant(np.array(0, np.int32), "zero")])
    return em.op("And", [top, none])


def _bit_shift(em: Emitter, node: ir.Node) -> ir.Value | Refusal:
    """Rule 2."""
    x, count = node.inputs
    if x is None or count is None or x.dtype not in (*WIDE, *NARROW):
        return Refusal("CT576", "its element type is not known")
    bits = np.iinfo(x.dtype.numpy()).bits
    narrow = x.dtype in NARROW
    dtype = ir.DataType.UINT32 if narrow else x.dtype
    wide_x, wide_count = (em.cast(v, dtype) if narrow else v for v in (x, count))
    width = em.constant(np.array(bits, dtype.numpy()), "width")
    within = em.cast(em.op("Mod", [wide_count, width]), ir.DataType.INT64)
    powers = em.constant(2 ** np.arange(bits, dtype=dtype.numpy()), "powers")
    power = em.op("Gather", [powers, within])
    shifted = em.op(
        "Mul" if node.attributes["direction"].as_string() == "LEFT" else "Div", [wide_x, power]
    )
    beyond = em.cast(em.op("Div", [wide_count, width]), ir.DataType.BOOL)
    kept = em.op("Mul", [shifted, em.cast(em.op("Not", [beyond]), dtype)])
    return em.cast(kept, x.dtype) if narrow else kept


RULES: dict[str, Callable[[Emitter, ir.Node], ir.Value | Refusal]] = {
    "Hardmax": _hardmax,
    "BitShift": _bit_shift,
}
