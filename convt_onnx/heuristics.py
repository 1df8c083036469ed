"""Which form to expect to be fastest where nothing is timed.

The rules for `ort-cpu` hold what benchmarks/forms_cpu.py showed to win by at least a fifth; what
wins by less, or only with some thread counts, stays as it is.
"""

from __future__ import annotations

from math import prod

from convt_onnx.forms import Work
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.targets import Target


def score(work: Work, target: Target) -> float:
    """Relative time of a form on a target: arithmetic plus traffic."""
    return work.macs + target.macs_per_element * work.elements


def preferred_form(node: ConvTransposeNode, target: Target) -> str | None:
    """The form that beats `keep` on this target by measurement, None where none is known to."""
    if target.name != "ort-cpu":
        return None
    spec = node.spec
    if all(s == 1 for s in spec.strides):
        return "conv" if spec.ndim > 1 and prod(spec.kernel) > 1 else None
    if spec.depthwise and _longer_than(spec, kernel=16, stride=8):
        return "phases-window" if _crops_within_a_stride(spec) else "phases"
    if spec.group == 1 and spec.out_channels <= 2 and _longer_than(spec, kernel=1024, stride=512):
        return "phases"
    return None


def _longer_than(spec: ConvTransposeSpec, *, kernel: int, stride: int) -> bool:
    """Every axis has at least that kernel and stride, and no dilation."""
    return all(a.kernel >= kernel and a.stride >= stride and a.dilation == 1 for a in spec.axes())


def _crops_within_a_stride(spec: ConvTransposeSpec) -> bool:
    return any(a.begin % a.stride for a in spec.axes())
