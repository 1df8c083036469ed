"""One node as a model of its own: what it reads, what a runtime fuses with it, and a form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from convt_onnx.capabilities import stays
from convt_onnx.forms import Setting
from convt_onnx.graph.emitter import Emitter, NamePool
from convt_onnx.graph.node import ConvTransposeNode, read_node
from convt_onnx.graph.operands import (
    ConstantOperand,
    Operand,
    QuantisedOperand,
    constant,
)
from convt_onnx.graph.quantised import Grid
from convt_onnx.lowering import write_form
from convt_onnx.passes.crops_symmetric import has_other_pads, write_symmetric
from convt_onnx.plugin_node.functions import add_functions
from convt_onnx.targets import Target

IR_VERSION = 9
# What ONNX Runtime's CPU provider computes together with a Conv before it.
FUSED = frozenset({"Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip", "HardSigmoid"})
PATH = "node"


@dataclass(frozen=True, slots=True)
class NodeModel:
    """A model of one node, and arrays for its inputs."""

    proto: onnx.ModelProto
    feeds: dict[str, npt.NDArray[Any]]


def activation_behind(node: ConvTransposeNode, ir_version: int) -> ir.Node | None:
    """The only reader of the node's output, where it is one that a Conv may take in."""
    y = node.node.outputs[0]
    readers = [user for user, _ in y.uses()]
    if len(readers) != 1 or y.is_graph_output() or readers[0].op_type not in FUSED:
        return None
    (reader,) = readers
    rest = [v for v in reader.inputs[1:] if v is not None]
    if reader.domain or reader.inputs[0] is not y or reader.graph is not node.node.graph:
        return None
    return reader if all(constant(v, ir_version) is not None for v in rest) else None


def node_model(
    node: ConvTransposeNode,
    form: str,
    setting: Setting,
    target: Target,
    x_shape: Sequence[int],
    activation: ir.Node | None = None,
) -> NodeModel:
    """The node with static sizes, its own weights and what stands around it, in a form."""
    model, inputs = node_graph(node, form, setting, target, x_shape, activation)
    return NodeModel(ir.to_proto(model), {v.name or "": _drawn(v) for v in inputs})


def node_graph(
    node: ConvTransposeNode,
    form: str,
    setting: Setting,
    target: Target,
    x_shape: Sequence[int],
    activation: ir.Node | None = None,
) -> tuple[ir.Model, list[ir.Value]]:
    """The same before it is written: its weights are the node's own, not copied; its inputs."""
    builder = _Builder(setting.opset)
    y = builder.node(node, x_shape, activation)
    y.shape = ir.Shape([x_shape[0], node.spec.out_channels, *node.spec.output_sizes(x_shape[2:])])
    model = builder.model(y)
    read = read_node(builder.copy, PATH, IR_VERSION, {})
    if not isinstance(read, ConvTransposeNode):
        raise TypeError(read)
    emitter = _emitter(model, setting.opset)
    if not stays(form, read, target, setting.opset):
        write_form(emitter, read, form, setting, target)
    if not target.asymmetric_pads:
        _make_symmetric(model, setting.opset)
    if emitter.functions:
        add_functions(model, emitter.functions)
    return model, builder.inputs


def _emitter(model: ir.Model, opset: int) -> Emitter:
    return Emitter(
        model.graph,
        opset=opset,
        inline_constants=False,
        names=NamePool(model),
        prefix=PATH,
        cache={},
    )


def _make_symmetric(model: ir.Model, opset: int) -> None:
    """What `undo-crops` does behind the forms: with other pads the device would not run them."""
    for node in [n for n in model.graph if n.op_type == "ConvTranspose"]:
        read = read_node(node, PATH, IR_VERSION, {})
        if isinstance(read, ConvTransposeNode) and has_other_pads(read):
            write_symmetric(read, _emitter(model, opset))


def _drawn(value: ir.Value) -> npt.NDArray[Any]:
    """Random values of the value's shape and type."""
    if value.dtype is None or value.shape is None:
        raise AssertionError("an input of a node's model has a type and a shape")
    kind = value.dtype.numpy()
    drawn = np.random.default_rng(0).standard_normal(value.shape.numpy())
    return (100 * drawn if np.issubdtype(kind, np.integer) else drawn).astype(kind)


