"""What of the epilogue behind a node its kernel takes in, as values of the graph."""

from __future__ import annotations

from convt_onnx.graph.epilogue import epilogue_pieces
from convt_onnx.graph.node import Absorbed, ConvTransposeNode
from convt_onnx.graph.operands import Shapes

# Names of plugins.conv_transpose.activations; Swish with another alpha than 1 has none.
KINDS = {
    "Relu": "relu",
    "LeakyRelu": "leaky_relu",
    "PRelu": "prelu",
    "Elu": "elu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Silu": "silu",
    "Gelu": "gelu",
    "GeluTanh": "gelu_tanh",
    "Clip": "clip",
}


def absorb(node: ConvTransposeNode, ir_version: int, opset: int, shapes: Shapes) -> Absorbed | None:
    """The longest beginning of the epilogue that is a residual, then an activation.

    An activation ahead of a residual is taken in, the residual then is not.
    """
    found: Absorbed | None = None
    for kind, piece in epilogue_pieces(node, ir_version, opset, shapes).items():
        last = piece.output.producer()
        if last is None or (found is not None and found.activation is not None):
            break
        if kind == "residual":
            found = Absorbed(None, (), piece.summand, last)
        elif piece.name in KINDS:
            residual = None if found is None else found.residual
            found = Absorbed(KINDS[piece.name], piece.parameters, residual, last)
        else:
            break
    return found
