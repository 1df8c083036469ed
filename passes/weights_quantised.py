"""Quantised weights whose integers are computed, or moved after they are dequantised."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.evaluate import Evaluator
from convt_onnx.graph.operands import QuantisedOperand, constant, quantised
from convt_onnx.standard import is_standard

# Puts a tensor beside a value that it is named after, as an initializer or a Constant node.
Place = Callable[[ir.Value, ir.TensorProtocol], ir.Value]


def fold_integers(value: ir.Value, ir_version: int, evaluator: Evaluator, place: Place) -> bool:
    """DequantizeLinear(QuantizeLinear(w)) of constants -> DequantizeLinear of a constant."""
    node = value.producer()
    if node is None or not is_standard(node, "DequantizeLinear"):
        return False
    computed = [
        (i, v)
        for i, v in enumerate(node.inputs)
        if v is not None and constant(v, ir_version) is None and v.producer() is not None
    ]
    arrays = [evaluator.value(v) for _, v in computed]
    if not computed or any(a is None for a in arrays):
        return False
    for (i, v), array in zip(computed, arrays, strict=True):
        node.replace_input_with(i, place(v, ir.Tensor(np.asarray(array))))
        remove_unused([v])
    return True


def transpose_integers(value: ir.Value, ir_version: int, place: Place) -> ir.Value | None:
    """Transpose(DequantizeLinear(q)) -> DequantizeLinear(transposed q), its axis moved along."""
    moves, operand = _chain(value, ir_version)
    last = value.producer()
    if operand is None or last is None or last.graph is None:
        return None
    order = list(range(len(operand.shape)))
    for node in reversed(moves):
        perm = _perm(node, len(order))
        if sorted(perm) != list(range(len(order))):
            return None  # of another rank: the model does not run
        order = [order[i] for i in perm]
    integers = ir.Tensor(np.ascontiguousarray(operand.integers.array().transpose(order)))
    parameters = [v.value for v in (operand.scale, operand.zero_point) if v is not None]
    attributes = {n: a for n, a in operand.node.attributes.items() if n != "axis"}
    if operand.axis is not None:
        attributes["axis"] = ir.AttrInt64("axis", order.index(operand.axis))
    folded = place(value, integers)
    name = f"{folded.name}/DequantizeLinear"
    node = ir.Node("", "DequantizeLinear", [folded, *parameters], attributes.values(), name=name)
    node.outputs[0].name = f"{name}_out"
    node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
    last.graph.insert_before(last, node)
    return node.outputs[0]


def _chain(value: ir.Value, ir_version: int) -> tuple[Sequence[ir.Node], QuantisedOperand | None]:
    """Transpose and Identity nodes from the value up, and the quantised constant they move."""
    moves: list[ir.Node] = []
    source: ir.Value | None = value
    while source is not None:
        node = source.producer()
        if node is None or not is_standard(node, "Transpose", "Identity"):
            break
        if any(a.is_ref() for a in node.attributes.values()):
            break
        moves.append(node)
        source = node.inputs[0]
    if source is None or not moves:
        return moves, None
    return moves, quantised(source, ir_version)


def _perm(node: ir.Node, rank: int) -> Sequence[int]:
    if node.op_type == "Identity":
        return range(rank)
    perm = node.attributes.get("perm")
    return range(rank)[::-1] if perm is None else perm.as_ints()
