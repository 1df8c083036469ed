"""CT461 to CT479: quantised nodes."""

from __future__ import annotations

from convt_onnx.reasons.base import Reason

REASONS = (
    Reason(
        "CT461",
        "an integer variant of the operator",
        "The node computes a transposed convolution on integers by itself, with scales as further "
        "inputs, and belongs to one runtime. It is left alone; only the standard operator, with "
        "QuantizeLinear and DequantizeLinear around it, is rewritten.",
    ),
    Reason(
        "CT462",
        "one scale an input channel",
        "The weight is quantised along axis 0, so the products that are summed up for one output "
        "have different scales and no runtime can sum them as integers. The weight stays "
        "quantised and is brought into order behind its DequantizeLinear, but the convolution "
        "runs in float. Quantise a ConvTranspose along axis 1 (onnxruntime's quantize_static "
        "does so with per_channel=True) or with one scale a tensor.",
    ),
    Reason(
        "CT463",
        "quantised in blocks or along the kernel",
        "The scales of the weight belong to neither input nor output channels. It is repacked "
        "after it is dequantised, in every call; `--dequantize` makes it a float weight instead.",
    ),
    Reason(
        "CT464",
        "quantised by operators of com.microsoft",
        "ONNX Runtime's QuantizeLinear and DequantizeLinear become the standard ones where the "
        "opset has them for these types: 8 bits from opset 10, per channel from 13, float16 "
        "scales from 19, 4 and 16 bits from 21. Elsewhere the node is not known to be quantised "
        "and its weight counts as computed at run time.",
    ),
    Reason(
        "CT465",
        "an integer convolution could saturate",
        "ONNX Runtime computes a quantised ConvTranspose in floats, but a Conv between "
        "DequantizeLinear and QuantizeLinear in integers. On x86 processors without VNNI it adds "
        "pairs of products with int8 weights in saturating 16 bits, and with a weight beyond 64 "
        "results may be off by many steps. So the node is kept where ONNX Runtime's CPU provider "
        "runs it, on every processor. Quantise with reduce_range=True, which keeps weights "
        "within 64, or give `--dequantize`, which makes them floats.",
    ),
)
