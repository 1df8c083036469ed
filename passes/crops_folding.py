"""Writes a chain of crops into the pads of its ConvTranspose."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from convt_onnx.forms.native import write_attributes
from convt_onnx.graph.emitter import Emitter, NamePool
from convt_onnx.passes.crops_chain import Chain, Step
from convt_onnx.passes.crops_writing import own_name
from convt_onnx.spec import ConvTransposeSpec


class Folding:
    """The first `end` steps of a chain, all of which are to be folded.

    `released` are the bounds that the crops have read.
    """

    def __init__(
        self, chain: Chain, end: int, emitter: Callable[[], Emitter], names: NamePool
    ) -> None:
        self._chain = chain
        self._end = end
        self._emitter = emitter
        self._names = names
        self.released: list[ir.Value] = []

    def write(self, spec: ConvTransposeSpec) -> None:
        """Give the node its pads, remove the crops, and name what is left."""
        node = self._chain.read.node
        node.name = own_name(node)
        write_attributes(node, spec)
        value, made = node.outputs[0], 0
        narrower: list[tuple[ir.Value, int]] = []
        for done, step in enumerate(self._chain.steps[: self._end], 1):
            if step.goes:
                self._remove(step, value, last=done == self._end)
                continue
            narrower.append((value, made))
            narrowed = step.crop and step.effective
            value, made = self._narrowed(step) if narrowed else step.output, done
        for changed, made in narrower:
            self._rename(changed, made)

    def _remove(self, step: Step, value: ir.Value, *, last: bool) -> None:
        """Take the node out; what it read is what it made."""
        old, graph = step.output, step.node.graph
        if graph is None:
            raise AssertionError("each step is folded once")
        old.replace_all_uses_with(value, replace_graph_outputs=True)
        self._release(step)
        graph.remove(step.node, safe=True)
        if last:
            value.name = old.name
            value.type = old.type or value.type
            value.shape = old.shape
            value.doc_string = old.doc_string
            value.metadata_props.update(old.metadata_props)

    def _release(self, step: Step) -> None:
        self.released += [v for v in step.node.inputs[1:] if v is not None]

    def _narrowed(self, step: Step) -> ir.Value:
        """The Slice, written anew for the axes that it keeps."""
        axes = sorted(step.rest)
        starts, ends, steps = [], [], []
        for cut in (step.rest[axis] for axis in axes):
            if cut.start is None or cut.end is None or cut.step is None:
                raise AssertionError("only constant bounds are written anew")
            starts.append(cut.start)
            ends.append(cut.end)
            steps.append(cut.step)
        x = step.node.inputs[0]
        if x is None:
            raise AssertionError("a step reads the value before it")
        self._release(step)
        em = self._emitter()
        if all(s == 1 for s in steps):
            result = em.slice(x, axes, starts, ends)
        else:
            operands = [starts, ends, axes, steps]
            result = em.op("Slice", [x, *(em.ints(v, "bounds") for v in operands)])
        em.splice(step.node, result)
        return result

    def _rename(self, value: ir.Value, made: int) -> None:
        """A value that has fewer rows than it had is not the one that its name stood for.

        It was made by the node and `made` steps, and no step behind these is left before it.
        """
        left = self._chain.total(made, self._end)
        if not any(b or e for b, e in left.values()):
            return
        value.name = self._names.fresh(f"{value.name}/cropped")
        if value.shape is None:
            return
        order = self._chain.order(made)
        value.shape = ir.Shape(
            [
                d if not any(gone) else d - sum(gone) if isinstance(d, int) else None
                for d, gone in zip(value.shape, (left.get(a, (0, 0)) for a in order), strict=True)
            ]
        )
