"""What a target's table means for one node in one form."""

from __future__ import annotations

from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand
from convt_onnx.plugin_node.record import FORM
from convt_onnx.reasons import Refusal
from convt_onnx.targets import Target

# Forms that still hold a ConvTranspose.
NATIVE = frozenset({"keep", "undilate", "unfold", "slices", "bands"})
# Add broadcasts from here on.
BROADCAST_OPSET = 7


def target_refusal(
    form: str, node: ConvTransposeNode, target: Target, opset: int
) -> Refusal | None:
    """Why the target does not run a node in a form, None where it does."""
    if target.max_axes and node.spec.ndim > target.max_axes:
        return Refusal("CT512", f"{node.spec.ndim} spatial axes")
    if form == FORM:
        return None  # its own check says what it takes
    if form in NATIVE:
        refusal = _native_refusal(form, node, target, opset)
        if refusal is not None:
            return refusal
    if target.takes(node.dtype, opset, native=form in NATIVE):
        return None
    if node.dtype in target.cast_island:
        return None
    return Refusal("CT311", f"{form} in {node.dtype}")


def _native_refusal(
    form: str, node: ConvTransposeNode, target: Target, opset: int
) -> Refusal | None:
    spec = node.spec
    if node.late is not None and target.late_output_shape:
        return Refusal("CT105", f"output_shape = {list(node.late.output)}")
    if not target.conv_transpose:
        return Refusal("CT312", f"{target.name} has no ConvTranspose")
    if target.output_padding_below_stride:
        pairs = zip(spec.output_padding, spec.strides, strict=True)
        if beyond := [(op, s) for op, s in pairs if op >= s]:
            return Refusal("CT310", f"output_padding {beyond[0][0]}, stride {beyond[0][1]}")
    strided = any(s > 1 for s in spec.strides) and any(d > 1 for d in spec.dilations)
    if strided and form == "keep" and not target.strided_dilated:
        detail = f"strides = {list(spec.strides)}, dilations = {list(spec.dilations)}"
        return Refusal("CT500", detail)
    if crops_output_padding(node, target):
        return Refusal("CT517", f"input sizes {list(node.sizes)}")
    if spec.ndim == 3 and spec.group > 1 and not target.grouped_3d:
        return Refusal("CT513", f"group = {spec.group}")
    if needs_outer_bias(form, node, target) and opset < BROADCAST_OPSET:
        return Refusal("CT306", f"a broadcasting Add needs opset {BROADCAST_OPSET}")
    return None


def needs_cast_island(form: str, node: ConvTransposeNode, target: Target, opset: int) -> bool:
    """Whether the form is computed in float32 between two Casts."""
    if form == FORM:
        return False
    if node.spec.depthwise and node.dtype in target.depthwise_island:
        return True
    if node.dtype not in target.cast_island:
        return False
    return not target.takes(node.dtype, opset, native=form in NATIVE)


def needs_outer_bias(form: str, node: ConvTransposeNode, target: Target) -> bool:
    """Whether the bias is to be added behind the node."""
    if form not in NATIVE or target.computed_bias_in_padding:
        return False
    computed = node.bias is not None and not isinstance(node.bias, ConstantOperand)
    return computed and any(node.spec.output_padding)


def crops_output_padding(node: ConvTransposeNode, target: Target) -> bool:
    """Whether the target lacks rows, since pads crop more than there are before output_padding."""
    if target.crop_within_output_padding:
        return False
    axes = zip(node.spec.axes(), node.spec.output_padding, node.sizes, strict=True)
    return any(size is not None and a.output_length(size) < op for a, op, size in axes)


def needs_channels(node: ConvTransposeNode, target: Target) -> bool:
    """Whether the input's channel count is to be written into the graph."""
    return node.open_channels and not target.open_channels


def stays(form: str, node: ConvTransposeNode, target: Target, opset: int) -> bool:
    """Whether the node in its canonical spelling is the form, with nothing around it."""
    return form == "keep" and not (
        node.late is not None
        or needs_cast_island(form, node, target, opset)
        or needs_outer_bias(form, node, target)
        or needs_channels(node, target)
    )
