"""The largest symmetric part of a crop, and a node that has no other pads."""

from __future__ import annotations

from dataclasses import dataclass

from convt_onnx.forms.native import expressible, write_attributes
from convt_onnx.graph.attributes import canonical_attributes
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.passes.crops_writing import own_name
from convt_onnx.spec import Axis, ConvTransposeSpec


@dataclass(frozen=True, slots=True)
class SymmetricPart:
    """A node with equal pads at both ends, and what is left to crop behind it.

    Attributes:
        spec: pads_begin equals pads_end.
        begin, end: Rows still to drop, one entry a spatial axis.
    """

    spec: ConvTransposeSpec
    begin: tuple[int, ...]
    end: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """Nothing is left to crop."""
        return not any((*self.begin, *self.end))


def symmetric_part(spec: ConvTransposeSpec) -> SymmetricPart:
    """The symmetric node that computes the fewest rows; the begin crops are not negative.

    Per axis, with begin crop b and net end crop e (pads_end - output_padding)::

        b <= e -> pads (b, b),           e - b more rows dropped at the end
        b > e  -> pads (e + o, e + o),   output_padding o = min(b - e, stride - 1),
                  b - e - o more rows dropped at the begin
    """
    pads, padding = [], []
    for axis in spec.axes():
        extra = _output_padding(axis)
        padding.append(extra)
        pads.append(min(axis.begin, axis.end + extra))
    axes = list(spec.axes())
    return SymmetricPart(
        spec.with_pads([(p, p) for p in pads], tuple(padding)),
        tuple(a.begin - p for a, p in zip(axes, pads, strict=True)),
        tuple(a.end + o - p for a, p, o in zip(axes, pads, padding, strict=True)),
    )


def _output_padding(axis: Axis) -> int:
    """What the node has already may be more than the stride allows, below the dilation."""
    return max(0, min(axis.begin - axis.end, max(axis.stride - 1, -axis.end)))


def has_other_pads(read: ConvTransposeNode) -> bool:
    """Whether a node in its canonical spelling has unequal pads that can be made equal."""
    if read.late is not None or expressible(read.spec) is not None:
        return False
    pads = read.node.attributes.get("pads")
    if pads is None or "auto_pad" in read.node.attributes:
        # Not in the canonical spelling: another pass has left it for a reason.
        return False
    values = pads.as_ints()
    return list(values[: read.spec.ndim]) != list(values[read.spec.ndim :])


def write_symmetric(read: ConvTransposeNode, em: Emitter) -> SymmetricPart:
    """Leave the node its symmetric part, and write a Slice behind it for what is left to crop."""
    part, node = symmetric_part(read.spec), read.node
    if part.complete:
        write_attributes(node, part.spec)
        return part
    whole = em.op("ConvTranspose", list(node.inputs), **canonical_attributes(part.spec))
    made = em.nodes[-1]
    made.name = own_name(node)
    made.metadata_props.update(node.metadata_props)
    whole.type = node.outputs[0].type
    axes = range(2, 2 + part.spec.ndim)
    em.splice(node, em.crop(whole, axes, part.begin, part.end))
    return part
