"""What was measured to be fastest on ONNX Runtime's CUDA provider, for nodes that are not timed.

benchmarks/ort_cuda.py (`--forms` for the nine FlagGems shapes), NVIDIA H200, ONNX Runtime 1.31.1,
whole runs. cuDNN's grouped transposed convolutions of few channels took 1.2 to 4.4 times as long as
convolutions (2 groups of 16 to 12 channels, stride 2 to 4; in float32 also 8 groups of 8 to 8), but
for two kinds. In float16, 8 groups of 8 to 8 channels took 0.7 times as long: cuDNN's kernels for
tensor cores want multiples of 8 channels (NVIDIA's cuDNN developer guide, "Tensor Core
operations"). In float32, a kernel as large as its stride took 0.95 to 1.03 times as long: every
output has one tap, so there is nothing to add up. Dense ones did not take longer by more than a
fifth.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.spec import ConvTransposeSpec

# Channels of a group, in and out: the range that was measured.
FEW_CHANNELS = 16
# Channels of a group that fill tensor cores in half precision, in and out.
ALIGNED_CHANNELS = 8


def faster_form(node: ConvTransposeNode, usable: Collection[str]) -> str | None:
    """The form that beats `keep` on the CUDA provider, None where none is known to."""
    spec = node.spec
    few = 1 < spec.in_per_group <= FEW_CHANNELS and spec.out_per_group <= FEW_CHANNELS
    if spec.group == 1 or not few or max(spec.strides) == 1:
        return None
    half = node.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    if _fast_in_half(spec) if half else _one_tap(spec):
        return None
    order = ("phases", "phases-window") if half else ("phases-window", "phases")
    return next((form for form in order if form in usable), None)


def _fast_in_half(spec: ConvTransposeSpec) -> bool:
    """Whether cuDNN has tensor-core kernels for the groups as they are."""
    return spec.in_per_group % ALIGNED_CHANNELS == 0 == spec.out_per_group % ALIGNED_CHANNELS


def _one_tap(spec: ConvTransposeSpec) -> bool:
    """Whether every output but for the crop has exactly one tap."""
    return spec.kernel == spec.strides and max(spec.dilations) == 1
