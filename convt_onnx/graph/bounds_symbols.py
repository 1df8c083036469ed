"""The symbols that stand for open sizes, and what is read from a node about them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from convt_onnx.graph.bounds import Affine


@dataclass(frozen=True, slots=True)
class OpenSize:
    """The symbol of a size that has no name; `era` tells one from what the value had before."""

    value: ir.Value
    axis: int
    era: int

    def __str__(self) -> str:
        return f"size({self.value.name}, {self.axis})"


@dataclass(frozen=True, slots=True)
class Item:
    """The symbol of one element of a 64-bit integer tensor; it may be any number."""

    value: ir.Value
    index: int

    def __str__(self) -> str:
        return f"item({self.value.name}, {self.index})"


def least(key: Hashable) -> int | None:
    """What a symbol is at least, whatever the model is fed with."""
    if isinstance(key, Item):
        return None
    return 1 if isinstance(key, str) and key.isidentifier() else 0


def numbers(items: Sequence[Affine | None] | None) -> list[int] | None:
    """All of them, None where any is not a number."""
    if items is None:
        return None
    values = [None if a is None else a.value for a in items]
    known = [v for v in values if v is not None]
    return known if len(known) == len(values) else None


def ints(node: ir.Node, name: str) -> tuple[int, ...] | None:
    """An attribute of one or several integers; None where absent or given by the caller."""
    attribute = node.attributes.get(name)
    if attribute is None or attribute.is_ref():
        return None
    if attribute.type == ir.AttributeType.INT:
        return (attribute.as_int(),)
    return tuple(attribute.as_ints()) if attribute.type == ir.AttributeType.INTS else None
