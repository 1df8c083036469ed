"""Constants that a model computes in float16 or bfloat16, rounded as the model rounds them.

A float32 twin has no narrow type left to round to, so Cast and DequantizeLinear of constants would
give other values than a rewritten model that holds the rounded result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from convt_onnx.standard import is_standard

NARROW: dict[int, np.dtype[Any]] = {
    onnx.TensorProto.FLOAT16: np.dtype(np.float16),
    onnx.TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
}


def round_constants(proto: onnx.ModelProto, folder: Path) -> None:
    """Replace such nodes of the main graph by what they compute.

    Args:
        proto: Changed in place.
        folder: Where its external data is.
    """
    graph = proto.graph
    overridable = {v.name for v in graph.input}
    tensors = {t.name: t for t in graph.initializer if t.name not in overridable}
    kept, made = [], []
    for node in graph.node:
        known = [tensors.get(name) for name in node.input]
        array = None
        if is_standard(node) and all(t is not None for t in known):
            array = _value(node, [t for t in known if t is not None], folder)
        if array is None:
            kept.append(node)
            continue
        made.append(numpy_helper.from_array(array, node.output[0]))
    if made:
        outputs = {o.name for o in graph.output}
        if any(t.name in outputs for t in made):
            return
        graph.initializer.extend(made)
        del graph.node[:]
        graph.node.extend(kept)


def _value(
    node: onnx.NodeProto, operands: list[onnx.TensorProto], folder: Path
) -> npt.NDArray[Any] | None:
    attributes = {a.name: a.i for a in node.attribute}
    if node.op_type == "Cast" and attributes.get("to") in NARROW:
        array = _array(operands[0], folder).astype(NARROW[attributes["to"]])
        return np.asarray(array)
    if node.op_type != "DequantizeLinear" or operands[1].data_type not in NARROW:
        return None
    if attributes.get("block_size"):
        return None
    integers, scale = (_array(t, folder).astype(np.float32) for t in operands[:2])
    zero = _array(operands[2], folder).astype(np.float32) if len(operands) > 2 else np.float32(0)
    if scale.size > 1:
        axis = attributes.get("axis", 1) % integers.ndim
        shape = [-1 if i == axis else 1 for i in range(integers.ndim)]
        scale, zero = scale.reshape(shape), np.broadcast_to(zero, scale.shape).reshape(shape)
    return np.asarray(((integers - zero) * scale).astype(NARROW[operands[1].data_type]))


def _array(tensor: onnx.TensorProto, folder: Path) -> npt.NDArray[Any]:
    return numpy_helper.to_array(tensor, base_dir=str(folder))
