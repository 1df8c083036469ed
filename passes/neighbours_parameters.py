"""Weight and bias of a ConvTranspose under per-channel scales and shifts, and writing them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.graph.channels import Vector
from convt_onnx.graph.cleanup import remove_unused
from convt_onnx.graph.emitter import NamePool
from convt_onnx.graph.evaluate import Array
from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand, Operand, QuantisedOperand, RuntimeOperand
from convt_onnx.passes.neighbours_affine import Affine
from convt_onnx.passes.neighbours_scales import scaled
from convt_onnx.reasons import Refusal


class Parameters:
    """What a node computes: scale * (x convolved with its weight) + bias.

    Attributes:
        read: The node.
        scale: One factor an output channel, of all that was applied.
        bias: The bias in float64; None where there is none.
        weight: The scaled weight in the element type, or the new scales of a quantised one; None
            where nothing scales.
        bias_scales: The new scales of a quantised bias; None where nothing scales.
    """

    def __init__(self, read: ConvTransposeNode) -> None:
        self.read = read
        self.scale: Vector = np.ones(read.spec.out_channels)
        self.bias: Vector | None = None
        self.weight: Array | None = None
        self.bias_scales: Array | None = None
        if isinstance(read.bias, ConstantOperand):
            self.bias = read.bias.array().astype(np.float64)
        self._original_bias = self.bias
        self._original = read.weight.array() if isinstance(read.weight, ConstantOperand) else None
        self._dtype = _float_type(read)

    def apply(self, affine: Affine) -> Refusal | None:
        """Put scale and shift behind what is computed; a refusal leaves all as it was."""
        factor = np.ones_like(self.scale) if affine.scale is None else affine.scale
        scales = bool((factor != 1).any())
        shift = affine.shift if affine.shift is not None and affine.shift.any() else None
        if not scales and shift is None:
            return None
        refusal = self._fixed(scales, shift)
        if refusal is not None:
            return refusal
        with np.errstate(all="ignore"):
            scale = self.scale * factor
            bias = None if self.bias is None else self.bias * factor
            if shift is not None:
                bias = shift if bias is None else bias + shift
            weight = self._scaled(scale) if scales else self.weight
            bias_scales = self._scaled_bias(scale) if scales else self.bias_scales
            fits = bias is None or _finite(bias.astype(self._dtype))
        if isinstance(weight, Refusal):
            return weight
        if isinstance(bias_scales, Refusal):
            return bias_scales
        if not fits:
            return Refusal("CT450", f"the bias overflows {self._dtype}")
        self.scale, self.bias, self.weight, self.bias_scales = scale, bias, weight, bias_scales
        return None

    def new_bias(self) -> Array | None:
        """The bias in the element type; None where the node's own still holds."""
        if self.bias is None or self.bias is self._original_bias:
            return None
        return self.bias.astype(self._dtype)

    def _fixed(self, scales: bool, shift: Vector | None) -> Refusal | None:
        """Which operand cannot be changed."""
        changed = [self.read.weight] if scales else []
        if isinstance(self.read.bias, QuantisedOperand) and shift is not None:
            return Refusal("CT447", str(self.read.bias.value.name))
        for operand in (*changed, self.read.bias):
            if isinstance(operand, RuntimeOperand):
                return Refusal("CT446", str(operand.value.name))
        return Refusal("CT446", "its element type is not known") if self._dtype is None else None

    def _scaled(self, scale: Vector) -> Array | Refusal:
        """The weight with [g*M + m] of `scale` on output channel m of group g."""
        spec = self.read.spec
        if isinstance(self.read.weight, QuantisedOperand):
            return scaled(self.read.weight, scale, spec.group)
        if self._original is None:
            raise AssertionError("only constant weights are scaled")
        g, m = spec.group, spec.out_per_group
        exact = self._original.astype(np.float64).reshape(g, spec.in_per_group, m, -1)
        exact = exact * scale.reshape(g, 1, m, 1)
        largest = np.abs(exact).max(axis=(1, 3))
        tiny = float(ml_dtypes.finfo(self._dtype).smallest_normal)
        if ((largest > 0) & (largest < tiny)).any():
            return Refusal("CT450", f"the weight of a channel underflows {self._dtype}")
        rounded = exact.astype(self._dtype).reshape(spec.weight_shape)
        return rounded if _finite(rounded) else Refusal("CT450", f"overflow in {self._dtype}")

    def _scaled_bias(self, scale: Vector) -> Array | Refusal | None:
        if not isinstance(self.read.bias, QuantisedOperand):
            return None
        return scaled(self.read.bias, scale, self.read.spec.group)


