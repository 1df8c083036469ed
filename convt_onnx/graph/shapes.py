"""Output shape of a ConvTranspose as an expression of its input's symbols."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from convt_onnx.errors import GeometryError
from convt_onnx.graph.node import read_attributes
from convt_onnx.padding import UnknownSizeError, resolve
from convt_onnx.spec import ConvTransposeSpec

Dim = int | str | None


def conv_transpose_shape(
    node: onnx.NodeProto, x: Sequence[Dim] | None, weight: Sequence[Dim] | None
) -> tuple[Dim, ...] | None:
    """[N, C_out, *sizes] such as ("N", 6, "2*H", "2*W - 1"); None where it is unknown.

    Args:
        node: The node.
        x: Shape of the input.
        weight: Shape of the weight.
    """
    if x is None or weight is None:
        return None
    static = [d for d in weight if isinstance(d, int)]
    if len(static) != len(weight):
        return None
    bare = onnx.NodeProto(op_type=node.op_type, attribute=node.attribute)
    try:
        attributes = read_attributes(ir.serde.deserialize_node(bare))
    except GeometryError:
        return None
    channels = static[1] * attributes.group
    try:
        sizes = [d if isinstance(d, int) else None for d in x[2:]]
        spec = resolve(attributes, static, sizes)
    except UnknownSizeError:
        wanted = attributes.output_shape or ()
        return (x[0], channels, *wanted[-(len(x) - 2) :])
    except GeometryError:
        return None
    return (x[0], channels, *(_length(spec, axis, dim) for axis, dim in enumerate(x[2:])))


def _length(spec: ConvTransposeSpec, axis: int, dim: Dim) -> Dim:
    if dim is None:
        return None
    if isinstance(dim, int):
        return spec.output_length(axis, dim)
    value = spec.output_length(axis, ir.SymbolicDim(dim)).value
    return value if isinstance(value, str) else None
