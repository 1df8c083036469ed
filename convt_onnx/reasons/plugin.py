"""CT540 to CT569: the plugin computes a node, or does not."""

from __future__ import annotations

from convt_onnx.reasons.base import Reason

REASONS = (
    Reason(
        "CT540",
        "the plugin computes it",
        "One node of the domain convt_onnx, with its weight packed for the kernel. A runtime that "
        "has no such operator runs the function that stands in the file under the same name.",
    ),
    Reason(
        "CT541",
        "the plugin is not asked for",
        "`optimize --plugin` writes its nodes, for targets that can load it.",
    ),
    Reason(
        "CT542",
        "element type not supported by the plugin",
        "Its kernels compute float16, bfloat16 and float32.",
    ),
    Reason("CT543", "too many spatial axes for the plugin", "Its kernels take one to three."),
    Reason(
        "CT544",
        "the weight is quantised",
        "The kernels read float weights. --dequantize folds the weight into a float one.",
    ),
    Reason(
        "CT545",
        "the opset is too old for the plugin",
        "The function body needs operators of opset 11, of opset 13 with bfloat16.",
    ),
    Reason(
        "CT546",
        "the file's IR version is too old for the plugin",
        "Functions need IR version 8. Files from version 4 on are raised to it; before that "
        "initializers are inputs too, and raising the version would change what the inputs mean.",
    ),
    Reason(
        "CT547",
        "the library's own call is as fast",
        "The kernels were measured to be no faster on calls of this kind. --form NODE=plugin "
        "takes the plugin nevertheless.",
    ),
    Reason(
        "CT548",
        "this is not a node of the plugin as written here",
        "Its attributes do not fit its name or make no sense; it is left as it is.",
    ),
)
