"""Models from ONNX text and NumPy arrays."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy)
import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

FUNCTION = '\n<domain: "f", opset_import: ["" : {opset}]>\n'


def model(text: str, *, opset: int = 17, ir_version: int = 9, domains: str = "", **arrays):
    """A model from the text of its graph and functions; `arrays` become initializers.

    `domains` imports further domains, such as `"f" : 1`.
    """
    imports = f'"" : {opset}' + (f", {domains}" if domains else "")
    proto = parser.parse_model(f"<ir_version: {ir_version}, opset_import: [{imports}]>\n{text}")
    proto.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    with suppress(onnx.shape_inference.InferenceError):  # some models are wrong on purpose
        _shape_outputs(proto.graph, onnx.shape_inference.infer_shapes(proto).graph)
    return proto


def _shape_outputs(graph: onnx.GraphProto, inferred: onnx.GraphProto) -> None:
    """Ranks for outputs written as `float[]`: onnx's checker wants them."""
    for output, known in zip(graph.output, inferred.output, strict=True):
        kind = output.type.tensor_type
        if (
            kind.elem_type
            and not kind.HasField("shape")
            and known.type.tensor_type.HasField("shape")
        ):
            for _ in known.type.tensor_type.shape.dim:
                kind.shape.dim.add()
    for node, same in zip(graph.node, inferred.node, strict=True):
        for a, b in zip(node.attribute, same.attribute, strict=True):
            if a.HasField("g"):
                _shape_outputs(a.g, b.g)


def with_function(main: str, function: str, *, opset: int = 17, function_opset=None, **arrays):
    """A model of which `main` may call the one function of domain `f`."""
    head = FUNCTION.format(opset=function_opset or opset)
    return model(main + head + function, opset=opset, domains='"f" : 1', **arrays)


def as_inputs(proto: onnx.ModelProto, *names: str) -> onnx.ModelProto:
    """The model with these initializers listed among the graph inputs too."""
    for tensor in proto.graph.initializer:
        if tensor.name in names:
            value = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            proto.graph.input.append(value)
    return proto


def array(*shape: int, seed: int = 0, dtype=np.float32):
    """Seeded random values that differ everywhere."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def ints(*values: int):
    return np.array(values, np.int64)


def braces(values) -> str:
    """An array as the text of a tensor's values."""
    return "{" + ",".join(f"{v:.9g}" for v in np.ravel(values)) + "}"


def write(proto: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def op_types(proto: onnx.ModelProto) -> list[str]:
    """Operator types in all graphs and functions, in order."""
    nodes: list[str] = []
    pending = [proto.graph, *proto.functions]
    while pending:
        for node in pending.pop(0).node:
            nodes.append(node.op_type)
            pending += [a.g for a in node.attribute if a.HasField("g")]
    return nodes


def initializer_names(proto: onnx.ModelProto) -> set[str]:
    return {t.name for t in proto.graph.initializer}
