"""What was measured to be fastest on ONNX Runtime's CUDA provider, for nodes that are not timed.

benchmarks/ort_cuda.py (`--forms` for the nine FlagGems shapes and for more kinds of groups), NVIDIA
H200, ONNX Runtime 1.31.1, whole runs, with and without a CUDA graph. cuDNN's grouped transposed
convolutions of few channels took up to 4.4 times as long as convolutions, but unevenly, and what is
named here is what did not lose in any run:

* In half precision cuDNN's kernels for tensor cores want multiples of 8 channels (NVIDIA's cuDNN
  developer guide, "Tensor Core operations"). 16 to 12 and 8 to 4 channels a group took 1.07 to 4.4
  times as long, 8 to 8 took 0.7 times, 12 to 12 took 0.87 to 0.95 times.
* In float32, 4 and 8 groups with a kernel beyond its stride took 1.03 to 4.0 times as long, 2
  groups 0.88 to 1.2 times. Where some outputs have no tap 2 groups took 3.0 to 4.0 times, 8 groups
  0.79. A kernel as large as its stride took 0.95 to 1.03 times: there is nothing to add up.

Dense ones did not take longer by more than a fifth.
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
MANY_GROUPS = 4


def faster_form(node: ConvTransposeNode, usable: Collection[str]) -> str | None:
    """The form that beats `keep` on the CUDA provider, None where none is known to."""
    half = node.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    if not slower_natively(node.spec, half=half):
        return None
    order = ("phases", "phases-window") if half else ("phases-window", "phases")
    return next((form for form in order if form in usable), None)


def slower_natively(spec: ConvTransposeSpec, *, half: bool) -> bool:
    """Whether the kind is one for which cuDNN's transposed convolution took longer."""
    few = 1 < spec.in_per_group <= FEW_CHANNELS and spec.out_per_group <= FEW_CHANNELS
    if spec.group == 1 or not few or max(spec.strides) == 1:
        return False
    return _uneven_in_half(spec) if half else _slow_in_float(spec)


def _uneven_in_half(spec: ConvTransposeSpec) -> bool:
    """Whether tensor cores could read the groups as they are, and not write them."""
    return spec.in_per_group % ALIGNED_CHANNELS == 0 != spec.out_per_group % ALIGNED_CHANNELS


def _slow_in_float(spec: ConvTransposeSpec) -> bool:
    """Many groups that overlap, or few of which some outputs have no tap."""
    extents = [axis.extent for axis in spec.axes()]
    overlap = any(e > s for e, s in zip(extents, spec.strides, strict=True))
    gaps = not overlap and tuple(extents) != spec.strides
    return overlap if spec.group >= MANY_GROUPS else gaps
