"""One spelling for every ConvTranspose."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from convt_onnx.forms.native import expressible, write_attributes
from convt_onnx.graph.attributes import canonical_attributes
from convt_onnx.graph.emitter import AttrValue
from convt_onnx.graph.node import ConvTransposeNode, find_nodes, read_node
from convt_onnx.passes.base import Pass


class CanonicalPads(Pass):
    """Writes every attribute of every ConvTranspose out.

    Rules, per node::

        1. auto_pad, output_shape       -> pads, output_padding
        2. output_padding op, end pad e -> e - op if that is positive, else output_padding op - e
        3. dilation d on a kernel of 1  -> dilation 1
        4. absent attributes            -> their defaults

    Not where the crop depends on an open size, attributes come from a function's caller, or no
    valid attributes say it (a negative begin pad, more output_padding than stride and dilation
    allow): a convolution form does.
    """

    name = "canonical-pads"
    summary = "auto_pad, output_shape and output_padding become explicit pads"

    def run(self, model: ir.Model) -> Iterator[str]:
        """Rewrite the attributes in place."""
        for found in find_nodes(model):
            shapes = found.visible(self.context.shapes)
            read = read_node(found.node, found.path, model.ir_version, shapes)
            if found.path in self.context.choice.skip:
                continue
            if isinstance(read, ConvTransposeNode) and self._try(read):
                yield f"{found.path}: attributes written out"

    def _try(self, read: ConvTransposeNode) -> bool:
        if read.late is not None or expressible(read.spec) is not None:
            return False
        wanted = canonical_attributes(read.spec)
        attributes = read.node.attributes
        current = {
            name: a.as_ints() if a.type == ir.AttributeType.INTS else a.value
            for name, a in attributes.items()
        }
        if {k: list(v) if isinstance(v, tuple) else v for k, v in current.items()} == wanted:
            return False
        if not self.context.target.asymmetric_pads and _symmetric(read.node, wanted):
            return False
        write_attributes(read.node, read.spec)
        return True


def _symmetric(node: ir.Node, wanted: dict[str, AttrValue]) -> bool:
    """Explicit, and with equal pads, which the one spelling would take apart."""
    if set(node.attributes) != set(wanted):
        return False
    pads = node.attributes["pads"].as_ints()
    half = len(pads) // 2
    return list(pads[:half]) == list(pads[half:])
