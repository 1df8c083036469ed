"""Undo what onnx-ir changes in parts of a model that nothing rewrote."""

from __future__ import annotations

from onnx import GraphProto, ModelProto, TensorProto

from convt_onnx.model_io.walk import graphs, owners, tensors


def restore(written: ModelProto, original: ModelProto) -> None:
    """Make `written` look like `original` where the two say the same.

    onnx-ir adds a value_info for each initializer, writes value_infos in node order, sorts
    metadata by key, doubles that of tensors, and spells out an empty domain.
    """
    before = {opset.domain: opset.version for opset in original.opset_import}
    if before == {opset.domain: opset.version for opset in written.opset_import}:
        del written.opset_import[:]
        written.opset_import.extend(original.opset_import)
    _restore_metadata(written, original)
    _restore_metadata(written.graph, original.graph)
    rank: dict[str, int] = {}
    for graph in graphs(original.graph):
        for value in graph.value_info:
            rank.setdefault(value.name, len(rank))
    for graph in graphs(written.graph):
        _restore_value_infos(graph, rank)
    for owner in owners(written):
        for tensor, _ in tensors(owner):
            if tensor.metadata_props:
                _drop_doubles(tensor)


def _restore_metadata(written: ModelProto | GraphProto, original: ModelProto | GraphProto) -> None:
    before = {entry.key: entry.value for entry in original.metadata_props}
    if before == {entry.key: entry.value for entry in written.metadata_props}:
        del written.metadata_props[:]
        written.metadata_props.extend(original.metadata_props)


def _drop_doubles(tensor: TensorProto) -> None:
    entries = {entry.key: entry.value for entry in tensor.metadata_props}
    del tensor.metadata_props[:]
    for key, value in entries.items():
        tensor.metadata_props.add(key=key, value=value)


def _restore_value_infos(graph: GraphProto, rank: dict[str, int]) -> None:
    added = {tensor.name for tensor in graph.initializer} - rank.keys()
    before = [value.name for value in graph.value_info]
    kept = [value for value in graph.value_info if value.name not in added]
    kept.sort(key=lambda value: rank.get(value.name, len(rank)))
    if [value.name for value in kept] != before:
        copies = GraphProto(value_info=kept)
        del graph.value_info[:]
        graph.value_info.extend(copies.value_info)
