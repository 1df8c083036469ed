"""Writes the nodes that replace one ConvTranspose, for whatever opset the model has.

Nodes are collected first and put into the graph by `splice`, so a form that fails half-way leaves
the graph as it was, apart from initializers that nothing reads, which `splice` never registers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.model_io.sliced import SLICE_COPIES_NAMES

ANY_CONSTANT_OPSET = 9
CAST_OPSET = 6

AttrValue = int | float | str | Sequence[int] | ir.TensorProtocol


class NamePool:
    """Names of a whole model, so that new ones never collide, not even across subgraphs.

    They are collected when the first new one is asked for.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._taken: set[str] = set()

    def fresh(self, base: str) -> str:
        """A name that starts with `base` and is not in use."""
        if not self._taken:
            self._collect()
        name, n = base, 1
        while name in self._taken:
            n += 1
            name = f"{base}_{n}"
        self._taken.add(name)
        return name

    def _collect(self) -> None:
        roots = [self._model.graph, *(f.graph for f in self._model.functions.values())]
        for graph in [g for root in roots for g in (root, *root.subgraphs())]:
            self._taken.update(v.name or "" for v in graph.inputs)
            self._taken.update(graph.initializers)
            for node in graph:
                self._taken.add(node.name or "")
                self._taken.update(v.name or "" for v in node.outputs)


