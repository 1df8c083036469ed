"""Before and after, on the terminal: a table where it is wide enough, else a few lines a node."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from convt_onnx._version import __version__
from convt_onnx.graph.counting import plugin_count
from convt_onnx.optimization import OptimizeResult
from convt_onnx.reasons import REASONS
from convt_onnx.report.contents import NodeRow
from convt_onnx.report.gathering import node_rows, timing_notes
from convt_onnx.report.printable import escape, node_text
from convt_onnx.report.tables import (
    SPEED_LEGEND,
    new_table,
    print_candidates,
    print_misses,
    verification_lines,
)
from convt_onnx.report.units import ratio_text, size_text, time_text
from convt_onnx.tuning.times import speed

# Narrower than this, each node gets lines of its own.
TABLE_WIDTH = 110


def optimize_table(console: Console, result: OptimizeResult, *, verbose: bool) -> None:
    """Each node, then the model before and after, then what was verified and written."""
    console.print(
        f"convt-onnx {__version__} · {escape(str(result.source))} "
        f"({_node_count(result)} ConvTranspose, {size_text(result.input_bytes)}) "
        f"-> {result.target}"
    )
    rows = node_rows(result.decisions, result.verification, result.tuning)
    if rows and console.width >= TABLE_WIDTH:
        _node_table(console, rows)
    for row in rows if console.width < TABLE_WIDTH else ():
        _node_lines(console, row)
    if rows or result.modified:
        _model_table(console, result)
        if any(row.before for row in rows) or (result.tuning and result.tuning.models):
            console.print(SPEED_LEGEND)
        cached = sum(row.cached for row in rows)
        if cached:
            console.print(f"  times of {cached} of {len(rows)} nodes come from an earlier run")
    if verbose:
        _print_changes(console, result)
        timings = {} if result.tuning is None else {n.path: n for n in result.tuning.nodes}
        for d in result.decisions:
            print_candidates(console, d, timings.get(d.path))
        print_misses(console, result.misses)
    if result.verification is not None:
        verification_lines(console, result.verification)
    for note in (*result.notes, *timing_notes(result)):
        console.print(f"  note: {escape(note)}")
    console.print(_closing_line(result))


def _node_table(console: Console, rows: Sequence[NodeRow]) -> None:
    timed = any(row.before is not None for row in rows)
    several = any(row.inputs for row in rows)
    times = ("before", "after", "speed") if timed else ()
    at = ("times at",) if timed and several else ()
    table = new_table("node", "geometry", "form", "why", *times, *at, "max |error|")
    for row in rows:
        cells = [node_text(row.path), row.geometry, _form(row), escape(_why(row))]
        cells += _times(row) if timed else []
        cells += [escape(row.inputs or "-")] if at else []
        cells.append("-" if row.check is None else f"{row.check.error:.1e}")
        table.add_row(*cells)
    console.print(table)


def _node_lines(console: Console, row: NodeRow) -> None:
    console.print(f"\n{row.number}. {node_text(row.path)}", style="bold")
    console.print(f"   {row.geometry} -> {_form(row)}")
    console.print(escape(f"   {_why(row)}"))
    parts = []
    if row.before is not None:
        before, after, ratio = _times(row)
        at = escape(f" at {row.inputs}") if row.inputs else ""
        parts.append(f"{before} -> {after} ({ratio}){at}")
    if row.check is not None:
        parts.append(f"error {row.check.error:.1e} of {row.check.bound:.1e} allowed")
    if parts:
        console.print(f"   {', '.join(parts)}")


def _times(row: NodeRow) -> list[str]:
    before, after = row.before, row.after
    texts = ["-" if t is None else time_text(t.median_us) for t in (before, after)]
    if before is None or after is None or not after.median_us:
        return [*texts, "-"]
    return [*texts, ratio_text(speed(before, after))]


def _form(row: NodeRow) -> str:
    return (row.form or "unchanged") + (" (put back)" if row.reverted else "")


def _why(row: NodeRow) -> str:
    return f"{row.reason.id} {REASONS[row.reason.id].title}"


def _model_table(console: Console, result: OptimizeResult) -> None:
    table = new_table("model", "before", "after", "")
    totals = [sum(ops.values()) for ops in (result.ops_before, result.ops_after)]
    table.add_row("nodes", *map(str, totals), "")
    ours = [ops.get("ConvTranspose", 0) for ops in (result.ops_before, result.ops_after)]
    table.add_row("ConvTranspose", *map(str, ours), "")
    plugins = [plugin_count(ops) for ops in (result.ops_before, result.ops_after)]
    if any(plugins):
        table.add_row("plugin", *map(str, plugins), "")
    after = "-" if result.output_bytes is None else size_text(result.output_bytes)
    table.add_row("size", size_text(result.input_bytes), after, "")
    for timing in () if result.tuning is None else result.tuning.models:
        times = (time_text(t.median_us) for t in (timing.before, timing.after))
        table.add_row(escape(f"time, {timing.inputs}"), *times, ratio_text(timing.ratio))
    console.print(table)


def _node_count(result: OptimizeResult) -> int:
    """All that were decided on; those of the file where none was, as without the last pass."""
    return len(result.decisions) or result.ops_before.get("ConvTranspose", 0)


def _print_changes(console: Console, result: OptimizeResult) -> None:
    for name, lines in result.changes.items():
        console.print(f"{name}: {len(lines)} change{'s' * (len(lines) != 1)}")
        for line in lines:
            console.print(f"  {escape(line)}")


def _closing_line(result: OptimizeResult) -> str:
    if result.output is None:
        return f"dry run: nothing written ({result.seconds:.1f} s)"
    reason = "there is nothing to do" if result.tuning is None else "nothing is faster"
    what = "" if result.modified else f", a copy: {reason}"
    size = size_text(result.output_bytes or 0)
    return f"wrote {escape(str(result.output))} ({size}{what}) in {result.seconds:.1f} s"
