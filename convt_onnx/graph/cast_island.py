"""Computing a node in float32 between two Casts."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy)
import numpy as np
import onnx_ir as ir

from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand, Operand, RuntimeOperand


def with_cast_island(em: Emitter, node: ConvTransposeNode) -> ConvTransposeNode:
    """The node with float32 operands: constants converted exactly, the rest cast in the graph."""
    return replace(
        node,
        x=em.cast(node.x, ir.DataType.FLOAT),
        weight=_float_operand(em, node.weight),
        bias=None if node.bias is None else _float_operand(em, node.bias),
        dtype=ir.DataType.FLOAT,
    )


def _float_operand(em: Emitter, operand: Operand) -> Operand:
    if isinstance(operand, ConstantOperand):
        value = em.shared(
            (operand.value, "float32"), lambda: operand.array().astype(np.float32), "float32"
        )
        tensor = ir.convenience.get_const_tensor(value)
        if tensor is None:
            raise AssertionError("a constant was just made")
        return ConstantOperand(value, tensor)
    return RuntimeOperand(em.cast(operand.value, ir.DataType.FLOAT), operand.shape, False)
