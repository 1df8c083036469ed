"""CT570 to CT579: nodes that a runtime's device leaves to the CPU."""

from __future__ import annotations

from convt_onnx.reasons.base import Reason

REASONS = (
    Reason(
        "CT570",
        "leaves the GPU: asymmetric pads",
        "ONNX Runtime's CUDA provider takes pads that are equal at both ends alone; others go to "
        "the CPU provider, with a copy of the input and one of the output over the bus in every "
        "run. The target ort-cuda writes output_padding, or a Slice behind symmetric pads.",
    ),
    Reason(
        "CT571",
        "leaves the GPU: auto_pad",
        "ONNX Runtime's CUDA provider leaves every auto_pad SAME_UPPER and SAME_LOWER to the CPU "
        "provider, also where the pads would be equal. The target ort-cuda writes pads.",
    ),
    Reason(
        "CT572",
        "leaves the GPU: element type",
        "ONNX Runtime's CUDA provider has no ConvTranspose of this type and neither has the CPU "
        "provider, so the session is not even created. The target ort-cuda takes a convolution of "
        "that type where the opset has one, or computes in float32 between two Casts.",
    ),
    Reason(
        "CT573",
        "ran on another provider",
        "The session's profile says that this node did not run on the device's provider.",
    ),
    Reason(
        "CT574",
        "phases are known to be faster on the GPU",
        "Nothing was timed. Of the kinds of groups timed on an H200 in ONNX Runtime 1.31, those "
        "around this one ran 1.2 to 4.8 times as fast as phases: float32, two axes, 3 to 8 groups "
        "of 7 to 16 channels to 4 to 12, kernel 4 or 5 with stride 2, 5 with 3, 7 with 4, and 2 "
        "to 16 million outputs. Where the runtime is here, the node is timed instead.",
    ),
    Reason(
        "CT575",
        "leaves the GPU: DequantizeLinear of int32",
        "ONNX Runtime's CUDA provider has no such kernel, and what is computed on the CPU is "
        "copied over the bus in every run. The target ort-cuda folds constants (the biases of "
        "quantised layers) into floats; integers that are computed when the model runs stay. ONNX "
        "Runtime's optimiser makes such biases int32 again unless the session options have "
        "session.disable_quant_qdq = 1, which convt_onnx.Session sets on CUDA, and "
        "convt_onnx.ort.provider.keep_on_device in options of your own.",
    ),
    Reason(
        "CT576",
        "leaves the GPU: operator",
        "ONNX Runtime's CUDA provider has no kernel for this operator, so it runs on the CPU, "
        "with a copy of its inputs and one of its output over the bus in every run. The target "
        "ort-cuda writes Hardmax and BitShift in operators that the provider has, where their "
        "element type is known.",
    ),
    Reason(
        "CT577",
        "kept: a group that is not known to gain on the GPU",
        "Nothing was timed. How long cuDNN takes for groups, transposed or not, does not follow "
        "from their sizes: other forms ran 0.2 to 5 times as fast. Only what lies between kinds "
        "that all gained is rewritten without timing (CT574). Where the runtime is here, the node "
        "is timed instead; `--plugin` does not depend on it.",
    ),
)
