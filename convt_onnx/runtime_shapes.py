"""Shapes of a model's values: inferred, or read from a run where nothing is left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from convt_onnx import model_io
from convt_onnx.errors import ConvtError
from convt_onnx.graph.node import find_nodes
from convt_onnx.graph.operands import Dim, Shapes
from convt_onnx.graph.shapes import conv_transpose_shape, make_pads_explicit
from convt_onnx.model_io import LoadedModel
from convt_onnx.verify.inputs import candidates
from convt_onnx.verify.session import Runner, Source


def shapes_of(
    loaded: LoadedModel,
    *,
    changed: bool = False,
    given: Mapping[str, Sequence[int]] | None = None,
) -> Shapes:
    """Shapes by value name.

    Args:
        loaded: The model.
        changed: Whether it has changed since it was loaded: then as it is now.
        given: Sizes of its inputs, where it is to be for those alone.
    """
    if changed:
        loaded = replace(loaded, proto=ir.to_proto(loaded.model))
    inferred = model_io.infer_shapes(loaded, conv_transpose_shape, make_pads_explicit, given)
    return with_runtime_shapes(loaded, inferred)


def with_runtime_shapes(loaded: LoadedModel, shapes: Shapes) -> Shapes:
    """Shapes, completed for inputs of nodes with output_shape, whose crop needs the sizes.

    Old models hold operators that onnx has no shape inference for (Crop). Where every graph input
    is static but for its first axis, the sizes inside cannot change either, and two runs in ONNX
    Runtime on different data tell them. Without ONNX Runtime, or where the runs differ, the
    shapes stay as they are.
    """
    wanted = [
        x.name
        for found in find_nodes(loaded.model)
        if "output_shape" in found.node.attributes
        and (x := found.node.inputs[0]) is not None
        and x.name
        and not _has_sizes(shapes, x.name)
        and found.node.graph is loaded.model.graph
    ]
    if not wanted:
        return shapes
    try:
        first, second = (_sizes_in_a_run(loaded, wanted, seed) for seed in (0, 1))
    except ConvtError:
        return shapes
    return {**shapes, **{n: s for n, s in first.items() if second.get(n) == s}}


def _has_sizes(shapes: Shapes, name: str) -> bool:
    return name in shapes and all(isinstance(d, int) for d in shapes[name][2:])


def _sizes_in_a_run(loaded: LoadedModel, names: list[str], seed: int) -> dict[str, tuple[Dim, ...]]:
    runner = Runner(Source(loaded.proto, loaded.path.parent), names)
    if not all(isinstance(d, int) for _, _, shape in runner.inputs for d in shape[1:]):
        return {}
    values = runner.run(next(candidates(runner.inputs, {}, seed)).arrays)
    return {n: (None, *values[n].shape[1:]) for n in names if n in values}
