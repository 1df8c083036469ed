"""CT5xx: what TensorRT and TensorRT-RTX refuse, or build into something else."""

from __future__ import annotations

from convt_onnx.reasons.base import Reason

REASONS = (
    Reason(
        "CT500",
        "TensorRT refuses a stride with a dilation",
        "Its deconvolution has no stride above 1 together with a dilation above 1, not even on "
        "different axes. `undilate` writes the dilation into the weight as zeros; `phases` makes "
        "ordinary convolutions of it.",
    ),
    Reason(
        "CT501",
        "TensorRT refuses a deconvolution in bfloat16",
        "The build fails ('Could not infer output types', NVIDIA/TensorRT#4829). The convolution "
        "forms build in bfloat16; a depthwise one may be computed in float32 between Casts.",
    ),
    Reason(
        "CT502",
        "TensorRT refuses output_shape on one axis",
        "Its parser lifts the node to two axes first and then reads beyond the attribute, so that "
        "the added axis gets its value; 2 gives a wrong result. The crop is written as pads.",
    ),
    Reason(
        "CT503",
        "TensorRT refuses output_shape on an axis of unknown size",
        "Its parser computes the crop from a placeholder for the size. The convolution is computed "
        "whole and cropped by a Slice with computed bounds (opset 10 or later).",
    ),
    Reason(
        "CT504",
        "TensorRT refuses an output_shape beyond the natural size",
        "The pads would be negative at the begin. Rows beyond become output_padding.",
    ),
    Reason(
        "CT505",
        "TensorRT shifts an output_shape with an odd total crop",
        "With auto_pad NOTSET it crops the larger half at the end, ONNX at the begin: the result "
        "is shifted by one row (onnx/onnx-tensorrt#1042). The crop is written as pads.",
    ),
    Reason(
        "CT506",
        "TensorRT drops output_padding under auto_pad",
        "Under SAME_UPPER, SAME_LOWER and VALID the attribute is not read: the result is shifted "
        "or too small. The crop is written as pads and output_padding.",
    ),
    Reason(
        "CT507",
        "TensorRT drops output_shape under auto_pad",
        "Under SAME_UPPER and SAME_LOWER the result has input size times stride rows, under VALID "
        "its natural size. The crop is written as pads and output_padding.",
    ),
    Reason(
        "CT508",
        "TensorRT leaves a computed bias out of the output_padding rows",
        "Where output_padding is larger than the end pads, its parser widens the result with "
        "zeros behind the bias. A bias that is no initializer is added behind the node; one that "
        "can be computed when the model is rewritten becomes an initializer.",
    ),
    Reason(
        "CT509",
        "TensorRT refuses an open channel count",
        "The input's channel count is not in the model. The weight has it: a Reshape writes it "
        "into the graph.",
    ),
    Reason(
        "CT510",
        "TensorRT reads a function's attributes as their defaults",
        "strides, dilations, output_padding and kernel_shape that a function takes from its call "
        "are ignored in the body. The function is inlined.",
    ),
    Reason(
        "CT511",
        "TensorRT tells functions apart by name alone",
        "It ignores domain and overload, so one of the bodies stands for all of them. Functions "
        "with a ConvTranspose that share a name are inlined.",
    ),
    Reason(
        "CT512",
        "TensorRT has at most three spatial axes",
        "Neither its deconvolution nor its convolution takes more; no form helps.",
    ),
    Reason(
        "CT513",
        "TensorRT-RTX up to 1.4 crashes on grouped 3-D deconvolutions",
        "Fixed in 1.5 (pytorch/TensorRT#4306). The convolution forms run.",
    ),
    Reason(
        "CT514",
        "TensorRT computes float64 in float32",
        "It has no float64: inputs, weights and results are narrowed without a word.",
    ),
    Reason(
        "CT515",
        "TensorRT refuses these quantised values",
        "DequantizeLinear takes int8 (and int4) with a zero point of 0 alone. Constants of other "
        "types are folded into float ones; activations in them cannot be helped.",
    ),
    Reason(
        "CT516",
        "TensorRT has no such operator",
        "ONNX has taken the operator back. It is written in operators that it kept.",
    ),
    Reason(
        "CT517",
        "the pads crop more rows than TensorRT makes before output_padding",
        "Its parser crops first and then appends the rows of output_padding, and a size below zero "
        "in between is refused. The convolution forms crop the whole output.",
    ),
)
