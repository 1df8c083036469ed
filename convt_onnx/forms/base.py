"""What a form is: a check, a way to write it, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

# Above this a plan or a packed weight is not worth making: hostile strides would take all memory.
MAX_PHASES = 1 << 14
MAX_PACKED_ELEMENTS = 1 << 31


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a form is to run: the model's opset and what the target has."""

    opset: int
    depth_to_space: bool = True
    shape_ops: bool = True


@dataclass(frozen=True, slots=True)
class Work:
    """What one call costs: multiply-adds with zero taps counted, elements moved."""

    macs: int
    elements: int


@dataclass(frozen=True, slots=True)
class Form:
    """One way to compute a transposed convolution.

    Attributes:
        name: As the command line knows it.
        summary: One line for `--help` and reports.
        check: The reason why the form does not apply to a node, None where it does.
        emit: Writes the nodes and returns the value that replaces the node's output.
        work: Cost for a batch and spatial sizes.
    """

    name: str
    summary: str
    check: Callable[[ConvTransposeNode, Setting], Refusal | None]
    emit: Callable[[Emitter, ConvTransposeNode, Setting], ir.Value]
    work: Callable[[ConvTransposeSpec, int, Sequence[int]], Work]
