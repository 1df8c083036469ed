"""The places of a model that hold a tensor: initializers and attributes, at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class InitializerSlot:
    """An initializer of a graph or subgraph."""

    value: ir.Value

    def get(self) -> ir.TensorProtocol | None:
        """The tensor that is there now."""
        return self.value.const_value

    def put(self, tensor: ir.TensorProtocol) -> None:
        """Put another tensor there."""
        self.value.const_value = tensor


@dataclass(frozen=True, slots=True)
class AttributeSlot:
    """A tensor attribute of a node, such as the value of a Constant."""

    node: ir.Node
    name: str

    def get(self) -> ir.TensorProtocol | None:
        """The tensor that is there now."""
        tensor: ir.TensorProtocol = self.node.attributes[self.name].value
        return tensor

    def put(self, tensor: ir.TensorProtocol) -> None:
        """Put another tensor there."""
        doc_string = self.node.attributes[self.name].doc_string
        self.node.attributes[self.name] = ir.AttrTensor(self.name, tensor, doc_string=doc_string)


Slot = InitializerSlot | AttributeSlot


def tensor_slots(model: ir.Model) -> Iterator[Slot]:
    """Every slot of the main graph, its subgraphs and the functions, in a fixed order."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            yield InitializerSlot(value)
    owners: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for owner in owners:
        for node in owner.all_nodes():
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                    yield AttributeSlot(node, attribute.name)
