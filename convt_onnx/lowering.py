"""Writing one node in a form: the form itself, the late crop, the casts around it."""

from __future__ import annotations

from convt_onnx.decide import needs_cast_island
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
    """Put a form in the node's place; what nothing reads any more goes."""
    island = needs_cast_island(form, node, target, setting.opset)
    old = [v for v in node.node.inputs if v is not None]
    inner = with_cast_island(em, node) if island else node
    result = FORMS[form].emit(em, inner, setting)
    if node.late is not None:
        result = emit_late_crop(em, result, inner.x, node.late)
    if island and node.dtype is not None:
        result = em.cast(result, node.dtype)
    em.splice(node.node, result)
    remove_unused(old)
