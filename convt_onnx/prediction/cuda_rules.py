"""What is known to be faster on ONNX Runtime's CUDA provider, for nodes that are not timed.

Each of cuDNN's grouped transposed convolutions takes one of several kernels, and the convolutions
that phases need do too. Of 46 kinds of groups of 2 to 16 channels (benchmarks/ort_cuda_kinds.py,
the FlagGems shapes and the deployed one; NVIDIA H200, ONNX Runtime 1.31.1, whole runs) phases ran
0.18 to 5.0 times as fast in float32 and 0.26 to 4.6 times in half precision, and no count of
multiply-adds or bytes predicts it: the same multiply-adds took cuDNN up to 20 times as long from
one kind to the next. So a node keeps ConvTranspose unless it lies between kinds that all gained:
in float32 19 kinds, 14 of them drawn when the region stood, 1.36 to 4.8 times, and in float16 8
kinds, 1.30 to 4.4 times: drawn kinds and FlagGems rows with a CUDA graph and without, those that
were timed form by form (5 in float32, 2 in float16) without one. FlagGems rows 2 and 7 are in
benchmarks/results/ort_cuda.json, all others in ort_cuda_kinds.json.

* cuDNN's slow kernel takes 78 to 120 us for a million outputs in either type. It has 2 to 4 groups
  with kernels of 3 and more, and float32 with 8 groups of 8 channels at stride 2 (46 to 79 us);
  with a kernel of 2, or in float16 at stride 3 or with 8 groups, it takes another (10 to 30 us).
* Phases took 20 to 34 us for a million outputs in float32, but 128 to 150 us with 2 groups of 16
  channels, 81 us with a kernel of 2 and 14 channels a group, 114 to 135 us with one axis; in
  float16 19 to 42 us with 2 and 3 groups of 16 channels.
* In float16 counts of 7 to 16 channels were drawn. The multiples of 4, whole words of 8 bytes, all
  gained. Of eight kinds with 7, 11, 13, 14 or 15 one lost (0.90) and four gained less than a fifth,
  so all such are kept.

What lies outside, bfloat16, more zeros among the taps, and below LEAST_OUTPUTS, where launches are
what takes the time, was not measured or did not gain in each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import onnx_ir as ir

from convt_onnx.costs import cost_shape
from convt_onnx.decision import Decision
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

FORM = "phases"
# Elements of a result.
LEAST_OUTPUTS = {"float32": 2_000_000, "float16": 800_000}
MOST_OUTPUTS = 16_000_000


@dataclass(frozen=True, slots=True)
class Region:
    """Two-dimensional kinds of groups between those that gained.

    Attributes:
        groups: Number of groups.
        inputs, outputs: Channels of a group.
        taps: Kernel and stride, the same on both axes.
    """

    groups: range
    inputs: range
    outputs: range
    taps: frozenset[tuple[int, int]]

    def holds(self, spec: ConvTransposeSpec) -> bool:
        """Whether the kind lies in it; pads and output_padding may be any."""
        if spec.ndim != 2 or set(spec.dilations) != {1}:
            return False
        pairs = set(zip(spec.kernel, spec.strides, strict=True))
        return (
            spec.group in self.groups
            and spec.in_per_group in self.inputs
            and spec.out_per_group in self.outputs
            and len(pairs) == 1
            and pairs <= self.taps
        )


REGIONS = {
    "float32": Region(
        groups=range(3, 9),
        inputs=range(7, 17),
        outputs=range(4, 13),
        taps=frozenset({(4, 2), (5, 2), (5, 3), (7, 4)}),
    ),
    "float16": Region(
        groups=range(2, 4),
        inputs=range(16, 17),
        outputs=range(8, 17, 4),
        taps=frozenset({(3, 2), (4, 2), (5, 2), (3, 4)}),
    ),
}
_TYPES: dict[ir.DataType | None, str] = {
    ir.DataType.FLOAT: "float32",
    ir.DataType.FLOAT16: "float16",
}


def by_rule(decision: Decision, node: ConvTransposeNode) -> Decision:
    """What an open decision becomes on the CUDA provider, where nothing is timed.

    A dense node gains a fifth at most, and its decision stays.
    """
    if node.spec.group == 1:
        return decision
    usable = any(c.form == FORM and c.work is not None for c in decision.candidates)
    why_not = _unknown(node) or ("" if usable else f"{FORM} does not apply")
    if why_not:
        return replace(decision, reason=Refusal("CT577", why_not))
    (batch, _, *sizes), dtype = cost_shape(node)[0], _TYPES[node.dtype]
    elements = batch * node.spec.out_channels * prod(node.spec.output_sizes(sizes))
    detail = f"{_kind(node.spec, dtype)}, {elements} outputs"
    if gains(node.spec, batch, sizes, dtype):
        return replace(decision, form=FORM, reason=Refusal("CT574", detail))
    return replace(decision, reason=Refusal("CT577", detail))


def _unknown(node: ConvTransposeNode) -> str:
    """What the rules would have to know and do not, empty where they know everything."""
    if node.dtype not in _TYPES:
        return "no figures for " + (f"the type {node.dtype}" if node.dtype else "an open type")
    return "sizes are open" if cost_shape(node)[1] or node.late is not None else ""


def gains(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int], dtype: str) -> bool:
    """Whether kinds around this one ran faster as phases, `dtype` being float32 or float16."""
    elements = batch * spec.out_channels * prod(spec.output_sizes(sizes))
    return REGIONS[dtype].holds(spec) and LEAST_OUTPUTS[dtype] <= elements <= MOST_OUTPUTS


def _kind(spec: ConvTransposeSpec, dtype: str) -> str:
    """What the rules look at, in words, for a decision's reason."""
    axes = [("kernel", spec.kernel), ("strides", spec.strides)]
    if set(spec.dilations) != {1}:
        axes.append(("dilations", spec.dilations))
    sizes = [f"{name} {'x'.join(map(str, values))}" for name, values in axes]
    channels = f"{spec.group} groups of {spec.in_per_group} to {spec.out_per_group} channels"
    return ", ".join([dtype, channels, *sizes])
