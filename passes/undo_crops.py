"""Asymmetric pads become symmetric pads and a Slice."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from convt_onnx.decide import decide, setting_for
from convt_onnx.forms.plugin import PLUGIN
from convt_onnx.graph.emitter import NamePool
from convt_onnx.graph.node import ConvTransposeNode, FoundNode, find_nodes, read_node
from convt_onnx.passes.base import Pass
from convt_onnx.passes.crops_symmetric import has_other_pads, write_symmetric
from convt_onnx.passes.crops_writing import emitter_at


class UndoCrops(Pass):
    """Leaves the ConvTranspose symmetric pads, for targets that take no others.

    Rules, per axis with begin crop b and net end crop e (pads_end - output_padding), stride s::

        1. b == e             -> pads (b, b)
        2. 0 < b - e < s      -> pads (b, b), output_padding b - e
        3. b < e              -> pads (b, b), Slice drops e - b rows at the end
        4. b - e >= s         -> pads (e + s - 1, e + s - 1), output_padding s - 1,
                                 Slice drops b - e - s + 1 rows at the begin

    One Slice does all axes; its bounds hold for every input size. The node keeps its name, the
    Slice takes over the name of its output. Not where the target takes asymmetric pads, the pads
    are symmetric already, the crop depends on an open size, or the begin crop is negative.
    """

    name = "undo-crops"
    summary = "asymmetric pads become symmetric pads and a Slice, where the target needs it"
    makes_values = True

    def run(self, model: ir.Model) -> Iterator[str]:
        """Rewrite, one line a node."""
        if self.context.target.asymmetric_pads:
            return
        names = NamePool(model)
        for found in find_nodes(model):
            if found.path in self.context.choice.skip:
                continue
            shapes = found.visible(self.context.shapes)
            read = read_node(found.node, found.path, model.ir_version, shapes)
            if not isinstance(read, ConvTransposeNode) or not has_other_pads(read):
                continue
            if self._goes_to_plugin(found, read, model.ir_version):
                continue
            part = write_symmetric(read, emitter_at(model, found, names))
            dropped = f", {list(part.begin)} and {list(part.end)} sliced"
            yield f"{found.path}: symmetric pads{'' if part.complete else dropped}"

    def _goes_to_plugin(self, found: FoundNode, read: ConvTransposeNode, ir_version: int) -> bool:
        """Whether the node will not stay a ConvTranspose: the plugin takes any pads."""
        naming, target = self.context.plugin_naming, self.context.target
        setting = setting_for(found.opset, target, read.dtype, ir_version=ir_version, plugin=naming)
        return decide(read, target, setting, self.context.choice).form == PLUGIN.name