def _finite(array: Array) -> bool:
    return bool(np.isfinite(array.astype(np.float64)).all())


def _float_type(read: ConvTransposeNode) -> npt.DTypeLike | None:
    if isinstance(read.weight, ConstantOperand):
        return read.weight.array().dtype
    if read.dtype is not None:
        return read.dtype.numpy()
    if isinstance(read.weight, QuantisedOperand):
        return read.weight.scale.array().dtype
    return None


class Writer:
    """Puts new weights and biases into a model; nodes whose values are equal share them."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._functions = {id(f.graph) for f in model.functions.values()}
        self._names: NamePool | None = None
        self._made: dict[Hashable, ir.Value] = {}

    def write(self, parameters: Parameters) -> None:
        """Let the node read its parameters as they are now."""
        read = parameters.read
        if isinstance(read.weight, QuantisedOperand) and parameters.weight is not None:
            self._rescale(read, 1, read.weight, parameters.weight)
        elif parameters.weight is not None:
            scale = parameters.scale.tobytes()
            self._replace(read, 1, read.weight, parameters.weight, scale)
        if isinstance(read.bias, QuantisedOperand) and parameters.bias_scales is not None:
            self._rescale(read, 2, read.bias, parameters.bias_scales)
        bias = parameters.new_bias()
        if bias is not None:
            self._replace(read, 2, read.bias, bias, bias.tobytes())

    def rename(self, values: Iterable[ir.Value]) -> None:
        """Values that are scaled now are not those that their names stood for."""
        self._names = self._names or NamePool(self._model)
        for value in values:
            value.name = self._names.fresh(f"{value.name}/scaled")

    def _rescale(
        self, read: ConvTransposeNode, index: int, operand: QuantisedOperand, scales: Array
    ) -> None:
        """The same integers behind another DequantizeLinear, which equal nodes share."""
        old, home = operand.node, operand.node.graph
        if home is None:
            raise AssertionError("a node that was found stands in a graph")
        key = (operand.value, id(home), scales.dtype, scales.tobytes())
        if key not in self._made:
            name = f"{read.path}/{'weight' if index == 1 else 'bias'}"
            inputs = [old.inputs[0], self._place(home, scales, f"{name}_scale"), *old.inputs[2:]]
            node = ir.Node("", old.op_type, inputs, old.attributes.values())
            self._names = self._names or NamePool(self._model)
            node.name = node.outputs[0].name = self._names.fresh(name)
            node.outputs[0].type, node.outputs[0].shape = operand.value.type, operand.value.shape
            home.insert_after(old, node)
            self._made[key] = node.outputs[0]
        read.node.replace_input_with(index, self._made[key])
        remove_unused([operand.value])

    def _replace(
        self,
        read: ConvTransposeNode,
        index: int,
        operand: Operand | None,
        array: Array,
        key: bytes,
    ) -> None:
        """The new value stands where the old one stood, so that all its readers may share it."""
        old = None if operand is None else operand.value
        home = (None if old is None else old.graph) or read.node.graph
        if home is None:
            raise AssertionError("a node that was found stands in a graph")
        full_key = (old, id(home), array.dtype, key)
        if full_key not in self._made:
            name = f"{read.path}/{'weight' if index == 1 else 'bias'}"
            self._made[full_key] = self._place(home, array, name)
        read.node.resize_inputs(max(index + 1, len(read.node.inputs)))
        read.node.replace_input_with(index, self._made[full_key])
        if old is not None:
            remove_unused([old])

    def _place(self, graph: ir.Graph, array: Array, hint: str) -> ir.Value:
        self._names = self._names or NamePool(self._model)
        name = self._names.fresh(hint)
        tensor = ir.Tensor(array, name=name)
        # A function's body holds no initializers, and before IR 4 each would be an input too.
        if self._model.ir_version < 4 or id(graph) in self._functions:
            node = ir.node("Constant", [], {"value": tensor}, name=self._names.fresh(name))
            graph.insert_before(next(iter(graph)), node)
            value = node.outputs[0]
            value.name = name
        else:
            value = ir.Value(name=name, const_value=tensor)
            graph.register_initializer(value)
        value.type = ir.TensorType(tensor.dtype)
        value.shape = ir.Shape(array.shape)
        return value
