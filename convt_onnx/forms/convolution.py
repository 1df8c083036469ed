"""A stride-1 convolution along planned axes, over two axes where one would be slower."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convt_onnx.forms.base import Setting
from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand
from convt_onnx.phases import ConvAxis


def is_lifted(node: ConvTransposeNode, setting: Setting) -> bool:
    """Whether a single axis gets a unit axis in front.

    ONNX Runtime's CPU provider has its layout with channels in blocks for two axes alone, and for
    constant float weights.
    """
    return setting.mlas and node.spec.ndim == 1 and isinstance(node.weight, ConstantOperand)


def window(convs: Sequence[ConvAxis], *, lifted: bool) -> tuple[int, ...]:
    """Positions along each axis of the convolution's weight."""
    return (*[1] * lifted, *(c.taps for c in convs))


def convolve(
    em: Emitter,
    x: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None,
    convs: Sequence[ConvAxis],
    *,
    group: int,
    lifted: bool,
) -> ir.Value:
    """Conv of x [N, C, *L] with one plan an axis; lifted, the result is [N, C', 1, L']."""
    return em.conv(
        em.unsqueeze(x, [2]) if lifted else x,
        weight,
        bias,
        kernel=window(convs, lifted=lifted),
        dilations=[*[1] * lifted, *(c.dilation for c in convs)],
        low=[*[0] * lifted, *(c.low for c in convs)],
        high=[*[0] * lifted, *(c.high for c in convs)],
        group=group,
    )
