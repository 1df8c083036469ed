"""Check standard nodes against what their operators take, as ONNX Runtime does on loading."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, defs

from convt_onnx.errors import ModelError
from convt_onnx.model_io.advice import EXPORT_AGAIN
from convt_onnx.model_io.walk import node_words, shown, subgraphs
from convt_onnx.standard import STANDARD, opset_of

_INTS = AttributeProto.INTS


@dataclass(frozen=True, slots=True)
class _Operator:
    """What a node of one version of an operator must look like.

    `named` are the places of inputs that may not be left away; `attributes` gives the type of
    each by name.
    """

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    named: tuple[int, ...]
    attributes: dict[str, int]
    required: tuple[str, ...]


# Those that passes read although this onnx has no schema for them: ONNX has removed two, and two
# are ONNX Runtime's own.
_QUANTISER = _Operator((2, 3), (1, 1), (0, 1), {"axis": AttributeProto.INT}, ())
_FURTHER = {
    ("", "Crop"): _Operator((1, 1), (1, 1), (0,), {"border": _INTS, "scale": _INTS}, ()),
    ("", "ImageScaler"): _Operator(
        (1, 1), (1, 1), (0,), {"bias": AttributeProto.FLOATS, "scale": AttributeProto.FLOAT}, ()
    ),
    ("com.microsoft", "QuantizeLinear"): _QUANTISER,
    ("com.microsoft", "DequantizeLinear"): _QUANTISER,
}


def check_operators(model: ModelProto) -> None:
    """Check every node of a standard operator, in subgraphs and functions too.

    Raises:
        ModelError: A node has too few or too many inputs or outputs, lacks one that it needs, or
            has an attribute of another type than its operator, or lacks a required one.
    """
    own = {(f.domain, f.name) for f in model.functions}
    for root, imports in (
        (model.graph, model.opset_import),
        *((function, function.opset_import) for function in model.functions),
    ):
        versions = {o.domain: o.version for o in imports}
        version = min(max(opset_of(versions), 1), 2**31 - 1)
        for node in _nodes(root):
            if (node.domain, node.op_type) in own:
                continue
            operator = _operator(node.domain, node.op_type, version)
            if operator is not None:
                _check(node, operator)


def _nodes(owner: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    for node in owner.node:
        yield node
        if node.attribute:
            for _, graph in subgraphs(node):
                yield from _nodes(graph)


@cache
def _operator(domain: str, name: str, version: int) -> _Operator | None:
    """The operator in a version of the standard operator set; None where it is not known."""
    if domain not in STANDARD or not defs.has(name):
        return _FURTHER.get((domain.removeprefix("ai.onnx"), name))
    try:
        schema = defs.get_schema(name, version)
    except defs.SchemaError:
        return None
    single = defs.OpSchema.FormalParameterOption.Single
    return _Operator(
        inputs=(schema.min_input, schema.max_input),
        outputs=(schema.min_output, schema.max_output),
        named=tuple(i for i, p in enumerate(schema.inputs) if p.option == single),
        attributes={n: int(a.type.value) for n, a in schema.attributes.items()},  # type: ignore[attr-defined]
        required=tuple(n for n, a in schema.attributes.items() if a.required),
    )


def _check(node: NodeProto, operator: _Operator) -> None:
    for kind, found, (low, high) in (
        ("inputs", len(node.input), operator.inputs),
        ("outputs", len(node.output), operator.outputs),
    ):
        if not low <= found <= high:
            raise ModelError(
                f"a node has {found} {kind} where its operator takes {_range(low, high)}",
                where=node_words(node),
                help=EXPORT_AGAIN,
            )
    for place in operator.named:
        if place < len(node.input) and not node.input[place]:
            raise ModelError(
                f"a node lacks input {place}, which its operator needs",
                where=node_words(node),
                help=EXPORT_AGAIN,
            )
    _check_attributes(node, operator)


def _range(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low} to {high}" if high < 2**31 - 1 else f"{low} or more"


def _check_attributes(node: NodeProto, operator: _Operator) -> None:
    if node.op_type == "Constant" and len(node.attribute) != 1:
        raise ModelError(
            f"a Constant has {len(node.attribute)} attributes where it has one, its value",
            where=node_words(node),
            help=EXPORT_AGAIN,
        )
    given = {attribute.name: attribute.type for attribute in node.attribute}
    for name in operator.required:
        if name not in given:
            raise ModelError(
                f"a node lacks the attribute {shown(name)}, which its operator needs",
                where=node_words(node),
                help=EXPORT_AGAIN,
            )
    for name, kind in given.items():
        wanted = operator.attributes.get(name, kind)
        if kind != wanted:
            raise ModelError(
                f"{name} must be of type {_type_name(wanted)}",
                where=f"{node_words(node)}, {name} has type {_type_name(kind)}",
                help="set it with onnx.helper.make_node, which types what it is given",
            )


def _type_name(kind: int) -> str:
    return str(AttributeProto.AttributeType.Name(kind))
