"""Weights and biases that are computed from constants."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import onnx_ir as ir

from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.emitter import NamePool
from convt_onnx.graph.evaluate import Evaluator
from convt_onnx.graph.node import find_nodes
from convt_onnx.graph.operands import constant, quantised
from convt_onnx.graph.quantised import scale_refusal
from convt_onnx.passes.base import Pass
from convt_onnx.passes.weights_quantised import fold_integers, transpose_integers


class FoldWeights(Pass):
    """Replaces a computed weight or bias by its value.

    Rules, for input 1 and 2 of every ConvTranspose::

        1. f(constants) -> constant, f any chain of deterministic standard operators
           (weight_norm, spectral_norm, Identity, Cast, Transpose, Expand, ScatterND, MatMul, ...)
        2. a value that several nodes read is folded once and stays shared
        3. DequantizeLinear of constants stays, so the model remains quantised: a constant
           QuantizeLinear in front of it is folded, a Transpose behind it moves to the integers;
           with `dequantize` it is folded like any other operator
        4. what nothing reads any more goes

    Not where any input of the chain is known at run time only, an initializer may be overridden
    by the caller, an operator is random or not in the list, or the value would be over 1 GiB.
    """

    name = "fold-weights"
    summary = "weights and biases computed from constants become constants"

    def run(self, model: ir.Model) -> Iterator[str]:
        """Fold, one line a value."""
        names = NamePool(model)
        done: dict[ir.Value, ir.Value] = {}
        for found in find_nodes(model):
            if found.path in self.context.choice.skip:
                continue
            shapes = found.visible(self.context.shapes)
            evaluator = Evaluator(model.ir_version, found.opset, shapes, self._operators)
            for index in (1, 2):
                value = found.node.inputs[index] if len(found.node.inputs) > index else None
                if value is None or not self._wanted(value, model.ir_version):
                    continue
                put = partial(place, model, names)
                keep = not self.context.dequantize
                if keep and fold_integers(value, model.ir_version, evaluator, put):
                    yield f"{found.path}: the integers of {value.name} folded"
                    continue
                if value not in done:
                    array = evaluator.value(value)
                    if array is not None:
                        done[value] = put(value, ir.Tensor(array))
                    elif keep and (moved := transpose_integers(value, model.ir_version, put)):
                        done[value] = moved
                    else:
                        continue
                found.node.replace_input_with(index, done[value])
                remove_unused([value])
                yield f"{found.path}: {value.name} folded"
            if (refusal := scale_refusal(found.node, model.ir_version)) is not None:
                self.miss(found.path, refusal.id, refusal.detail)

    def _wanted(self, value: ir.Value, ir_version: int) -> bool:
        known = constant(value, ir_version) is not None
        if not self.context.dequantize:
            known = known or quantised(value, ir_version) is not None
        return not known and value.producer() is not None

    @property
    def _operators(self) -> frozenset[str]:
        """Those folded besides the ones that any chain may hold."""
        also = {"DequantizeLinear"} if self.context.dequantize else set()
        return frozenset({"QuantizeLinear"} | also)


def place(model: ir.Model, names: NamePool, value: ir.Value, tensor: ir.TensorProtocol) -> ir.Value:
    """The constant, in the graph where the value was computed; a function holds no initializer."""
    producer = value.producer()
    graph = None if producer is None else producer.graph
    if producer is None or graph is None:
        raise AssertionError("only values that a node of a graph makes are folded")
    name = names.fresh(f"{value.name}/folded")
    tensor.name = name
    if model.ir_version < 4 or any(graph is f.graph for f in model.functions.values()):
        node = ir.node("Constant", [], {"value": tensor}, name=names.fresh(f"{name}/Constant"))
        folded = node.outputs[0]
        folded.name = name
        graph.insert_before(producer, node)
    else:
        folded = ir.Value(name=name, const_value=tensor)
        graph.register_initializer(folded)
    folded.type = ir.TensorType(tensor.dtype)
    folded.shape = ir.Shape(list(tensor.shape.numpy()))
    return folded
