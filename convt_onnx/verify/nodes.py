"""Each node alone: its real input through the float64 oracle, against what the model computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from convt_onnx.graph.node import ConvTransposeNode
from convt_onnx.graph.operands import ConstantOperand, Operand, QuantisedOperand
from convt_onnx.reference import conv_transpose
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.verify.session import Arrays, RunError, Runner, Source

Array = npt.NDArray[Any]

# Nodes fetched in one run, and multiply-adds the oracle spends on one node; beyond that it
# checks some of the channels.
NODES_AT_ONCE = 16
MAX_MACS = 4_000_000_000
# Elements of the output that are compared in float64, 512 MiB of them.
MAX_OUTPUT = 1 << 26


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """How far one node is from the oracle.

    Attributes:
        path: The node.
        ok: Within the bound.
        error: Largest |y - oracle| of the rewritten node.
        original_error: The same of the original node; None where it cannot be read out.
        bound: What was allowed: the larger of 4 times the original's error and 16 units of
            float32 rounding of the terms that are summed.
        channels: Output channels compared.
    """

    path: str
    ok: bool
    error: float
    original_error: float | None
    bound: float
    channels: int
    scale: float


def check_nodes(
    original: Source, rewritten: Source, nodes: Sequence[ConvTransposeNode], feeds: Arrays
) -> Iterator[NodeCheck]:
    """Check nodes of the main graph, a few at a time."""
    for start in range(0, len(nodes), NODES_AT_ONCE):
        part = nodes[start : start + NODES_AT_ONCE]
        after = Runner(rewritten, _value_names(part)).run(feeds)
        before = _values_before(original, part, feeds)
        for node in part:
            yield _check(node, before, after)


def _values_before(original: Source, part: Sequence[ConvTransposeNode], feeds: Arrays) -> Arrays:
    made = {o for n in original.proto.graph.node for o in n.output}
    made |= {i.name for i in original.proto.graph.input}
    names = [n for node in part if _names(node) <= made for n in _names(node)]
    if not names:
        return {}
    try:
        return Runner(original, names).run(feeds)
    except RunError:
        return {}


def _names(node: ConvTransposeNode) -> set[str]:
    operands = [o for o in (node.weight, node.bias) if o is not None]
    names = {o.value.name or "" for o in operands if _constant_array(o) is None}
    return names | {node.x_name, node.output_name}


def _value_names(part: Sequence[ConvTransposeNode]) -> list[str]:
    return [name for node in part for name in sorted(_names(node))]


def _constant_array(operand: Operand) -> Array | None:
    if isinstance(operand, ConstantOperand):
        return operand.array()
    if isinstance(operand, QuantisedOperand):
        return _dequantised(operand)
    return None


def _dequantised(operand: QuantisedOperand) -> Array:
    shape = [1] * len(operand.shape)
    if operand.axis is not None:
        shape[operand.axis] = -1
    values = operand.integers.array().astype(np.float64)
    if operand.zero_point is not None:
        values = values - operand.zero_point.array().astype(np.float64).reshape(shape)
    return values * operand.scale.array().astype(np.float64).reshape(shape)


def _check(node: ConvTransposeNode, before: Arrays, after: Arrays) -> NodeCheck:
    error, bound, scale, channels = _error(node, after)
    original: float | None = None
    if _names(node) <= before.keys():
        original, *_ = _error(node, before)
        if np.isfinite(original):
            bound = max(bound, 4 * original)
    return NodeCheck(node.path, error <= bound, error, original, bound, channels, scale)


def _error(node: ConvTransposeNode, values: Arrays) -> tuple[float, float, float, int]:
    """Largest error, bound from rounding alone, largest magnitude, channels compared."""
    x, y = values[node.x_name], values[node.output_name]
    weight = _operand_array(node.weight, values)
    bias = None if node.bias is None else _operand_array(node.bias, values)
    spec = node.resolved(x.shape[2:])
    spec, x, weight, bias, y = _bounded(spec, x, weight, bias, y)
    wanted = conv_transpose(x, weight, bias, spec)
    if wanted.shape != y.shape:
        return np.inf, 0.0, 0.0, spec.out_channels
    terms = spec.in_per_group * prod(
        -(-k // a.tap_step) for k, a in zip(spec.kernel, spec.axes(), strict=True)
    )
    # NaN and infinity that the model itself makes cannot be compared.
    finite = np.isfinite(wanted)
    scale = float(np.abs(wanted[finite]).max(initial=0.0))
    largest = _largest(x) * _largest(weight)
    rounding = float(np.finfo(np.float32).eps) * 16
    bound = rounding * (scale + sqrt(terms) * largest)
    got, wanted = y[finite].astype(np.float64), wanted[finite]
    if (grid := node.y_grid) is not None:
        # All readers quantise the output to this grid, and some forms do so ahead of them.
        got, wanted = (np.clip(a, grid.low, grid.high) for a in (got, wanted))
        bound += grid.step / 2
    difference = np.abs(got - wanted)
    return float(difference.max(initial=0.0)), bound, scale, spec.out_channels


def _largest(array: Array) -> float:
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def _operand_array(operand: Operand, values: Arrays) -> Array:
    known = _constant_array(operand)
    return values[operand.value.name or ""] if known is None else known


def _bounded(
    spec: ConvTransposeSpec, x: Array, weight: Array, bias: Array | None, y: Array
) -> tuple[ConvTransposeSpec, Array, Array, Array | None, Array]:
    """The first batch entry and as many channels (of the first groups) as the oracle can afford."""
    per_channel = prod(x.shape[2:]) * prod(spec.kernel) * spec.in_per_group
    elements = max(1, prod(y.shape[2:]))
    affordable = max(1, min(MAX_MACS // max(1, per_channel), MAX_OUTPUT // elements))
    if x.shape[0] * spec.out_channels <= affordable:
        return spec, x, weight, bias, y
    x, y = x[:1], y[:1]
    group = max(1, min(spec.group, affordable // spec.out_per_group))
    m = min(spec.out_per_group, affordable) if group == 1 else spec.out_per_group
    c = group * spec.in_per_group
    smaller = replace(spec, in_channels=c, out_channels=group * m, group=group)
    kept = None if bias is None else bias[: group * m]
    return smaller, x[:, :c], weight[:c, :m], kept, y[:, : group * m]
