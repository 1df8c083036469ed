"""Terminal tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from convt_onnx.decision import Candidate, Decision
from convt_onnx.forms.plugin import PLUGIN
from convt_onnx.gaps import Gap
from convt_onnx.inspection import Inspection, NodeReport
from convt_onnx.passes.base import Miss
from convt_onnx.placement import OffDevice
from convt_onnx.reasons import REASONS, Refusal
from convt_onnx.report.geometry import epilogue_text, geometry_text
from convt_onnx.report.printable import escape, node_text
from convt_onnx.report.units import allowance_text, size_text, time_text
from convt_onnx.tuning.times import NodeTiming
from convt_onnx.verify import NodeCheck, Verification
from convt_onnx.verify.compare import OWN_TYPE
from convt_onnx.verify.inputs import sizes_text

# Longer expressions of open sizes are left to --json.
MAX_SIZE_NAME = 24


def inspect_table(console: Console, result: Inspection, *, verbose: bool) -> None:
    """Some lines a node; with `verbose` each form's cost or reason per target."""
    opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in result.opsets.items())
    console.print(
        f"{escape(str(result.path))}: {len(result.nodes)} ConvTranspose of {result.node_count} "
        f"nodes, {opsets}, IR {result.ir_version}, {size_text(result.bytes)}"
    )
    if result.input_shapes:
        how = "assumed; --input-shapes gives others" if result.assumed else "as given"
        console.print(escape(f"costs are for {sizes_text(result.input_shapes)}, {how}"))
    for other in result.left_alone:
        console.print(escape(f"{other.node or '?'}: left alone: {refusal_text(other.reason)}"))
    for n in result.nodes:
        _print_node(console, n, _repaired(result, n.path))
        _print_away(console, [away for away in result.off_device if away.node == n.path])
        _print_gaps(console, [g for g in result.gaps if g.node == n.path])
        if verbose:
            for d in n.decisions:
                print_candidates(console, d)
            print_misses(console, n.misses)
    paths = {n.path for n in result.nodes}
    for name in dict.fromkeys(g.node for g in result.gaps if g.node not in paths):
        console.print(f"\n{escape(name)}", style="bold")
        _print_gaps(console, [g for g in result.gaps if g.node == name])
    for name in dict.fromkeys(a.node for a in result.off_device if a.node not in paths):
        console.print(f"\n{escape(name)}", style="bold")
        _print_away(console, [a for a in result.off_device if a.node == name])


def _print_away(console: Console, away: Sequence[OffDevice]) -> None:
    for one in away:
        console.print(escape(f"  {one.target:12} unmodified: {refusal_text(one.reason)}"))


def _print_gaps(console: Console, gaps: Sequence[Gap]) -> None:
    for gap in gaps:
        text = f"unmodified: would be {gap.effect}: {refusal_text(gap.reason)}"
        console.print(escape(f"  {gap.target:12} {text}"), style="yellow")


def _repaired(result: Inspection, path: str) -> Mapping[str, list[str]]:
    """By target, ids of what would go wrong with a node as it stands in the file."""
    gaps = [g for g in result.gaps if g.effect != "narrowed"]
    wrong: list[Gap | OffDevice] = [*result.off_device, *gaps]
    found: dict[str, list[str]] = {}
    for one in wrong:
        if one.node == path:
            found.setdefault(one.target, []).append(one.reason.id)
    return found


def _print_node(console: Console, node: NodeReport, repaired: Mapping[str, list[str]]) -> None:
    """A few lines, each short enough for 80 columns where names are.

    Args:
        console: Where to.
        node: The node.
        repaired: By target, ids of what a rewritten node does not suffer from any more.
    """
    console.print(f"\n{node_text(node.path)}", style="bold")
    if node.spec is not None:
        console.print(f"  {geometry_text(node.spec)}, {node.weight} weight")
        console.print(escape(f"  {_shape(node.input_shape)} -> {_shape(node.output_shape)}"))
        console.print(f"  {_costs(node)}")
    for d in node.decisions:
        ids = ", ".join(repaired.get(d.target, ())) if d.form is not None else ""
        why = why_text(d) + (f" (repaired: {ids})" if ids else "")
        console.print(f"  {d.target:12} {d.form or 'unchanged':15} {escape(why)}")


