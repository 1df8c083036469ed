"""Expected cost of a form where nothing is timed."""

from __future__ import annotations

from convt_onnx.forms import Work
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.targets import Target

# Multiply-adds that take as long as moving one element, for a GEMM on a CPU core.
MACS_PER_ELEMENT = 16


def score(work: Work, node: ConvTransposeNode, form: str) -> float:
    """Relative time of a form: arithmetic plus traffic."""
    return work.macs + MACS_PER_ELEMENT * work.elements


def preferred_form(node: ConvTransposeNode, target: Target) -> str | None:
    """The form that beats `keep` on this target by measurement, None where none is known to."""
    return None
