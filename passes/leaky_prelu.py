"""PRelu of one slope behind a ConvTranspose."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.node import find_nodes
from convt_onnx.graph.operands import constant, is_overridable
from convt_onnx.passes.base import Pass
from convt_onnx.passes.neighbours_absorb import readers, tail_of
from convt_onnx.reasons import Refusal
from convt_onnx.standard import is_standard

# ONNX Runtime has no older PRelu.
MIN_OPSET = 7


class LeakyPrelu(Pass):
    """Writes PRelu as what it is with one slope.

    Rule, for targets of ONNX Runtime's CPU kernels::

        PRelu(y, slope), slope one constant value  ->  LeakyRelu <alpha = slope> (y)

    PyTorch's nn.PReLU has one slope unless told otherwise (MONAI's U-Nets). ONNX Runtime broadcasts
    it like any tensor, one element at a time; its LeakyRelu runs in vectors.

    Not where the slope has several values, is known at run time only, may be overridden, or is a
    double that no float32 is; before opset 7; and where y is the slope.
    """

    name = "leaky-prelu"
    summary = "PRelu of one slope behind a ConvTranspose becomes LeakyRelu"

    def run(self, model: ir.Model) -> Iterator[str]:
        """Rewrite, one line a PRelu."""
        if not self.context.target.mlas:
            return
        for found in list(find_nodes(model)):
            if found.path in self.context.unfolded or found.opset < MIN_OPSET:
                continue
            value = tail_of(found).value
            for node in readers(tail_of(found)):
                if not is_standard(node, "PRelu") or node.inputs[0] is not value:
                    continue
                alpha = _slope(node.inputs[1], model.ir_version)
                if isinstance(alpha, Refusal):
                    self.miss(found.path, alpha.id, f"PRelu: {alpha.detail}".rstrip(": "))
                    continue
                _write(node, alpha)
                yield f"{found.path}: PRelu behind it is LeakyRelu"


def _slope(value: ir.Value | None, ir_version: int) -> float | Refusal:
    """The only value of a slope, or why there is none."""
    if value is not None and is_overridable(value, ir_version):
        return Refusal("CT445", str(value.name))
    operand = constant(value, ir_version)
    if operand is None:
        return Refusal("CT444", "" if value is None else str(value.name))
    if operand.tensor.size != 1:
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
