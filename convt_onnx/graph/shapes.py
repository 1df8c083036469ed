"""Output shape of a ConvTranspose as an expression of its input's symbols."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from convt_onnx.errors import GeometryError
from convt_onnx.graph.node import read_attributes
from convt_onnx.graph.symbols import is_plain
from convt_onnx.padding import UnknownSizeError, resolve
from convt_onnx.spec import ConvTransposeSpec

Dim = int | str | None

# What a size in a model file can hold.
MAX_INT64 = 2**63 - 1
# What onnx-ir and SymPy raise for a name such as "a b", "x(3)", "max()" or "1/0".
_NO_EXPRESSION = (ValueError, TypeError, ArithmeticError, AttributeError, RecursionError)


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
    if len(static) != len(weight) or len(static) < 3 or len(x) != len(static):
        return None
    try:
        attributes = read_attributes(_bare(node))
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
        length = spec.output_length(axis, dim)
        return length if length <= MAX_INT64 else None
    if not is_plain(dim):
        return None
    try:
        value = spec.output_length(axis, ir.SymbolicDim(dim)).value
    except _NO_EXPRESSION:
        return None
    return value if isinstance(value, str) else None


def make_pads_explicit(node: onnx.NodeProto, weight: Sequence[Dim] | None) -> None:
    """Write SAME_UPPER and SAME_LOWER as pads: onnx's inference ignores output_padding there.

    Args:
        node: Changed in place; others than SAME without output_shape stay as they are.
        weight: Shape of the weight, where it is known.
    """
    names = {a.name: a for a in node.attribute}
    same = "auto_pad" in names and names["auto_pad"].s in (b"SAME_UPPER", b"SAME_LOWER")
    static = [d for d in weight or () if isinstance(d, int)]
    if not same or "output_shape" in names or weight is None or len(static) != len(weight):
        return
    try:
        attributes = read_attributes(_bare(node))
        spec = resolve(attributes, static, [None] * (len(static) - 2))
    except GeometryError:
        return
    kept = [a for a in node.attribute if a.name not in ("auto_pad", "pads", "output_padding")]
    pads = [*spec.pads_begin, *spec.pads_end]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.append(onnx.helper.make_attribute("pads", pads))
    padding = list(spec.output_padding)
    node.attribute.append(onnx.helper.make_attribute("output_padding", padding))


def _bare(node: onnx.NodeProto) -> ir.Node:
    """The node with its attributes alone."""
    return ir.serde.deserialize_node(onnx.NodeProto(op_type=node.op_type, attribute=node.attribute))
