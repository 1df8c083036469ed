"""Which nodes of a model a device of the target would not run: read from the table of targets."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import onnx_ir as ir

from convt_onnx.graph.node import every_node, find_nodes
from convt_onnx.reasons import Refusal
from convt_onnx.standard import is_standard
from convt_onnx.targets import Target


@dataclass(frozen=True, slots=True)
class OffDevice:
    """A node, as it stands in the file, that leaves the device of a target."""

    node: str
    target: str
    reason: Refusal


def off_device(model: ir.Model, target: Target) -> tuple[OffDevice, ...]:
    """Every node of a model that the target's device is known to leave to another, and why.

    Nothing for a target without a device of its own. Element types are those that the values
    declare; attributes that come from the caller of a function are not judged.
    """
    if not target.device:
        return ()
    ours = ((f.path, _reason(f.node, target)) for f in find_nodes(model))
    others = ((_name(n), _other_reason(n, target)) for n in every_node(model))
    found = chain(ours, others)
    return tuple(OffDevice(path, target.name, why) for path, why in found if why is not None)


def _name(node: ir.Node) -> str:
    return node.name or node.outputs[0].name or node.op_type


def _other_reason(node: ir.Node, target: Target) -> Refusal | None:
    """Of a node that is no ConvTranspose."""
    if not is_standard(node):
        return None
    if node.op_type in target.off_device_operators:
        return Refusal("CT576", node.op_type)
    if node.op_type == "DequantizeLinear" and node.inputs[0] is not None:
        integers = node.inputs[0]
        known = ir.convenience.get_const_tensor(integers)
        dtype = integers.dtype if known is None else known.dtype
        if dtype in target.off_device_integers:
            return Refusal("CT575", f"{integers.name} of type {dtype}")
    return None


def _reason(node: ir.Node, target: Target) -> Refusal | None:
    attributes = {n: a for n, a in node.attributes.items() if not a.is_ref()}
    dtype = next((v.dtype for v in node.inputs if v is not None and v.dtype is not None), None)
    if dtype is not None and dtype not in target.conv_transpose_dtypes:
        return Refusal("CT572", f"{dtype}")
    auto_pad = attributes["auto_pad"].as_string() if "auto_pad" in attributes else ""
    if auto_pad.startswith("SAME") and not target.same_auto_pad:
        return Refusal("CT571", f"auto_pad = {auto_pad}")
    pads = list(attributes["pads"].as_ints()) if "pads" in attributes else []
    half = len(pads) // 2
    # With output_shape the pads are not read, and the crop may differ by the odd row.
    if (
        not target.asymmetric_pads
        and "output_shape" not in attributes
        and pads[:half] != pads[half:]
    ):
        return Refusal("CT570", f"pads = {pads}")
    return None
