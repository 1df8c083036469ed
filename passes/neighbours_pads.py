"""Reading a Pad node: which rows of zeros it writes around the spatial axes."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from convt_onnx.graph.evaluate import Evaluator
from convt_onnx.graph.operands import float_attribute
from convt_onnx.reasons import Refusal

# Pads and the value are inputs from here on.
INPUTS_OPSET = 11


@dataclass(frozen=True, slots=True)
class ZeroPad:
    """Rows of zeros at the begin and the end of each spatial axis."""

    begin: tuple[int, ...]
    end: tuple[int, ...]

    def times(self, factors: tuple[int, ...]) -> ZeroPad:
        """With each axis' counts multiplied."""
        return ZeroPad(
            tuple(n * f for n, f in zip(self.begin, factors, strict=True)),
            tuple(n * f for n, f in zip(self.end, factors, strict=True)),
        )


def read_pad(
    node: ir.Node, opset: int, rank: int, evaluator: Evaluator
) -> ZeroPad | Refusal | None:
    """The zeros that a Pad of a tensor of that rank adds, or why it does something else.

    None where it only drops rows: that is a crop.
    """
    if any(a.is_ref() for a in node.attributes.values()):
        return Refusal("CT423", "an attribute comes from the function's caller")
    mode = node.attributes["mode"].as_string() if "mode" in node.attributes else "constant"
    if mode != "constant":
        return Refusal("CT421", f"mode = {mode}")
    pads = _pads(node, opset, rank, evaluator)
    if isinstance(pads, Refusal):
        return pads
    if any(pads[:2]) or any(pads[rank : rank + 2]):
        return Refusal("CT424", f"pads = {pads}")
    if min(pads) < 0:
        return Refusal("CT425", f"pads = {pads}") if max(pads) > 0 else None
    return _check_value(node, opset, evaluator) or ZeroPad(
        tuple(pads[2:rank]), tuple(pads[rank + 2 :])
    )


def _input(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if len(node.inputs) > index else None


def _pads(node: ir.Node, opset: int, rank: int, evaluator: Evaluator) -> list[int] | Refusal:
    """One count for each begin, then for each end, of all axes."""
    if opset < INPUTS_OPSET:
        name = "pads" if opset >= 2 else "paddings"
        pads = list(node.attributes[name].as_ints()) if name in node.attributes else []
        axes = list(range(rank))
    else:
        given, chosen = _input(node, 1), _input(node, 3)
        array = None if given is None else evaluator.value(given)
        if array is None:
            return Refusal("CT423", "" if given is None else str(given.name))
        pads, axes = [int(n) for n in array.ravel()], list(range(rank))
        if chosen is not None:
            array = evaluator.value(chosen)
            if array is None:
                return Refusal("CT423", str(chosen.name))
            axes = [int(a) % rank for a in array.ravel()]
    if len(pads) != 2 * len(axes):
        return Refusal("CT423", f"{len(pads)} pads for {len(axes)} axes")
    full = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        full[axis], full[rank + axis] = pads[i], pads[len(axes) + i]
    return full


def _check_value(node: ir.Node, opset: int, evaluator: Evaluator) -> Refusal | None:
    if opset < INPUTS_OPSET:
        value = float_attribute(node, "value", 0.0)
        return Refusal("CT422", f"value = {value:g}") if value != 0 else None
    given = _input(node, 2)
    if given is None:
        return None
    array = evaluator.value(given)
    if array is None:
        return Refusal("CT422", f"{given.name} is known at run time only")
    return None if not array.any() else Refusal("CT422", f"value = {float(array.ravel()[0]):g}")
