"""The value of a tensor that is computed from constants alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from convt_onnx.graph.operands import Shapes, constant
from convt_onnx.standard import is_standard

Array = npt.NDArray[Any]

# Bounds for one weight: bytes of a tensor and of all that are made on the way to it, nodes, and
# multiply-adds of a product.
MAX_BYTES = 1 << 30
MAX_TOTAL_BYTES = 2 << 30
MAX_NODES = 1000
MAX_MACS = 1 << 36
# Deterministic, without subgraphs, and right in onnx's reference implementation.
FOLDABLE = frozenset(
    (
        "Abs Add Cast CastLike Ceil Clip Concat ConstantOfShape Cos CumSum Div Einsum Exp Expand "
        "EyeLike Flatten Floor Gather GatherElements GatherND Identity Log MatMul Max Mean Min "
        "Mul Neg Pad Pow Range Reciprocal ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin "
        "ReduceProd ReduceSum ReduceSumSquare Reshape Round ScatterElements ScatterND Sigmoid "
        "Sign Sin Size Slice Softplus Split Sqrt Squeeze Sub Sum Tanh Tile Transpose Trilu "
        "Unsqueeze Where Equal Greater GreaterOrEqual Less LessOrEqual And Or Not"
    ).split()
)
# Runtimes sum narrow floats in float32 and round once; onnx's reference rounds each partial sum.
SUMS = frozenset(
    "CumSum Einsum MatMul Mean ReduceL1 ReduceL2 ReduceMean ReduceSum ReduceSumSquare Sum".split()
)
NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
# An open size in the result of Shape; operators that only move elements may carry it along.
OPEN = -(1 << 61)
MOVES = frozenset("Concat Flatten Gather Identity Reshape Slice Split Squeeze Unsqueeze".split())


class Evaluator:
    """Evaluates node by node; results are kept, so shared chains are computed once.

    `shapes` adds inferred shapes by value name: the channel count that Shape and Gather read from
    an input is as constant as any other. `also` names operators to evaluate besides FOLDABLE.
    """

    def __init__(
        self,
        ir_version: int,
        opset: int,
        shapes: Shapes,
        also: frozenset[str] = frozenset(),
    ) -> None:
        self._operators = FOLDABLE | also
        self._shapes = shapes
        self._ir_version = ir_version
        self._opset = opset
        self._known: dict[ir.Value, Array | None] = {}
        self._bytes = 0

    def value(self, value: ir.Value) -> Array | None:
        """The array, or None where it depends on anything that is not constant."""
        order = self._chain(value)
        if order is None:
            return None
        for node in order:
            if not self._run(node):
                return None
        result = self._known.get(value)
        return None if result is None or _has_open(result) else result

    def _chain(self, value: ir.Value) -> list[ir.Node] | None:
        """Nodes to run, in order; None where a leaf is not constant or there are too many."""
        order: list[ir.Node] = []
        expanded: set[ir.Value] = set()
        pending: list[tuple[ir.Value, bool]] = [(value, False)]
        while pending:
            v, ready = pending.pop()
            if v in self._known:
                if self._known[v] is None:
                    return None
                continue
            known = constant(v, self._ir_version)
            if known is not None:
                self._known[v] = known.array()
                continue
            node = v.producer()
            if node is not None and is_standard(node, "Shape"):
                self._known[v] = self._shape(node)
                pending.append((v, ready))
                continue
            if node is None or not is_standard(node) or node.op_type not in self._operators:
                return None
            if ready:
                order.append(node)
                continue
            if v in expanded:
                continue
            expanded.add(v)
            if len(expanded) > MAX_NODES:
                return None
            pending.append((v, True))
            pending += [(i, False) for i in node.inputs if i is not None]
        return order

    def _shape(self, node: ir.Node) -> Array | None:
        x = node.inputs[0]
        dims: Sequence[object] | None = None
        if x is not None:
            dims = self._shapes.get(x.name or "") if x.shape is None else list(x.shape)
        if dims is None:
            return None
        array = np.array([d if isinstance(d, int) else OPEN for d in dims], dtype=np.int64)
        start = node.attributes["start"].as_int() if "start" in node.attributes else None
        end = node.attributes["end"].as_int() if "end" in node.attributes else None
        return array[start:end]

    def _run(self, node: ir.Node) -> bool:
        if node.outputs[0] in self._known:
            return self._known[node.outputs[0]] is not None
        feeds = {v.name or "": self._known[v] for v in node.inputs if v is not None}
        if node.op_type not in MOVES and any(_has_open(a) for a in feeds.values()):
            return False
        feeds, narrow = _widened(node.op_type, feeds)
        model = self._single(node, feeds)
        results: list[Any] = []
        if model is not None and self._affordable(node, model, feeds):
            try:
                with np.errstate(all="ignore"):
                    results = list(ReferenceEvaluator(model).run(None, feeds))
            except Exception:  # whatever it is, the chain stays as it was
                results = []
        for i, output in enumerate(node.outputs):
            result = results[i] if i < len(results) else None
            array = None if result is None else np.asarray(result, dtype=narrow)
            self._known[output] = array
            self._bytes += 0 if array is None else array.nbytes
        return bool(results)

    def _affordable(
        self, node: ir.Node, model: onnx.ModelProto, feeds: dict[str, Array | None]
    ) -> bool:
        operands = [
            a for v in node.inputs if v is not None and (a := feeds[v.name or ""]) is not None
        ]
        return (
            _macs(node.op_type, operands) <= MAX_MACS
            and self._bytes <= MAX_TOTAL_BYTES
            and _output_bytes(model) <= MAX_BYTES
        )

    def _single(self, node: ir.Node, feeds: dict[str, Array | None]) -> onnx.ModelProto | None:
        """A model of this node alone; small inputs also as constants, for shape inference."""
        if any(a.is_ref() for a in node.attributes.values()):
            return None
        proto = ir.to_proto(node)
        inputs, small = [], []
        for name, array in feeds.items():
            dtype = ir.DataType.STRING if array is None else ir.tensor(array).dtype
            if array is None or dtype == ir.DataType.STRING:
                return None
            inputs.append(onnx.helper.make_tensor_value_info(name, int(dtype), list(array.shape)))
            if array.size <= 64:
                small.append(ir.to_proto(ir.tensor(array, name=name)))
        outputs = [onnx.ValueInfoProto(name=o.name or "") for o in node.outputs]
        graph = onnx.helper.make_graph([proto], "one", inputs, outputs, small)
        # The evaluator has these from opset 19 on only; they mean the same in all before.
        quantises = node.op_type in ("QuantizeLinear", "DequantizeLinear")
        opset = max(self._opset, 21) if quantises else self._opset
        return onnx.helper.make_model(
            graph,
            opset_imports=[onnx.helper.make_opsetid("", opset)],
            ir_version=max(self._ir_version, 10 if quantises else 4),
        )


def _widened(
    op_type: str, feeds: dict[str, Array | None]
) -> tuple[dict[str, Array | None], np.dtype[Any] | None]:
    """Operands of sums in float32 where they are narrow, and what the result is rounded to."""
    kinds = {a.dtype for a in feeds.values() if a is not None and a.dtype in NARROW}
    if op_type not in SUMS or len(kinds) != 1:
        return feeds, None
    (narrow,) = kinds
    wide = {
        name: a.astype(np.float32) if a is not None and a.dtype == narrow else a
        for name, a in feeds.items()
    }
    return wide, narrow


def _macs(op_type: str, operands: Sequence[Array]) -> int:
    """Multiply-adds of a product, at most; other operators cost what they write."""
    if op_type == "Einsum":
        return prod(a.size for a in operands)
    if op_type == "MatMul" and len(operands) == 2:
        return operands[0].size * prod(operands[1].shape[-1:])
    return 0


def _has_open(array: Array | None) -> bool:
    return array is not None and array.dtype == np.int64 and bool((array == OPEN).any())


def _output_bytes(model: onnx.ModelProto) -> float:
    """Size of the largest output by shape inference; infinite where unknown."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # an ill-typed node: it would not run either
        return np.inf
    largest = 0.0
    for output in inferred.graph.output:
        kind = output.type.tensor_type
        if not kind.HasField("shape"):
            return np.inf
        size = 8.0
        for dim in kind.shape.dim:
            if not dim.HasField("dim_value"):
                return np.inf
            size *= dim.dim_value
        largest = max(largest, size)
    return largest
