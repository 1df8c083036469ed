"""Functions whose ConvTranspose depends on the call."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from convt_onnx.graph.node import is_conv_transpose
from convt_onnx.passes.base import Pass


class InlineFunctions(Pass):
    """Inlines model-local functions where the call decides what a ConvTranspose computes.

    A function is inlined where a ConvTranspose inside (also in its subgraphs)

        1. reads an attribute of the call, or
        2. takes a weight or bias that depends on the function's inputs,

    and so is each function that calls such a function. Others stay functions: their nodes are
    rewritten in the body. Not inlined: a function with another opset than the model's, or with
    graph attributes.
    """

    name = "inline-functions"
    summary = "functions whose weights or attributes come from the call are inlined"

    def run(self, model: ir.Model) -> Iterator[str]:
        """Inline, one line a function."""
        wanted = {f.identifier() for f in model.functions.values() if _depends_on_call(f)}
        wanted = {
            i for i in _with_callers(model, wanted) if self._inlinable(model, model.functions[i])
        }
        if not wanted:
            return
        result = InlinePass(criteria=lambda f: f.identifier() in wanted)(model)
        if result.modified:
            yield from (f"{domain}:{name}: inlined" for domain, name, _ in sorted(wanted))

    def _inlinable(self, model: ir.Model, function: ir.Function) -> bool:
        imports = model.opset_imports
        return all(imports.get(d, v) == v for d, v in function.opset_imports.items())


def _depends_on_call(function: ir.Function) -> bool:
    for node in ir.traversal.RecursiveGraphIterator(function.graph):
        if not is_conv_transpose(node):
            continue
        if any(a.is_ref() for a in node.attributes.values()):
            return True
        if any(v is not None and _reads_input(v, function) for v in node.inputs[1:]):
            return True
    return False


def _reads_input(value: ir.Value, function: ir.Function) -> bool:
    inputs = {id(v) for v in function.inputs}
    pending, seen = [value], set()
    while pending:
        v = pending.pop()
        if id(v) in seen:
            continue
        seen.add(id(v))
        if id(v) in inputs:
            return True
        node = v.producer()
        if node is not None:
            pending += [i for i in node.inputs if i is not None]
    return False


def _with_callers(
    model: ir.Model, wanted: set[ir.OperatorIdentifier]
) -> set[ir.OperatorIdentifier]:
    calls = {
        f.identifier(): {n.op_identifier() for n in ir.traversal.RecursiveGraphIterator(f.graph)}
        for f in model.functions.values()
    }
    grown = set(wanted)
    while True:
        more = {caller for caller, called in calls.items() if called & grown} - grown
        if not more:
            return grown
        grown |= more