def _costs(node: NodeReport) -> str:
    c = node.costs
    if c is None:
        return "costs unknown"
    exact, native = c.flops_exact / 1e6, c.flops_native / 1e6
    text = f"{exact:,.2f} MFLOP ({native:,.2f} as GEMM and col2im)"
    if not all(isinstance(d, int) for d in node.input_shape or (None,)):
        sizes = f"length {c.sizes[0]:,}" if len(c.sizes) == 1 else "×".join(map(str, c.sizes))
        text += f" at batch {c.batch}, {sizes}{' (assumed)' if c.assumed else ''}"
    return f"{text}\n  {c.bytes / 1024:,.1f} KiB of input, weight and output"


def _shape(shape: Sequence[object] | None) -> str:
    if shape is None:
        return "?"
    names = ["?" if d is None or len(str(d)) > MAX_SIZE_NAME else str(d) for d in shape]
    return "×".join(names)


def print_misses(console: Console, misses: Sequence[Miss]) -> None:
    """What passes saw and refused, a line each."""
    for m in misses:
        console.print(escape(f"{m.node}: {m.pass_name} does not apply: {refusal_text(m.reason)}"))


def refusal_text(refusal: Refusal) -> str:
    """Id, title and the detail of the case."""
    detail = f" ({refusal.detail})" if refusal.detail else ""
    return f"{refusal.id} {REASONS[refusal.id].title}{detail}"


def print_candidates(
    console: Console, decision: Decision, timing: NodeTiming | None = None
) -> None:
    """Every form weighed for a node, a line each, with its time where that was measured."""
    at = f", at {decision.inputs}" if decision.inputs else ""
    console.print(
        f"{node_text(decision.path)} on {decision.target}: {decision.form or 'unchanged'}, "
        f"{decision.reason.id} {REASONS[decision.reason.id].title}{escape(at)}"
    )
    for c in decision.candidates:
        if c.work is not None:
            text = (
                f"{2 * c.work.macs / 1e6:.4g} MFLOP, {c.work.elements / 1e6:.4g} M elements moved"
                + _time(c, timing)
            )
        elif c.refusal is not None:
            title = REASONS[c.refusal.id].title
            text = f"no: {c.refusal.id} {title} ({escape(c.refusal.detail)})"
        else:
            continue
        console.print(f"  {c.form:15} {text}")
    weighed = any(c.form == PLUGIN.name for c in decision.candidates)
    # Only the plugin takes anything in from behind a node.
    if decision.epilogue is not None and weighed:
        console.print(f"  {'behind it':15} {escape(epilogue_text(decision.epilogue))}")


def _time(candidate: Candidate, timing: NodeTiming | None) -> str:
    measured = None if timing is None else timing.time_of(candidate.form)
    if measured is not None:
        return f", {time_text(measured.median_us)} measured"
    if candidate.expected_us is not None:
        return f", {time_text(candidate.expected_us)} expected"
    return ""


def verification_table(console: Console, result: Verification) -> None:
    """One row an output, one line a node, then the verdict."""
    table = new_table("output", "max |a-b|", "at", "of scale", "allowed used", "")
    for c in result.outputs:
        table.add_row(
            escape(c.name),
            f"{c.max_abs:.2e}",
            str(list(c.index)),
            f"{c.max_rel:.1e}",
            allowance_text(c.excess, c.allowed),
            c.note or ("ok" if c.ok else "DIFFERS"),
        )
    console.print(table)
    verification_lines(console, result)


def verification_lines(console: Console, result: Verification) -> None:
    """What was compared, with what inputs, and the verdict."""
    outputs = [c for c in result.outputs if not c.name.endswith(OWN_TYPE)]
    good = sum(c.ok for c in outputs)
    shapes = " ".join(f"[{sizes_text(one)}]" for one in result.input_shapes)
    assumed = " (assumed)" if result.assumed_sizes else ""
    seed = f" seed {result.seed}" if result.input_origin == "random" else ""
    console.print(
        f"{'verified' if result.ok else 'FAILED'}: {good}/{len(outputs)} outputs, "
        f"{_nodes_text(result.nodes)}{result.arithmetic}, {result.input_origin} inputs{seed} "
        + escape(shapes + assumed)
    )
    for note in result.notes:
        console.print(f"  note: {escape(note)}")
    if result.first_difference:
        console.print(f"  first difference: {escape(result.first_difference)}")


def _nodes_text(nodes: Sequence[NodeCheck]) -> str:
    if not nodes:
        return ""
    good = sum(n.ok for n in nodes)
    return f"{good}/{len(nodes)} nodes against the oracle, "


def why_text(decision: Decision) -> str:
    """Reason id and title."""
    return f"{decision.reason.id} {REASONS[decision.reason.id].title}"


SPEED_LEGEND = "  times are medians; speed is the median before (or of the first) over this one"


def new_table(*columns: str) -> Table:
    """A table without a frame, which pipes keep readable."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
