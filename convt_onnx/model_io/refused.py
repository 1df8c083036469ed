"""Refuse by name what onnx-ir would lose or cannot hold, and find what it drops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from google.protobuf.message import Message  # type: ignore[import-untyped]
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto

from convt_onnx.errors import ModelError
from convt_onnx.model_io.advice import EXPORT_AGAIN
from convt_onnx.model_io.walk import Owner, node_words, shown, tensors, value_infos

_SPARSE_TYPES = {AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS}
_TYPE_TYPES = {AttributeProto.TYPE_PROTO, AttributeProto.TYPE_PROTOS}


def refuse_unsupported(model: ModelProto, parts: Iterable[Owner]) -> None:
    """Refuse what would not survive a rewrite.

    Args:
        model: The model.
        parts: Its graphs and functions.

    Raises:
        ModelError: The model has such a thing.
    """
    if model.training_info:
        raise ModelError(
            "the model has training_info, which a rewrite would lose",
            help="export the model for inference",
        )
    _check_opsets(model)
    for owner in parts:
        if isinstance(owner, GraphProto) and owner.sparse_initializer:
            raise ModelError(
                "the model has a sparse_initializer, which a rewrite would lose",
                where=f"graph {shown(owner.name)}",
                help="export the model with dense weights",
            )
        for value in value_infos(owner):
            _check_type(value.type, value.name)
        for node in owner.node:
            _check_node(node)


def _check_opsets(model: ModelProto) -> None:
    versions: dict[str, int] = {}
    for opset in model.opset_import:
        if versions.setdefault(opset.domain, opset.version) != opset.version:
            domain = shown(opset.domain or "ai.onnx")
            raise ModelError(
                f"the model imports two versions of the operator set {domain}",
                where=f"versions {versions[opset.domain]} and {opset.version}",
                help="keep one opset_import a domain; onnx.version_converter converts nodes",
            )


def _check_node(node: NodeProto) -> None:
    if not node.op_type:
        raise ModelError("a node has no operator type", where=node_words(node), help=EXPORT_AGAIN)
    names: set[str] = set()
    for attribute in node.attribute:
        name = attribute.name
        if name in names:
            raise ModelError(
                f"a node has the attribute {shown(name)} twice",
                where=node_words(node),
                help="keep one of the two",
            )
        names.add(name)
        _check_attribute(node, attribute, attribute.type)


def _check_attribute(node: NodeProto, attribute: AttributeProto, kind: int) -> None:
    if not kind:
        raise ModelError(
            f"the attribute {shown(attribute.name)} has no known type",
            where=node_words(node),
            help="a newer onnx may know it; otherwise export the model again",
        )
    if kind in _SPARSE_TYPES and not attribute.ref_attr_name:
        raise ModelError(
            f"the attribute {shown(attribute.name)} is a sparse tensor, which onnx-ir cannot hold",
            where=node_words(node),
            help="export the model with dense constants",
        )
    if kind in _TYPE_TYPES:
        for type_proto in attribute.type_protos or (attribute.tp,):
            _check_type(type_proto, attribute.name)


def _check_type(type_proto: TypeProto, name: str) -> None:
    kind = type_proto.WhichOneof("value")
    if kind in ("map_type", "opaque_type"):
        raise ModelError(
            f"{shown(name)} has a {kind}, which onnx-ir cannot hold",
            help="export the model with tensors in its place",
        )
    if kind in ("sequence_type", "optional_type"):
        inner = getattr(type_proto, kind).elem_type
        if inner.WhichOneof("value") is None:
            raise ModelError(
                f"{shown(name)} has a {kind} that does not say of what", help=EXPORT_AGAIN
            )
        _check_type(inner, name)


def unknown_fields(model: ModelProto, parts: Iterable[Owner]) -> tuple[str, ...]:
    """Where the file holds fields that the installed onnx does not know.

    onnx-ir keeps none of them, so that a rewritten model lacks them.
    """
    found = {_words(message, UnknownFieldSet(message)): None for message in _unknown(model, parts)}
    return tuple(found)


def _unknown(model: ModelProto, parts: Iterable[Owner]) -> Iterator[Message]:
    for message in _messages(model, parts):
        if len(UnknownFieldSet(message)):
            yield message


def _messages(model: ModelProto, parts: Iterable[Owner]) -> Iterator[Message]:
    yield model
    for owner in parts:
        yield owner
        yield from value_infos(owner)
        for tensor, _ in tensors(owner):
            yield tensor
        for node in owner.node:
            yield node
            yield from node.attribute


def _words(message: Message, fields: UnknownFieldSet) -> str:
    kind = message.DESCRIPTOR.name.removesuffix("Proto")
    numbers = ", ".join(sorted({str(item.field_number) for item in fields}))
    if isinstance(message, ModelProto):
        return f"{kind}: field {numbers}"
    name = node_words(message) if isinstance(message, NodeProto) else shown(message.name)
    return f"{kind} {name}: field {numbers}"
