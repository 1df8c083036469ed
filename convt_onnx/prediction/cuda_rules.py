"""What was measured to be fastest on ONNX Runtime's CUDA provider, for nodes that are not timed.

benchmarks/ort_cuda.py with `--forms` on the nine FlagGems shapes, NVIDIA H200, ONNX Runtime
1.31.1, whole runs: cuDNN's grouped transposed convolutions of few channels took 1.2 to 3.5 times
as long as convolutions (group 2, 16 to 12 channels a group, stride 2 to 4); dense ones did not by
more than a fifth, and with stride 8 or 5 x 5 kernels convolutions were slower.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from convt_onnx.graph.node import ConvTransposeNode

# Channels of a group, in and out: the range that was measured.
FEW_CHANNELS = 16


def faster_form(node: ConvTransposeNode, usable: Collection[str]) -> str | None:
    """The form that beats `keep` on the CUDA provider, None where none is known to."""
    spec = node.spec
    few = 1 < spec.in_per_group <= FEW_CHANNELS and spec.out_per_group <= FEW_CHANNELS
    if spec.group == 1 or not few or max(spec.strides) == 1:
        return None
    half = node.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    order = ("phases", "phases-window") if half else ("phases-window", "phases")
    return next((form for form in order if form in usable), None)
