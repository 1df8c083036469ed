"""Weights and biases as the forms see them: constant, quantised, or known at run time only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.standard import is_standard


@dataclass(frozen=True, slots=True)
class ConstantOperand:
    """A tensor that the file holds. `value` is what the node reads."""

    value: ir.Value
    tensor: ir.TensorProtocol

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape."""
        return tuple(self.tensor.shape.numpy())

    def array(self) -> npt.NDArray[np.generic]:
        """The values; memory-mapped where the file keeps them outside."""
        return self.tensor.numpy()


@dataclass(frozen=True, slots=True)
class QuantisedOperand:
    """Constant integers behind a DequantizeLinear node: scale * (integers - zero_point).

    `axis` is None for one scale a tensor, otherwise the axis of the per-channel scales.
    """

    value: ir.Value
    node: ir.Node
    integers: ConstantOperand
    scale: ConstantOperand
    zero_point: ConstantOperand | None
    axis: int | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape."""
        return self.integers.shape


@dataclass(frozen=True, slots=True)
class RuntimeOperand:
    """Computed when the model runs, or replaceable by the caller; only its shape is known."""

    value: ir.Value
    shape: tuple[int, ...]
    overridable: bool


Dim = int | str | None
# Shapes of a scale or a zero point that is for the whole tensor.
ONE_ELEMENT = ((), (1,))
Shapes = Mapping[str, Sequence[Dim]]
Operand = ConstantOperand | QuantisedOperand | RuntimeOperand


def is_overridable(value: ir.Value, ir_version: int) -> bool:
    """An initializer that is also a graph input; before IR 4 that was merely how files looked."""
    return value.is_initializer() and value.is_graph_input() and ir_version >= 4


def constant(value: ir.Value | None, ir_version: int) -> ConstantOperand | None:
    """The operand of a value that an initializer or a Constant node holds, else None."""
    if value is None or is_overridable(value, ir_version):
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None else ConstantOperand(value, tensor)


def quantised(value: ir.Value, ir_version: int) -> QuantisedOperand | None:
    """The operand of a value that DequantizeLinear makes from constants, else None."""
    node = value.producer()
    if node is None or not is_standard(node, "DequantizeLinear"):
        return None
    if any(a.is_ref() for a in node.attributes.values()):
        return None
    if "block_size" in node.attributes and node.attributes["block_size"].as_int():
        return None
    integers = constant(node.inputs[0], ir_version)
    scale = constant(node.inputs[1], ir_version)
    if integers is None or scale is None:
        return None
    zero_point = None
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        zero_point = constant(node.inputs[2], ir_version)
        if zero_point is None:
            return None
    axis = None
    if scale.shape not in ONE_ELEMENT:
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 1
        axis += len(integers.shape) if axis < 0 else 0
    operand = QuantisedOperand(value, node, integers, scale, zero_point, axis)
    return operand if _fits(operand) else None


def _fits(operand: QuantisedOperand) -> bool:
    """Whether there is a scale and a zero point for each channel of the axis."""
    shape, axis, zero_point = operand.shape, operand.axis, operand.zero_point
    if axis is None:
        return zero_point is None or zero_point.shape in ONE_ELEMENT
    channels = shape[axis : axis + 1] if axis >= 0 else ()
    parameters = [p.shape for p in (operand.scale, zero_point) if p is not None]
    return len(channels) == 1 and all(p == channels for p in parameters)


def read_operand(value: ir.Value, ir_version: int, shapes: Shapes) -> Operand | None:
    """Operand of a weight or bias; None where not even its shape is known.

    Args:
        value: What the node reads.
        ir_version: The model's.
        shapes: Inferred shapes by value name.
    """
    known = constant(value, ir_version) or quantised(value, ir_version)
    if known is not None:
        return known
    dims: Sequence[object] | None = None if value.shape is None else list(value.shape)
    if dims is None or not all(isinstance(d, int) for d in dims):
        dims = shapes.get(value.name or "")
    static = [d for d in dims or () if isinstance(d, int)]
    if dims is None or len(static) != len(dims):
        return None
    return RuntimeOperand(value, tuple(static), is_overridable(value, ir_version))


def operand_kind(operand: Operand | None) -> str | list[str | int | bool | None] | None:
    """What a runtime tells operands of one shape apart by, as JSON holds it."""
    if isinstance(operand, QuantisedOperand):
        integers = operand.integers.tensor.dtype.name
        return ["QuantisedOperand", integers, operand.axis, operand.zero_point is not None]
    return None if operand is None else type(operand).__name__


def float_attribute(node: ir.Node, name: str, default: float) -> float:
    """The attribute's value, the default where the node does not say it."""
    return node.attributes[name].as_float() if name in node.attributes else default
