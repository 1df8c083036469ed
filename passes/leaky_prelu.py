"""PRelu of one slope around a ConvTranspose."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.node import FoundNode, find_nodes
from convt_onnx.graph.operands import Shapes, constant, is_overridable
from convt_onnx.passes.base import Pass
from convt_onnx.passes.neighbours_absorb import readers, tail_of
from convt_onnx.reasons import Refusal
from convt_onnx.standard import is_standard

# ONNX Runtime has no older PRelu.
MIN_OPSET = 7
# Batch, channels and one spatial axis: of every ConvTranspose.
FEWEST_AXES = 3


class LeakyPrelu(Pass):
    """Writes PRelu as what it is with one slope.

    Rule, for targets of ONNX Runtime's CPU kernels, behind a ConvTranspose and in front of one,
    there also through Concat (U-Nets)::

        PRelu(y, slope), slope one constant value  ->  LeakyRelu <alpha = slope> (y)

    PyTorch's nn.PReLU has one slope unless told otherwise (MONAI's U-Nets). ONNX Runtime broadcasts
    it like any tensor, one element at a time; its LeakyRelu runs in vectors, or in the convolution
    whose result it takes.

    Not where the slope has several values, is known at run time only, may be overridden, is a
    double that no float32 is, or may have more axes than y, which ONNX Runtime adds to y; before
    opset 7; and where y is the slope. Others of the model stay.
    """

    name = "leaky-prelu"
    summary = "PRelu of one slope around a ConvTranspose becomes LeakyRelu"

    def run(self, model: ir.Model) -> Iterator[str]:
        """Rewrite, one line a PRelu."""
        if not self.context.target.mlas:
            return
        for found in list(find_nodes(model)):
            if found.path in self.context.unfolded or found.opset < MIN_OPSET:
                continue
            axes = _axes(found, found.visible(self.context.shapes))
            for node in (*_behind(found), *_in_front(found)):
                alpha = _slope(node.inputs[1], axes, model.ir_version)
                if isinstance(alpha, Refusal):
                    self.miss(found.path, alpha.id, f"PRelu: {alpha.detail}".rstrip(": "))
                    continue
                _write(node, alpha)
                yield f"{found.path}: PRelu beside it is LeakyRelu"


def _behind(found: FoundNode) -> list[ir.Node]:
    """PRelus that read the output."""
    tail = tail_of(found)
    return [n for n in readers(tail) if is_standard(n, "PRelu") and n.inputs[0] is tail.value]


def _in_front(found: FoundNode) -> list[ir.Node]:
    """PRelus of the same graph that make the input, or what is concatenated to it."""
    prelus: dict[ir.Node, None] = {}
    seen: set[ir.Value] = set()
    pending = list(found.node.inputs[:1])
    while pending:
        value = pending.pop()
        if value is None or value in seen:
            continue
        seen.add(value)
        node = value.producer()
        if node is None or node.graph is not found.node.graph:
            continue
        if is_standard(node, "Concat"):
            pending += node.inputs
        elif is_standard(node, "PRelu"):
            prelus[node] = None
    return list(prelus)


def _axes(found: FoundNode, shapes: Shapes) -> int:
    """How many axes the values around a node have at least: its weight's, where those are known."""
    weight = found.node.inputs[1]
    known = None if weight is None else weight.shape or shapes.get(weight.name or "")
    return FEWEST_AXES if known is None else len(known)


def _slope(value: ir.Value | None, axes: int, ir_version: int) -> float | Refusal:
    """The only value of a slope of up to so many axes, or why there is none."""
    if value is not None and is_overridable(value, ir_version):
        return Refusal("CT445", str(value.name))
    operand = constant(value, ir_version)
    if operand is None:
        return Refusal("CT444", "" if value is None else str(value.name))
    if operand.tensor.size != 1 or len(operand.shape) > axes:
        return Refusal("CT451", f"a slope of shape {list(operand.shape)}")
    slope = float(operand.array().reshape(()))
    if float(np.float32(slope)) != slope:
        return Refusal("CT451", f"the slope {slope!r} is no float32")
    return slope


def _write(node: ir.Node, alpha: float) -> None:
    slope = node.inputs[1]
    node.op_type = "LeakyRelu"
    node.resize_inputs(1)
    node.attributes["alpha"] = ir.AttrFloat32("alpha", alpha)
    remove_unused([v for v in (slope,) if v is not None])
