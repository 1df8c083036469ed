"""The sizes that nodes are costed for: those of the graph's inputs, carried on to each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from convt_onnx.graph.node import ConvTransposeNode, FoundNode, find_nodes
from convt_onnx.graph.operands import Dim, Shapes
from convt_onnx.model_io import LoadedModel
from convt_onnx.runtime_shapes import shapes_of
from convt_onnx.verify.inputs import InputShapes, likely_shapes


@dataclass(frozen=True, slots=True)
class UsualSizes:
    """Shapes of values at usual sizes of the graph's inputs.

    Attributes:
        inputs: Those sizes; none where the model leaves no node's size open.
        shapes: Shapes by value name.
        assumed: Whether any size is a likely one, since the user gave none.
    """

    inputs: InputShapes = field(default_factory=dict)
    shapes: Shapes = field(default_factory=dict)
    assumed: bool = False

    def of(self, read: ConvTransposeNode, found: FoundNode) -> ConvTransposeNode:
        """A node that knows the shape of its input at these sizes."""
        shape = found.visible(self.shapes).get(read.x_name)
        if shape is None or len(shape) != 2 + len(read.sizes):
            return read
        usual = tuple(d if isinstance(d, int) else None for d in shape)
        return replace(read, usual=usual, usual_assumed=self.assumed)


def usual_sizes(
    loaded: LoadedModel, shapes: Shapes, given: InputShapes, *, changed: bool
) -> UsualSizes:
    """Sizes of a model's values where any ConvTranspose is of open size.

    Args:
        loaded: The model.
        shapes: What is known without any sizes, by value name.
        given: The user's sizes of its inputs; likely ones are assumed of the others.
        changed: Whether the model has changed since it was loaded.
    """
    inputs = (
        found.visible(shapes).get((x.name if x is not None else "") or "")
        for found in find_nodes(loaded.model)
        for x in found.node.inputs[:1]
    )
    if all(map(_is_fixed, inputs)):
        return UsualSizes()
    chosen, assumed = likely_shapes(loaded.model.graph, given)
    return UsualSizes(chosen, shapes_of(loaded, changed=changed, given=chosen), assumed)


def _is_fixed(shape: Sequence[Dim] | None) -> bool:
    return shape is not None and all(isinstance(d, int) for d in shape)
