"""What TensorRT would refuse, or build into something else, in a model as it is.

Each rule was measured on engines that TensorRT-RTX 1.7.1 builds (benchmarks/tensorrt_sweep.py
compares every prediction with a build); the parser is the one of TensorRT. Nothing here needs
either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from convt_onnx.capabilities import crops_output_padding, needs_channels, needs_outer_bias
from convt_onnx.graph.node import (
    ConvTransposeNode,
    FoundNode,
    UnreadNode,
    every_node,
    find_nodes,
    read_attributes,
    read_node,
)
from convt_onnx.graph.operands import Operand, QuantisedOperand, RuntimeOperand, Shapes
from convt_onnx.graph.quantised import Grid
from convt_onnx.padding import Attributes, same_crops
from convt_onnx.reasons import Refusal
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.standard import is_standard
from convt_onnx.targets import Target

Effect = Literal["refused", "wrong", "narrowed"]
# Attributes that the parser does not resolve inside of a function.
UNRESOLVED = frozenset({"kernel_shape", "strides", "dilations", "output_padding"})
REMOVED = frozenset({"Crop", "Affine"})


@dataclass(frozen=True, slots=True)
class Gap:
    """One thing that goes wrong with one node.

    Attributes:
        node: Path of the node, or name of the function.
        target: Name of the target.
        effect: "refused" where no engine is built, "wrong" where its results differ, "narrowed"
            where they are less precise.
        reason: Stable id and detail.
    """

    node: str
    target: str
    effect: Effect
    reason: Refusal


Finding = tuple[Effect, Refusal]


def find_gaps(model: ir.Model, shapes: Shapes, target: Target) -> Iterator[Gap]:
    """Gaps of a model as it was read, before any pass.

    Args:
        model: The model.
        shapes: Inferred shapes by value name.
        target: A target; others than TensorRT's have no gaps of this kind.
    """
    if target.functions_by_domain:
        return
    for node in every_node(model):
        if is_standard(node, *REMOVED):
            yield Gap(node.name or "", target.name, "refused", Refusal("CT516", node.op_type))
    yield from (
        Gap(name, target.name, "wrong", Refusal("CT511", f"{count} functions of that name"))
        for name, count in _shared_names(model)
    )
    for found in find_nodes(model):
        read = read_node(found.node, found.path, model.ir_version, found.visible(shapes))
        for effect, reason in _findings(found, read, target):
            yield Gap(found.path, target.name, effect, reason)


def _shared_names(model: ir.Model) -> list[tuple[str, int]]:
    names = Counter(f.name for f in model.functions.values())
    return [(name, count) for name, count in names.items() if count > 1]


def _findings(
    found: FoundNode, read: ConvTransposeNode | UnreadNode, target: Target
) -> Iterator[Finding]:
    refs = sorted(n for n, a in found.node.attributes.items() if a.is_ref() and n in UNRESOLVED)
    if refs:
        yield "wrong", Refusal("CT510", ", ".join(refs))
    if isinstance(read, UnreadNode):
        return
    if target.max_axes and read.spec.ndim > target.max_axes:
        yield "refused", Refusal("CT512", f"{read.spec.ndim} spatial axes")
        return
    raw = read_attributes(found.node)
    if max(raw.strides or (1,)) > 1 and max(raw.dilations or (1,)) > 1:
        detail = f"strides = {list(raw.strides or ())}, dilations = {list(raw.dilations or ())}"
        yield "refused", Refusal("CT500", detail)
    yield from _type_findings(read, target)
    yield from _crop_findings(read, raw)
    if needs_channels(read, target):
        yield "refused", Refusal("CT509", f"the weight has {read.spec.in_channels}")
    if not _is_default(read.bias) and needs_outer_bias("keep", read, target):
        yield "wrong", Refusal("CT508", f"output_padding = {list(read.spec.output_padding)}")
    if crops_output_padding(read, target):
        yield "refused", Refusal("CT517", f"input sizes {list(read.sizes)}")
    if read.spec.ndim == 3 and read.spec.group > 1 and not target.grouped_3d:
        yield "refused", Refusal("CT513", f"group = {read.spec.group}")


def _is_default(operand: Operand | None) -> bool:
    """An initializer that a caller may override: the parser takes it as it is."""
    return isinstance(operand, RuntimeOperand) and operand.overridable


def _type_findings(read: ConvTransposeNode, target: Target) -> Iterator[Finding]:
    if read.dtype == ir.DataType.BFLOAT16:
        yield "refused", Refusal("CT501", read.x_name)
    if read.dtype == ir.DataType.DOUBLE:
        yield "narrowed", Refusal("CT514", read.x_name)
    for operand in (read.weight, read.bias):
        if isinstance(operand, QuantisedOperand):
            integers, zero = operand.integers.tensor.dtype, operand.zero_point
            taken = target.quantised is None or integers in target.quantised
            if not taken or (zero is not None and zero.array().any()):
                yield "refused", Refusal("CT515", f"{operand.value.name}: {integers}")
    for grid in (read.x_grid, read.y_grid):
        if grid is not None and not _takes(grid, target):
            yield "refused", Refusal("CT515", f"an activation of type {grid.dtype}")


def _takes(grid: Grid, target: Target) -> bool:
    if target.quantised is not None and grid.dtype not in target.quantised:
        return False
    return grid.zero_point is None or not grid.zero_point.array().any()


def _crop_findings(read: ConvTransposeNode, raw: Attributes) -> Iterator[Finding]:
    """What becomes of auto_pad, output_shape and output_padding."""
    explicit = raw.auto_pad in ("", "NOTSET")
    if raw.output_shape is not None and explicit:
        yield from _output_shape_findings(read, raw)
    elif not explicit and (raw.output_shape is not None or any(raw.output_padding or ())):
        id = "CT506" if raw.output_shape is None else "CT507"
        detail = f"auto_pad = {raw.auto_pad}"
        if read.late is not None or _auto_pad_crops(read.spec, raw) != _crops(read.spec):
            yield "wrong", Refusal(id, detail)


def _output_shape_findings(read: ConvTransposeNode, raw: Attributes) -> Iterator[Finding]:
    detail = f"output_shape = {list(raw.output_shape or ())}"
    (last,) = (raw.output_shape or (0,))[-1:]
    if read.spec.ndim == 1 and last > 1:
        # The added axis, of one row, gets the attribute's value; one row more is still taken.
        yield "refused" if last > 2 else "wrong", Refusal("CT502", detail)
    elif read.late is not None:
        yield "refused", Refusal("CT503", detail)
    else:
        # Rows that output_shape crops: what the canonical pads keep of the whole.
        totals = [a.begin + a.end for a in read.spec.axes()]
        padding = raw.output_padding or (0,) * read.spec.ndim
        crops = [t + op for t, op in zip(totals, padding, strict=True)]
        if any(c < -1 for c in crops):
            yield "refused", Refusal("CT504", detail)
        elif any(c > 0 and c % 2 for c in crops):
            yield "wrong", Refusal("CT505", detail)


def _crops(spec: ConvTransposeSpec) -> list[tuple[int, int]]:
    return [(a.begin, a.end) for a in spec.axes()]


def _auto_pad_crops(spec: ConvTransposeSpec, raw: Attributes) -> list[tuple[int, int]]:
    """The crops that the parser makes: output_padding and output_shape are not read."""
    if raw.auto_pad == "VALID":
        return [(0, 0)] * spec.ndim
    return same_crops(spec, upper=raw.auto_pad == "SAME_UPPER")
