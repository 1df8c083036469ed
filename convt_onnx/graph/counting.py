"""How many nodes of each operator a model has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import onnx_ir as ir

from convt_onnx.plugin_node import DOMAIN
from convt_onnx.standard import is_standard


def op_counts(model: ir.Model) -> dict[str, int]:
    """Nodes by operator in all graphs and functions, most frequent first.

    Operators of other domains than ONNX's own are named `domain:type`. Functions that are the
    bodies of the plugin's nodes are left out: the node counts.
    """
    counts = Counter(op_name(n) for n in model.graph.all_nodes())
    for function in model.functions.values():
        if function.domain == DOMAIN:
            continue
        counts.update(op_name(n) for n in function.all_nodes())
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def plugin_count(counts: Mapping[str, int]) -> int:
    """How many of the operators are the plugin's nodes."""
    return sum(n for op, n in counts.items() if op.startswith(f"{DOMAIN}:"))


def op_name(node: ir.Node) -> str:
    """The operator, with its domain where that is not ONNX's own."""
    return node.op_type if is_standard(node) else f"{node.domain}:{node.op_type}"
