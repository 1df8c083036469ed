"""Scales of quantised weights and biases that take in a factor an output channel."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from convt_onnx.graph.channels import Vector
from convt_onnx.graph.evaluate import Array
from convt_onnx.graph.operands import QuantisedOperand
from convt_onnx.reasons import Refusal


def scaled(operand: QuantisedOperand, factors: Vector, group: int) -> Array | Refusal:
    """The operand's scales times one factor an output channel, where no product is rounded.

    The integers stay, and so does every value to the last bit; factors are powers of two, nearly
    always.

    Args:
        operand: A weight [C_in, M, ...] or a bias [group * M].
        factors: [group * M].
        group: The node's.
    """
    scale, name = operand.scale.array(), str(operand.value.name)
    one = np.unique(factors)
    if len(one) > 1 and operand.axis is not None:
        is_bias = len(operand.shape) == 1
        rows = factors.reshape(1 if is_bias else group, -1)
        if operand.axis != (0 if is_bias else 1) or (rows != rows[0]).any():
            return Refusal("CT447", f"{name}: the factors differ within a scale")
        one = rows[0]
    elif len(one) > 1:
        return Refusal("CT447", f"{name}: one scale a tensor, but several factors")
    product = scale.astype(np.float64) * (one if len(one) > 1 else one[0])
    rounded = product.astype(scale.dtype)
    least = float(ml_dtypes.finfo(scale.dtype).smallest_normal)
    if (one <= 0).any() or (product < least).any() or (rounded.astype(np.float64) != product).any():
        return Refusal("CT447", f"{name}: the scales would be rounded or not be positive")
    return rounded
