"""Read an ONNX file into onnx-ir, its external data memory-mapped."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from onnx import ModelProto, TensorProto
from onnx_ir.external_data import set_base_dir

from convt_onnx.model_io.external import ExternalChecker
from convt_onnx.model_io.functions import check_functions
from convt_onnx.model_io.names import check_names
from convt_onnx.model_io.operators import check_operators
from convt_onnx.model_io.reading import read_proto
from convt_onnx.model_io.records import LoadedModel
from convt_onnx.model_io.refused import refuse_unsupported, unknown_fields
from convt_onnx.model_io.serde import deserialise
from convt_onnx.model_io.tensors import check_inline
from convt_onnx.model_io.text import check_text
from convt_onnx.model_io.walk import Owner, is_conv_transpose, owners, tensors


def load(path: Path) -> LoadedModel:
    """Read and check one ONNX file.

    External data is checked but not read: its tensors map it into memory when they are used.

    Args:
        path: A binary .onnx file; its external data is looked for in its folder.

    Raises:
        ModelError: The file cannot be read, or the model is not well formed.
    """
    proto, proto_bytes = read_proto(path)
    external = ExternalChecker(path.parent)
    _normalise_opsets(proto)
    parts = list(owners(proto))
    check_text(proto, parts)
    refuse_unsupported(proto, parts)
    _check_tensors(parts, external)
    check_functions(proto)
    check_operators(proto)
    check_names(proto)
    model = deserialise(proto, path)
    if external.sizes:
        for graph in (model.graph, *(function.graph for function in model.functions.values())):
            set_base_dir(graph, path.parent)
    return LoadedModel(
        path=path,
        model=model,
        proto=proto,
        proto_bytes=proto_bytes,
        external_files=tuple(external.sizes),
        external_bytes=sum(external.sizes.values()),
        has_conv_transpose=any(is_conv_transpose(node) for owner in parts for node in owner.node),
        unknown_fields=unknown_fields(proto, parts),
    )


def _normalise_opsets(proto: ModelProto) -> None:
    """Write the default domain as onnx-ir does, so that `opset_imports[""]` finds it."""
    for owner in (proto, *proto.functions):
        for opset in owner.opset_import:
            if opset.domain == "ai.onnx":
                opset.domain = ""


def _check_tensors(parts: Iterable[Owner], external: ExternalChecker) -> None:
    for owner in parts:
        for tensor, where in tensors(owner):
            if tensor.data_location == TensorProto.EXTERNAL:
                external.check(tensor, where)
            else:
                check_inline(tensor, where)
