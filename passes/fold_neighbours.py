"""BatchNormalization and per-channel arithmetic behind a ConvTranspose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import onnx_ir as ir

from convt_onnx.graph.evaluate import Evaluator
from convt_onnx.graph.node import ConvTransposeNode, FoundNode, find_nodes, read_node
from convt_onnx.passes.base import Pass
from convt_onnx.passes.neighbours_absorb import (
    Tail,
    absorb,
    read_elsewhere,
    readers,
    tail_of,
    without_casts,
)
from convt_onnx.passes.neighbours_affine import NEIGHBOURS, Affine, Reader
from convt_onnx.passes.neighbours_parameters import Parameters, Writer
from convt_onnx.reasons import Refusal
from convt_onnx.standard import is_standard


class FoldNeighbours(Pass):
    """Folds what is affine in every output channel into the weight and the bias.

    Rules, for y = ConvTranspose(x, w, b) and constants of one value an output channel, or of one
    value; one after the other until none applies::

        1. BatchNormalization(y)  ->  w * s, (b - mean) * s + beta, s = gamma / sqrt(var + eps)
        2. y * c, c * y           ->  w * c, b * c
        3. y / c                  ->  w / c, b / c
        4. y + c, c + y           ->  b + c
        5. y - c                  ->  b - c
        6. c - y                  ->  -w, c - b
        7. f(Transpose(y))        ->  Transpose(f(y)), f one of these along the channels
        8. f(Cast(y))             ->  f(y), a Cast to the type that y has (Keras)

    Output channel m of group g is w[g's input channels, m] and b[g * M + m]. Values are computed
    in float64 and rounded once. Other readers of the weight keep it; nodes that scale it alike
    share the new one.

    Quantised weights and biases keep their integers and get other scales. Not where the output
    has another reader or is an output of the graph; the constant is known at run time only, may
    be overridden, or does not broadcast along channels alone; the BatchNormalization trains; the
    weight (rules 1 to 3 and 6) or the bias is known at run time only, or quantised with scales
    that the factor would round; or the folded values do not fit the element type.
    """

    name = "fold-neighbours"
    summary = "BatchNormalization and per-channel Mul, Div, Add, Sub go into weight and bias"

    def run(self, model: ir.Model) -> Iterator[str]:
        """Fold, one line a ConvTranspose with the operators that went into it."""
        writer = Writer(model)
        for found in list(find_nodes(model)):
            candidates = any(is_standard(n, *NEIGHBOURS) for n in readers(tail_of(found)))
            if found.path in self.context.unfolded or not candidates:
                continue
            shapes = found.visible(self.context.shapes)
            read = read_node(found.node, found.path, model.ir_version, shapes)
            if not isinstance(read, ConvTransposeNode):
                continue
            parameters = Parameters(read)
            reader = Reader(
                output=found.node.outputs[0],
                channels=read.spec.out_channels,
                rank=read.spec.ndim + 2,
                opset=found.opset,
                ir_version=model.ir_version,
                evaluator=Evaluator(model.ir_version, found.opset, shapes),
            )
            folded = list(self._fold(found, parameters, reader, writer))
            if folded:
                writer.write(parameters)
                yield f"{found.path}: {', '.join(folded)} folded"

    def _fold(
        self, found: FoundNode, parameters: Parameters, reader: Reader, writer: Writer
    ) -> Iterator[str]:
        """Take in what stands behind, one node after the other; yields their operators."""
        renamed: set[ir.Value] = set()
        while True:
            tail = tail_of(found)
            behind = self._behind(found, tail, replace(reader, output=tail.value, axis=tail.axis))
            if behind is None:
                return
            node, affine = behind
            refusal = parameters.apply(affine)
            if refusal is not None:
                self.miss(found.path, refusal.id, f"{node.op_type}: {refusal.detail}")
                return
            tail = without_casts(found, tail)
            absorb(found, tail, node)
            writer.rename(v for v in tail.between if v not in renamed)
            renamed.update(tail.between)
            yield node.op_type

    def _behind(
        self, found: FoundNode, tail: Tail, reader: Reader
    ) -> tuple[ir.Node, Affine] | None:
        """The neighbour to take in; the reason is recorded where one must stay."""
        elsewhere = read_elsewhere(found, tail)
        for node in readers(tail):
            result = reader.read(node)
            if isinstance(result, Affine) and not elsewhere:
                return node, result
            if isinstance(result, Affine):
                is_output = reader.output.is_graph_output()
                result = Refusal("CT442" if is_output else "CT441", str(reader.output.name))
            elif elsewhere:
                continue
            if result is not None:
                self.miss(found.path, result.id, f"{node.op_type}: {result.detail}".rstrip(": "))
                break
        return None
