"""Terminal tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from convt_onnx._version import __version__
from convt_onnx.decision import Decision
from convt_onnx.graph.epilogue import Epilogue
from convt_onnx.inspection import Inspection, NodeReport
from convt_onnx.optimization import OptimizeResult
from convt_onnx.passes.base import Miss
from convt_onnx.reasons import REASONS, Refusal
from convt_onnx.spec import ConvTransposeSpec
from convt_onnx.verify import NodeCheck, Verification
from convt_onnx.verify.compare import OWN_TYPE

# Longer expressions of open sizes are left to --json.
MAX_SIZE_NAME = 24


def optimize_table(console: Console, result: OptimizeResult, *, verbose: bool) -> None:
    """Before and after: one row a node, then what was verified and written."""
    console.print(
        f"convt-onnx {__version__} · {escape(str(result.source))} "
        f"({len(result.decisions)} ConvTranspose, {size_text(result.input_bytes)}) "
        f"-> {result.target}"
    )
    checks = {c.path: c for c in result.verification.nodes} if result.verification else {}
    if result.decisions:
        table = _table("node", "geometry", "form", "why", "max |error|")
        for d in result.decisions:
            check = checks.get(d.path)
            table.add_row(
                escape(d.path),
                geometry_text(d.spec),
                d.form or "unchanged",
                escape(why_text(d)),
                "-" if check is None else f"{check.error:.1e}",
            )
        console.print(table)
    if verbose:
        _print_changes(console, result)
        for d in result.decisions:
            _print_candidates(console, d)
        _print_misses(console, result.misses)
    if result.verification is not None:
        verification_lines(console, result.verification)
    for note in result.notes:
        console.print(f"  note: {escape(note)}")
    console.print(_closing_line(result))


def _closing_line(result: OptimizeResult) -> str:
    if result.output is None:
        return f"dry run: nothing written ({result.seconds:.1f} s)"
    what = "" if result.modified else ", a copy: there is nothing to do"
    size = size_text(result.output_bytes or 0)
    return f"wrote {escape(str(result.output))} ({size}{what}) in {result.seconds:.1f} s"


def _print_misses(console: Console, misses: Sequence[Miss]) -> None:
    for m in misses:
        console.print(escape(f"{m.node}: {m.pass_name} does not apply: {refusal_text(m.reason)}"))


def refusal_text(refusal: Refusal) -> str:
    """Id, title and the detail of the case."""
    detail = f" ({refusal.detail})" if refusal.detail else ""
    return f"{refusal.id} {REASONS[refusal.id].title}{detail}"


def _print_changes(console: Console, result: OptimizeResult) -> None:
    for name, lines in result.changes.items():
        console.print(f"{name}: {len(lines)} changes")
        for line in lines:
            console.print(f"  {escape(line)}")


def inspect_table(console: Console, result: Inspection, *, verbose: bool) -> None:
    """Some lines a node; with `verbose` each form's cost or reason per target."""
    opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in result.opsets.items())
    console.print(
        f"{escape(str(result.path))}: {len(result.nodes)} ConvTranspose of {result.node_count} "
        f"nodes, {opsets}, IR {result.ir_version}, {size_text(result.bytes)}"
    )
    if not result.nodes:
        return
    for n in result.nodes:
        _print_node(console, n)
        for away in result.off_device:
            if away.node == n.path:
                console.print(escape(f"  {away.target:9} as it is: {refusal_text(away.reason)}"))
        if verbose:
            for d in n.decisions:
                _print_candidates(console, d)
            _print_misses(console, n.misses)


def _print_node(console: Console, node: NodeReport) -> None:
    """A few lines, each short enough for 80 columns where names are."""
    console.print(f"\n{escape(node.path)}", style="bold")
    if node.spec is not None:
        console.print(f"  {geometry_text(node.spec)}, {node.weight} weight")
        console.print(escape(f"  {_shape(node.input_shape)} -> {_shape(node.output_shape)}"))
        console.print(f"  {_costs(node)}")
    for d in node.decisions:
        console.print(f"  {d.target:9} {d.form or 'unchanged':15} {escape(why_text(d))}")


def _costs(node: NodeReport) -> str:
    c = node.costs
    if c is None:
        return "costs unknown"
    exact, native = c.flops_exact / 1e6, c.flops_native / 1e6
    text = f"{exact:,.2f} MFLOP ({native:,.2f} as GEMM and col2im), {c.bytes / 1024:,.1f} KiB"
    sizes = "×".join(map(str, c.sizes))
    return f"{text}, for an assumed batch {c.batch} of {sizes}" if c.assumed else text


