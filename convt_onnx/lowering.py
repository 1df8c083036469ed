"""Writing one node in a form: the form itself, and what the target needs around it."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from convt_onnx.capabilities import needs_cast_island, needs_channels, needs_outer_bias
from convt_onnx.forms import FORMS, Setting
from convt_onnx.graph.cast_island import with_cast_island
from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.late_crop import emit_late_crop
from convt_onnx.targets import Target


def write_form(
    em: Emitter, node: ConvTransposeNode, form: str, setting: Setting, target: Target
) -> None:
    """Put a form in the place of the node and of what it absorbs; what nothing reads any more goes.

    The result stands where the last of them stood: only there are all operands computed.
    """
    island = needs_cast_island(form, node, target, setting.opset)
    old = [v for v in node.node.inputs if v is not None]
    inner = with_channels(em, node) if needs_channels(node, target) else node
    inner = with_cast_island(em, inner) if island else inner
    outer = inner.bias if needs_outer_bias(form, node, target) else None
    if outer is not None:
        inner = replace(inner, bias=None)
    before = node.node if node.absorbed is None else node.absorbed.last
    old += [v for v in before.inputs if v is not None]
    result = FORMS[form].emit(em, inner, setting)
    if outer is not None:
        result = add_bias(em, result, outer.value, node.spec.ndim)
    if node.late is not None:
        result = emit_late_crop(em, result, inner.x, node.late)
    if island and node.dtype is not None:
        result = em.cast(result, node.dtype)
    em.splice(before, result)
    remove_unused(old)


def with_channels(em: Emitter, node: ConvTransposeNode) -> ConvTransposeNode:
    """The node behind a Reshape to the channel count that its weight has."""
    shape = [0, node.spec.in_channels, *[0] * node.spec.ndim]
    return replace(node, x=em.reshape(node.x, shape), open_channels=False)


def add_bias(em: Emitter, y: ir.Value, bias: ir.Value, ndim: int) -> ir.Value:
    """y + bias along the channels."""
    return em.add(y, em.reshape(bias, [-1, *[1] * ndim]))
