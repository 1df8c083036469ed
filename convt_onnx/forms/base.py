"""What a form is: a check, a way to write it, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from convt_onnx.graph.emitter import Emitter
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.plugin_node.record import FUNCTION_IR_VERSION
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec

# Above this a plan or a packed weight is not worth making: hostile strides would take all memory.
MAX_PHASES = 1 << 14
MAX_PACKED_ELEMENTS = 1 << 31


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a form is to run: the model's opset and what the target has.

    `plugin` is how nodes of the plugin are named there (`plugin_node.HASHED`, `OVERLOAD`); empty
    where it is not to be used. `ir_version` is the file's.
    `mlas` says that ONNX Runtime's CPU kernels run it, which some forms are made for.
    """

    opset: int
    depth_to_space: bool = True
    shape_ops: bool = True
    plugin: str = ""
    ir_version: int = FUNCTION_IR_VERSION
    mlas: bool = False

    @property
    def can_compute_shapes(self) -> bool:
        """Whether the sizes that a Reshape needs may be computed in the graph."""
        return self.shape_ops and self.opset >= 7


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
        absorbs: Whether `emit` also computes what is recognised behind the node.
    """

    name: str
    summary: str
    check: Callable[[ConvTransposeNode, Setting], Refusal | None]
    emit: Callable[[Emitter, ConvTransposeNode, Setting], ir.Value]
    work: Callable[[ConvTransposeSpec, int, Sequence[int]], Work]
    absorbs: bool = False
