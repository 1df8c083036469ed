"""Quantisation that a target does not take."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.emitter import Emitter, NamePool, emitter_at
from convt_onnx.graph.evaluate import Evaluator
from convt_onnx.graph.operands import ConstantOperand, constant
from convt_onnx.graph.quantised import INTEGERS
from convt_onnx.passes.base import Pass
from convt_onnx.passes.fold_weights import place
from convt_onnx.standard import is_standard, opset_of
from convt_onnx.targets import Target

# Round came with it.
ROUND_OPSET = 11


class FloatQuantised(Pass):
    """Computes quantisation in floats where the target does not take its type or zero point.

    Rules, for the whole model, since what is refused anywhere refuses the model. s is the scale,
    z the zero point, [low, high] what the integer type holds::

        1. DequantizeLinear(constant)           -> the floats
        2. DequantizeLinear(QuantizeLinear(x))  -> Clip(Round(x / s), low - z, high - z) * s

    Where the target's device leaves an integer type to the CPU (int32, that of biases, on ONNX
    Runtime's CUDA provider), rule 1 for that type, whatever the zero point.

    The values stay what they are. Not in functions, where other nodes read the integers, the
    scale is computed or not one for the whole tensor, and rule 2 below opset 11.
    """

    name = "float-quantised"
    summary = "quantisation that the target does not take is computed in floats"
    makes_values = True

    def run(self, model: ir.Model) -> Iterator[str]:
        """Rewrite, one line a value."""
        target = self.context.target
        if target.quantised is None and not target.off_device_integers:
            return
        names = NamePool(model)
        opset = opset_of(model.opset_imports)
        also = frozenset({"DequantizeLinear"})
        evaluator = Evaluator(model.ir_version, opset, self.context.shapes, also)
        for graph in (model.graph, *model.graph.subgraphs()):
            for node in list(graph):
                if node.graph is None or not is_standard(node, "DequantizeLinear"):
                    continue
                if _runs(node, model.ir_version, target):
                    continue
                value = node.outputs[0]
                array = evaluator.value(value)
                if array is not None:
                    folded = place(model, names, value, ir.Tensor(array))
                    name = value.name
                    value.replace_all_uses_with(folded, replace_graph_outputs=True)
                    if folded.is_graph_output():
                        value.name, folded.name = folded.name, name
                    remove_unused([value])
                    yield f"{name}: folded"
                elif target.quantised is None:
                    self.miss(node.name or value.name or "", "CT575", _what(node))
                elif _in_floats(emitter_at(model, node, names, opset), node, model.ir_version):
                    yield f"{value.name}: computed in floats"
                else:
                    self.miss(node.name or value.name or "", "CT515", _what(node))


def _runs(node: ir.Node, ir_version: int, target: Target) -> bool:
    """Whether the target takes the integer type and the zero point, on its device."""
    integers, taken = node.inputs[0], target.quantised
    dtype = None if integers is None else integers.dtype
    if taken is None:
        known = constant(integers, ir_version)
        return (dtype if known is None else known.tensor.dtype) not in target.off_device_integers
    zero_point = _zero_point(node, ir_version)
    if zero_point is not None:
        return zero_point.tensor.dtype in taken and not np.any(zero_point.array())
    return dtype is None or dtype in taken


def _zero_point(node: ir.Node, ir_version: int) -> ConstantOperand | None:
    return constant(node.inputs[2] if len(node.inputs) > 2 else None, ir_version)


def _in_floats(em: Emitter, node: ir.Node, ir_version: int) -> bool:
    """Rule 2, for one reader of the integers."""
    integers = node.inputs[0]
    source = None if integers is None else integers.producer()
    if source is None or not is_standard(source, "QuantizeLinear") or em.opset < ROUND_OPSET:
        return False
    scales = [constant(n.inputs[1], ir_version) for n in (source, node)]
    zeros = [_zero_point(n, ir_version) for n in (source, node)]
    x, scale, zero = source.inputs[0], scales[0], zeros[0]
    if x is None or scale is None or zero is None or scale.tensor.size != 1:
        return False
    if not _equal(*scales) or not _equal(*zeros) or zero.tensor.dtype not in INTEGERS:
        return False
    info = ml_dtypes.iinfo(zero.tensor.dtype.numpy())
    z = int(zero.array().reshape(()))
    dtype = scale.tensor.dtype.numpy()
    low, high = (em.constant(np.array(v - z, dtype), "limit") for v in (info.min, info.max))
    step = em.constant(scale.array().reshape(()), "scale")
    rounded = em.op("Round", [em.op("Div", [x, step])])
    result = em.op("Mul", [em.op("Clip", [rounded, low, high]), step])
    em.splice(node, result)
    remove_unused([source.outputs[0]])
    return True


def _equal(a: ConstantOperand | None, b: ConstantOperand | None) -> bool:
    return a is not None and b is not None and np.array_equal(a.array(), b.array())


def _what(node: ir.Node) -> str:
    integers = node.inputs[0]
    return "" if integers is None else f"{integers.name} of type {integers.dtype}"