def _shape(shape: Sequence[object] | None) -> str:
    if shape is None:
        return "?"
    names = ["?" if d is None or len(str(d)) > MAX_SIZE_NAME else str(d) for d in shape]
    return "×".join(names)


def _print_candidates(console: Console, decision: Decision) -> None:
    console.print(
        f"{escape(decision.path)} on {decision.target}: {decision.form or 'unchanged'}, "
        f"{decision.reason.id} {REASONS[decision.reason.id].title}"
    )
    for c in decision.candidates:
        if c.work is not None:
            text = (
                f"{2 * c.work.macs / 1e6:.4g} MFLOP, {c.work.elements / 1e6:.4g} M elements moved"
            )
        elif c.refusal is not None:
            title = REASONS[c.refusal.id].title
            text = f"no: {c.refusal.id} {title} ({escape(c.refusal.detail)})"
        else:
            continue
        console.print(f"  {c.form:15} {text}")
    if decision.epilogue is not None:
        console.print(f"  {'behind it':15} {escape(epilogue_text(decision.epilogue))}")


def verification_table(console: Console, result: Verification) -> None:
    """One row an output, one line a node, then the verdict."""
    table = _table("output", "max |a-b|", "at", "of scale", "allowed used", "")
    for c in result.outputs:
        table.add_row(
            escape(c.name),
            f"{c.max_abs:.2e}",
            str(list(c.index)),
            f"{c.max_rel:.1e}",
            f"{100 * c.excess:.3g} %",
            c.note or ("ok" if c.ok else "DIFFERS"),
        )
    console.print(table)
    verification_lines(console, result)


def verification_lines(console: Console, result: Verification) -> None:
    """What was compared, with what inputs, and the verdict."""
    outputs = [c for c in result.outputs if not c.name.endswith(OWN_TYPE)]
    good = sum(c.ok for c in outputs)
    shapes = ", ".join(f"{n}:{','.join(map(str, s))}" for n, s in result.input_shapes.items())
    seed = f" seed {result.seed}" if result.input_origin == "random" else ""
    console.print(
        f"{'verified' if result.ok else 'FAILED'}: {good}/{len(outputs)} outputs, "
        f"{_nodes_text(result.nodes)}, {result.arithmetic}, {result.input_origin} inputs{seed} "
        + escape(f"[{shapes}]")
    )
    for note in result.notes:
        console.print(f"  note: {escape(note)}")
    if result.first_difference:
        console.print(f"  first difference: {escape(result.first_difference)}")


def _nodes_text(nodes: Sequence[NodeCheck]) -> str:
    if not nodes:
        return "no node against the oracle"
    good = sum(n.ok for n in nodes)
    return f"{good}/{len(nodes)} nodes against the oracle"


def epilogue_text(epilogue: Epilogue | Refusal) -> str:
    """Activation and residual in their order, or why there is none."""
    if isinstance(epilogue, Refusal):
        return f"no: {epilogue.id} {REASONS[epilogue.id].title} ({epilogue.detail})"
    numbers = ", ".join(f"{v:.6g}" for v in epilogue.parameters[:4])
    more = ", ..." if len(epilogue.parameters) > 4 else ""
    activation = f"{epilogue.activation}({numbers}{more})" if numbers else epilogue.activation
    parts = {"activation": activation, "residual": f"Add of {epilogue.residual}"}
    return f"{', then '.join(str(parts[o]) for o in epilogue.order)} -> {epilogue.output}"


def why_text(decision: Decision) -> str:
    """Reason id and title."""
    return f"{decision.reason.id} {REASONS[decision.reason.id].title}"


def geometry_text(spec: ConvTransposeSpec | None) -> str:
    """Channels, kernel, stride, and what is not at its default."""
    if spec is None:
        return "?"
    parts = [f"{spec.in_channels}->{spec.out_channels}", "k" + _joined(spec.kernel)]
    parts.append("s" + _joined(spec.strides))
    if any(spec.pads_begin) or any(spec.pads_end):
        begin, end = _joined(spec.pads_begin), _joined(spec.pads_end)
        parts.append(f"p{begin}" if begin == end else f"p{begin}|{end}")
    if any(spec.output_padding):
        parts.append("op" + _joined(spec.output_padding))
    if any(d > 1 for d in spec.dilations):
        parts.append("d" + _joined(spec.dilations))
    if spec.group > 1:
        parts.append(f"g{spec.group}")
    return " ".join(parts)


def _joined(values: Sequence[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else "×".join(map(str, values))


def size_text(count: int) -> str:
    """Bytes for people."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
