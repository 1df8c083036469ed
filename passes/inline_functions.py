"""Functions whose ConvTranspose depends on the call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from convt_onnx.graph.emitter import NamePool
from convt_onnx.model_io.walk import is_conv_transpose
from convt_onnx.passes.base import Pass
from convt_onnx.plugin_node import DOMAIN, OVERLOAD


class InlineFunctions(Pass):
    """Inlines model-local functions where the call decides what a ConvTranspose computes.

    A function is inlined where a ConvTranspose inside (also in its subgraphs)

        1. reads an attribute of the call, or
        2. takes a weight or bias that depends on the function's inputs, or
        3. stands in a function that shares its name with another, for targets that tell
           functions apart by name alone; the other one is inlined too,
        4. may become a node of the plugin that is called by its overload, which ONNX Runtime
           does not find from inside of a function,

    and so is each function that calls such a function. Others stay functions: their nodes are
    rewritten in the body. Not inlined: a function with another opset than the model's, one that
    hands an input on as its output, one that a call gives graphs or leaves outputs away, and the
    functions of the plugin's nodes.
    """

    name = "inline-functions"
    summary = "functions whose weights or attributes come from the call are inlined"
    makes_values = True

    def run(self, model: ir.Model) -> Iterator[str]:
        """Inline, one line a function."""
        wanted = {f.identifier() for f in model.functions.values() if _depends_on_call(f)}
        if not self.context.target.functions_by_domain:
            wanted |= _sharing_names(model)
        if self.context.plugin_naming == OVERLOAD:
            wanted |= {f.identifier() for f in model.functions.values() if _holds_ours(f)}
        if not wanted:
            return
        wanted = _with_callers(model, wanted)
        calls = [n for g in _graphs(model) for n in g if n.op_identifier() in wanted]
        wanted = {i for i in wanted if _inlinable(model, model.functions[i], calls)}
        for call in calls:
            _forget_empty_names(call)
        before = [v for g in _graphs(model) for v in _values(g)]
        InlinePass(criteria=lambda f: f.identifier() in wanted)(model)
        _rename_clashes(model, before)
        gone = sorted(wanted - model.functions.keys())
        yield from (f"{domain}:{name}: inlined" for domain, name, _ in gone)


def _sharing_names(model: ir.Model) -> set[ir.OperatorIdentifier]:
    """Functions of one name, where one of them holds a ConvTranspose."""
    names = Counter(f.name for f in model.functions.values())
    ours = {f.name for f in model.functions.values() if _holds_ours(f)}
    shared = {name for name, count in names.items() if count > 1} & ours
    return {f.identifier() for f in model.functions.values() if f.name in shared}


def _holds_ours(function: ir.Function) -> bool:
    """Whether it holds a ConvTranspose, and is none of the plugin's."""
    nodes = ir.traversal.RecursiveGraphIterator(function.graph)
    return function.domain != DOMAIN and any(is_conv_transpose(n) for n in nodes)


def _inlinable(model: ir.Model, function: ir.Function, calls: Sequence[ir.Node]) -> bool:
    imports = model.opset_imports
    outputs = {id(v) for v in function.outputs if v.producer() is not None}
    return (
        all(imports.get(d, v) == v for d, v in function.opset_imports.items())
        and len(outputs) == len(function.outputs)
        and all(_fits(c, function) for c in calls if c.op_identifier() == function.identifier())
    )


def _fits(call: ir.Node, function: ir.Function) -> bool:
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return (
        len(call.inputs) <= len(function.inputs)
        and len(call.outputs) == len(function.outputs)
        and not any(a.type in graphs for a in call.attributes.values())
    )


def _graphs(model: ir.Model) -> Iterator[ir.Graph]:
    for root in (model.graph, *(f.graph for f in model.functions.values())):
        yield root
        yield from root.subgraphs()


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


def _forget_empty_names(call: ir.Node) -> None:
    """The inliner hands the names of a call's outputs to what makes them in the function."""
    for output in call.outputs:
        output.name = output.name or None


def _rename_clashes(model: ir.Model, before: list[ir.Value]) -> None:
    """The inliner looks for equal names in one graph, not in the graphs inside of it."""
    old = {id(v) for v in before}
    present = [v for g in _graphs(model) for v in _values(g)]
    taken = {v.name for v in present if id(v) in old}
    names = NamePool(model)
    for value in present:
        if id(value) not in old and value.name in taken:
            value.name = names.fresh(value.name or "value")


def _depends_on_call(function: ir.Function) -> bool:
    if function.domain == DOMAIN:
        return False
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
