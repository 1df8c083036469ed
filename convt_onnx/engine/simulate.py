"""Compute what a network definition means, layer by layer, in NumPy: proof without a GPU.

The parser may build a network that means something else than the model (a shifted crop, a bias
left out of a border). The definition says what TensorRT will compute, up to its kernels; here it
is evaluated by the rules of TensorRT's operator reference, so that it can be compared with ONNX
Runtime. Convolutions and deconvolutions run in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from convt_onnx.engine.layers import kind_of, onnx_node, raw_layers
from convt_onnx.engine.network import Network
from convt_onnx.engine.simulate_convolution import convolution, deconvolution
from convt_onnx.engine.simulate_gap import SimulationGapError, no_rule
from convt_onnx.engine.simulate_layers import RULES, Array, Call
from convt_onnx.engine.simulate_plugins import Rule

DTYPES = {
    "FLOAT": np.float32,
    "HALF": np.float16,
    "INT8": np.int8,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "BOOL": np.bool_,
}
# Both branches are computed; the output takes one. The condition is kept under a name that no
# tensor has.
CONDITIONALS = {"CONDITION", "CONDITIONAL_INPUT", "CONDITIONAL_OUTPUT"}
CONDITION = "\0condition"
PLUGIN = "PLUGIN_V3"
ALL_RULES: Mapping[str, Callable[[Call], Array]] = {
    **RULES,
    "CONDITIONAL_INPUT": lambda call: call.array(0),
    "CONVOLUTION": convolution,
    "DECONVOLUTION": deconvolution,
}

_REPORT = "please report this with the model; the engine itself may be right"


@dataclass(slots=True)
class Budget:
    """Multiply-adds that are left; None for no limit."""

    macs: int | None

    def spend(self, raw: Any, shape: tuple[int, ...]) -> None:
        """Count a convolution over an input of that shape."""
        if self.macs is None:
            return
        per_row = raw.num_output_maps // raw.num_groups * prod(raw.kernel_size_nd)
        self.macs -= prod(shape) * per_row
        if self.macs < 0:
            raise SimulationGapError(
                "the network is too large to simulate",
                where=raw.name,
                help="smaller inputs, or a larger max_macs",
            )


def unknown_kinds(network: Network, plugins: Mapping[str, Rule]) -> frozenset[str]:
    """Kinds of layers, and element types, that `simulate` does not know."""
    found = set()
    kinds = [kind_of(network, raw) for raw in raw_layers(network)]
    found |= set(kinds) - ALL_RULES.keys() - CONDITIONALS - {PLUGIN}
    if kinds.count("CONDITION") > 1:
        found.add("more than one CONDITION")
    for raw in raw_layers(network):
        if kind_of(network, raw) == PLUGIN and (onnx_node(raw) or raw.name) not in plugins:
            found.add(f"{PLUGIN} {raw.name}")
        found |= {raw.get_output(i).dtype.name for i in range(raw.num_outputs)} - DTYPES.keys()
    return frozenset(found)


def simulate(
    network: Network,
    feeds: Mapping[str, npt.NDArray[Any]],
    *,
    max_macs: int | None = None,
    plugins: Mapping[str, Rule] = MappingProxyType({}),
) -> dict[str, npt.NDArray[Any]]:
    """Outputs of a network by name.

    Args:
        network: A parsed model.
        feeds: An array for each input.
        plugins: What plugin layers compute, by ONNX node.
        max_macs: Multiply-adds that all convolutions together may take.

    Raises:
        SimulationGapError: It holds a layer that there is no rule for, or is too large.
    """
    if gaps := unknown_kinds(network, plugins):
        raise no_rule(", ".join(sorted(gaps)))
    values: dict[str, npt.NDArray[Any]] = {
        t.name: np.asarray(feeds[t.name]).astype(DTYPES[t.dtype.name], copy=False)
        for t in network.inputs
    }
    pending = list(raw_layers(network))
    budget = Budget(max_macs)
    while pending:
        waiting = [raw for raw in pending if not _compute(network, raw, values, budget, plugins)]
        if len(waiting) == len(pending):
            raise SimulationGapError(
                "the network's layers wait for each other",
                where=f"layer {waiting[0].name!r}",
                help=_REPORT,
            )
        pending = waiting
    return {t.name: values[t.name] for t in network.outputs}


def _compute(
    network: Network,
    raw: Any,
    values: dict[str, npt.NDArray[Any]],
    budget: Budget,
    plugins: Mapping[str, Rule],
) -> bool:
    """Compute one layer, if everything that it reads is there."""
    tensors = [raw.get_input(i) for i in range(raw.num_inputs)]
    kind = kind_of(network, raw)
    names = [t.name for t in tensors if t is not None]
    if kind == "CONDITIONAL_OUTPUT":
        names.append(CONDITION)
    if any(n not in values for n in names):
        return False
    call = Call(raw, tuple(None if t is None else values[t.name] for t in tensors))
    if kind == "CONDITION":
        values[CONDITION] = call.array(0)
        return True
    output = raw.get_output(0)
    if kind == "CONDITIONAL_OUTPUT":
        result = call.array(0 if values[CONDITION].all() else 1)
    elif kind == PLUGIN:
        operands = [a for a in call.inputs if a is not None]
        result = plugins[onnx_node(raw) or raw.name](operands)
    else:
        if kind in ("CONVOLUTION", "DECONVOLUTION"):
            budget.spend(raw, call.array(0).shape)
        result = ALL_RULES[kind](call)
    _check_shape(raw, tuple(output.shape), result.shape)
    values[output.name] = result.astype(DTYPES[output.dtype.name], copy=False)
    return True


def _check_shape(raw: Any, declared: tuple[int, ...], got: tuple[int, ...]) -> None:
    """The rule and TensorRT's own shape inference must agree."""
    if len(declared) != len(got) or any(
        d not in (-1, n) for d, n in zip(declared, got, strict=True)
    ):
        raise SimulationGapError(
            "the simulation and TensorRT disagree about a shape",
            where=f"layer {raw.name!r}: {list(got)} against {list(declared)}",
            help=_REPORT,
        )
