"""Activations that exporters write as several nodes, recognised by what they compute.

A region of elementwise nodes is followed from a value until everything runs together again; the
region is computed at sample points and compared with the activations, so the order of operands,
where a factor of 0.5 stands and how a cube is written do not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, pi, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from convt_onnx.graph.evaluate import Evaluator
from convt_onnx.standard import is_standard

Array = npt.NDArray[Any]

MAX_NODES = 12
# Constants of half types are rounded to these; the two kinds of Gelu differ by 5e-4.
TOLERANCE, HALF_TOLERANCE = 1e-5, 4e-3
SAMPLES = np.linspace(-5.95, 6.05, 61)

_erf = np.vectorize(erf)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "Mul": np.multiply,
    "Add": np.add,
    "Sub": np.subtract,
    "Div": np.divide,
    "Pow": np.power,
    "Neg": np.negative,
    "Exp": np.exp,
    "Reciprocal": np.reciprocal,
    "Erf": _erf,
    "Tanh": np.tanh,
    "Sigmoid": _sigmoid,
}
ACTIVATIONS: dict[str, Array] = {
    "Silu": SAMPLES * _sigmoid(SAMPLES),
    "Gelu": 0.5 * SAMPLES * (1 + _erf(SAMPLES / sqrt(2))),
    "GeluTanh": 0.5 * SAMPLES * (1 + np.tanh(sqrt(2 / pi) * (SAMPLES + 0.044715 * SAMPLES**3))),
}


def find_activation(
    value: ir.Value, evaluator: Evaluator, *, rank: int, half: bool
) -> tuple[str, int, ir.Value] | None:
    """Name, number of nodes and output of an activation of several nodes that reads `value`.

    Args:
        value: What all of it is computed from; nothing outside of it may read the value.
        evaluator: Computes constant operands.
        rank: Number of axes of the value; a constant of more would add some.
        half: Whether the constants are of a half type.
    """
    known: dict[int, Array] = {id(value): SAMPLES}
    values, done = [value], list[ir.Node]()
    while len(done) < MAX_NODES:
        step = _next(values, done, known, evaluator, rank)
        if step is None:
            return None
        node, result = step
        output = node.outputs[0]
        done.append(node)
        values.append(output)
        known[id(output)] = result
        if all(_closed(v, done) for v in values[:-1]):
            name = _match(result, HALF_TOLERANCE if half else TOLERANCE)
            if name is not None:
                return name, len(done), output
    return None


def _next(
    values: list[ir.Value],
    done: list[ir.Node],
    known: dict[int, Array],
    evaluator: Evaluator,
    rank: int,
) -> tuple[ir.Node, Array] | None:
    """The first node that can be computed by now, and what it gives."""
    for value in values:
        for use in value.uses():
            node = use.node
            if node in done or node.graph is not values[0].graph:
                continue
            result = _compute(node, known, evaluator, rank)
            if result is not None:
                return node, result
    return None


def _compute(
    node: ir.Node, known: dict[int, Array], evaluator: Evaluator, rank: int
) -> Array | None:
    if not is_standard(node, *ELEMENTWISE):
        return None
    operands: list[Array] = []
    for value in node.inputs:
        array = None if value is None else known.get(id(value))
        if array is None and value is not None:
            array = evaluator.value(value)
            if array is None or array.size != 1 or array.ndim > rank:
                return None
            array = array.astype(np.float64).ravel()
        if array is None:
            return None
        operands.append(array)
    with np.errstate(all="ignore"):
        return ELEMENTWISE[node.op_type](*operands)


def _closed(value: ir.Value, done: list[ir.Node]) -> bool:
    return not value.is_graph_output() and all(use.node in done for use in value.uses())


def _match(result: Array, tolerance: float) -> str | None:
    """The nearest activation within the tolerance."""
    errors = {n: float(np.abs(result - wanted).max()) for n, wanted in ACTIVATIONS.items()}
    nearest = min(errors, key=lambda n: errors[n])
    return nearest if errors[nearest] <= tolerance else None
