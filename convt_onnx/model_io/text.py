"""Check that every text of a model is UTF-8, which onnx-ir and ONNX Runtime rely on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TypeProto

from convt_onnx.errors import ModelError
from convt_onnx.model_io.walk import Owner, shown, tensors, value_infos

# protobuf gives a text that is not UTF-8 as bytes.
_Texts = list[str | bytes]


def check_text(model: ModelProto, parts: Iterable[Owner]) -> None:
    """Check the texts of a model.

    Args:
        model: The model.
        parts: Its graphs and functions.

    Raises:
        ModelError: One of them is not UTF-8.
    """
    _check(_model_texts(model))
    for owner in parts:
        for texts in _owner_texts(owner):
            _check(texts)


def _check(texts: _Texts) -> None:
    if bytes in map(type, texts):
        text = next(text for text in texts if isinstance(text, bytes))
        raise ModelError(
            f"the model holds the text {shown(text)}, which is not UTF-8",
            help="the file is damaged, or its exporter is; export the model again",
        )


def _model_texts(model: ModelProto) -> _Texts:
    return [
        model.producer_name,
        model.producer_version,
        model.domain,
        model.doc_string,
        *_metadata_texts(model.metadata_props),
        *(opset.domain for opset in model.opset_import),
    ]


def _owner_texts(owner: Owner) -> Iterator[_Texts]:
    yield [owner.name, owner.doc_string, *_metadata_texts(owner.metadata_props)]
    if isinstance(owner, FunctionProto):
        yield [owner.domain, owner.overload, *owner.input, *owner.output, *owner.attribute]
        yield [opset.domain for opset in owner.opset_import]
        yield _attribute_texts(owner.attribute_proto)
    for value in value_infos(owner):
        yield [value.name, value.doc_string, *_metadata_texts(value.metadata_props)]
        yield _type_texts(value.type)
    for tensor, _ in tensors(owner):
        yield [tensor.name, tensor.doc_string, *_metadata_texts(tensor.metadata_props)]
    for node in owner.node:
        yield _node_texts(node)


def _node_texts(node: NodeProto) -> _Texts:
    texts: _Texts = [node.op_type, node.domain, node.overload, node.name, node.doc_string]
    texts += node.input
    texts += node.output
    texts += _attribute_texts(node.attribute)
    texts += _metadata_texts(node.metadata_props)
    return texts


def _attribute_texts(attributes: Iterable[AttributeProto]) -> _Texts:
    return [
        text
        for attribute in attributes
        for text in (attribute.name, attribute.ref_attr_name, attribute.doc_string)
    ]


def _type_texts(type_proto: TypeProto) -> _Texts:
    texts: _Texts = [type_proto.denotation]
    kind = type_proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        for dim in getattr(type_proto, kind).shape.dim:
            texts += (dim.dim_param, dim.denotation)
    elif kind in ("sequence_type", "optional_type"):
        texts += _type_texts(getattr(type_proto, kind).elem_type)
    return texts


def _metadata_texts(entries: Iterable[onnx.StringStringEntryProto]) -> _Texts:
    return [text for entry in entries for text in (entry.key, entry.value)]
