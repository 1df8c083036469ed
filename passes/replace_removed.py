"""Operators that ONNX had experimentally and has taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir as ir

from convt_onnx.graph.emitter import Emitter, NamePool, emitter_at
from convt_onnx.graph.operands import float_attribute
from convt_onnx.passes.base import Pass
from convt_onnx.standard import is_standard, opset_of

# Add broadcasts, as the rewriting needs it, from here on.
MIN_OPSET = 7


class ReplaceRemoved(Pass):
    """Writes operators that only old runtimes know in operators that ONNX kept.

    Rules, for targets without the old ones::

        1. Crop <border = [l, t, r, b]>        -> Slice of the last two axes
        2. Affine <alpha, beta>                -> x * alpha + beta
        3. ImageScaler <scale, bias>           -> x * scale + bias along the channels

    Not below opset 7, in functions, where an attribute comes from a call, and a Crop with
    a scale or a negative border.
    """

    name = "replace-removed"
    summary = "operators that ONNX has taken back become others, where the target lacks them"
    makes_values = True

    def run(self, model: ir.Model) -> Iterator[str]:
        """Rewrite, one line a node."""
        opset = opset_of(model.opset_imports)
        if self.context.target.removed_operators or opset < MIN_OPSET:
            return
        names = NamePool(model)
        graphs = [model.graph, *model.graph.subgraphs()]
        for node in [n for graph in graphs for n in graph if is_standard(n, *RULES)]:
            if any(a.is_ref() for a in node.attributes.values()):
                continue
            em = emitter_at(model, node, names, opset)
            result = RULES[node.op_type](em, node)
            if result is not None:
                op_type, output = node.op_type, node.outputs[0].name
                em.splice(node, result)
                yield f"{output}: {op_type} written in other operators"


def _crop(em: Emitter, node: ir.Node) -> ir.Value | None:
    x = node.inputs[0]
    border = node.attributes.get("border")
    if x is None or border is None or "scale" in node.attributes:
        return None
    sides = border.as_ints()
    if len(sides) != 4 or min(sides) < 0:
        return None
    left, top, right, bottom = sides
    return em.crop(x, [2, 3], [top, left], [bottom, right])


def _affine(em: Emitter, node: ir.Node) -> ir.Value | None:
    x = node.inputs[0]
    if x is None:
        return None
    alpha, beta = float_attribute(node, "alpha", 1.0), float_attribute(node, "beta", 0.0)
    return _scaled(em, x, np.array(alpha), np.array(beta))


def _image_scaler(em: Emitter, node: ir.Node) -> ir.Value | None:
    x = node.inputs[0]
    if x is None or "bias" not in node.attributes:
        return None
    bias = np.array(node.attributes["bias"].as_floats()).reshape(-1, 1, 1)
    return _scaled(em, x, np.array(float_attribute(node, "scale", 1.0)), bias)


def _scaled(
    em: Emitter,
    x: ir.Value,
    scale: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    shift: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> ir.Value:
    # onnx infers no types behind such operators; files that hold them hold float32.
    dtype = ir.DataType.FLOAT.numpy() if x.dtype is None else x.dtype.numpy()
    y = em.op("Mul", [x, em.constant(scale.astype(dtype), "scale")])
    return em.add(y, em.constant(shift.astype(dtype), "shift"))


RULES: dict[str, Callable[[Emitter, ir.Node], ir.Value | None]] = {
    "Crop": _crop,
    "Affine": _affine,
    "ImageScaler": _image_scaler,
}
