"""What stands directly behind a ConvTranspose and could be computed together with it.

An activation and the Add of a residual, in either order, each at most once. Nothing is changed
here: a kernel that writes the output may take them in, ordinary forms leave them as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convt_onnx.graph.activations import find_activation
from convt_onnx.graph.channels import per_channel
from convt_onnx.graph.evaluate import Evaluator
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import Dim, Shapes, float_attribute
from convt_onnx.reasons import Refusal
from convt_onnx.standard import is_standard

SIMPLE = {"Relu": "Relu", "Sigmoid": "Sigmoid", "Tanh": "Tanh"}
# Activation and the default of its alpha.
WITH_ALPHA = {"LeakyRelu": 0.01, "Elu": 1.0, "Swish": 1.0}
# From here on PRelu aligns its slope at the last axis, and Clip takes its bounds as inputs.
PRELU_BROADCAST_OPSET, CLIP_INPUTS_OPSET = 7, 11
HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """An activation, a residual, or both.

    Attributes:
        activation: Relu, LeakyRelu, PRelu, Elu, Sigmoid, Tanh, Silu, Swish, Gelu (by the error
            function), GeluTanh or Clip; None where there is none.
        parameters: alpha; for PRelu one slope, or one a channel; for Clip the two bounds.
        residual: Name of the value that is added; None where there is none.
        order: "activation" and "residual" as they are computed.
        nodes: How many nodes it takes the place of.
        output: Name of the value that the last of them writes.
    """

    activation: str | None
    parameters: tuple[float, ...]
    residual: str | None
    order: tuple[str, ...]
    nodes: int
    output: str


@dataclass(frozen=True, slots=True)
class Piece:
    """An activation by name, or the Add of a residual: `summand`, whose name it has."""

    name: str
    parameters: tuple[float, ...]
    nodes: int
    output: ir.Value
    summand: ir.Value | None = None


def read_epilogue(
    node: ConvTransposeNode, ir_version: int, opset: int, shapes: Shapes
) -> Epilogue | Refusal:
    """The epilogue behind a node, or why there is none.

    Args:
        node: The node, in its graph.
        ir_version: The model's.
        opset: Version of the standard operators where the node stands.
        shapes: Inferred shapes by value name, which hold where the node stands.
    """
    found, refusals = _pieces(node, ir_version, opset, shapes)
    if not found:
        # The more particular reason: CT481 says only that nothing was recognised.
        return max(refusals, key=lambda r: r.id != "CT481")
    return _epilogue(found, list(found.values())[-1].output)


def epilogue_pieces(
    node: ConvTransposeNode, ir_version: int, opset: int, shapes: Shapes
) -> dict[str, Piece]:
    """The pieces of `read_epilogue` by "activation" and "residual", as they are computed."""
    return _pieces(node, ir_version, opset, shapes)[0]


def _pieces(
    node: ConvTransposeNode, ir_version: int, opset: int, shapes: Shapes
) -> tuple[dict[str, Piece], list[Refusal]]:
    walk = _Walk(node, opset, shapes, Evaluator(ir_version, opset, shapes))
    value, refusals, found = node.node.outputs[0], list[Refusal](), dict[str, Piece]()
    for _ in range(2):
        for kind, match in (("activation", walk.activation), ("residual", walk.residual)):
            piece = None if kind in found else match(value)
            if isinstance(piece, Piece):
                found[kind], value = piece, piece.output
                break
            refusals += [] if piece is None else [piece]
    return found, refusals


def _epilogue(found: dict[str, Piece], last: ir.Value) -> Epilogue:
    activation, residual = found.get("activation"), found.get("residual")
    return Epilogue(
        activation=None if activation is None else activation.name,
        parameters=() if activation is None else activation.parameters,
        residual=None if residual is None else residual.name,
        order=tuple(found),
        nodes=sum(p.nodes for p in found.values()),
        output=last.name or "",
    )


@dataclass(frozen=True, slots=True)
class _Walk:
    """Matches one piece behind one value."""

    node: ConvTransposeNode
    opset: int
    shapes: Shapes
    evaluator: Evaluator

    def activation(self, value: ir.Value) -> Piece | Refusal:
        """The activation that reads the value."""
        if value.is_graph_output():
            return Refusal("CT483", str(value.name))
        readers = [use.node for use in value.uses()]
        if len(readers) == 1 and is_standard(readers[0]) and readers[0].inputs[0] is value:
            if readers[0].graph is not value.graph:
                return Refusal("CT482", "a subgraph reads it")
            parameters = self._operator(readers[0])
            if isinstance(parameters, Refusal):
                return parameters
            if parameters is not None:
                name, numbers = parameters
                return Piece(name, numbers, 1, readers[0].outputs[0])
        rank, half = self.node.spec.ndim + 2, self.node.dtype in HALF
        chain = find_activation(value, self.evaluator, rank=rank, half=half)
        if chain is not None:
            name, count, output = chain
            return Piece(name, (), count, output)
        types = ", ".join(sorted({n.op_type for n in readers})) or "nothing"
        return Refusal("CT482" if len(readers) > 1 else "CT481", f"read by {types}")

    def residual(self, value: ir.Value) -> Piece | Refusal:
        """The Add of a tensor of the same shape."""
        if value.is_graph_output():
            return Refusal("CT483", str(value.name))
        readers = [use.node for use in value.uses()]
        if len(readers) != 1 or readers[0].graph is not value.graph:
            return Refusal("CT482", f"{len(readers)} readers")
        add = readers[0]
        if not is_standard(add, "Add"):
            return Refusal("CT481", f"read by {add.op_type}")
        other = add.inputs[1] if add.inputs[0] is value else add.inputs[0]
        if other is None or self.evaluator.value(other) is not None:
            return Refusal("CT481", "Add of a constant")
        shape, same = self._shape(value), self._shape(other)
        if shape is None or shape != same:
            return Refusal("CT485", f"{value.name}: {_text(shape)}, {other.name}: {_text(same)}")
        return Piece(other.name or "", (), 1, add.outputs[0], other)

    def _operator(self, node: ir.Node) -> tuple[str, tuple[float, ...]] | Refusal | None:
        """Name and parameters of an activation that is one operator."""
        if any(a.is_ref() for a in node.attributes.values()):
            return Refusal("CT484", "an attribute comes from the function's caller")
        if node.op_type in SIMPLE:
            return SIMPLE[node.op_type], ()
        if node.op_type in WITH_ALPHA:
            alpha = float_attribute(node, "alpha", WITH_ALPHA[node.op_type])
            return (
                ("Silu", ()) if node.op_type == "Swish" and alpha == 1 else (node.op_type, (alpha,))
            )
        if node.op_type == "Gelu":
            kind = (
                node.attributes["approximate"].as_string()
                if "approximate" in node.attributes
                else ""
            )
            return ("GeluTanh" if kind == "tanh" else "Gelu"), ()
        if node.op_type == "PRelu":
            return self._prelu(node)
        return self._clip(node) if node.op_type == "Clip" else None

    def _prelu(self, node: ir.Node) -> tuple[str, tuple[float, ...]] | Refusal:
        slope = node.inputs[1]
        array = None if slope is None else self.evaluator.value(slope)
        if array is None:
            return Refusal("CT484", "the slope of PRelu is known at run time only")
        spec = self.node.spec
        rank = spec.ndim + 2
        start = rank - array.ndim
        if self.opset < PRELU_BROADCAST_OPSET and array.ndim == 1:
            start = 1
        vector = per_channel(array, start, rank, spec.out_channels)
        if vector is None:
            return Refusal("CT484", f"a slope of shape {list(array.shape)}")
        one = vector[:1] if array.size == 1 else vector
        return "PRelu", tuple(float(v) for v in one)

    def _clip(self, node: ir.Node) -> tuple[str, tuple[float, ...]] | Refusal:
        if self.opset < CLIP_INPUTS_OPSET:
            low = float_attribute(node, "min", -np.inf)
            return "Clip", (low, float_attribute(node, "max", np.inf))
        bounds = [-np.inf, np.inf]
        for i, value in enumerate(node.inputs[1:3]):
            array = None if value is None else self.evaluator.value(value)
            if value is not None and (array is None or array.size != 1):
                return Refusal("CT484", "a bound of Clip is known at run time only")
            if array is not None:
                bounds[i] = float(array.ravel()[0])
        return "Clip", tuple(bounds)

    def _shape(self, value: ir.Value) -> tuple[Dim, ...] | None:
        """Every size as a number or a name; None where any is unknown."""
        dims = self.shapes.get(value.name or "")
        if dims is None and value.shape is not None:
            dims = [d if isinstance(d, int) else d.value for d in value.shape]
        return None if dims is None or None in dims else tuple(dims)


def _text(shape: tuple[Dim, ...] | None) -> str:
    return "unknown" if shape is None else str(list(shape))
