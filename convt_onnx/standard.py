"""ONNX's own operators: their domain, which has two names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

STANDARD = ("", "ai.onnx")


def is_standard(node: onnx.NodeProto | ir.Node, *op_types: str) -> bool:
    """Whether a node is an operator of ONNX itself, and one of `op_types` where any are named."""
    return node.domain in STANDARD and (not op_types or node.op_type in op_types)


def opset_of(imports: Mapping[str, int]) -> int:
    """Version of ONNX's own operators among the imports of a model or a function."""
    return imports.get("", imports.get("ai.onnx", 1))
