"""What is known to be faster on ONNX Runtime's CUDA provider, for nodes that are not timed.

Each of cuDNN's grouped transposed convolutions takes one of several kernels, and the convolutions
that phases need do too. Of 70 kinds of groups of 2 to 16 channels (benchmarks/ort_cuda_kinds.py,
the FlagGems shapes and the deployed one; NVIDIA H200, ONNX Runtime 1.31.1, whole runs) phases ran
0.18 to 5.0 times as fast in float32 and 0.26 to 6.3 times in half precision, and no count of
multiply-adds or bytes predicts it: the same multiply-adds took cuDNN up to 20 times as long from
one kind to the next. So a node keeps ConvTranspose unless it is float32 and lies between kinds that
all gained, 1.20 to 4.8 times (benchmarks/results/ort_cuda_kinds.json): 28 drawn at random when the
region stood, with a CUDA graph and without, and 5 timed form by form without one.

* For a million outputs the drawn kinds took ConvTranspose 26 to 95 us with a CUDA graph, batch 1
  least, and phases 17 to 37 us.
* Outside, phases took 145 and 172 us without one with 2 groups of 16 channels, 83 us with a kernel
  of 2 and 14 channels a group, 118 us and more with one axis.
* Float16 has none. Of twelve kinds drawn from its first region one lost (0.90) and four gained less
  than a fifth; of twelve drawn from a narrower one two lost (0.82 and 0.88), others ran up to 6.3
  times as fast. The two have batch 1 and 1.1 and 1.6 million outputs.

What lies outside, more zeros among the taps, other types, and below LEAST_ELEMENTS, where launches
are what takes the time, was not measured or did not gain in each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import onnx_ir as ir

from convt_onnx.costs import cost_shape
from convt_onnx.decision import Decision
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

FORM = "phases"
# Elements of a result.
LEAST_ELEMENTS = 2_000_000
MOST_ELEMENTS = 16_000_000
GROUPS = range(3, 9)
# Channels of a group, in front of the node and behind it.
INPUTS = range(7, 17)
OUTPUTS = range(4, 13)
# Kernel and stride, the same on both axes.
TAPS = frozenset({(4, 2), (5, 2), (5, 3), (7, 4)})


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
    batch, _, *sizes = cost_shape(node)[0]
    detail = f"{_kind(node.spec)}, {_elements(node.spec, batch, sizes)} outputs"
    if gains(node.spec, batch, sizes):
        return replace(decision, form=FORM, reason=Refusal("CT574", detail))
    return replace(decision, reason=Refusal("CT577", detail))


def _unknown(node: ConvTransposeNode) -> str:
    """What the rules would have to know and do not, empty where they know everything."""
    if node.dtype != ir.DataType.FLOAT:
        return f"only float32 has a rule, and the type is {node.dtype or 'open'}"
    return "sizes are open" if cost_shape(node)[1] or node.late is not None else ""


def gains(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> bool:
    """Whether all kinds around this one ran faster as phases in float32.

    Pads and output_padding may be any.
    """
    if spec.ndim != 2 or set(spec.dilations) != {1}:
        return False
    taps = set(zip(spec.kernel, spec.strides, strict=True))
    return (
        spec.group in GROUPS
        and spec.in_per_group in INPUTS
        and spec.out_per_group in OUTPUTS
        and len(taps) == 1
        and taps <= TAPS
        and LEAST_ELEMENTS <= _elements(spec, batch, sizes) <= MOST_ELEMENTS
    )


def _elements(spec: ConvTransposeSpec, batch: int, sizes: Sequence[int]) -> int:
    return batch * spec.out_channels * prod(spec.output_sizes(sizes))


def _kind(spec: ConvTransposeSpec) -> str:
    """What the rules look at, in words, for a decision's reason."""
    axes = [("kernel", spec.kernel), ("strides", spec.strides)]
    if set(spec.dilations) != {1}:
        axes.append(("dilations", spec.dilations))
    sizes = [f"{name} {'x'.join(map(str, values))}" for name, values in axes]
    channels = f"{spec.group} groups of {spec.in_per_group} to {spec.out_per_group} channels"
    return ", ".join(["float32", channels, *sizes])
