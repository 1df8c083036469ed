"""Two models side by side, on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import Console

from convt_onnx.comparison import ModelComparison, ModelFacts, NodeChange
from convt_onnx.report.geometry import geometry_text
from convt_onnx.report.printable import escape, node_text
from convt_onnx.report.tables import new_table
from convt_onnx.report.units import size_text

MAX_LISTED, MAX_COUNTED = 12, 5


def compare_table(console: Console, result: ModelComparison, *, verbose: bool) -> None:
    """Numbers of both models, then what became of each ConvTranspose.

    Nodes that are the same are only counted, unless `verbose`.
    """
    _facts_table(console, result)
    for line in result.interface:
        console.print(f"  {escape(line)}")
    same = sum(n.status == "same" for n in result.nodes)
    for node in result.nodes:
        if verbose or node.status != "same":
            _print_node(console, node)
    if same and not verbose:
        console.print(f"\n{same} of {len(result.nodes)} ConvTranspose nodes are the same")
    for path in result.added:
        console.print(f"\n{node_text(path)} is new")


def _facts_table(console: Console, result: ModelComparison) -> None:
    a, b = result.before, result.after
    table = new_table("", escape(a.path.name), escape(b.path.name))
    for label, first, second in _fact_rows(a, b):
        table.add_row(label, first, second)
    for op in dict.fromkeys([*a.ops, *b.ops]):
        counts = (a.ops.get(op, 0), b.ops.get(op, 0))
        if counts[0] != counts[1]:
            table.add_row(escape(f"  {op}"), *map(str, counts))
    console.print(table)


def _fact_rows(a: ModelFacts, b: ModelFacts) -> Iterator[tuple[str, str, str]]:
    yield "size", size_text(a.bytes), size_text(b.bytes)
    tensors = iter([f"{f.initializers} ({size_text(f.initializer_bytes)})" for f in (a, b)])
    yield "initializers", next(tensors), next(tensors)
    yield "IR version", str(a.ir_version), str(b.ir_version)
    for domain in dict.fromkeys([*a.opsets, *b.opsets]):
        label = escape(f"opset {domain}" if domain else "opset")
        yield label, str(a.opsets.get(domain, "-")), str(b.opsets.get(domain, "-"))
    if a.functions or b.functions:
        yield "functions", str(a.functions), str(b.functions)
    yield "nodes", str(a.nodes), str(b.nodes)


def _print_node(console: Console, node: NodeChange) -> None:
    console.print(f"\n{node_text(node.path)}: {node.status}", style="bold")
    if node.status == "unknown":
        console.print(f"  {geometry_text(node.spec_before)}")
        console.print(escape(f"  {node.note}"))
        return
    before, after = geometry_text(node.spec_before), geometry_text(node.spec_after)
    console.print(f"  {before}" + (f" -> {after}" if node.spec_after else ""))
    console.print(escape(f"  {_ops(node.ops_before)} -> {_ops(node.ops_after)}"))
    console.print(
        f"  constants {size_text(node.bytes_before)} -> {size_text(node.bytes_after)}"
        + escape(f", up to value {node.value!r}")
    )
    for line in node.attributes:
        console.print(escape(f"    {line}"))


def _ops(names: Sequence[str]) -> str:
    """Operators in order, repeated ones counted; where they are many, the most frequent."""
    if len(names) > MAX_LISTED:
        return f"{len(names)} nodes ({_counted(Counter(names).most_common(MAX_COUNTED))}, ...)"
    return _counted((name, len(list(same))) for name, same in groupby(names)) or "nothing"


def _counted(runs: Iterable[tuple[str, int]]) -> str:
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in runs)