class _Builder:
    """Copies a node and its surroundings into a graph of their own."""

    def __init__(self, opset: int) -> None:
        self.inputs: list[ir.Value] = []
        self._opset = opset
        self._constants: list[ir.Value] = []
        self._nodes: list[ir.Node] = []

    def node(
        self, node: ConvTransposeNode, x_shape: Sequence[int], activation: ir.Node | None
    ) -> ir.Value:
        """Copy the node; returns what the model is to put out."""
        x = self._x(node, x_shape)
        operands = [node.weight] if node.bias is None else [node.weight, node.bias]
        inputs = [x, *(self._operand(o) for o in operands)]
        self.copy = self._copied(node.node, inputs)
        y = self.copy.outputs[0]
        y.type = ir.TensorType(node.dtype or ir.DataType.FLOAT)
        if node.y_grid is not None:
            return self._quantised(y, node.y_grid)
        if activation is None:
            return y
        rest = [None if v is None else self._shared(v) for v in activation.inputs[1:]]
        result = self._copied(activation, [y, *rest]).outputs[0]
        result.type = y.type
        return result

    def model(self, y: ir.Value) -> ir.Model:
        """The model of what was copied."""
        graph = ir.Graph(
            self.inputs,
            [y],
            nodes=self._nodes,
            initializers=self._constants,
            opset_imports={"": self._opset},
            name="node",
        )
        return ir.Model(graph, ir_version=IR_VERSION)

    def _x(self, node: ConvTransposeNode, shape: Sequence[int]) -> ir.Value:
        if node.x_grid is None:
            return self._input("x", node.dtype or ir.DataType.FLOAT, shape)
        grid = node.x_grid
        integers = self._input("x", grid.dtype, shape)
        producer = node.x.producer()
        if producer is None:
            raise AssertionError("a grid comes from DequantizeLinear")
        x = self._copied(producer, [integers, *self._grid(grid)]).outputs[0]
        # Some forms are written for the sizes.
        x.type, x.shape = ir.TensorType(grid.scale.tensor.dtype), ir.Shape(shape)
        return x

    def _quantised(self, y: ir.Value, grid: Grid) -> ir.Value:
        if grid.relu:
            y = self._added(ir.node("Relu", [y])).outputs[0]
            y.type = ir.TensorType(grid.scale.tensor.dtype)
        attributes = {} if grid.zero_point else {"output_dtype": int(grid.dtype)}
        if grid.dtype == ir.DataType.UINT8:
            attributes = {}
        made = self._added(ir.node("QuantizeLinear", [y, *self._grid(grid)], attributes))
        made.outputs[0].type = ir.TensorType(grid.dtype)
        return made.outputs[0]

    def _grid(self, grid: Grid) -> list[ir.Value]:
        parts = [grid.scale] if grid.zero_point is None else [grid.scale, grid.zero_point]
        return [self._constant(p) for p in parts]

    def _operand(self, operand: Operand) -> ir.Value:
        if isinstance(operand, ConstantOperand):
            return self._constant(operand)
        if isinstance(operand, QuantisedOperand):
            parts = [operand.integers, operand.scale]
            parts += [] if operand.zero_point is None else [operand.zero_point]
            return self._copied(operand.node, [self._constant(p) for p in parts]).outputs[0]
        dtype = operand.value.dtype or ir.DataType.FLOAT
        return self._input(f"operand{len(self.inputs)}", dtype, operand.shape)

    def _constant(self, operand: ConstantOperand) -> ir.Value:
        tensor = ir.Tensor(operand.array(), dtype=operand.tensor.dtype)
        return self._initializer(tensor)

    def _shared(self, value: ir.Value) -> ir.Value:
        tensor = ir.convenience.get_const_tensor(value)
        if tensor is None:
            raise AssertionError("activation_behind saw a constant")
        return self._initializer(ir.Tensor(tensor.numpy(), dtype=tensor.dtype))

    def _initializer(self, tensor: ir.Tensor[Any]) -> ir.Value:
        tensor.name = f"constant{len(self._constants)}"
        value = ir.Value(name=tensor.name, const_value=tensor)
        value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape)
        self._constants.append(value)
        return value

    def _input(self, name: str, dtype: ir.DataType, shape: Sequence[int]) -> ir.Value:
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape))
        self.inputs.append(value)
        return value

    def _copied(self, node: ir.Node, inputs: Sequence[ir.Value | None]) -> ir.Node:
        copy = ir.Node(node.domain, node.op_type, inputs, list(node.attributes.values()))
        copy.outputs[0].type = node.outputs[0].type
        return self._added(copy)

    def _added(self, node: ir.Node) -> ir.Node:
        node.name = f"{node.op_type}{len(self._nodes)}"
        node.outputs[0].name = f"value{len(self._nodes)}"
        self._nodes.append(node)
        return node
