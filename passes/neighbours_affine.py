"""Reading a node behind a ConvTranspose as `scale * y + shift`, one of each an output channel."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from convt_onnx.graph.channels import Vector, per_channel
from convt_onnx.graph.evaluate import Array, Evaluator
from convt_onnx.graph.operands import float_attribute, is_overridable
from convt_onnx.reasons import Refusal
from convt_onnx.standard import is_standard

ARITHMETIC = ("Mul", "Div", "Add", "Sub")
NEIGHBOURS = (*ARITHMETIC, "BatchNormalization")
# Before, shapes broadcast on request only, and from a given axis.
NUMPY_BROADCAST_OPSET = 7
# Before, is_test says inference; from here on the outputs do, later training_mode.
TEST_BY_OUTPUTS_OPSET, TRAINING_MODE_OPSET = 7, 14


@dataclass(frozen=True, slots=True)
class Affine:
    """One value an output channel; a `scale` of None is 1, a `shift` of None is 0."""

    scale: Vector | None = None
    shift: Vector | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the nodes behind one output.

    Attributes:
        output: What the ConvTranspose writes, or a transposition of it.
        channels: Its size on the channel axis.
        rank: Its number of axes.
        opset: Version of the standard operators.
        ir_version: The model's.
        evaluator: Computes constant operands.
        axis: The channel axis.
    """

    output: ir.Value
    channels: int
    rank: int
    opset: int
    ir_version: int
    evaluator: Evaluator = field(repr=False)
    axis: int = 1

    def read(self, node: ir.Node) -> Affine | Refusal | None:
        """The map that the node computes, why it is none, or None where it is no neighbour."""
        if not is_standard(node, *NEIGHBOURS):
            return None
        if sum(v is self.output for v in node.inputs) != 1:
            return None
        if any(a.is_ref() for a in node.attributes.values()):
            return Refusal("CT444", "an attribute comes from the function's caller")
        arithmetic = node.op_type in ARITHMETIC
        with np.errstate(all="ignore"):
            affine = self._arithmetic(node) if arithmetic else self._batch_normalization(node)
        if isinstance(affine, Affine):
            vectors = [v for v in (affine.scale, affine.shift) if v is not None]
            if not all(np.isfinite(v).all() for v in vectors):
                return Refusal("CT450", f"{node.op_type} by values that are not finite")
        return affine

    def _batch_normalization(self, node: ir.Node) -> Affine | Refusal:
        if node.inputs[0] is not self.output or len(node.inputs) != 5:
            return Refusal("CT448", "the output is a statistic")
        if self.axis != 1:
            return Refusal("CT448", f"the channels lie on axis {self.axis}")
        if self._training(node):
            return Refusal("CT443", node.name or "")
        vectors = []
        for value in node.inputs[1:]:
            array = self._constant(value)
            if isinstance(array, Refusal):
                return array
            if array.shape != (self.channels,):
                return Refusal("CT448", f"a parameter of shape {list(array.shape)}")
            vectors.append(array.astype(np.float64))
        gamma, beta, mean, variance = vectors
        epsilon = float_attribute(node, "epsilon", 1e-5)
        scale = gamma / np.sqrt(variance + epsilon)
        return Affine(scale, beta - mean * scale)

    def _training(self, node: ir.Node) -> bool:
        def flag(name: str) -> int:
            return node.attributes[name].as_int() if name in node.attributes else 0

        if self.opset < TEST_BY_OUTPUTS_OPSET:
            training = flag("is_test") == 0
        elif self.opset < TRAINING_MODE_OPSET:
            training = any(o.name for o in node.outputs[1:])
        else:
            training = flag("training_mode") == 1
        return training or any(o.uses() or o.is_graph_output() for o in node.outputs[1:])

    def _arithmetic(self, node: ir.Node) -> Affine | Refusal:
        first = node.inputs[0] is self.output
        if node.op_type == "Div" and not first:
            return Refusal("CT449")
        array = self._constant(node.inputs[1 if first else 0])
        if isinstance(array, Refusal):
            return array
        start = self._first_axis(node, array.ndim, first)
        vector = (
            None
            if start is None
            else per_channel(array, start, self.rank, self.channels, self.axis)
        )
        if vector is None:
            return Refusal("CT448", f"{node.op_type} by a constant of shape {list(array.shape)}")
        if node.op_type == "Mul":
            return Affine(scale=vector)
        if node.op_type == "Div":
            return Affine(scale=1 / vector)
        if node.op_type == "Add":
            return Affine(shift=vector)
        return Affine(shift=-vector) if first else Affine(-np.ones(self.channels), vector)

    def _first_axis(self, node: ir.Node, ndim: int, first: bool) -> int | None:
        """Where the constant's first axis lies among the output's; None where it is invalid."""
        if self.opset >= NUMPY_BROADCAST_OPSET:
            return self.rank - ndim
        if "broadcast" not in node.attributes or not node.attributes["broadcast"].as_int():
            return 0 if ndim == self.rank else None
        if not first:
            return None
        if "axis" not in node.attributes:
            return self.rank - ndim
        axis = node.attributes["axis"].as_int()
        return axis + self.rank if axis < 0 else axis

    def _constant(self, value: ir.Value | None) -> Array | Refusal:
        if value is None:
            return Refusal("CT444", "absent")
        if is_overridable(value, self.ir_version):
            return Refusal("CT445", str(value.name))
        array = self.evaluator.value(value)
        return Refusal("CT444", str(value.name)) if array is None else array
