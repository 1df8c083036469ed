"""Functions of the plugin's domain in a model."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from convt_onnx.plugin_node.record import DOMAIN, FUNCTION_IR_VERSION, OVERLOAD_IR_VERSION

DOMAIN_VERSION = 1


def add_functions(model: ir.Model, functions: Mapping[ir.OperatorIdentifier, ir.Function]) -> None:
    """Give a model the functions that its nodes call, and import their domain where they do."""
    model.functions.update(functions)
    model.opset_imports[DOMAIN] = DOMAIN_VERSION
    for function in model.functions.values():
        nodes = ir.traversal.RecursiveGraphIterator(function.graph)
        if any(node.domain == DOMAIN for node in nodes):
            function.opset_imports[DOMAIN] = DOMAIN_VERSION
    overloaded = any(overload for _, _, overload in functions)
    least = OVERLOAD_IR_VERSION if overloaded else FUNCTION_IR_VERSION
    model.ir_version = max(model.ir_version, least)


def drop_functions(model: ir.Model) -> None:
    """Take out the domain's functions that nothing calls, and its import with the last of them."""
    called = {n.op_identifier() for n in model.graph.all_nodes()}
    for function in model.functions.values():
        called |= {n.op_identifier() for n in ir.traversal.RecursiveGraphIterator(function.graph)}
    for identifier in [i for i in model.functions if i[0] == DOMAIN and i not in called]:
        del model.functions[identifier]
    if not any(domain == DOMAIN for domain, _, _ in called):
        for imports in (model.opset_imports, *(f.opset_imports for f in model.functions.values())):
            imports.pop(DOMAIN, None)