class Emitter:
    """Collects nodes and constants for one place of one graph.

    `inline_constants` writes constants as nodes: a function body holds no initializers, and
    before IR 4 each initializer would have to be an input too. `cache` lives as long as the model
    is worked on and lets nodes of one graph share packed weights.
    """

    def __init__(
        self,
        container: ir.Graph,
        *,
        opset: int,
        inline_constants: bool,
        names: NamePool,
        prefix: str,
        cache: dict[Hashable, ir.Value],
    ) -> None:
        self.opset = opset
        self.nodes: list[ir.Node] = []
        self.functions: dict[ir.OperatorIdentifier, ir.Function] = {}
        self._container = container
        self._names = names
        self._prefix = prefix
        self._inline_constants = inline_constants
        self._cache = cache
        self._constants: dict[Hashable, ir.Value] = {}

    def op(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        **attributes: AttrValue,
    ) -> ir.Value:
        """Append a node with one output and return that output."""
        name = self._names.fresh(f"{self._prefix}/{op_type}")
        return self._append(ir.node(op_type, inputs, attributes, name=name))

    def call(
        self,
        function: ir.Function,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, AttrValue],
    ) -> ir.Value:
        """Append a call of a function, which the model is to hold, and return its only output."""
        self.functions[function.identifier()] = function
        domain, op_type, overload = function.identifier()
        name = self._names.fresh(f"{self._prefix}/{op_type}")
        node = ir.node(op_type, inputs, attributes, domain=domain, overload=overload, name=name)
        return self._append(node)

    def _append(self, node: ir.Node) -> ir.Value:
        node.outputs[0].name = self._names.fresh(f"{node.name}_out")
        self.nodes.append(node)
        return node.outputs[0]

    def constant(self, array: npt.NDArray[np.generic], hint: str) -> ir.Value:
        """A tensor of the file; small equal ones are shared within one place."""
        key = (array.dtype, array.shape, array.tobytes()) if array.size <= 64 else None
        if key is not None and key in self._constants:
            return self._constants[key]
        tensor = ir.Tensor(np.asarray(array, order="C"), name=None)
        if self._inline_constants:
            value = self._constant_node(tensor)
        else:
            value = ir.Value(name=self._names.fresh(f"{self._prefix}/{hint}"), const_value=tensor)
        value.type = ir.TensorType(tensor.dtype)
        value.shape = ir.Shape(tensor.shape)
        tensor.name = value.name
        if key is not None:
            self._constants[key] = value
        return value

    def _constant_node(self, tensor: ir.TensorProtocol) -> ir.Value:
        """A Constant; before opset 9 it holds floats alone, of which double has every size.

        Before opset 6 it holds integers all the same: ONNX Runtime has no Cast that old.
        """
        floats = CAST_OPSET <= self.opset < ANY_CONSTANT_OPSET
        if not floats or tensor.dtype.is_floating_point():
            return self.op("Constant", [], value=tensor)
        wide = ir.Tensor(tensor.numpy().astype(np.float64), name=None)
        return self.cast(self.op("Constant", [], value=wide), tensor.dtype)

    def shared(
        self, key: Hashable, make: Callable[[], npt.NDArray[np.generic]], hint: str
    ) -> ir.Value:
        """A constant that other nodes of the same graph may read too, made once for each key."""
        full_key = (id(self._container), key)
        if full_key not in self._cache:
            self._cache[full_key] = self.constant(make(), hint)
        return self._cache[full_key]

    def ints(self, values: Sequence[int], hint: str) -> ir.Value:
        """A 1-D int64 constant."""
        return self.constant(np.array(values, dtype=np.int64), hint)

    def reshape(self, x: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Reshape; 0 copies the input's size at the same place, -1 is computed."""
        if self.opset < 5:
            return self.op("Reshape", [x], shape=list(shape))
        return self.op("Reshape", [x, self.ints(shape, "shape")])

    def transpose(self, x: ir.Value, perm: Sequence[int]) -> ir.Value:
        """Transpose; nothing where the order stays."""
        if list(perm) == sorted(perm):
            return x
        return self.op("Transpose", [x], perm=list(perm))

    def unsqueeze(self, x: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Axes of size 1 at these places of the result."""
        if self.opset < 13:
            return self.op("Unsqueeze", [x], axes=list(axes))
        return self.op("Unsqueeze", [x, self.ints(axes, "axes")])

    def squeeze(self, x: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Without these axes of size 1."""
        if self.opset < 13:
            return self.op("Squeeze", [x], axes=list(axes))
        return self.op("Squeeze", [x, self.ints(axes, "axes")])

    def crop(
        self, x: ir.Value, axes: Sequence[int], begin: Sequence[int], end: Sequence[int]
    ) -> ir.Value:
        """Drop `begin` rows at the front and `end` at the back of each axis, whatever its size."""
        cut = [(a, b, e) for a, b, e in zip(axes, begin, end, strict=True) if b or e]
        if not cut:
            return x
        starts = [b for _, b, _ in cut]
        ends = [-e if e else np.iinfo(np.int32).max for _, _, e in cut]
        where = [a for a, _, _ in cut]
        return self.slice(x, where, starts, ends)

    def slice(
        self, x: ir.Value, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int]
    ) -> ir.Value:
        """Slice with step 1."""
        if self.opset < 10:
            return self.op("Slice", [x], axes=list(axes), starts=list(starts), ends=list(ends))
        operands = [self.ints(starts, "starts"), self.ints(ends, "ends"), self.ints(axes, "axes")]
        return self.op("Slice", [x, *operands])

    def name_sizes(self, y: ir.Value, dtype: ir.DataType | None, rank: int) -> None:
        """Declare spatial sizes of its own for what `slice` or `crop` made of an open input.

        onnx's rule for Slice of opset 10 gives a cut axis the name that it had before, and ONNX
        Runtime puts values whose sizes have equal names into one buffer.
        """
        if self.opset == SLICE_COPIES_NAMES and dtype is not None:
            y.type = ir.TensorType(dtype)
            names = [self._names.fresh(f"{self._prefix}/size") for _ in range(rank - 2)]
            y.shape = ir.Shape([None, None, *names])

    def pad(
        self,
        x: ir.Value,
        begin: Sequence[int],
        end: Sequence[int],
        fill: npt.NDArray[np.generic] | None = None,
    ) -> ir.Value:
        """Zeros, or the scalar `fill` of x's type, around every axis of x; needs opset 2."""
        pads = [*begin, *end]
        if not any(pads):
            return x
        if self.opset < 11:
            attributes: dict[str, AttrValue] = {} if fill is None else {"value": float(fill)}
            return self.op("Pad", [x], pads=pads, **attributes)
        operands = [x, self.ints(pads, "pads")]
        if fill is not None:
            operands.append(self.constant(fill, "fill"))
        return self.op("Pad", operands)

    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Sum with broadcasting; needs opset 7."""
        return self.op("Add", [a, b])

    def cast(self, x: ir.Value, dtype: ir.DataType) -> ir.Value:
        """Cast to another element type."""
        return self.op("Cast", [x], to=int(dtype))

    def conv(
        self,
        x: ir.Value,
        weight: ir.Value,
        bias: ir.Value | None,
        *,
        kernel: Sequence[int],
        dilations: Sequence[int],
        low: Sequence[int],
        high: Sequence[int],
        group: int,
        strides: Sequence[int] | None = None,
    ) -> ir.Value:
        """A convolution with every attribute written out, of stride 1 unless given."""
        return self.op(
            "Conv",
            [x, weight] if bias is None else [x, weight, bias],
            kernel_shape=list(kernel),
            strides=[1] * len(kernel) if strides is None else list(strides),
            dilations=list(dilations),
            pads=[*low, *high],
            group=group,
        )

    def splice(self, before: ir.Node, result: ir.Value) -> None:
        """Put the nodes in place of `before`, whose only output `result` takes over by name."""
        old = before.outputs[0]
        graph = self._container
        used = {id(v): v for node in self.nodes for v in node.inputs if v is not None}
        for value in used.values():
            # Also one that another emitter made and did not use: the cache hands it on.
            if value.const_value is not None and value.producer() is None and value.graph is None:
                graph.register_initializer(value)
        graph.insert_before(before, self.nodes)
        old.replace_all_uses_with(result, replace_graph_outputs=True)
        graph.remove(before, safe=True)
        result.name = old.name
        result.type, result.shape = old.type, old.shape
        result.doc_string = old.doc_string
        result.metadata_props.update(old.metadata_props)


def emitter_at(model: ir.Model, node: ir.Node, names: NamePool, opset: int) -> Emitter:
    """For what takes the place of one node of the main graph or of a subgraph, nothing shared."""
    assert isinstance(node.graph, ir.Graph)
    return Emitter(
        node.graph,
        opset=opset,
        inline_constants=model.ir_version < 4,
        names=names,
        prefix=node.name or node.outputs[0].name or node.op_type,
        cache={},
    )
