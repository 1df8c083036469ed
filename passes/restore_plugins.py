"""The plugin's nodes as standard operators again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import onnx_ir as ir

from convt_onnx.errors import UsageError
from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.emitter import Emitter, NamePool
from convt_onnx.graph.operands import constant
from convt_onnx.passes.base import Pass
from convt_onnx.plugin_node import DOMAIN, HASHED, OVERLOAD, PluginRecord
from convt_onnx.plugin_node.body import emit_activation, emit_conv_transpose
from convt_onnx.plugin_node.functions import drop_functions
from convt_onnx.plugin_node.record import read_record
from convt_onnx.plugin_node.types import BY_NAME
from convt_onnx.plugin_node.weights import unpack_by_nodes
from convt_onnx.plugins.conv_transpose.packing import Packing, unpack
from convt_onnx.standard import opset_of

NAMINGS = (HASHED, OVERLOAD)


class RestorePlugins(Pass):
    """Replaces the plugin's nodes by ConvTranspose, Add and the activation.

    Rules::

        1. a node stays where the target takes the plugin and names its nodes as this one
        2. a packed weight that the file holds is unpacked, another is unpacked by nodes
        3. functions that nothing calls any more go, and the domain with the last of them
        4. a node whose attributes do not fit its name is left alone (CT548)
    """

    name = "restore-plugins"
    summary = "nodes of the plugin become standard operators where the target is to have none"
    makes_values = True

    def run(self, model: ir.Model) -> Iterator[str]:
        """Replace the nodes, one line each."""
        names = NamePool(model)
        cache: dict[Hashable, ir.Value] = {}
        restored = False
        for graph, opset, body in list(_graphs(model)):
            for node in [n for n in graph if n.domain == DOMAIN]:
                record = self._record(node)
                if record is None or self._stays(node, record):
                    continue
                emitter = Emitter(
                    graph,
                    opset=opset,
                    inline_constants=body,
                    names=names,
                    prefix=(node.name or node.op_type).removesuffix(f"/{node.op_type}"),
                    cache=cache,
                )
                _restore(emitter, node, record, model.ir_version)
                restored = True
                yield f"{node.name}: restored"
        remove_unused(cache.values())
        if restored:
            drop_functions(model)

    def _record(self, node: ir.Node) -> PluginRecord | None:
        """What a node's attributes say, None where it is none of ours."""
        attributes = {a.name: a.value for a in node.attributes.values() if not a.is_ref()}
        try:
            record = _named(node, [read_record(attributes, dtype) for dtype in _dtypes(node)])
        except UsageError as error:
            why = error.where or error.what
        else:
            if record is None:
                why = "its name is not that of its attributes"
            elif len(node.inputs) != len(record.inputs) or None in node.inputs:
                why = f"it has {len(node.inputs)} inputs"
            else:
                return record
        self.miss(node.name or node.op_type, "CT548", why)
        return None

    def _stays(self, node: ir.Node, record: PluginRecord) -> bool:
        naming = self.context.plugin_naming
        return bool(naming) and (node.op_type, node.overload) == record.identity(naming)


def _restore(em: Emitter, node: ir.Node, record: PluginRecord, ir_version: int) -> None:
    inputs = {n: v for n, v in zip(record.inputs, node.inputs, strict=True) if v is not None}
    old = list(inputs.values())
    weight = inputs["W"]
    if record.packing is not None:
        weight = _unpacked(em, weight, record, record.packing, ir_version)
    y = emit_conv_transpose(em, record, inputs["X"], weight, inputs.get("B"))
    if record.has_residual:
        y = em.add(y, inputs["R"])
    dtype = BY_NAME[record.dtype].numpy()
    em.splice(node, emit_activation(em, record, y, inputs.get("S"), dtype))
    remove_unused(old)


def _unpacked(
    em: Emitter, weight: ir.Value, record: PluginRecord, packing: Packing, ir_version: int
) -> ir.Value:
    known = constant(weight, ir_version)
    shape = record.spec.weight_shape
    if known is None:
        return em.reshape(unpack_by_nodes(em, weight, packing), shape)
    key = (weight, packing)
    return em.shared(key, lambda: unpack(known.array(), packing).reshape(shape), "weight")


def _graphs(model: ir.Model) -> Iterator[tuple[ir.Graph, int, bool]]:
    """Graphs of the model and of functions other than ours, their opset, whether a body."""
    own = [f for f in model.functions.values() if f.domain != DOMAIN]
    for root, imports in [(model.graph, model.opset_imports)] + [
        (f.graph, f.opset_imports) for f in own
    ]:
        opset = opset_of(imports)
        body = root is not model.graph
        yield root, opset, body
        yield from ((graph, opset, False) for graph in root.subgraphs())


def _dtypes(node: ir.Node) -> Sequence[str]:
    """Names of the types that the node may compute in: every one where none is stated."""
    stated = [v.dtype for v in (*node.inputs[:1], *node.outputs) if v is not None and v.dtype]
    return [stated[0].numpy().name] if stated else list(BY_NAME)


def _named(node: ir.Node, records: Iterable[PluginRecord]) -> PluginRecord | None:
    """The record that the node's name was made from."""
    name = (node.op_type, node.overload)
    return next((r for r in records if name in map(r.identity, NAMINGS)), None)
